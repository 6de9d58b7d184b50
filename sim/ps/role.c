/* role.c — see role.h. */
#include "sim/ps/role.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/mutation.h"
#include "sim/ps/line.h"

#define PEEK_US INT64_C(25000)

typedef struct training {
    ps_session session;
    bool begun, pulling, done;
    bool out;                    /* of BSP: it is not in this round */
    bool asked;                  /* of one that is idle: for the members of the round */
    uint64_t round;              /* that it has to add nothing to, next */
    size_t kept;                 /* pushes that are not acknowledged */
    size_t added;                /* of those, what it has added there */
    uint64_t last[PS_SLOTS_MAX]; /* name that was pushed last, or that the slot has */
    bool peeks;                  /* it looks, and does not push */
    uint64_t step;               /* BSP: the version it works from */
    uint64_t since;              /* the first step of this stint */
    bool spent[PS_STEPS_MAX];    /* steps that may have been done with their piece */
    uint32_t missing;
    double shown[PS_SLOTS_MAX][FLOAT_MACHINE_WIDTH];
    int64_t next_us; /* not before */
} training;

struct ps_role {
    ps_seat *seat;
    const env *env;
    const player *player;
    ps_feed *feed; /* NULL: none */
    uint32_t id;
    void (*send)(void *context, const char *address, span bytes);
    void *context;
    rank *rank;
    ps_line line;
    training training;
};

static int64_t now_of(const ps_role *role) { return clock_now_us(role->env->clock); }

/* Are there rounds? Does this slot have them? */
static bool in_rounds(const ps_role *role) { return ps_has_rounds(role->seat->world); }
static bool has_rounds(const ps_role *role, uint32_t slot) { return chart_in_rounds(rank_chart(role->rank), slot); }

/* It has nothing to do with rounds: to those of its steps it adds nothing, in its own time. */
static bool is_idle(const ps_role *role) { return (role->seat->world->idle >> role->id & 1) != 0; }
static bool minds(const ps_role *role, uint32_t slot) { return !is_idle(role) || !has_rounds(role, slot); }

/* In names steps count from 1; rounds, and so versions, and the steps of whoever takes part in them, from 0. */
static uint64_t ended(const ps_role *role) { return in_rounds(role) ? role->training.step : role->training.step - 1; }
static uint64_t named(const ps_role *role) { return ended(role) + 1; }

static void on_ready(void *context) {
    ps_role *role = context;
    training *training = &role->training;
    uint64_t lowest = UINT64_MAX, round = UINT64_MAX;
    for (uint32_t i = 0; i < role->seat->world->slot_count; i++) {
        uint64_t here = has_rounds(role, i) ? rank_version(role->rank, i)
                                            : name_ended(rank_clock(role->rank, i)) + !in_rounds(role);
        if (here < lowest) lowest = here;
        if (has_rounds(role, i) && here < round) round = here;
    }
    for (uint32_t i = 0; i < role->seat->world->slot_count; i++)
        training->session.clock[i] = training->last[i] = rank_clock(role->rank, i);
    training->begun = true;
    training->step = training->since = lowest;
    training->round = round;
    sim_note(role->seat->world->sim, role->seat->node, "resumes rank %u at step %d", role->id, (int)lowest);
}

/* Somebody will begin it anew, from wherever the slots are then. */
static void on_over(void *context) {
    ps_role *role = context;
    role->training = (training){.session.stint = role->training.session.stint};
    ps_line_reset(&role->line);
}

/* What a generation says that is over while this rank has not heard of it. */
static bool is_over(const ps_role *role) { return rank_chart(role->rank)->birth != role->seat->world->ledger.birth; }

/* In rounds a step may be over and not done: it is handed back. Outside them every step is done. */
static void spend(ps_role *role, uint64_t step, bool maybe) {
    if (step < PS_STEPS_MAX) role->training.spent[step] = maybe;
}

static void on_pushed(void *context, uint32_t slot, uint64_t name, part_status status) {
    ps_role *role = context;
    ps_line_pushed(&role->line, slot, name);
    role->training.kept--;
    if (is_idle(role) && has_rounds(role, slot)) role->training.added--;
    if (is_over(role)) return;
    if (has_rounds(role, slot) && status == PART_MISSED) spend(role, name - 1, false);
    ps_ledger_pushed(&role->seat->world->ledger, &role->training.session, role->id, slot, name, status);
}

static void note_push(ps_role *role, uint32_t slot, uint64_t name) {
    ps_line_push(&role->line, slot, name);
    role->training.kept++;
    if (name > role->training.last[slot]) role->training.last[slot] = name;
}

static mr_status push_copy(ps_role *role, uint32_t slot, uint64_t name, span payload) {
    return rank_push_pieces(role->rank, slot, name, payload, NULL, (bale_piece){0});
}

static void add_nothing(ps_role *role, const ledger_terms *terms) {
    training *training = &role->training;
    if (!training->asked || terms->round != training->round) return;
    training->asked = false;
    training->round++;
    if (!crowd_has(&terms->members, role->id)) return;
    sim_count(role->seat->world->sim, "rounds of the idle", 1);
    for (uint32_t i = 0; i < role->seat->world->slot_count; i++) {
        if (!has_rounds(role, i)) continue;
        note_push(role, i, training->round);
        mr_status status = push_copy(role, i, training->round, (span){0});
        MR_ASSERT(status == MR_OK);
        training->added++;
    }
}

static void on_round(void *context, const ledger_terms *terms) {
    ps_role *role = context;
    training *training = &role->training;
    if (!is_over(role)) ps_ledger_round(&role->seat->world->ledger, terms);
    if (is_idle(role)) add_nothing(role, terms);
    if (!training->pulling || is_idle(role)) return;
    training->out = !crowd_has(&terms->members, role->id);
    if (training->missing > 0) training->missing--;
}

/* Others went on without it; or, where some slots have no rounds, it begins with a step that they have not, and the
 * rounds of which are over. Slots may be ahead of the ledger by one, and have the version before, so it goes to that
 * one: the ledger may wait for what is its own. */
static void on_gone(void *context, uint32_t slot, uint64_t version) {
    ps_role *role = context;
    training *training = &role->training;
    if (is_idle(role)) {
        training->asked = false;
        if (version > training->round) training->round = version;
        return;
    }
    if (!training->pulling) return; /* it has gone on already */
    uint64_t next = version > training->step + 1 ? version - 1 : version;
    sim_note(role->seat->world->sim, role->seat->node, "goes from step %d to %d", (int)training->step, (int)next);
    for (; training->step < next; training->step++) spend(role, training->step, true); /* who knows? */
    training->pulling = false;
    training->next_us = now_of(role);
}

static void on_ordered(void *context, tape_kind kind, bool done, uint64_t round) {
    ps_role *role = context;
    sim_note(role->seat->world->sim, role->seat->node, "order %d: %d, from round %d", (int)kind, done, (int)round);
    sim_count(role->seat->world->sim, "orders", done);
    if (kind == TAPE_JOIN && !done && role->seat->world->ledger.drops == 0 && !is_over(role))
        sim_violation(role->seat->world->sim, "rank %u wants to join, and is refused", role->id);
}

static void keep_shown(training *training, uint32_t slot, span values) {
    uint8_t keys = training->session.keys[slot];
    size_t at = 0;
    for (uint8_t i = 0; i < FLOAT_MACHINE_WIDTH; i++) {
        if ((keys >> i & 1) == 0 || at + sizeof(double) > values.size) continue;
        memcpy(&training->shown[slot][i], values.data + at, sizeof(double));
        at += sizeof(double);
    }
}

static void on_pulled(void *context, uint32_t slot, uint64_t version, uint64_t lsn, span values) {
    ps_role *role = context;
    training *training = &role->training;
    if (!training->pulling && has_rounds(role, slot)) return; /* it has gone on to another version */
    sim_count(role->seat->world->sim, "pulls", 1);
    if (!is_over(role))
        ps_ledger_pulled(&role->seat->world->ledger, &training->session, role->id, slot, ended(role), version, lsn,
                         values);
    keep_shown(training, slot, values);
    if (training->pulling && training->missing > 0) training->missing--;
}

/* Another process learns what this rank had acknowledged, and may count on it. */
static void tell_another(ps_role *role) {
    const ps_world *world = role->seat->world;
    const ps_seat *other = &world->workers[rng_below(role->env->rng, world->worker_count)];
    if (other != role->seat) ps_tell(other, rank_chart(role->rank), role->training.session.own);
}

void ps_role_told(ps_role *role, const chart *known, const uint64_t own[PS_SLOTS_MAX]) {
    const chart *chart = rank_chart(role->rank);
    if (chart->generation != known->generation || chart->number < known->number) return;
    for (size_t i = 0; i < PS_SLOTS_MAX; i++)
        if (own[i] > role->training.session.told[i]) role->training.session.told[i] = own[i];
}

static void flush(ps_role *role) {
    rank_flush(role->rank);
    ps_line_flushed(&role->line);
}

static bool has_room(const ps_role *role) {
    size_t kept = role->training.kept - role->training.added,
           more = (role->seat->world->items + 1) * role->seat->world->slot_count;
    bool runs = is_idle(role) || !in_rounds(role);
    return kept == 0 || (runs && kept + more <= RANK_WINDOW);
}

/* Everything, or some of it. */
static uint8_t draw_keys(const ps_role *role, uint32_t slot) {
    if (has_rounds(role, slot)) return ps_keys(role->id, role->training.step, slot);
    return rng_chance(role->env->rng, 0.5) ? PS_ALL_KEYS : (uint8_t)(1 + rng_below(role->env->rng, PS_ALL_KEYS));
}

/* How stale what it is shown may be: as the chart says, or as it likes. */
static consistency draw_consistency(const ps_role *role, uint32_t slot) {
    consistency consistency = chart_consistency(rank_chart(role->rank), slot);
    if (!role->seat->world->varied || has_rounds(role, slot)) return consistency;
    consistency.kind = rng_chance(role->env->rng, 0.3) ? CONSISTENCY_ASP : CONSISTENCY_SSP;
    consistency.bound = (uint32_t)rng_below(role->env->rng, 3);
    sim_count(role->seat->world->sim, "pulls with their own bounds", 1);
    return consistency;
}

/* What it has pushed, acknowledged or not, is in what it is shown. */
static void pull_behind(ps_role *role, uint32_t slot, uint64_t step, span query) {
    role->training.session.wanted[slot] = role->training.last[slot];
    sim_count(role->seat->world->sim, "pulls behind pushes", 1);
    if (MUTATED("pull-ahead"))
        rank_pull(role->rank, slot, step, query, NULL);
    else
        rank_pull_behind(role->rank, slot, step, query, NULL);
}

static void pull(ps_role *role, uint32_t slot) {
    training *training = &role->training;
    uint8_t bytes[FLOAT_MACHINE_WIDTH], keys = draw_keys(role, slot);
    span query = span_of(bytes, ps_write_query(keys, bytes));
    bool rounds = has_rounds(role, slot);
    bool fresh = !rounds && rng_chance(role->env->rng, role->seat->world->fresh_chance);
    consistency consistency = draw_consistency(role, slot);
    uint64_t step = rounds ? training->step : consistency_needs(consistency, ended(role));
    ps_ledger_asked(&role->seat->world->ledger, &training->session, slot, keys, consistency, fresh && !is_over(role));
    if (fresh)
        rank_pull_fresh(role->rank, slot, step, query, NULL);
    else if (!rounds && rng_chance(role->env->rng, 0.5))
        pull_behind(role, slot, step, query);
    else
        rank_pull(role->rank, slot, step, query, NULL);
}

static uint32_t wanted(const ps_role *role) { /* so many slots have to answer */
    const ps_world *world = role->seat->world;
    return is_idle(role) ? world->value_slots - world->ledger.round_slots : world->slot_count;
}

static void pull_all(ps_role *role) {
    tell_another(role);
    role->training.pulling = true;
    role->training.missing = wanted(role);
    for (uint32_t i = 0; i < role->seat->world->slot_count; i++)
        if (minds(role, i)) pull(role, i);
    flush(role);
}

/* The rounds of steps that it has ended, one after the other. */
static void ask_round(ps_role *role) {
    training *training = &role->training;
    if (!is_idle(role) || training->asked || training->round >= training->step || training->added != 0) return;
    training->asked = true;
    rank_pull(role->rank, role->seat->world->value_slots, training->round, (span){0}, NULL);
    flush(role);
}

static void push(ps_role *role, uint32_t slot, uint64_t name, span payload) {
    bool asks = !has_rounds(role, slot) && payload.size != 0 && !is_over(role);
    if (asks) ps_ledger_push(&role->seat->world->ledger, role->id, slot, name);
    note_push(role, slot, name);
    mr_status status = push_copy(role, slot, name, payload);
    MR_ASSERT(status == MR_OK);
}

/* Several items at once; in rounds there is one. */
static void push_batch(ps_role *role, uint32_t slot, uint64_t name, uint32_t first, uint32_t last) {
    training *training = &role->training;
    double items[PS_ITEMS_MAX][FLOAT_MACHINE_WIDTH];
    bool rounds = has_rounds(role, slot);
    uint64_t shown = training->session.stint; /* the ledger can tell one from another */
    if (rounds)
        shown = ps_ledger_shown_hash((const double(*)[FLOAT_MACHINE_WIDTH])training->shown, role->id, training->step,
                                     role->seat->world->ledger.round_slots);
    size_t size = ps_batch(role->id, rounds ? training->step : named(role), slot, shown, first, last, items);
    if (first != last) sim_count(role->seat->world->sim, "batches", 1);
    push(role, slot, name, span_of(items, size));
}

/* Whoever plays the step again cuts it into other batches, but none has items on both sides of the clock. */
static void push_items(ps_role *role, uint32_t slot) {
    const training *training = &role->training;
    uint32_t there = ps_items_had(training->session.clock[slot], named(role)), all = role->seat->world->items;
    bool cuts = !MUTATED("no-cut");
    for (uint32_t first = 1, last; first <= all; first = last + 1) {
        last = all == 1 ? 1 : first + (uint32_t)rng_below(role->env->rng, all - first + 1);
        if (first <= there && there < last && cuts) last = there;
        push_batch(role, slot, name_of(named(role), last), first, last);
    }
}

static void push_all(ps_role *role) {
    const training *training = &role->training;
    const ps_world *world = role->seat->world;
    for (uint32_t i = 0; i < world->slot_count; i++) {
        if (!minds(role, i)) continue;
        uint8_t priority = (uint8_t)rng_below(role->env->rng, 3);
        ps_line_prefer(&role->line, i, priority);
        rank_prefer(role->rank, i, priority);
        if (has_rounds(role, i) && i < world->value_slots) push_batch(role, i, training->step + 1, 1, 1);
        if (has_rounds(role, i) && i == world->value_slots) push(role, i, training->step + 1, (span){0});
        if (has_rounds(role, i)) continue;
        if (ps_touches(role->id, named(role), i)) push_items(role, i);
        push(role, i, name_tick(named(role)), (span){0});
    }
    flush(role);
}

/* Now and then a rank leaves, and comes back. */
static void think_again(ps_role *role) {
    if (in_rounds(role) && !is_idle(role) && rng_chance(role->env->rng, role->seat->world->order_chance))
        rank_order(role->rank, role->training.out ? TAPE_JOIN : TAPE_LEAVE);
}

static uint64_t last_step(const ps_role *role) {
    return in_rounds(role) ? role->seat->world->steps - 1 : role->seat->world->steps;
}

/* Others wait for it to stand still, and it has ended this step. */
static bool rests(const ps_role *role, uint64_t ended) { return !in_rounds(role) && player_rests(role->player, ended); }

/* Pushes what it has computed. */
static void end_step(ps_role *role) {
    training *training = &role->training;
    const ps_world *world = role->seat->world;
    training->pulling = false;
    think_again(role);
    spend(role, training->step, !training->out);
    if (!training->out) push_all(role);
    flush(role);
    training->step++;
    training->next_us = now_of(role) + rng_between(role->env->rng, 0, 2 * world->pace_us);
}

static bool is_shown(const ps_role *role) { return role->training.pulling && role->training.missing == 0; }

/* Steps before it are in every slot: nobody plays them again, unless everything goes back to a checkpoint. */
static uint64_t over(const ps_role *role) {
    const ps_world *world = role->seat->world;
    if (world->keeps) return 0;
    if (in_rounds(role)) return role->training.step;
    uint64_t lowest = UINT64_MAX;
    for (uint32_t i = 0; i < world->slot_count; i++) {
        uint64_t here = name_ended(rank_clock(role->rank, i)) + 1;
        if (here < lowest) lowest = here;
    }
    return lowest;
}

static claims_past past_of(const ps_role *role) {
    bool forgets = MUTATED("returns-spent");
    claims_past past = {.over = over(role), .since = role->training.since};
    if (!in_rounds(role)) past.since = past.over; /* all of them are done */
    for (uint64_t i = 0; i < 64 && i < past.over && past.over - 1 - i < PS_STEPS_MAX; i++)
        if (role->training.spent[past.over - 1 - i] && !forgets) past.spent |= UINT64_C(1) << i;
    return past;
}

/* It has what it needs to push: whoever played this step before did it with the same piece. */
static bool is_fed(ps_role *role) {
    claims_piece piece;
    if (role->feed == NULL) return true;
    claims_past past = past_of(role);
    if (role->training.out) {
        ps_feed_pass(role->feed, role->id, &past);
        return true;
    }
    if (!ps_feed_piece(role->feed, role->id, role->training.step, &past, &piece)) return false;
    ps_data_used(&role->seat->world->data, role->id, role->training.step, &piece);
    return true;
}

/* One thing after the other: to be shown, to push, to wait. */
static void train(ps_role *role) {
    training *training = &role->training;
    if (!training->begun || training->done) return;
    ask_round(role);
    if (training->pulling && training->missing == 0 && training->peeks) {
        training->pulling = training->peeks = false;
        training->next_us = now_of(role) + PEEK_US;
    } else if (is_shown(role) && now_of(role) >= training->next_us && has_room(role) && is_fed(role)) {
        end_step(role);
    } else if (is_shown(role) && now_of(role) >= training->next_us) {
        training->next_us = now_of(role) + PEEK_US;
    }
    if (training->step > last_step(role)) {
        bool owes = is_idle(role) && training->round < training->step;
        training->done = role->training.kept == 0 && !owes;
        training->next_us = CLOCK_NEVER_US; /* the last acknowledgement wakes it */
    } else if (!training->pulling && now_of(role) >= training->next_us && rests(role, training->step - 1)) {
        training->next_us = now_of(role) + PEEK_US;
        sim_count(role->seat->world->sim, "rests", 1);
    } else if (!training->pulling && now_of(role) >= training->next_us && has_room(role)) {
        pull_all(role);
    } else if (!training->pulling && now_of(role) >= training->next_us && !in_rounds(role) &&
               rng_chance(role->env->rng, role->seat->world->fresh_chance)) {
        training->peeks = true;
        pull_all(role);
    } else if (!training->pulling && now_of(role) >= training->next_us) {
        training->next_us = now_of(role) + PEEK_US;
    }
}

/* ---- Life. */

static void send_bytes(void *context, const char *address, span bytes) {
    ps_role *role = context;
    ps_line_sent(&role->line, role->seat->world->sim, rank_chart(role->rank), bytes);
    role->send(role->context, address, bytes);
}

ps_role *ps_role_begin(ps_seat *seat, const env *env, const player *player, ps_feed *feed, uint32_t rank,
                       uint64_t stint, void (*send)(void *context, const char *address, span bytes), void *context) {
    ps_role *role = xcalloc(1, sizeof *role);
    *role = (ps_role){.seat = seat, .env = env, .player = player, .feed = feed, .id = rank, .send = send};
    role->context = context;
    role->training.session.stint = stint;
    rank_options options = {.rank = rank,
                            .spread = seat->world->spreads ? RANK_ANY : RANK_HOT,
                            .pulls_max = seat->world->pulls_max,
                            .address = sim_node_name(seat->node),
                            .director = "director",
                            .send = send_bytes,
                            .on_ready = on_ready,
                            .on_over = on_over,
                            .on_pushed = on_pushed,
                            .on_pulled = on_pulled,
                            .on_round = on_round,
                            .on_gone = on_gone,
                            .on_ordered = on_ordered,
                            .context = role};
    role->rank = rank_create(&options);
    rank_begin(role->rank, stint, now_of(role));
    sim_note(seat->world->sim, seat->node, "plays rank %u", rank);
    return role;
}

void ps_role_end(ps_role *role) {
    if (role->feed != NULL) ps_feed_leave(role->feed, role->id);
    rank_destroy(role->rank);
    free(role);
}

void ps_role_take(ps_role *role, span bytes) {
    rank_take_bale(role->rank, bytes, NULL);
    ps_line_flushed(&role->line);
    train(role);
}

int64_t ps_role_next_us(const ps_role *role) {
    const training *training = &role->training;
    int64_t next_us = rank_next_us(role->rank);
    bool waits = training->begun && !training->done && (!training->pulling || is_shown(role));
    return waits && training->next_us < next_us ? training->next_us : next_us;
}

void ps_role_tick(ps_role *role, int64_t now_us) {
    if (now_us >= rank_next_us(role->rank)) {
        rank_tick(role->rank, now_us);
        ps_line_flushed(&role->line);
    }
    train(role);
}

bool ps_role_stands(const ps_role *role, uint64_t *step) {
    const training *training = &role->training;
    bool in_step = training->pulling && !training->peeks;
    *step = !training->begun ? 0 : in_step ? training->step : training->step - 1;
    return training->begun && !in_step && role->training.kept == 0;
}

bool ps_role_pushes(const ps_role *role) { return role->training.kept != 0; }
uint64_t ps_role_stint(const ps_role *role) { return role->training.session.stint; }
bool ps_role_done(const ps_role *role) { return role->training.done; }
