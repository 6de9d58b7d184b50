/* ps_rank.c — see ps_rank.h. */
#include "sim/ps/ps_rank.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/mutation.h"
#include "ps/quiesce_client.h"
#include "sim/ps/ps_order_checker.h"

#define PEEK_US INT64_C(25000)
#define AWAY_US INT64_C(800000)

typedef struct training {
    ps_session session;
    bool begun, pulling, done;
    bool out;                    /* BSP: the rank is not in this round */
    bool away;                   /* outside rounds: the rank has pushed that it leaves */
    bool returns;                /* it asks where the others are */
    bool asked;                  /* an idle rank has requested the members of the round */
    uint64_t round;              /* next round to which an idle rank adds an empty contribution */
    size_t kept;                 /* unacknowledged pushes */
    size_t added;                /* of those, empty contributions to rounds */
    uint64_t last[PS_SLOTS_MAX]; /* last seq pushed, or applied by the slot */
    bool peeks;                  /* no push follows this pull */
    uint64_t step;               /* BSP: the version it computes from */
    uint64_t since;              /* the first step of this term */
    bool spent[PS_STEPS_MAX];    /* steps that may have used their batch */
    uint32_t missing;
    double shown[PS_SLOTS_MAX][FLOAT_MACHINE_WIDTH];
    int64_t next_us; /* earliest time of the next action */
} training;

struct ps_rank {
    ps_process *process;
    const env *env;
    rank_agent *agent;
    ps_data_client *client; /* NULL: none */
    uint32_t id;
    void (*send)(void *context, const char *address, span bytes);
    void *context;
    rank *rank;
    ps_order_checker checker;
    training training;
};

static int64_t now_of(const ps_rank *rank) { return clock_now_us(rank->env->clock); }

/* Whether the cluster has rounds, and whether this slot has rounds. */
static bool in_rounds(const ps_rank *rank) { return ps_has_rounds(rank->process->cluster); }
static bool has_rounds(const ps_rank *rank, uint32_t slot) { return cluster_map_in_rounds(rank_map(rank->rank), slot); }

/* An idle rank only adds empty contributions to the rounds of its steps, at its own pace. */
static bool is_idle(const ps_rank *rank) { return (rank->process->cluster->idle >> rank->id & 1) != 0; }
static bool minds(const ps_rank *rank, uint32_t slot) { return !is_idle(rank) || !has_rounds(rank, slot); }

static bool quits(const ps_rank *rank) {
    return !in_rounds(rank) && (rank->process->cluster->quits >> rank->id & 1) != 0;
}

/* In seqs, steps count from 1. Rounds, versions, and the steps of ranks in rounds count from 0. */
static uint64_t ended(const ps_rank *rank) { return in_rounds(rank) ? rank->training.step : rank->training.step - 1; }
static uint64_t named(const ps_rank *rank) { return ended(rank) + 1; }

static void on_ready(void *context) {
    ps_rank *rank = context;
    training *training = &rank->training;
    uint64_t lowest = UINT64_MAX, round = UINT64_MAX, front = 0;
    uint32_t left_count = 0;
    for (uint32_t i = 0; i < rank->process->cluster->slot_count; i++) {
        bool left = !has_rounds(rank, i) && seq_is_left(rank_clock(rank->rank, i));
        left_count += left;
        if (left && rank_version(rank->rank, i) + 1 > front) front = rank_version(rank->rank, i) + 1;
        uint64_t here =
            has_rounds(rank, i) ? rank_version(rank->rank, i) : seq_ended(rank_clock(rank->rank, i)) + !in_rounds(rank);
        if (here < lowest) lowest = here;
        if (has_rounds(rank, i) && here < round) round = here;
    }
    for (uint32_t i = 0; i < rank->process->cluster->slot_count; i++)
        training->session.clock[i] = training->last[i] = rank_clock(rank->rank, i);
    training->begun = true;
    training->away = left_count == rank->process->cluster->slot_count;
    if (training->away && training->returns && front > lowest) {
        sim_count(rank->process->cluster->sim, "steps passed by", front - lowest);
        lowest = front;
    }
    training->away = training->away && !training->returns;
    training->returns = false;
    training->step = training->since = lowest;
    training->round = round;
    sim_note(rank->process->cluster->sim, rank->process->node, "resumes rank %u at step %d", rank->id, (int)lowest);
    rank_agent_report(rank->agent, rank_map(rank->rank)->generation); /* the program learns of a loss */
}

/* The generation ended: the rank begins again from the state of the slots in the new one. */
static void on_over(void *context) {
    ps_rank *rank = context;
    rank->training = (training){.session.term = rank->training.session.term};
    ps_order_checker_reset(&rank->checker);
}

/* This rank still has a map of an ended generation: the checker ignores its messages. */
static bool is_over(const ps_rank *rank) {
    return rank_map(rank->rank)->birth != rank->process->cluster->ps_checker.birth;
}

/* With rounds a step may be over without being counted: its batch is handed back. Without rounds every step counts. */
static void spend(ps_rank *rank, uint64_t step, bool maybe) {
    if (step < PS_STEPS_MAX) rank->training.spent[step] = maybe;
}

static void on_pushed(void *context, uint32_t slot, uint64_t name, slot_message_status status) {
    ps_rank *rank = context;
    ps_order_checker_pushed(&rank->checker, slot, name);
    rank->training.kept--;
    if (is_idle(rank) && has_rounds(rank, slot)) rank->training.added--;
    if (is_over(rank)) return;
    if (has_rounds(rank, slot) && status == SLOT_MESSAGE_MISSED) spend(rank, name - 1, false);
    ps_checker_pushed(&rank->process->cluster->ps_checker, &rank->training.session, rank->id, slot, name, status);
}

static void note_push(ps_rank *rank, uint32_t slot, uint64_t name) {
    ps_order_checker_push(&rank->checker, slot, name);
    rank->training.kept++;
    if (name > rank->training.last[slot]) rank->training.last[slot] = name;
}

static mr_status push_copy(ps_rank *rank, uint32_t slot, uint64_t name, span payload) {
    return rank_push_pieces(rank->rank, slot, name, payload, NULL, (shared_bytes_piece){0});
}

static void add_nothing(ps_rank *rank, const round_state_terms *terms) {
    training *training = &rank->training;
    if (!training->asked || terms->round != training->round) return;
    training->asked = false;
    training->round++;
    if (!rank_set_has(&terms->members, rank->id)) return;
    sim_count(rank->process->cluster->sim, "rounds of the idle", 1);
    for (uint32_t i = 0; i < rank->process->cluster->slot_count; i++) {
        if (!has_rounds(rank, i)) continue;
        note_push(rank, i, training->round);
        mr_status status = push_copy(rank, i, training->round, (span){0});
        MR_ASSERT(status == MR_OK);
        training->added++;
    }
}

static void on_round(void *context, const round_state_terms *terms) {
    ps_rank *rank = context;
    training *training = &rank->training;
    if (!is_over(rank)) ps_checker_round(&rank->process->cluster->ps_checker, terms);
    if (is_idle(rank)) add_nothing(rank, terms);
    if (!training->pulling || is_idle(rank)) return;
    training->out = !rank_set_has(&terms->members, rank->id);
    if (training->missing > 0) training->missing--;
}

/* The rounds went on without this rank; or, in a mixed cluster, the rank begins with a step that slots without rounds
 * lack, and whose round is over. Slots may be one version ahead of the round state and still have the version before,
 * so the rank goes to that version: the round state may wait for its contribution. */
static void on_gone(void *context, uint32_t slot, uint64_t version) {
    ps_rank *rank = context;
    training *training = &rank->training;
    if (is_idle(rank)) {
        training->asked = false;
        if (version > training->round) training->round = version;
        return;
    }
    if (!training->pulling) return; /* the rank has moved on already */
    uint64_t next = version > training->step + 1 ? version - 1 : version;
    sim_note(rank->process->cluster->sim, rank->process->node, "goes from step %d to %d", (int)training->step,
             (int)next);
    for (; training->step < next; training->step++) spend(rank, training->step, true); /* batches may be used */
    training->pulling = false;
    training->next_us = now_of(rank);
}

static void on_ordered(void *context, replica_log_kind kind, bool done, uint64_t round) {
    ps_rank *rank = context;
    sim_note(rank->process->cluster->sim, rank->process->node, "order %d: %d, from round %d", (int)kind, done,
             (int)round);
    sim_count(rank->process->cluster->sim, "orders", done);
    if (kind == REPLICA_LOG_JOIN && !done && rank->process->cluster->ps_checker.drops == 0 && !is_over(rank))
        sim_violation(rank->process->cluster->sim, "rank %u wants to join, and is refused", rank->id);
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
    ps_rank *rank = context;
    training *training = &rank->training;
    if (!training->pulling && has_rounds(rank, slot)) return; /* the rank has moved on to another version */
    sim_count(rank->process->cluster->sim, "pulls", 1);
    if (!is_over(rank))
        ps_checker_pulled(&rank->process->cluster->ps_checker, &training->session, rank->id, slot, ended(rank), version,
                          lsn, values);
    keep_shown(training, slot, values);
    if (training->pulling && training->missing > 0) training->missing--;
}

/* Reports the acknowledged lsns to another process, which may rely on them. */
static void tell_another(ps_rank *rank) {
    const ps_cluster *cluster = rank->process->cluster;
    const ps_process *other = &cluster->workers[rng_below(rank->env->rng, cluster->worker_count)];
    if (other != rank->process) ps_tell(other, rank_map(rank->rank), rank->training.session.own);
}

void ps_rank_told(ps_rank *rank, const cluster_map *known, const uint64_t own[PS_SLOTS_MAX]) {
    const cluster_map *map = rank_map(rank->rank);
    if (map->generation != known->generation || map->number < known->number) return;
    for (size_t i = 0; i < PS_SLOTS_MAX; i++)
        if (own[i] > rank->training.session.told[i]) rank->training.session.told[i] = own[i];
}

static void flush(ps_rank *rank) {
    rank_flush(rank->rank);
    ps_order_checker_flushed(&rank->checker);
}

static bool has_room(const ps_rank *rank) {
    size_t kept = rank->training.kept - rank->training.added,
           more = (rank->process->cluster->items + 1) * rank->process->cluster->slot_count;
    bool runs = is_idle(rank) || !in_rounds(rank);
    return kept == 0 || (runs && kept + more <= RANK_WINDOW);
}

/* All keys, or some of them. */
static uint8_t draw_keys(const ps_rank *rank, uint32_t slot) {
    if (has_rounds(rank, slot)) return ps_keys(rank->id, rank->training.step, slot);
    return rng_chance(rank->env->rng, 0.5) ? PS_ALL_KEYS : (uint8_t)(1 + rng_below(rank->env->rng, PS_ALL_KEYS));
}

/* Allowed staleness of the pull: that of the cluster map, or random. */
static consistency draw_consistency(const ps_rank *rank, uint32_t slot) {
    consistency consistency = cluster_map_consistency(rank_map(rank->rank), slot);
    if (!rank->process->cluster->varied || has_rounds(rank, slot)) return consistency;
    consistency.kind = rng_chance(rank->env->rng, 0.3) ? CONSISTENCY_ASP : CONSISTENCY_SSP;
    consistency.bound = (uint32_t)rng_below(rank->env->rng, 3);
    sim_count(rank->process->cluster->sim, "pulls with their own bounds", 1);
    return consistency;
}

/* A pull whose answer contains all pushes of this rank, acknowledged or not. */
static void pull_behind(ps_rank *rank, uint32_t slot, uint64_t step, span query) {
    rank->training.session.wanted[slot] = rank->training.last[slot];
    sim_count(rank->process->cluster->sim, "pulls behind pushes", 1);
    rank_pull(rank->rank, slot, step, query, NULL, MUTATED("pull-ahead") ? RANK_PULL_ACKNOWLEDGED : RANK_PULL_BEHIND);
}

static void pull(ps_rank *rank, uint32_t slot) {
    training *training = &rank->training;
    uint8_t bytes[FLOAT_MACHINE_WIDTH], keys = draw_keys(rank, slot);
    span query = span_of(bytes, ps_write_query(keys, bytes));
    bool rounds = has_rounds(rank, slot);
    bool fresh = !rounds && rng_chance(rank->env->rng, rank->process->cluster->fresh_chance);
    consistency consistency = draw_consistency(rank, slot);
    uint64_t step = rounds ? training->step : consistency_needs(consistency, ended(rank));
    ps_checker_asked(&rank->process->cluster->ps_checker, &training->session, slot, keys, consistency,
                     fresh && !is_over(rank));
    if (fresh)
        rank_pull(rank->rank, slot, step, query, NULL, RANK_PULL_FRESH);
    else if (!rounds && rng_chance(rank->env->rng, 0.5))
        pull_behind(rank, slot, step, query);
    else
        rank_pull(rank->rank, slot, step, query, NULL, RANK_PULL_ACKNOWLEDGED);
}

static uint32_t wanted(const ps_rank *rank) { /* number of slots that must answer */
    const ps_cluster *cluster = rank->process->cluster;
    return is_idle(rank) ? cluster->value_slots - cluster->ps_checker.round_slots : cluster->slot_count;
}

static void pull_all(ps_rank *rank) {
    tell_another(rank);
    rank->training.pulling = true;
    rank->training.missing = wanted(rank);
    for (uint32_t i = 0; i < rank->process->cluster->slot_count; i++)
        if (minds(rank, i)) pull(rank, i);
    flush(rank);
}

/* Requests the members of the rounds of ended steps, one after the other. */
static void ask_round(ps_rank *rank) {
    training *training = &rank->training;
    if (!is_idle(rank) || training->asked || training->round >= training->step || training->added != 0) return;
    training->asked = true;
    rank_pull(rank->rank, rank->process->cluster->value_slots, training->round, (span){0}, NULL,
              RANK_PULL_ACKNOWLEDGED);
    flush(rank);
}

static void push(ps_rank *rank, uint32_t slot, uint64_t name, span payload) {
    bool asks = !has_rounds(rank, slot) && payload.size != 0 && !is_over(rank);
    if (asks) ps_checker_push(&rank->process->cluster->ps_checker, rank->id, slot, name);
    note_push(rank, slot, name);
    mr_status status = push_copy(rank, slot, name, payload);
    MR_ASSERT(status == MR_OK);
}

/* Pushes several items at once; with rounds there is one item. */
static void push_batch(ps_rank *rank, uint32_t slot, uint64_t name, uint32_t first, uint32_t last) {
    training *training = &rank->training;
    double items[PS_ITEMS_MAX][FLOAT_MACHINE_WIDTH];
    bool rounds = has_rounds(rank, slot);
    uint64_t shown = training->session.term; /* lets the checker distinguish processes */
    if (rounds)
        shown = ps_checker_shown_hash((const double(*)[FLOAT_MACHINE_WIDTH])training->shown, rank->id, training->step,
                                      rank->process->cluster->ps_checker.round_slots);
    size_t size = ps_batch(rank->id, rounds ? training->step : named(rank), slot, shown, first, last, items);
    if (first != last) sim_count(rank->process->cluster->sim, "batches", 1);
    push(rank, slot, name, span_of(items, size));
}

/* A process that repeats a step groups its items in other batches, but no batch has items on both sides of the slot's
 * clock. */
static void push_items(ps_rank *rank, uint32_t slot) {
    const training *training = &rank->training;
    uint32_t there = ps_items_had(training->session.clock[slot], named(rank)), all = rank->process->cluster->items;
    bool cuts = !MUTATED("no-cut");
    for (uint32_t first = 1, last; first <= all; first = last + 1) {
        last = all == 1 ? 1 : first + (uint32_t)rng_below(rank->env->rng, all - first + 1);
        if (first <= there && there < last && cuts) last = there;
        push_batch(rank, slot, seq_of(named(rank), last), first, last);
    }
}

static void push_all(ps_rank *rank) {
    const training *training = &rank->training;
    const ps_cluster *cluster = rank->process->cluster;
    for (uint32_t i = 0; i < cluster->slot_count; i++) {
        if (!minds(rank, i)) continue;
        uint8_t priority = (uint8_t)rng_below(rank->env->rng, 3);
        ps_order_checker_prefer(&rank->checker, i, priority);
        rank_prefer(rank->rank, i, priority);
        if (has_rounds(rank, i) && i < cluster->value_slots) push_batch(rank, i, training->step + 1, 1, 1);
        if (has_rounds(rank, i) && i == cluster->value_slots) push(rank, i, training->step + 1, (span){0});
        if (has_rounds(rank, i)) continue;
        if (ps_touches(rank->id, named(rank), i)) push_items(rank, i);
        push(rank, i, seq_tick(named(rank)), (span){0});
    }
    flush(rank);
}

/* Leaves the rounds at random, or joins them again. */
static void think_again(ps_rank *rank) {
    if (in_rounds(rank) && !is_idle(rank) && rng_chance(rank->env->rng, rank->process->cluster->order_chance))
        rank_order(rank->rank, rank->training.out ? REPLICA_LOG_JOIN : REPLICA_LOG_LEAVE);
}

/* Outside rounds some ranks leave for good after a step of their own. */
static uint64_t last_step(const ps_rank *rank) {
    const ps_cluster *cluster = rank->process->cluster;
    if (quits(rank)) return 1 + stable_hash2(cluster->quits, rank->id) % cluster->steps;
    return in_rounds(rank) ? rank->process->cluster->steps - 1 : rank->process->cluster->steps;
}

/* Whether a quiesce waits for this rank to pause, and the rank has ended this step. */
static bool rests(const ps_rank *rank, uint64_t ended) {
    return !in_rounds(rank) && rank_agent_rests(rank->agent, ended);
}

/* Pushes the results of the step. */
static void end_step(ps_rank *rank) {
    training *training = &rank->training;
    const ps_cluster *cluster = rank->process->cluster;
    training->pulling = false;
    think_again(rank);
    spend(rank, training->step, !training->out);
    if (!training->out) push_all(rank);
    flush(rank);
    training->step++;
    training->next_us = now_of(rank) + rng_between(rank->env->rng, 0, 2 * cluster->pace_us);
}

static bool is_shown(const ps_rank *rank) { return rank->training.pulling && rank->training.missing == 0; }

/* Steps before the returned one are in every slot: no process repeats them, unless the cluster goes back to a
 * checkpoint. */
static uint64_t over(const ps_rank *rank) {
    const ps_cluster *cluster = rank->process->cluster;
    if (cluster->keeps) return 0;
    if (in_rounds(rank)) return rank->training.step;
    uint64_t lowest = UINT64_MAX;
    for (uint32_t i = 0; i < cluster->slot_count; i++) {
        uint64_t here = seq_ended(rank_clock(rank->rank, i)) + 1;
        if (here < lowest) lowest = here;
    }
    return lowest;
}

static batch_claims_past past_of(const ps_rank *rank) {
    bool forgets = MUTATED("returns-spent");
    batch_claims_past past = {.over = over(rank), .since = rank->training.since};
    if (!in_rounds(rank)) past.since = past.over; /* without rounds all steps before `over` are done */
    for (uint64_t i = 0; i < 64 && i < past.over && past.over - 1 - i < PS_STEPS_MAX; i++)
        if (rank->training.spent[past.over - 1 - i] && !forgets) past.spent |= UINT64_C(1) << i;
    return past;
}

/* Whether the rank has its batch: earlier processes that did this step used the same batch. */
static bool is_fed(ps_rank *rank) {
    batch_claims_piece piece;
    if (rank->client == NULL) return true;
    batch_claims_past past = past_of(rank);
    if (rank->training.out) {
        ps_data_client_pass(rank->client, rank->id, &past);
        return true;
    }
    if (!ps_data_client_piece(rank->client, rank->id, rank->training.step, &past, &piece)) return false;
    ps_data_checker_used(&rank->process->cluster->checker, rank->id, rank->training.step, &piece);
    return true;
}

/* Pushes to every slot that the rank has left, after its last step. */
static void leave(ps_rank *rank) {
    rank->training.away = true;
    sim_count(rank->process->cluster->sim, "ranks that leave", 1);
    for (uint32_t i = 0; i < rank->process->cluster->slot_count; i++) push(rank, i, seq_left(ended(rank)), (span){0});
    flush(rank);
}

/* Leaves for a while, or for good. True: the rank is away. */
static bool is_away(ps_rank *rank) {
    training *training = &rank->training;
    const ps_cluster *cluster = rank->process->cluster;
    if (in_rounds(rank) || training->pulling || training->kept != 0) return training->away;
    if (!training->away && quits(rank) && training->step > last_step(rank)) leave(rank);
    if (now_of(rank) < training->next_us) return training->away;
    if (!training->away && training->step > training->since && training->step <= last_step(rank) &&
        cluster->leave_chance != 0 && rng_chance(rank->env->rng, cluster->leave_chance)) {
        leave(rank);
        training->next_us = now_of(rank) + rng_between(rank->env->rng, 0, AWAY_US);
    } else if (training->away && training->step <= last_step(rank)) {
        training->begun = false;
        training->returns = true;
        rank_sync(rank->rank);
    }
    return training->away;
}

/* The state machine of a rank: pull, push, wait. */
static void train(ps_rank *rank) {
    training *training = &rank->training;
    if (!training->begun || training->done) return;
    if (is_away(rank) && training->step <= last_step(rank)) {
        if (now_of(rank) >= training->next_us) training->next_us = now_of(rank) + PEEK_US;
        return;
    }
    ask_round(rank);
    if (training->pulling && training->missing == 0 && training->peeks) {
        training->pulling = training->peeks = false;
        training->next_us = now_of(rank) + PEEK_US;
    } else if (is_shown(rank) && now_of(rank) >= training->next_us && has_room(rank) && is_fed(rank)) {
        end_step(rank);
    } else if (is_shown(rank) && now_of(rank) >= training->next_us) {
        training->next_us = now_of(rank) + PEEK_US;
    }
    if (training->step > last_step(rank)) {
        bool owes = is_idle(rank) && training->round < training->step;
        training->done = rank->training.kept == 0 && !owes && (!quits(rank) || training->away);
        training->next_us = CLOCK_NEVER_US; /* the last acknowledgement sets the next time */
    } else if (!training->pulling && now_of(rank) >= training->next_us && rests(rank, training->step - 1)) {
        training->next_us = now_of(rank) + PEEK_US;
        sim_count(rank->process->cluster->sim, "rests", 1);
    } else if (!training->pulling && now_of(rank) >= training->next_us && has_room(rank)) {
        pull_all(rank);
    } else if (!training->pulling && now_of(rank) >= training->next_us && !in_rounds(rank) &&
               rng_chance(rank->env->rng, rank->process->cluster->fresh_chance)) {
        training->peeks = true;
        pull_all(rank);
    } else if (!training->pulling && now_of(rank) >= training->next_us) {
        training->next_us = now_of(rank) + PEEK_US;
    }
}

/* ---- Beginning, receiving, ending. */

/* Pieces of several pushes are on their way at once: the order in which they began does not show. */
static void send_bytes(void *context, const char *address, span bytes) {
    ps_rank *rank = context;
    const ps_cluster *cluster = rank->process->cluster;
    if (cluster->piece == 0) ps_order_checker_sent(&rank->checker, cluster->sim, rank_map(rank->rank), bytes);
    rank->send(rank->context, address, bytes);
}

ps_rank *ps_rank_begin(ps_process *process, const env *env, rank_agent *agent, ps_data_client *client, uint32_t rank,
                       uint64_t term, void (*send)(void *context, const char *address, span bytes), void *context) {
    ps_rank *role = xcalloc(1, sizeof *role);
    *role = (ps_rank){.process = process, .env = env, .agent = agent, .client = client, .id = rank, .send = send};
    role->context = context;
    role->training.session.term = term;
    rank_options options = {.rank = rank,
                            .spread = process->cluster->spreads ? RANK_ANY : RANK_HOT,
                            .pulls_max = process->cluster->pulls_max,
                            .piece = process->cluster->piece,
                            .address = sim_node_name(process->node),
                            .controller = "director",
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
    rank_begin(role->rank, term, now_of(role));
    sim_note(process->cluster->sim, process->node, "plays rank %u", rank);
    return role;
}

void ps_rank_end(ps_rank *rank) {
    if (rank->client != NULL) ps_data_client_leave(rank->client, rank->id);
    rank_destroy(rank->rank);
    free(rank);
}

void ps_rank_take(ps_rank *rank, span bytes) {
    rank_take_bytes(rank->rank, bytes, NULL);
    ps_order_checker_flushed(&rank->checker);
    train(rank);
}

int64_t ps_rank_next_us(const ps_rank *rank) {
    const training *training = &rank->training;
    int64_t next_us = rank_next_us(rank->rank);
    bool waits = training->begun && !training->done && (!training->pulling || is_shown(rank));
    return waits && training->next_us < next_us ? training->next_us : next_us;
}

void ps_rank_tick(ps_rank *rank, int64_t now_us) {
    if (now_us >= rank_next_us(rank->rank)) {
        rank_tick(rank->rank, now_us);
        ps_order_checker_flushed(&rank->checker);
    }
    train(rank);
}

bool ps_rank_stands(const ps_rank *rank, uint64_t *step) {
    const training *training = &rank->training;
    bool in_step = training->pulling && !training->peeks;
    *step = !training->begun ? 0 : in_step ? training->step : training->step - 1;
    if (training->begun && training->away) *step = QUIESCE_CLIENT_LEFT;
    return training->begun && !in_step && rank->training.kept == 0;
}

bool ps_rank_pushes(const ps_rank *rank) { return rank->training.kept != 0; }
uint64_t ps_rank_term(const ps_rank *rank) { return rank->training.session.term; }
bool ps_rank_done(const ps_rank *rank) { return rank->training.done; }
