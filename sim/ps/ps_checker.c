/* ps_checker.c — see ps_checker.h. */
#include "sim/ps/ps_checker_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "ps/rank.h"

void ps_checker_init(ps_checker *checker, sim *sim, uint32_t value_slots, uint32_t round_slots, uint32_t ranks,
                     uint32_t items, cluster_map_rounds terms) {
    *checker = (ps_checker){.sim = sim,
                            .value_slots = value_slots,
                            .round_slots = round_slots,
                            .rank_count = ranks,
                            .items = items,
                            .terms = terms};
}

void ps_checker_fini(ps_checker *checker) {
    for (size_t i = 0; i < PS_SLOTS_MAX; i++) {
        free(checker->histories[i].events);
        free(checker->histories[i].contributions);
        ps_history_fini(&checker->histories[i].history);
    }
    free(checker->models);
    free(checker->rounds);
}

/* ---- Rounds. */

enum { ROUNDS_MAX = 1 << 20 }; /* far more than a run has */

ps_round *ps_checker_round_at(ps_checker *checker, uint64_t round) {
    if (round > ROUNDS_MAX) {
        sim_violation(checker->sim, "round %llu appears", (unsigned long long)round);
        round = 0;
    }
    while (checker->round_count <= round) {
        checker->rounds = xrealloc(checker->rounds, (checker->round_count + 1) * sizeof *checker->rounds);
        checker->rounds[checker->round_count++] = (ps_round){0};
        if (checker->round_count == 1)
            checker->rounds[0] = (ps_round){.begun = true, .members = rank_set_first(checker->terms.first_count)};
    }
    return &checker->rounds[round];
}

bool ps_checker_is_round_state(const ps_checker *checker, uint32_t slot) { return slot == checker->value_slots; }
bool ps_checker_in_rounds(const ps_checker *checker, uint32_t slot) {
    return slot < checker->round_slots || ps_checker_is_round_state(checker, slot);
}

/* The newest contribution record of this rank within the first `count` entries. */
static ps_contribution contribution_of(const ps_checker_history *history, size_t count, uint32_t rank) {
    for (size_t i = history->contribution_count; i-- > 0;)
        if (history->contributions[i].rank == rank && history->contributions[i].at <= count)
            return history->contributions[i];
    return (ps_contribution){.rank = rank};
}

uint64_t ps_checker_last_name(const ps_checker *checker, uint32_t slot, size_t count, uint32_t rank) {
    const ps_checker_history *history = &checker->histories[slot];
    ps_contribution contribution = contribution_of(history, count, rank);
    for (size_t i = count; i-- > contribution.at;)
        if (history->events[i].kind == REPLICA_LOG_PUSH && history->events[i].rank == rank)
            return history->events[i].name;
    return contribution.name;
}

/* Whether the rank was counted in this round, since its record begins (a round of the same number may precede the
 * record). */
static bool was_counted(ps_checker *checker, uint32_t slot, size_t count, uint32_t rank, uint64_t round) {
    return rank_set_has(&ps_checker_round_at(checker, round)->set, rank) &&
           round >= contribution_of(&checker->histories[slot], count, rank).round;
}

/* A slot without rounds has all steps before this version, of each rank that was counted in the round that made it. */
void ps_checker_check_free(ps_checker *checker, uint32_t slot, size_t count, uint64_t version) {
    if (version == 0 || ps_checker_in_rounds(checker, slot)) return;
    for (uint32_t i = 0; i < checker->rank_count; i++)
        if (was_counted(checker, slot, count, i, version - 1) &&
            seq_ended(ps_checker_last_name(checker, slot, count, i)) < version)
            sim_violation(checker->sim, "rank %u was counted in round %d, and slot %u has %d steps of it", i,
                          (int)version - 1, slot, (int)seq_ended(ps_checker_last_name(checker, slot, count, i)));
}

/* A rank is missing in a round only if it was dropped, or if the round policy allows it. */
static void check_set(ps_checker *checker, uint64_t round, const ps_round *known) {
    rank_set more = rank_set_without(&known->set, &known->members);
    uint32_t all = rank_set_count(&known->members), here = rank_set_count(&known->set);
    if (!known->begun || rank_set_count(&more) != 0)
        sim_violation(checker->sim, "round %d is closed with ranks that are not in it", (int)round);
    if (here + checker->terms.backup + checker->drops < all && checker->terms.deadline_us == 0)
        sim_violation(checker->sim, "round %d is closed with %u of %u ranks", (int)round, here, all);
    if (here < all) sim_count(checker->sim, "short rounds", 1);
}

/* A slot closes a round with exactly the committed norms that it needs. */
static void check_norms(ps_checker *checker, uint32_t slot, uint64_t round, const ps_round *known,
                        const round_state_round *read) {
    size_t size = known->phases * sizeof(double), has = read->norms.size;
    uint32_t needs = checker->machine.measures && !ps_checker_is_round_state(checker, slot)
                         ? float_machine_needs(slot, round + 1)
                         : 0;
    if (has > size || (has != 0 && memcmp(known->norms, read->norms.data, has) != 0))
        sim_violation(checker->sim, "slot %u closes round %d with norms that are not committed", slot, (int)round);
    if (has < needs * sizeof(double))
        sim_violation(checker->sim, "slot %u closes round %d with %zu bytes of norms", slot, (int)round, has);
    if (needs != 0) sim_count(checker->sim, "rounds with norms", 1);
}

static void take_norms(ps_checker *checker, const replica_log_entry *entry) {
    ps_round *round = ps_checker_round_at(checker, entry->name);
    if (entry->rank != round->phases || entry->rank >= STATE_MACHINE_PHASES_MAX ||
        entry->payload.size != sizeof(double)) {
        sim_violation(checker->sim, "the phase %u of round %d is measured after %u", entry->rank, (int)entry->name,
                      round->phases);
        return;
    }
    memcpy(&round->norms[round->phases++], entry->payload.data, sizeof(double));
}

static void end_round(ps_checker *checker, uint32_t slot, const replica_log_entry *entry, const replica *replica) {
    ps_checker_history *history = &checker->histories[slot];
    uint64_t round = entry->name - 1;
    if (entry->name != ++history->version)
        sim_violation(checker->sim, "slot %u goes from version %d to %d", slot, (int)history->version - 1,
                      (int)entry->name);
    for (uint32_t i = 0; i <= checker->value_slots; i++)
        if (ps_checker_in_rounds(checker, i) && checker->histories[i].version + 1 < history->version)
            sim_violation(checker->sim, "slot %u is at version %d, and slot %u at %d", slot, (int)history->version, i,
                          (int)checker->histories[i].version);
    round_state_round read;
    if (!round_state_read_round(entry->payload, checker->rank_count, &read)) return;
    round_state_terms terms = read.terms;
    ps_round *known = ps_checker_round_at(checker, round);
    check_norms(checker, slot, round, known, &read);
    if (known->over && !rank_set_same(&known->set, &terms.members))
        sim_violation(checker->sim, "slots differ in who is in round %d: slot %u has %x, others %x", (int)round, slot,
                      (unsigned)terms.members.words[0], (unsigned)known->set.words[0]);
    bool first = !known->over;
    known->over = true;
    known->set = terms.members;
    if (first) check_set(checker, round, known);
    if (!ps_checker_is_round_state(checker, slot)) return;
    for (uint32_t i = checker->round_slots; i < checker->value_slots; i++)
        ps_checker_check_free(checker, i, checker->histories[i].count, entry->name);
    known = ps_checker_round_at(checker, entry->name);
    known->begun = true;
    known->members = replica_round_state(replica)->members;
}

void ps_checker_round(ps_checker *checker, const round_state_terms *terms) {
    const ps_round *known = ps_checker_round_at(checker, terms->round);
    if (!known->begun || !rank_set_same(&known->members, &terms->members))
        sim_violation(checker->sim, "somebody is shown other members of round %d", (int)terms->round);
}

/* ---- The history. */

/* With rounds in other slots, a rank skips steps only if their rounds were closed without it. */
static bool passes(ps_checker *checker, uint32_t slot, uint32_t rank, uint64_t from, uint64_t to) {
    size_t count = checker->histories[slot].count;
    if (checker->round_slots == 0 || to > ROUNDS_MAX) return false;
    for (uint64_t step = from; step < to; step++)
        if (!ps_checker_round_at(checker, step - 1)->over || was_counted(checker, slot, count, rank, step - 1))
            return false;
    return true;
}

/* The entry has the next items of a step, as many as its seq implies, or is the end-of-step when no item is left. */
static bool follows(ps_checker *checker, uint32_t slot, const replica_log_entry *entry, uint64_t last) {
    uint64_t step = seq_ended(last) + 1;
    if (seq_is_left(entry->name))
        return (seq_is_left(last) || entry->name == seq_left(step - 1)) && entry->payload.size == 0;
    if (seq_is_left(last) && seq_step(entry->name) > step) step = seq_step(entry->name);
    if (seq_step(entry->name) > step) {
        if (!passes(checker, slot, entry->rank, step, seq_step(entry->name))) return false;
        step = seq_step(entry->name);
    }
    uint32_t all = ps_touches(entry->rank, step, slot) ? checker->items : 0, had = ps_items_had(last, step);
    if (had >= all) return entry->name == seq_tick(step) && entry->payload.size == 0;
    uint32_t has = ps_items_had(entry->name, step);
    return has > had && has <= all && entry->payload.size == (has - had) * PS_BYTES;
}

static void check_new(ps_checker *checker, uint32_t slot, const replica_log_entry *entry, const replica *replica) {
    const ps_checker_history *history = &checker->histories[slot];
    if (entry->kind == REPLICA_LOG_ROUND) end_round(checker, slot, entry, replica);
    if (entry->kind == REPLICA_LOG_NORMS) take_norms(checker, entry);
    if (entry->kind != REPLICA_LOG_PUSH) return;
    uint64_t last = ps_checker_last_name(checker, slot, history->count, entry->rank);
    if (!follows(checker, slot, entry, last))
        sim_violation(checker->sim, "slot %u: rank %d has %" PRIx64 " of %zu bytes applied after %" PRIx64, slot,
                      (int)entry->rank, entry->name, entry->payload.size, last);
}

/* The bytes after an entry are a function of the bytes before it and of the entry. Slots with rounds compare versions
 * instead. */
static void check_bytes(ps_checker *checker, uint32_t slot, const replica_log_entry *entry, const ps_event *event) {
    const ps_checker_history *history = &checker->histories[slot];
    float_machine *values = float_machine_ops.create(NULL, slot, false);
    if (history->count != 0) memcpy(values->values, history->events[history->count - 1].values, PS_BYTES);
    if (entry->kind == REPLICA_LOG_PUSH && entry->payload.size != 0) float_machine_ops.apply(values, entry->payload, 0);
    if (memcmp(values->values, event->values, PS_BYTES) != 0)
        sim_violation(checker->sim, "slot %u has other bytes at lsn %zu than a sequential run", slot,
                      history->count + 1);
    float_machine_ops.destroy(values);
}

/* A head has at most one window of each rank in its log; a joining replica that becomes the head may know of one window
 * less. With rounds the log has the sum of a round and, for each rank, an order and a freeze, or a decision; also a
 * checkpoint mark, and norms. */
static void check_bounds(ps_checker *checker, const sim_node *node, uint32_t slot, const replica_look *look) {
    size_t most = ps_checker_in_rounds(checker, slot) ? 4 + 2 * checker->rank_count
                                                      : 1 + 2 * checker->rank_count * (RANK_WINDOW + 1);
    if (look->logged - look->applied > most || look->open > checker->rank_count)
        sim_violation(checker->sim, "%s holds %d entries and %zu contributions", sim_node_name(node),
                      (int)(look->logged - look->applied), look->open);
}

/* A server holds at most the credit of a rank, or one message that is larger. Contributions that wait for the round
 * state are held in addition. */
static void check_rank(ps_checker *checker, const sim_node *node, const slot_server *server, uint32_t rank) {
    const credit *credit = slot_server_credit(server);
    uint64_t part = checker->items * PS_BYTES, held = 0, most = credit->rank_bytes > part ? credit->rank_bytes : part;
    for (uint32_t i = 0; i < PS_SLOTS_MAX; i++)
        if (slot_server_replica(server, i) != NULL) held += replica_held(slot_server_replica(server, i), rank);
    if (held != credit->held[rank])
        sim_violation(checker->sim, "%s holds %d bytes of rank %u, and counts %d", sim_node_name(node), (int)held, rank,
                      (int)credit->held[rank]);
    if (credit->rank_bytes != 0 && held > most)
        sim_violation(checker->sim, "%s holds %d bytes of rank %u, whose credit is %d", sim_node_name(node), (int)held,
                      rank, (int)credit->rank_bytes);
}

/* A slot without entries may have accepted one entry beyond the credit. */
void ps_checker_holds(ps_checker *checker, const sim_node *node, const slot_server *server) {
    const credit *credit = slot_server_credit(server);
    uint64_t linked = 0, most = credit->link_bytes;
    for (uint32_t i = 0; i < PS_SLOTS_MAX; i++) {
        const replica *replica = slot_server_replica(server, i);
        replica_look look = replica == NULL ? (replica_look){0} : replica_look_at(replica);
        linked += look.linked;
        if (look.linked != 0)
            most += checker->items * PS_BYTES + round_state_round_head(checker->rank_count) +
                    sizeof(double[STATE_MACHINE_PHASES_MAX]) + sizeof(uint32_t);
        if (look.dispute.count != 0)
            sim_violation(checker->sim, "rank %u has repeated its contribution to round %d of slot %u with other bytes",
                          look.dispute.rank, (int)look.dispute.round, i);
    }
    if (linked != credit->linked)
        sim_violation(checker->sim, "%s holds %d bytes of links, and counts %d", sim_node_name(node), (int)linked,
                      (int)credit->linked);
    if (credit->link_bytes != 0 && linked > most)
        sim_violation(checker->sim, "%s holds %d bytes of links, whose credit is %d", sim_node_name(node), (int)linked,
                      (int)credit->link_bytes);
    for (uint32_t i = 0; i < credit->rank_count; i++) check_rank(checker, node, server, i);
}

void ps_checker_applied(ps_checker *checker, const sim_node *node, const replica *replica,
                        const replica_log_entry *entry) {
    uint32_t slot = replica_slot(replica);
    ps_checker_history *history = &checker->histories[slot];
    replica_look look = replica_look_at(replica);
    if (look.birth != checker->birth) return;
    uint8_t bytes[256];
    buffer values = {.data = bytes, .capacity = sizeof bytes, .limit = sizeof bytes};
    replica_write_values(replica, &values);
    ps_event event = {.kind = entry->kind,
                      .rank = entry->rank,
                      .name = entry->name,
                      .entry = XXH3_64bits(entry->payload.data, entry->payload.size),
                      .state = XXH3_64bits(values.data, values.size)};
    if (!ps_checker_is_round_state(checker, slot)) memcpy(event.values, values.data, PS_BYTES);
    if (look.applied == history->count + 1) {
        check_new(checker, slot, entry, replica);
        if (!ps_checker_in_rounds(checker, slot)) check_bytes(checker, slot, entry, &event);
        if (history->count == history->capacity) {
            history->capacity = 2 * history->capacity + 64;
            history->events = xrealloc(history->events, history->capacity * sizeof *history->events);
        }
        history->events[history->count++] = event;
        sim_count(checker->sim, "entries", 1);
    } else if (look.applied > history->count) {
        sim_violation(checker->sim, "%s applies lsn %d of slot %u, and %zu is the last", sim_node_name(node),
                      (int)look.applied, slot, history->count);
    } else {
        const ps_event *known = &history->events[look.applied - 1];
        if (known->kind != event.kind || known->rank != event.rank || known->name != event.name ||
            known->entry != event.entry)
            sim_violation(checker->sim, "slot %u has two entries at lsn %d: %s applies %" PRIx64 " of rank %d", slot,
                          (int)look.applied, sim_node_name(node), event.name, (int)event.rank);
        else if (known->state != event.state)
            sim_violation(checker->sim, "%s has other bytes at lsn %d of slot %u", sim_node_name(node),
                          (int)look.applied, slot);
    }
    check_bounds(checker, node, slot, &look);
}

/* Searches after the first `first` entries; 0: not in the history. */
uint64_t ps_checker_find_name(const ps_checker_history *history, size_t first, replica_log_kind kind, uint32_t rank,
                              uint64_t name) {
    for (size_t i = history->count; i-- > first;) {
        const ps_event *event = &history->events[i];
        if (event->kind == kind && event->rank == rank && event->name == name) return i + 1;
    }
    return 0;
}

/* The batch of an earlier process of the rank that contains this seq; 0: none. */
static uint64_t find_batch(const ps_checker_history *history, size_t first, uint32_t rank, uint64_t name) {
    uint64_t lsn = 0;
    for (size_t i = history->count; i-- > first;) {
        const ps_event *event = &history->events[i];
        if (event->kind != REPLICA_LOG_PUSH || event->rank != rank) continue;
        if (event->name < name) break;
        lsn = i + 1;
    }
    return lsn;
}

static void check_counted(ps_checker *checker, uint32_t rank, uint64_t round, slot_message_status status) {
    const ps_round *known = ps_checker_round_at(checker, round);
    if (status != SLOT_MESSAGE_GONE && rank_set_has(&known->set, rank) != (status == SLOT_MESSAGE_OK))
        sim_violation(checker->sim, "rank %u is told that it %s in round %d", rank,
                      status == SLOT_MESSAGE_OK ? "counted" : "did not count", (int)round);
    if (status != SLOT_MESSAGE_OK) sim_count(checker->sim, "missed rounds", 1);
}

/* Ends of steps have no payload, so all processes push the same. */
static void check_own(ps_checker *checker, const ps_session *session, uint32_t rank, uint32_t slot, uint64_t lsn) {
    double items[PS_ITEMS_MAX][FLOAT_MACHINE_WIDTH];
    const ps_event *event = &checker->histories[slot].events[lsn - 1];
    uint64_t step = seq_step(event->name);
    if (event->name == seq_tick(step) || seq_is_left(event->name)) return;
    uint32_t had = ps_items_had(ps_checker_last_name(checker, slot, lsn - 1, rank), step);
    size_t size = ps_batch(rank, step, slot, session->term, had + 1, ps_items_had(event->name, step), items);
    if (event->entry != XXH3_64bits(items, size))
        sim_violation(checker->sim,
                      "rank %u is told of %" PRIx64 " in slot %u as its own, and another process pushed it", rank,
                      event->name, slot);
}

void ps_checker_push(ps_checker *checker, uint32_t rank, uint32_t slot, uint64_t name) {
    ps_history_push(&checker->histories[slot].history, rank, name, sim_now_us(checker->sim));
}

void ps_checker_pushed(ps_checker *checker, ps_session *session, uint32_t rank, uint32_t slot, uint64_t name,
                       slot_message_status status) {
    ps_checker_history *history = &checker->histories[slot];
    bool rounds = ps_checker_in_rounds(checker, slot);
    ps_contribution contribution = rounds ? (ps_contribution){0} : contribution_of(history, history->count, rank);
    uint64_t lsn = ps_checker_find_name(history, contribution.at, rounds ? REPLICA_LOG_ROUND : REPLICA_LOG_PUSH,
                                        rounds ? 0 : rank, name);
    if (rounds) check_counted(checker, rank, name - 1, status);
    if (!rounds) ps_history_pushed(&history->history, rank, name, sim_now_us(checker->sim));
    if (lsn == 0 && !rounds && name <= session->clock[slot]) lsn = find_batch(history, contribution.at, rank, name);
    if (lsn == 0 && name <= contribution.name) return;
    if (lsn == 0)
        sim_violation(checker->sim, "rank %u is told of %" PRIx64 " in slot %u, and nobody has applied it", rank, name,
                      slot);
    else if (!rounds && name > session->clock[slot])
        check_own(checker, session, rank, slot, lsn);
    if (lsn > history->acknowledged) history->acknowledged = lsn;
    if (lsn > session->own[slot]) session->own[slot] = lsn;
}

/* ---- Pulled values. */

void ps_checker_asked(ps_checker *checker, ps_session *session, uint32_t slot, uint8_t keys, consistency consistency,
                      bool fresh) {
    uint64_t own = session->own[slot], told = session->told[slot];
    session->due[slot] = own > told ? own : told;
    session->fresh[slot] =
        !fresh ? 0 : 1 + ps_history_pull(&checker->histories[slot].history, sim_now_us(checker->sim));
    session->wanted[slot] = 0;
    session->keys[slot] = keys;
    session->consistency[slot] = consistency;
}

/* A rank that is behind the bound in this state and has not left; rank_count: none. */
static uint32_t find_behind(const ps_checker *checker, uint32_t slot, uint64_t lsn, uint64_t step, uint32_t bound) {
    uint32_t rank = 0;
    for (; rank < checker->rank_count; rank++) {
        uint64_t name = ps_checker_last_name(checker, slot, lsn, rank);
        if (seq_ended(name) + bound < step && !seq_is_left(name)) break;
    }
    return rank;
}

/* A fresh pull is admitted in one state, and shown a later one, when its entry commits: a rank that was away when the
 * pull was admitted may be back by then. */
static void check_bound(ps_checker *checker, uint32_t slot, uint64_t first, uint64_t lsn, uint64_t step,
                        uint32_t bound) {
    uint32_t rank = find_behind(checker, slot, lsn, step, bound);
    for (uint64_t i = lsn; i > first && rank < checker->rank_count; i--)
        if (find_behind(checker, slot, i - 1, step, bound) == checker->rank_count) return;
    if (rank < checker->rank_count)
        sim_violation(checker->sim, "slot %u is shown for step %d, and rank %u has ended %d", slot, (int)step, rank,
                      (int)seq_ended(ps_checker_last_name(checker, slot, lsn, rank)));
}

uint64_t ps_checker_shown_hash(const double values[][FLOAT_MACHINE_WIDTH], uint32_t rank, uint64_t step,
                               uint32_t slots) {
    double seen[PS_SLOTS_MAX][FLOAT_MACHINE_WIDTH];
    for (uint32_t slot = 0; slot < slots; slot++)
        for (uint32_t i = 0; i < FLOAT_MACHINE_WIDTH; i++)
            seen[slot][i] = (ps_keys(rank, step, slot) >> i & 1) != 0 ? values[slot][i] : 0;
    return XXH3_64bits(seen, slots * sizeof *seen);
}

/* Whether these are the values of the keys. */
static bool shows(const double truth[FLOAT_MACHINE_WIDTH], uint8_t keys, span values) {
    double expected[FLOAT_MACHINE_WIDTH];
    size_t size = ps_select(truth, keys, expected);
    return values.size == size && memcmp(values.data, expected, size) == 0;
}

/* Adds up the contributions of all ranks to the round, in order of rank, computed from the version before. */
static void add_up(const ps_checker *checker, const ps_round *round, uint32_t slot, double sum[FLOAT_MACHINE_WIDTH]) {
    uint64_t version = checker->model_count - 1;
    const double(*before)[FLOAT_MACHINE_WIDTH] = checker->models[version];
    double gradient[FLOAT_MACHINE_WIDTH];
    memset(sum, 0, PS_BYTES);
    for (uint32_t rank = 0; rank < checker->rank_count; rank++) {
        if (!rank_set_has(&round->set, rank) || (checker->idle >> rank & 1) != 0) continue;
        uint64_t shown = ps_checker_shown_hash(before, rank, version, checker->round_slots);
        ps_gradient(rank, version, slot, shown, gradient);
        for (size_t i = 0; i < FLOAT_MACHINE_WIDTH; i++) sum[i] += gradient[i];
    }
}

/* Sum of the reports of the slots that need this phase, in order; `first` is the norm of the first phase. */
static double add_norms(const ps_checker *checker, const double sums[][FLOAT_MACHINE_WIDTH], uint32_t phase,
                        double first) {
    uint64_t version = checker->model_count - 1;
    double total = 0;
    for (uint32_t slot = 0; slot < checker->round_slots; slot++) {
        double part = 0;
        for (size_t i = 0; i < FLOAT_MACHINE_WIDTH; i++) {
            double item = phase == 0 ? sums[slot][i] : checker->models[version][slot][i] + first * sums[slot][i];
            part += item * item;
        }
        if (float_machine_needs(slot, version + 1) > phase) total += part;
    }
    return total;
}

static void add_round(ps_checker *checker) {
    uint64_t version = checker->model_count - 1;
    const ps_round *round = ps_checker_round_at(checker, version);
    double sums[PS_SLOTS_MAX][FLOAT_MACHINE_WIDTH], norms[STATE_MACHINE_PHASES_MAX] = {0};
    for (uint32_t slot = 0; slot < checker->round_slots; slot++) add_up(checker, round, slot, sums[slot]);
    for (uint32_t i = 0; checker->machine.measures && i < STATE_MACHINE_PHASES_MAX; i++)
        norms[i] = add_norms(checker, (const double(*)[FLOAT_MACHINE_WIDTH])sums, i, norms[0]);
    for (uint32_t slot = 0; slot < checker->round_slots; slot++) {
        float_machine *machine = float_machine_ops.create(NULL, slot, false);
        uint32_t needs = checker->machine.measures ? float_machine_needs(slot, version + 1) : 0;
        memcpy(machine->values, checker->models[version][slot], PS_BYTES);
        if (needs == 0)
            float_machine_ops.apply(machine, span_of(sums[slot], PS_BYTES), version + 1);
        else
            float_machine_ops.apply_normed(machine, span_of(sums[slot], PS_BYTES),
                                           span_of(norms, needs * sizeof *norms), version + 1);
        memcpy(checker->models[checker->model_count][slot], machine->values, PS_BYTES);
        float_machine_ops.destroy(machine);
    }
}

static void begin_model(ps_checker *checker) {
    for (uint32_t slot = 0; slot < checker->round_slots; slot++) {
        float_machine *machine = float_machine_ops.create(NULL, slot, false);
        memcpy(checker->models[0][slot], machine->values, PS_BYTES);
        float_machine_ops.destroy(machine);
    }
}

/* Adds one version to the sequential run. */
void ps_checker_add_model(ps_checker *checker) {
    checker->models = xrealloc(checker->models, (checker->model_count + 1) * sizeof *checker->models);
    if (checker->model_count == 0)
        begin_model(checker);
    else
        add_round(checker);
    checker->model_count++;
}

void ps_checker_check_version(ps_checker *checker, uint32_t slot, uint64_t version, uint8_t keys, span values) {
    while (checker->model_count <= version) ps_checker_add_model(checker);
    if (!shows(checker->models[version][slot], keys, values))
        sim_violation(checker->sim, "version %d of slot %u is not the sequential run's", (int)version, slot);
}

void ps_checker_pulled(ps_checker *checker, ps_session *session, uint32_t rank, uint32_t slot, uint64_t step,
                       uint64_t version, uint64_t lsn, span values) {
    ps_checker_history *history = &checker->histories[slot];
    consistency asked = session->consistency[slot];
    if (ps_checker_in_rounds(checker, slot)) {
        if (version != step) sim_violation(checker->sim, "rank %u asked for version %d", rank, (int)step);
        ps_checker_check_version(checker, slot, step, session->keys[slot], values);
        return;
    }
    if (lsn > history->count) {
        sim_violation(checker->sim, "slot %u is shown at lsn %d, which nobody has applied", slot, (int)lsn);
        return;
    }
    if (session->fresh[slot] != 0)
        ps_history_pulled(&history->history, session->fresh[slot] - 1, lsn, sim_now_us(checker->sim));
    if (lsn != 0 && !shows(history->events[lsn - 1].values, session->keys[slot], values))
        sim_violation(checker->sim, "slot %u is shown with other bytes than rank %u asked for at lsn %d", slot, rank,
                      (int)lsn);
    if (lsn < session->due[slot] || lsn < session->seen[slot])
        sim_violation(checker->sim, "rank %u is shown lsn %d of slot %u, after %d was acknowledged and %d shown", rank,
                      (int)lsn, slot, (int)session->due[slot], (int)session->seen[slot]);
    if (ps_checker_last_name(checker, slot, lsn, rank) < session->wanted[slot])
        sim_violation(checker->sim, "rank %u is shown slot %u at lsn %d, without what it pushed with that pull", rank,
                      slot, (int)lsn);
    session->seen[slot] = lsn;
    uint64_t first =
        session->fresh[slot] != 0 ? session->due[slot] : lsn; /* earliest state that may have admitted it */
    if (asked.kind == CONSISTENCY_SSP) check_bound(checker, slot, first, lsn, step, asked.bound);
}

/* ---- Cluster maps. */

void ps_checker_member(ps_checker *checker, const sim_node *node, const cluster_map_slot *slot, uint32_t index,
                       const cluster_map_member *member, uint64_t birth, const replica *replica) {
    uint64_t needed = checker->histories[index].acknowledged, has = 0;
    if (needed == 0) return;
    if (replica != NULL) {
        replica_look look = replica_look_at(replica);
        bool joins = look.phase == REPLICA_JOINING && look.epoch < member->since;
        if (joins || look.since == member->since) has = look.logged;
    }
    if (has < needed)
        sim_violation(checker->sim, "%s is full in slot %u (epoch %d) and has %d of %d that were acknowledged",
                      sim_node_name(node), index, (int)(slot->epoch & 0xffffff), (int)has, (int)needed);
}
