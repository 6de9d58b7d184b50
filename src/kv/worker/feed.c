/* feed.c — see feed.h. */
#include "kv/worker/feed.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "cluster/enrol.h"
#include "kv/office/desk.h"
#include "kv/worker/misses.h"
#include "ps/horizon.h"

struct feed {
    feed_options options;
    attendee *attendee;
    enrol *enrol;         /* NULL: it was never taken out */
    uint64_t incarnation; /* 0: it plays no rank, or takes another */
    bool rests;           /* it does not attend before a piece is asked for */
    bool leaves;          /* what `left` and the steps behind it have is to be handed back; once said it holds */
    uint64_t left;
    uint64_t birth, origin, begun; /* of the rank's generation; as of feed_resume */
    bool rounds, ready;
    horizon horizon;
    misses misses;
    bool told;         /* it knows since when it knows of its steps */
    uint32_t window;   /* steps that it wants to have ahead */
    bool fed, starves; /* it had a piece; then a step had none */
    int64_t now_us, mark_us;
};

/* ---- As an attendee. */

static void send_letter(void *context, const char *address, const letter *letter) {
    feed *feed = context;
    feed->options.send(feed->options.context, address, letter);
}

static void on_enrolled(void *context, uint64_t incarnation) {
    feed *feed = context;
    feed->incarnation = incarnation;
    attendee_begin(feed->attendee, incarnation, feed->now_us);
}

/* It lives, and was taken out: it was silent for too long, or rested. */
static void enrol_anew(feed *feed) {
    uint64_t known = feed->incarnation;
    feed->incarnation = 0;
    if (feed->enrol == NULL)
        feed->enrol = enrol_create(feed->options.coordinator, feed->options.rng, feed->options.rank, feed->now_us,
                                   on_enrolled, feed);
    enrol_again(feed->enrol, known, feed->now_us);
}

/* Of steps that an earlier process of this rank may have pushed something nothing is known. */
static void learn_since(feed *feed, const roster *roster) {
    if (feed->told || !feed->ready) return;
    bool fresh = claims_granted(&roster->claims, feed->options.rank) == 0;
    feed->misses.since = fresh ? 0 : feed->begun;
    feed->told = true;
}

/* What it has asked for is given first: then it is known what there is to hand back. */
static void say_leave(feed *feed) {
    const roster *roster = attendee_roster(feed->attendee);
    uint32_t rank = feed->options.rank;
    uint64_t step = feed->left > feed->misses.since ? feed->left : feed->misses.since; /* else: who knows? */
    const roster_wish *open = attendee_wish_of(feed->attendee, rank);
    if (open != NULL && open->count != 0) return;
    feed->leaves = claims_any(&roster->claims, rank, step, UINT64_MAX);
    feed->rests = !feed->leaves;
    if (!feed->leaves) return;
    roster_wish wish = {.rank = rank,
                        .step = step,
                        .birth = roster->birth,
                        .leaves = true,
                        .granted = claims_granted(&roster->claims, rank)};
    (void)attendee_wish(feed->attendee, &wish);
}

static bool is_in(const feed *feed) {
    const roster *roster = attendee_roster(feed->attendee);
    const roster_member *self = roster_find(roster, feed->options.rank);
    bool speaks_of_it = feed->origin != 0 || roster->birth == feed->birth;
    return feed->ready && feed->incarnation != 0 && self != NULL && self->incarnation == feed->incarnation &&
           speaks_of_it;
}

static void on_roster(void *context, const roster *roster) {
    feed *feed = context;
    if (feed->incarnation != 0 && attendee_is_out(feed->attendee)) enrol_anew(feed);
    if (is_in(feed)) learn_since(feed, roster);
    if (feed->leaves && is_in(feed)) say_leave(feed);
}

feed *feed_create(const feed_options *options) {
    feed *feed = xcalloc(1, sizeof *feed);
    feed->options = *options;
    feed->window = FEED_STEPS_LEAST;
    feed->attendee = attendee_create(&(attendee_options){.id = options->rank,
                                                         .role = ROSTER_WORKER,
                                                         .address = options->address,
                                                         .marshal = options->scheduler,
                                                         .send = send_letter,
                                                         .on_roster = on_roster,
                                                         .context = feed});
    return feed;
}

void feed_destroy(feed *feed) {
    if (feed == NULL) return;
    attendee_destroy(feed->attendee);
    if (feed->enrol != NULL) enrol_destroy(feed->enrol);
    corpus_fini(&feed->options.corpus);
    free(feed);
}

/* ---- The rank. */

void feed_begin(feed *feed, uint64_t incarnation, int64_t now_us) {
    if (feed == NULL || incarnation <= feed->incarnation) return;
    feed->now_us = now_us;
    feed->incarnation = incarnation;
    feed->mark_us = now_us;
    attendee_begin(feed->attendee, incarnation, now_us);
}

void feed_end(feed *feed) {
    if (feed == NULL) return;
    feed->incarnation = 0;
    feed->ready = feed->told = false;
    misses_begin(&feed->misses, 0);
    attendee_withdraw(feed->attendee, feed->options.rank);
}

void feed_resume(feed *feed, const chart *chart, uint64_t step, uint64_t begun) {
    if (feed == NULL) return;
    attendee_withdraw(feed->attendee, feed->options.rank);
    horizon_restart(&feed->horizon);
    misses_rewind(&feed->misses, step);
    feed->birth = chart->birth;
    feed->origin = chart->origin;
    feed->rounds = chart_has_rounds(chart);
    feed->begun = begun;
    feed->ready = true;
    if (is_in(feed)) learn_since(feed, attendee_roster(feed->attendee));
    if (feed->leaves && is_in(feed)) say_leave(feed); /* its word may be on its way, and no step has begun meanwhile */
}

void feed_miss(feed *feed, uint64_t from, uint64_t to) {
    if (feed != NULL) misses_add(&feed->misses, from, to);
}

/* ---- What is over. */

static bool asks(const feed *feed) { return feed->ready && feed->incarnation != 0 && !feed->rests; }

static void ask_mark(feed *feed) {
    feed->mark_us = feed->now_us + FEED_MARK_US;
    if (!is_in(feed)) return;
    uint64_t question = horizon_ask(&feed->horizon, feed->options.acknowledged(feed->options.context));
    letter letter = {.kind = DESK_MARK, .stamp = {.view = feed->birth, .id = question}};
    feed->options.send(feed->options.context, feed->options.scheduler, &letter);
}

static claims_past past_of(const feed *feed) {
    uint64_t said = claims_over(&attendee_roster(feed->attendee)->claims, feed->options.rank);
    if (feed->horizon.over <= said || !feed->told) return (claims_past){0};
    return misses_past(&feed->misses, said, feed->horizon.over);
}

/* What was missed is said for its own sake, the rest with what is claimed next. */
static void hand_back(feed *feed) {
    const roster *roster = attendee_roster(feed->attendee);
    uint64_t said = claims_over(&roster->claims, feed->options.rank);
    if (!is_in(feed) || attendee_wish_of(feed->attendee, feed->options.rank) != NULL) return;
    if (!feed->told || !misses_any(&feed->misses, said, feed->horizon.over)) return;
    roster_wish wish = {.rank = feed->options.rank, .past = past_of(feed), .birth = roster->birth};
    if (claims_any(&roster->claims, wish.rank, said, wish.past.over)) (void)attendee_wish(feed->attendee, &wish);
}

/* ---- As its host's. */

bool feed_take(feed *feed, const letter *letter) {
    if (letter->kind == DESK_MARKED) {
        horizon_hear(&feed->horizon, letter->stamp.id, letter->stamp.view, letter->stamp.incarnation, feed->rounds);
        hand_back(feed);
        return true;
    }
    return attendee_take(feed->attendee, letter);
}

int64_t feed_next_us(const feed *feed) {
    int64_t next_us = feed->enrol == NULL ? CLOCK_NEVER_US : enrol_next_us(feed->enrol);
    return asks(feed) ? clock_earlier_us(next_us, clock_earlier_us(attendee_next_us(feed->attendee), feed->mark_us))
                      : next_us;
}

void feed_tick(feed *feed, int64_t now_us) {
    feed->now_us = now_us;
    if (feed->enrol != NULL) enrol_tick(feed->enrol, now_us);
    if (!asks(feed)) return;
    if (now_us >= feed->mark_us) ask_mark(feed);
    if (now_us >= attendee_next_us(feed->attendee)) attendee_tick(feed->attendee, now_us);
}

/* ---- Pieces. */

/* The first step from this one on that has none, at most so many behind it. */
static uint64_t first_free(const claims *claims, uint32_t rank, uint64_t step, uint64_t most) {
    const claim *claim;
    uint64_t next = step;
    while (next - step < most && (claim = claims_find(claims, rank, next)) != NULL) next = claim->step + claim->count;
    return next;
}

/* Half of what this worker would get of the rest of the epoch, in steps. */
static uint64_t share(const roster *roster, uint64_t batch) {
    uint64_t items = 0;
    size_t workers = roster_group(roster, ROSTER_WORKER);
    for (size_t i = 0; i < roster->part_count; i++) items += roster->parts[i].size - roster->parts[i].position;
    return items / batch / (2 * (workers == 0 ? 1 : workers));
}

static void claim_more(feed *feed, uint64_t step, uint64_t batch) {
    const roster *roster = attendee_roster(feed->attendee);
    uint32_t rank = feed->options.rank;
    uint64_t next = first_free(&roster->claims, rank, step, feed->window);
    const roster_wish *open = attendee_wish_of(feed->attendee, rank);
    if (next - step > feed->window / 2 || (open != NULL && open->count != 0 && open->step == next)) return;
    uint64_t count = share(roster, batch);
    if (count > feed->window) count = feed->window;
    if (count < FEED_STEPS_LEAST) count = FEED_STEPS_LEAST;
    roster_wish wish = {.rank = rank,
                        .count = (uint32_t)count,
                        .step = next,
                        .batch = batch,
                        .past = past_of(feed),
                        .birth = roster->birth};
    if (attendee_wish(feed->attendee, &wish)) attendee_tick(feed->attendee, feed->now_us);
}

static mr_status check(const feed *feed, const claims_piece *piece) {
    const corpus *corpus = &feed->options.corpus;
    if (piece->part < corpus->count && piece->from < piece->to && piece->to <= corpus->sizes[piece->part]) return MR_OK;
    return error_set(MR_CORRUPT, "malformed batch of shard %u from the scheduler", piece->part);
}

static mr_status refuse(const feed *feed) {
    const roster *roster = attendee_roster(feed->attendee);
    if (!is_in(feed) || feed->leaves)
        return error_set(MR_BUSY, "the scheduler has not admitted rank %u to the dataset yet", feed->options.rank);
    if (roster_is_full(roster))
        return error_set(MR_BUSY, "rank %u waits for a batch until the scheduler has a newer checkpoint",
                         feed->options.rank);
    return error_set(MR_BUSY, "the scheduler has not given rank %u its batch yet", feed->options.rank);
}

static void grow(feed *feed) {
    if (feed->starves && feed->window < FEED_STEPS_MOST) feed->window *= 2;
    feed->starves = false;
    feed->fed = true;
}

mr_status feed_piece(feed *feed, uint64_t step, uint64_t batch, int64_t now_us, claims_piece *out) {
    const claims *claims = &attendee_roster(feed->attendee)->claims;
    feed->now_us = now_us;
    feed->rests = false;
    if (!is_in(feed) || feed->leaves) return refuse(feed);
    if (step < claims_over(claims, feed->options.rank))
        return error_set(MR_STALE, "the batch of step %llu is forgotten: that step was not to be repeated",
                         (unsigned long long)step);
    claim_more(feed, step, batch);
    const claim *claim = claims_find(claims, feed->options.rank, step);
    if (claim == NULL) {
        feed->starves = feed->fed;
        return refuse(feed);
    }
    claims_piece piece = claims_piece_of(claim, step);
    MR_TRY(check(feed, &piece));
    grow(feed);
    *out = piece;
    return MR_OK;
}

void feed_leave(feed *feed, uint64_t step, int64_t now_us) {
    if (feed->rests) return;
    feed->now_us = now_us;
    if (!feed->leaves || step < feed->left) feed->left = step;
    feed->leaves = true;
    if (is_in(feed)) say_leave(feed);
    if (feed->leaves) attendee_tick(feed->attendee, now_us);
}

mr_status feed_left(const feed *feed) {
    return feed->leaves ? error_set(MR_BUSY, "rank %u waits to return its data", feed->options.rank) : MR_OK;
}
