/* feed.c — see feed.h. */
#include "sim/ps/feed.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/mutation.h"
#include "cluster/attendee.h"
#include "cluster/enrol.h"

enum { STEPS_MAX = 4, BATCH_MAX = 3 };

struct ps_feed {
    ps_seat *seat;
    citizen *citizen;
    attendee *attendee;
    enrol *enrol;         /* it was taken out, and takes another incarnation; NULL: not yet */
    uint64_t incarnation; /* 0: none */
};

static void send_letter(void *context, const char *address, const letter *letter) {
    citizen_send(((ps_feed *)context)->citizen, address, letter);
}

static void on_enrolled(void *context, uint64_t incarnation) { ps_feed_begin(context, incarnation); }

static void on_roster(void *context, const roster *roster) {
    ps_feed *feed = context;
    ps_data_knows(&feed->seat->world->data, roster);
    if (feed->incarnation == 0 || !attendee_is_out(feed->attendee)) return;
    feed->incarnation = 0;
    if (feed->enrol != NULL) enrol_destroy(feed->enrol);
    feed->enrol = enrol_create(citizen_coordinator(feed->citizen), feed->citizen->env->rng, feed->seat->id,
                               citizen_now_us(feed->citizen), on_enrolled, feed);
}

ps_feed *ps_feed_create(ps_seat *seat, citizen *citizen) {
    ps_feed *feed = xcalloc(1, sizeof *feed);
    feed->seat = seat;
    feed->citizen = citizen;
    attendee_options options = {.id = seat->id,
                                .role = ROSTER_WORKER,
                                .address = sim_node_name(seat->node),
                                .marshal = "marshal",
                                .send = send_letter,
                                .on_roster = on_roster,
                                .context = feed};
    feed->attendee = attendee_create(&options);
    return feed;
}

void ps_feed_destroy(ps_feed *feed) {
    attendee_destroy(feed->attendee);
    if (feed->enrol != NULL) enrol_destroy(feed->enrol);
    free(feed);
}

void ps_feed_begin(ps_feed *feed, uint64_t incarnation) {
    feed->incarnation = incarnation;
    attendee_begin(feed->attendee, incarnation, citizen_now_us(feed->citizen));
}

void ps_feed_take(ps_feed *feed, const letter *letter) { (void)attendee_take(feed->attendee, letter); }

int64_t ps_feed_next_us(const ps_feed *feed) {
    int64_t next_us = attendee_next_us(feed->attendee),
            other_us = feed->enrol == NULL ? next_us : enrol_next_us(feed->enrol);
    return next_us < other_us ? next_us : other_us;
}

void ps_feed_tick(ps_feed *feed, int64_t now_us) {
    if (feed->enrol != NULL) enrol_tick(feed->enrol, now_us);
    if (now_us >= attendee_next_us(feed->attendee)) attendee_tick(feed->attendee, now_us);
}

static void say(ps_feed *feed, const roster_wish *wish) {
    ps_data_says(&feed->seat->world->data, wish->rank, &wish->past);
    if (attendee_wish(feed->attendee, wish)) attendee_tick(feed->attendee, citizen_now_us(feed->citizen));
}

/* A few steps at once, unless it has asked. *guess: what they will have, if nobody else claims meanwhile. */
static bool ask(ps_feed *feed, uint32_t rank, uint64_t step, const claims_past *past, claims_piece *guess) {
    const roster *roster = attendee_roster(feed->attendee);
    const roster_member *self = roster_find(roster, feed->seat->id);
    const roster_wish *open = attendee_wish_of(feed->attendee, rank);
    if (self == NULL || self->incarnation != feed->incarnation || (open != NULL && open->step == step)) return false;
    roster_wish wish = {.rank = rank, .step = step, .past = *past};
    wish.count = 1 + (uint32_t)rng_below(feed->citizen->env->rng, STEPS_MAX);
    wish.batch = 1 + rng_below(feed->citizen->env->rng, BATCH_MAX);
    say(feed, &wish);
    size_t part = roster_source(roster, feed->seat->id, feed->incarnation);
    uint64_t from = part == roster->part_count ? 0 : roster->parts[part].position;
    *guess = (claims_piece){(uint32_t)part, roster->epoch, from, from + wish.batch};
    return true;
}

bool ps_feed_piece(ps_feed *feed, uint32_t rank, uint64_t step, const claims_past *past, claims_piece *out) {
    const claim *claim = claims_find(&attendee_roster(feed->attendee)->claims, rank, step);
    if (claim != NULL) *out = claims_piece_of(claim, step);
    return claim != NULL || (ask(feed, rank, step, past, out) && MUTATED("claims-late"));
}

void ps_feed_pass(ps_feed *feed, uint32_t rank, const claims_past *past) {
    const claims *claims = &attendee_roster(feed->attendee)->claims;
    bool holds = false;
    for (uint64_t step = claims_over(claims, rank); step < past->over; step++)
        holds = holds || claims_find(claims, rank, step) != NULL;
    if (holds) say(feed, &(roster_wish){.rank = rank, .past = *past});
}

void ps_feed_leave(ps_feed *feed, uint32_t rank) { attendee_withdraw(feed->attendee, rank); }
