/* ps_feed.c — see ps_feed.h. */
#include "sim/ps_feed.h"

#include <stdlib.h>

#include "base/alloc.h"
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

/* A few steps at once. */
static bool ask(ps_feed *feed, uint32_t rank, uint64_t step, uint64_t over, claims_piece *first) {
    const roster *roster = attendee_roster(feed->attendee);
    const roster_member *self = roster_find(roster, feed->seat->id);
    if (self == NULL || self->incarnation != feed->incarnation || attendee_reports(feed->attendee)) return false;
    size_t part = roster_source(roster, feed->seat->id, feed->incarnation);
    if (part == roster->part_count) return false;
    uint64_t from = roster->parts[part].position, left = roster->parts[part].size - from;
    uint64_t count = 1 + rng_below(feed->citizen->env->rng, STEPS_MAX);
    uint64_t batch = 1 + rng_below(feed->citizen->env->rng, BATCH_MAX);
    uint64_t size = count * batch < left ? count * batch : left;
    claim claim = {.rank = rank, .step = step, .batch = batch, .count = (uint32_t)((size + batch - 1) / batch)};
    claim.piece = (claims_piece){(uint32_t)part, roster->epoch, from, from + size};
    attendee_claim(feed->attendee, &claim, over);
    attendee_tick(feed->attendee, citizen_now_us(feed->citizen));
    *first = claims_piece_of(&claim, step);
    return true;
}

bool ps_feed_piece(ps_feed *feed, uint32_t rank, uint64_t step, uint64_t over, claims_piece *out) {
    const claim *claim = claims_find(&attendee_roster(feed->attendee)->claims, rank, step);
    if (claim != NULL) *out = claims_piece_of(claim, step);
    return claim != NULL || (ask(feed, rank, step, over, out) && sim_mutated(feed->seat->world->sim, "claims-late"));
}
