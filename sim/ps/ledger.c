/* ledger.c — see ledger.h. */
#include "sim/ps/ledger.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "ps/rank.h"

void ps_ledger_init(ps_ledger *ledger, sim *sim, uint32_t value_slots, uint32_t round_slots, uint32_t ranks,
                    uint32_t items, chart_rounds terms) {
    *ledger = (ps_ledger){.sim = sim,
                          .value_slots = value_slots,
                          .round_slots = round_slots,
                          .rank_count = ranks,
                          .items = items,
                          .terms = terms};
}

void ps_ledger_fini(ps_ledger *ledger) {
    for (size_t i = 0; i < PS_SLOTS_MAX; i++) {
        free(ledger->histories[i].events);
        free(ledger->histories[i].gifts);
        ps_diary_fini(&ledger->histories[i].diary);
    }
    free(ledger->models);
    free(ledger->rounds);
}

/* ---- Rounds. */

static ps_round *round_at(ps_ledger *ledger, uint64_t round) {
    while (ledger->round_count <= round) {
        ledger->rounds = xrealloc(ledger->rounds, (ledger->round_count + 1) * sizeof *ledger->rounds);
        ledger->rounds[ledger->round_count++] = (ps_round){0};
        if (ledger->round_count == 1)
            ledger->rounds[0] = (ps_round){.begun = true, .members = crowd_first(ledger->terms.first_count)};
    }
    return &ledger->rounds[round];
}

static bool is_ledger(const ps_ledger *ledger, uint32_t slot) { return slot == ledger->value_slots; }
static bool in_rounds(const ps_ledger *ledger, uint32_t slot) {
    return slot < ledger->round_slots || is_ledger(ledger, slot);
}

/* The last one that this rank was given, as far as there are so many entries. */
static ps_gift gift_of(const ps_history *history, size_t count, uint32_t rank) {
    for (size_t i = history->gift_count; i-- > 0;)
        if (history->gifts[i].rank == rank && history->gifts[i].at <= count) return history->gifts[i];
    return (ps_gift){.rank = rank};
}

static uint64_t last_name(const ps_ledger *ledger, uint32_t slot, size_t count, uint32_t rank) {
    const ps_history *history = &ledger->histories[slot];
    ps_gift gift = gift_of(history, count, rank);
    for (size_t i = count; i-- > gift.at;)
        if (history->events[i].kind == TAPE_PUSH && history->events[i].rank == rank) return history->events[i].name;
    return gift.name;
}

/* In this round, and not another that had its number before it was new. */
static bool was_counted(ps_ledger *ledger, uint32_t slot, size_t count, uint32_t rank, uint64_t round) {
    return crowd_has(&round_at(ledger, round)->set, rank) &&
           round >= gift_of(&ledger->histories[slot], count, rank).round;
}

/* Slots without rounds have all steps before this version, of each rank that was counted in the round that made it. */
static void check_free(ps_ledger *ledger, uint32_t slot, size_t count, uint64_t version) {
    if (version == 0 || in_rounds(ledger, slot)) return;
    for (uint32_t i = 0; i < ledger->rank_count; i++)
        if (was_counted(ledger, slot, count, i, version - 1) && name_ended(last_name(ledger, slot, count, i)) < version)
            sim_violation(ledger->sim, "rank %u was counted in round %d, and slot %u has %d steps of it", i,
                          (int)version - 1, slot, (int)name_ended(last_name(ledger, slot, count, i)));
}

/* Somebody is missing in a round only if it was given up, or under a policy that goes on without. */
static void check_set(ps_ledger *ledger, uint64_t round, const ps_round *known) {
    crowd more = crowd_without(&known->set, &known->members);
    uint32_t all = crowd_count(&known->members), here = crowd_count(&known->set);
    if (!known->begun || crowd_count(&more) != 0)
        sim_violation(ledger->sim, "round %d is closed with ranks that are not in it", (int)round);
    if (here + ledger->terms.backup + ledger->drops < all && ledger->terms.deadline_us == 0)
        sim_violation(ledger->sim, "round %d is closed with %u of %u ranks", (int)round, here, all);
    if (here < all) sim_count(ledger->sim, "short rounds", 1);
}

/* A slot has the norms that it needs, as they are committed, no more. */
static void check_norms(ps_ledger *ledger, uint32_t slot, uint64_t round, const ps_round *known,
                        const ledger_round *read) {
    size_t size = known->phases * sizeof(double), has = read->norms.size;
    uint32_t needs = ledger->machine.measures && !is_ledger(ledger, slot) ? float_machine_needs(slot, round + 1) : 0;
    if (has > size || (has != 0 && memcmp(known->norms, read->norms.data, has) != 0))
        sim_violation(ledger->sim, "slot %u closes round %d with norms that are not committed", slot, (int)round);
    if (has < needs * sizeof(double))
        sim_violation(ledger->sim, "slot %u closes round %d with %zu bytes of norms", slot, (int)round, has);
    if (needs != 0) sim_count(ledger->sim, "rounds with norms", 1);
}

static void take_norms(ps_ledger *ledger, const tape_entry *entry) {
    ps_round *round = round_at(ledger, entry->name);
    if (entry->rank != round->phases || entry->rank >= VALUES_PHASES_MAX || entry->payload.size != sizeof(double)) {
        sim_violation(ledger->sim, "the phase %u of round %d is measured after %u", entry->rank, (int)entry->name,
                      round->phases);
        return;
    }
    memcpy(&round->norms[round->phases++], entry->payload.data, sizeof(double));
}

static void end_round(ps_ledger *ledger, uint32_t slot, const tape_entry *entry, const replica *replica) {
    ps_history *history = &ledger->histories[slot];
    uint64_t round = entry->name - 1;
    if (entry->name != ++history->version)
        sim_violation(ledger->sim, "slot %u goes from version %d to %d", slot, (int)history->version - 1,
                      (int)entry->name);
    for (uint32_t i = 0; i <= ledger->value_slots; i++)
        if (in_rounds(ledger, i) && ledger->histories[i].version + 1 < history->version)
            sim_violation(ledger->sim, "slot %u is at version %d, and slot %u at %d", slot, (int)history->version, i,
                          (int)ledger->histories[i].version);
    ledger_round read;
    if (!ledger_read_round(entry->payload, ledger->rank_count, &read)) return;
    ledger_terms terms = read.terms;
    ps_round *known = round_at(ledger, round);
    check_norms(ledger, slot, round, known, &read);
    if (known->over && !crowd_same(&known->set, &terms.members))
        sim_violation(ledger->sim, "slots differ in who is in round %d: slot %u has %x, others %x", (int)round, slot,
                      (unsigned)terms.members.words[0], (unsigned)known->set.words[0]);
    bool first = !known->over;
    known->over = true;
    known->set = terms.members;
    if (first) check_set(ledger, round, known);
    if (!is_ledger(ledger, slot)) return;
    for (uint32_t i = ledger->round_slots; i < ledger->value_slots; i++)
        check_free(ledger, i, ledger->histories[i].count, entry->name);
    known = round_at(ledger, entry->name);
    known->begun = true;
    known->members = replica_ledger(replica)->members;
}

void ps_ledger_round(ps_ledger *ledger, const ledger_terms *terms) {
    const ps_round *known = round_at(ledger, terms->round);
    if (!known->begun || !crowd_same(&known->members, &terms->members))
        sim_violation(ledger->sim, "somebody is shown other members of round %d", (int)terms->round);
}

/* ---- The history. */

/* Beside rounds a rank goes on to another step only if the rounds between were closed without it. */
static bool passes(ps_ledger *ledger, uint32_t slot, uint32_t rank, uint64_t from, uint64_t to) {
    size_t count = ledger->histories[slot].count;
    if (ledger->round_slots == 0) return false;
    for (uint64_t step = from; step < to; step++)
        if (!round_at(ledger, step - 1)->over || was_counted(ledger, slot, count, rank, step - 1)) return false;
    return true;
}

/* The next items of a step, as many as their name says, or its tick when all are there. */
static bool follows(ps_ledger *ledger, uint32_t slot, const tape_entry *entry, uint64_t last) {
    uint64_t step = name_ended(last) + 1;
    if (name_step(entry->name) > step) {
        if (!passes(ledger, slot, entry->rank, step, name_step(entry->name))) return false;
        step = name_step(entry->name);
    }
    uint32_t all = ps_touches(entry->rank, step, slot) ? ledger->items : 0, had = ps_items_had(last, step);
    if (had >= all) return entry->name == name_tick(step) && entry->payload.size == 0;
    uint32_t has = ps_items_had(entry->name, step);
    return has > had && has <= all && entry->payload.size == (has - had) * PS_BYTES;
}

static void check_new(ps_ledger *ledger, uint32_t slot, const tape_entry *entry, const replica *replica) {
    const ps_history *history = &ledger->histories[slot];
    if (entry->kind == TAPE_ROUND) end_round(ledger, slot, entry, replica);
    if (entry->kind == TAPE_NORMS) take_norms(ledger, entry);
    if (entry->kind != TAPE_PUSH) return;
    uint64_t last = last_name(ledger, slot, history->count, entry->rank);
    if (!follows(ledger, slot, entry, last))
        sim_violation(ledger->sim, "slot %u: rank %d has %" PRIx64 " of %zu bytes applied after %" PRIx64, slot,
                      (int)entry->rank, entry->name, entry->payload.size, last);
}

/* The bytes behind an entry are a function of those before it, and of the entry. Of BSP versions are compared. */
static void check_bytes(ps_ledger *ledger, uint32_t slot, const tape_entry *entry, const ps_event *event) {
    const ps_history *history = &ledger->histories[slot];
    float_machine *values = float_machine_ops.create(NULL, slot, false);
    if (history->count != 0) memcpy(values->values, history->events[history->count - 1].values, PS_BYTES);
    if (entry->kind == TAPE_PUSH && entry->payload.size != 0) float_machine_ops.apply(values, entry->payload, 0);
    if (memcmp(values->values, event->values, PS_BYTES) != 0)
        sim_violation(ledger->sim, "slot %u has other bytes at lsn %zu than a sequential run", slot,
                      history->count + 1);
    float_machine_ops.destroy(values);
}

/* A window of each rank is what a head has under way; a joiner that becomes the head may know of one window less. In
 * BSP it is the sum of a round and, for each rank, an order and a freeze, or a decision. And a mark, and norms. */
static void check_bounds(ps_ledger *ledger, const sim_node *node, uint32_t slot, const replica_look *look) {
    size_t most = in_rounds(ledger, slot) ? 4 + 2 * ledger->rank_count : 1 + 2 * ledger->rank_count * (RANK_WINDOW + 1);
    if (look->logged - look->applied > most || look->open > ledger->rank_count)
        sim_violation(ledger->sim, "%s holds %d entries and %zu contributions", sim_node_name(node),
                      (int)(look->logged - look->applied), look->open);
}

/* A rank has its share, or one part that is larger. What waits for the ledger is held besides. */
static void check_rank(ps_ledger *ledger, const sim_node *node, const server *server, uint32_t rank) {
    const credit *credit = server_credit(server);
    uint64_t part = ledger->items * PS_BYTES, held = 0, most = credit->rank_bytes > part ? credit->rank_bytes : part;
    for (uint32_t i = 0; i < PS_SLOTS_MAX; i++)
        if (server_replica(server, i) != NULL) held += replica_held(server_replica(server, i), rank);
    if (held != credit->held[rank])
        sim_violation(ledger->sim, "%s holds %d bytes of rank %u, and counts %d", sim_node_name(node), (int)held, rank,
                      (int)credit->held[rank]);
    if (credit->rank_bytes != 0 && held > most)
        sim_violation(ledger->sim, "%s holds %d bytes of rank %u, whose credit is %d", sim_node_name(node), (int)held,
                      rank, (int)credit->rank_bytes);
}

/* A slot that had nothing may have taken one entry more. */
void ps_ledger_holds(ps_ledger *ledger, const sim_node *node, const server *server) {
    const credit *credit = server_credit(server);
    uint64_t linked = 0, most = credit->link_bytes;
    for (uint32_t i = 0; i < PS_SLOTS_MAX; i++) {
        const replica *replica = server_replica(server, i);
        replica_look look = replica == NULL ? (replica_look){0} : replica_look_at(replica);
        linked += look.linked;
        if (look.linked != 0)
            most += ledger->items * PS_BYTES + ledger_round_head(ledger->rank_count) +
                    sizeof(double[VALUES_PHASES_MAX]) + sizeof(uint32_t);
        if (look.dispute.count != 0)
            sim_violation(ledger->sim, "rank %u has repeated its contribution to round %d of slot %u with other bytes",
                          look.dispute.rank, (int)look.dispute.round, i);
    }
    if (linked != credit->linked)
        sim_violation(ledger->sim, "%s holds %d bytes of links, and counts %d", sim_node_name(node), (int)linked,
                      (int)credit->linked);
    if (credit->link_bytes != 0 && linked > most)
        sim_violation(ledger->sim, "%s holds %d bytes of links, whose credit is %d", sim_node_name(node), (int)linked,
                      (int)credit->link_bytes);
    for (uint32_t i = 0; i < credit->rank_count; i++) check_rank(ledger, node, server, i);
}

void ps_ledger_applied(ps_ledger *ledger, const sim_node *node, const replica *replica, const tape_entry *entry) {
    uint32_t slot = replica_slot(replica);
    ps_history *history = &ledger->histories[slot];
    replica_look look = replica_look_at(replica);
    if (look.birth != ledger->birth) return;
    uint8_t bytes[256];
    buffer values = {.data = bytes, .capacity = sizeof bytes, .limit = sizeof bytes};
    replica_write_values(replica, &values);
    ps_event event = {.kind = entry->kind,
                      .rank = entry->rank,
                      .name = entry->name,
                      .entry = XXH3_64bits(entry->payload.data, entry->payload.size),
                      .state = XXH3_64bits(values.data, values.size)};
    if (!is_ledger(ledger, slot)) memcpy(event.values, values.data, PS_BYTES);
    if (look.applied == history->count + 1) {
        check_new(ledger, slot, entry, replica);
        if (!in_rounds(ledger, slot)) check_bytes(ledger, slot, entry, &event);
        if (history->count == history->capacity) {
            history->capacity = 2 * history->capacity + 64;
            history->events = xrealloc(history->events, history->capacity * sizeof *history->events);
        }
        history->events[history->count++] = event;
        sim_count(ledger->sim, "entries", 1);
    } else if (look.applied > history->count) {
        sim_violation(ledger->sim, "%s applies lsn %d of slot %u, and %zu is the last", sim_node_name(node),
                      (int)look.applied, slot, history->count);
    } else {
        const ps_event *known = &history->events[look.applied - 1];
        if (known->kind != event.kind || known->rank != event.rank || known->name != event.name ||
            known->entry != event.entry)
            sim_violation(ledger->sim, "slot %u has two entries at lsn %d: %s applies %" PRIx64 " of rank %d", slot,
                          (int)look.applied, sim_node_name(node), event.name, (int)event.rank);
        else if (known->state != event.state)
            sim_violation(ledger->sim, "%s has other bytes at lsn %d of slot %u", sim_node_name(node),
                          (int)look.applied, slot);
    }
    check_bounds(ledger, node, slot, &look);
}

/* Behind the first entries; 0: it is not in the history. */
static uint64_t find_name(const ps_history *history, size_t first, tape_kind kind, uint32_t rank, uint64_t name) {
    for (size_t i = history->count; i-- > first;) {
        const ps_event *event = &history->events[i];
        if (event->kind == kind && event->rank == rank && event->name == name) return i + 1;
    }
    return 0;
}

/* The batch that this name is in, of whoever played the rank before; 0: none. */
static uint64_t find_batch(const ps_history *history, size_t first, uint32_t rank, uint64_t name) {
    uint64_t lsn = 0;
    for (size_t i = history->count; i-- > first;) {
        const ps_event *event = &history->events[i];
        if (event->kind != TAPE_PUSH || event->rank != rank) continue;
        if (event->name < name) break;
        lsn = i + 1;
    }
    return lsn;
}

static void check_counted(ps_ledger *ledger, uint32_t rank, uint64_t round, part_status status) {
    const ps_round *known = round_at(ledger, round);
    if (status != PART_GONE && crowd_has(&known->set, rank) != (status == PART_OK))
        sim_violation(ledger->sim, "rank %u is told that it %s in round %d", rank,
                      status == PART_OK ? "counted" : "did not count", (int)round);
    if (status != PART_OK) sim_count(ledger->sim, "missed rounds", 1);
}

/* Ticks are all the same. */
static void check_own(ps_ledger *ledger, const ps_session *session, uint32_t rank, uint32_t slot, uint64_t lsn) {
    double items[PS_ITEMS_MAX][FLOAT_MACHINE_WIDTH];
    const ps_event *event = &ledger->histories[slot].events[lsn - 1];
    uint64_t step = name_step(event->name);
    if (event->name == name_tick(step)) return;
    uint32_t had = ps_items_had(last_name(ledger, slot, lsn - 1, rank), step);
    size_t size = ps_batch(rank, step, slot, session->stint, had + 1, ps_items_had(event->name, step), items);
    if (event->entry != XXH3_64bits(items, size))
        sim_violation(ledger->sim,
                      "rank %u is told of %" PRIx64 " in slot %u as its own, and another process pushed it", rank,
                      event->name, slot);
}

void ps_ledger_push(ps_ledger *ledger, uint32_t rank, uint32_t slot, uint64_t name) {
    ps_diary_push(&ledger->histories[slot].diary, rank, name, sim_now_us(ledger->sim));
}

void ps_ledger_pushed(ps_ledger *ledger, ps_session *session, uint32_t rank, uint32_t slot, uint64_t name,
                      part_status status) {
    ps_history *history = &ledger->histories[slot];
    bool rounds = in_rounds(ledger, slot);
    ps_gift gift = rounds ? (ps_gift){0} : gift_of(history, history->count, rank);
    uint64_t lsn = find_name(history, gift.at, rounds ? TAPE_ROUND : TAPE_PUSH, rounds ? 0 : rank, name);
    if (rounds) check_counted(ledger, rank, name - 1, status);
    if (!rounds) ps_diary_pushed(&history->diary, rank, name, sim_now_us(ledger->sim));
    if (lsn == 0 && !rounds && name <= session->clock[slot]) lsn = find_batch(history, gift.at, rank, name);
    if (lsn == 0 && name <= gift.name) return;
    if (lsn == 0)
        sim_violation(ledger->sim, "rank %u is told of %" PRIx64 " in slot %u, and nobody has applied it", rank, name,
                      slot);
    else if (!rounds && name > session->clock[slot])
        check_own(ledger, session, rank, slot, lsn);
    if (lsn > history->acknowledged) history->acknowledged = lsn;
    if (lsn > session->own[slot]) session->own[slot] = lsn;
}

/* ---- What is shown. */

void ps_ledger_asked(ps_ledger *ledger, ps_session *session, uint32_t slot, uint8_t keys, consistency consistency,
                     bool fresh) {
    uint64_t own = session->own[slot], told = session->told[slot];
    session->due[slot] = own > told ? own : told;
    session->fresh[slot] = !fresh ? 0 : 1 + ps_diary_pull(&ledger->histories[slot].diary, sim_now_us(ledger->sim));
    session->wanted[slot] = 0;
    session->keys[slot] = keys;
    session->consistency[slot] = consistency;
}

static void check_bound(ps_ledger *ledger, uint32_t slot, uint64_t lsn, uint64_t step, uint32_t bound) {
    for (uint32_t i = 0; i < ledger->rank_count; i++) {
        uint64_t ended = name_ended(last_name(ledger, slot, lsn, i));
        if (ended + bound < step)
            sim_violation(ledger->sim, "slot %u is shown for step %d, and rank %u has ended %d", slot, (int)step, i,
                          (int)ended);
    }
}

uint64_t ps_ledger_shown_hash(const double values[][FLOAT_MACHINE_WIDTH], uint32_t rank, uint64_t step,
                              uint32_t slots) {
    double seen[PS_SLOTS_MAX][FLOAT_MACHINE_WIDTH];
    for (uint32_t slot = 0; slot < slots; slot++)
        for (uint32_t i = 0; i < FLOAT_MACHINE_WIDTH; i++)
            seen[slot][i] = (ps_keys(rank, step, slot) >> i & 1) != 0 ? values[slot][i] : 0;
    return XXH3_64bits(seen, slots * sizeof *seen);
}

/* Are these the values of the keys? */
static bool shows(const double truth[FLOAT_MACHINE_WIDTH], uint8_t keys, span values) {
    double expected[FLOAT_MACHINE_WIDTH];
    size_t size = ps_select(truth, keys, expected);
    return values.size == size && memcmp(values.data, expected, size) == 0;
}

/* Every rank that is in the round in turn, from the version before. */
static void add_up(const ps_ledger *ledger, const ps_round *round, uint32_t slot, double sum[FLOAT_MACHINE_WIDTH]) {
    uint64_t version = ledger->model_count - 1;
    const double(*before)[FLOAT_MACHINE_WIDTH] = ledger->models[version];
    double gradient[FLOAT_MACHINE_WIDTH];
    memset(sum, 0, PS_BYTES);
    for (uint32_t rank = 0; rank < ledger->rank_count; rank++) {
        if (!crowd_has(&round->set, rank) || (ledger->idle >> rank & 1) != 0) continue;
        uint64_t shown = ps_ledger_shown_hash(before, rank, version, ledger->round_slots);
        ps_gradient(rank, version, slot, shown, gradient);
        for (size_t i = 0; i < FLOAT_MACHINE_WIDTH; i++) sum[i] += gradient[i];
    }
}

/* What the slots that need it would report, one after the other; the squares of the first phase, of the second. */
static double add_norms(const ps_ledger *ledger, const double sums[][FLOAT_MACHINE_WIDTH], uint32_t phase,
                        double first) {
    uint64_t version = ledger->model_count - 1;
    double total = 0;
    for (uint32_t slot = 0; slot < ledger->round_slots; slot++) {
        double part = 0;
        for (size_t i = 0; i < FLOAT_MACHINE_WIDTH; i++) {
            double item = phase == 0 ? sums[slot][i] : ledger->models[version][slot][i] + first * sums[slot][i];
            part += item * item;
        }
        if (float_machine_needs(slot, version + 1) > phase) total += part;
    }
    return total;
}

static void add_round(ps_ledger *ledger) {
    uint64_t version = ledger->model_count - 1;
    const ps_round *round = round_at(ledger, version);
    double sums[PS_SLOTS_MAX][FLOAT_MACHINE_WIDTH], norms[VALUES_PHASES_MAX] = {0};
    for (uint32_t slot = 0; slot < ledger->round_slots; slot++) add_up(ledger, round, slot, sums[slot]);
    for (uint32_t i = 0; ledger->machine.measures && i < VALUES_PHASES_MAX; i++)
        norms[i] = add_norms(ledger, (const double(*)[FLOAT_MACHINE_WIDTH])sums, i, norms[0]);
    for (uint32_t slot = 0; slot < ledger->round_slots; slot++) {
        float_machine *machine = float_machine_ops.create(NULL, slot, false);
        uint32_t needs = ledger->machine.measures ? float_machine_needs(slot, version + 1) : 0;
        memcpy(machine->values, ledger->models[version][slot], PS_BYTES);
        if (needs == 0)
            float_machine_ops.apply(machine, span_of(sums[slot], PS_BYTES), version + 1);
        else
            float_machine_ops.apply_normed(machine, span_of(sums[slot], PS_BYTES),
                                           span_of(norms, needs * sizeof *norms), version + 1);
        memcpy(ledger->models[ledger->model_count][slot], machine->values, PS_BYTES);
        float_machine_ops.destroy(machine);
    }
}

static void begin_model(ps_ledger *ledger) {
    for (uint32_t slot = 0; slot < ledger->round_slots; slot++) {
        float_machine *machine = float_machine_ops.create(NULL, slot, false);
        memcpy(ledger->models[0][slot], machine->values, PS_BYTES);
        float_machine_ops.destroy(machine);
    }
}

/* One more version of the sequential run. */
static void add_model(ps_ledger *ledger) {
    ledger->models = xrealloc(ledger->models, (ledger->model_count + 1) * sizeof *ledger->models);
    if (ledger->model_count == 0)
        begin_model(ledger);
    else
        add_round(ledger);
    ledger->model_count++;
}

static void check_version(ps_ledger *ledger, uint32_t slot, uint64_t version, uint8_t keys, span values) {
    while (ledger->model_count <= version) add_model(ledger);
    if (!shows(ledger->models[version][slot], keys, values))
        sim_violation(ledger->sim, "version %d of slot %u is not the sequential run's", (int)version, slot);
}

void ps_ledger_pulled(ps_ledger *ledger, ps_session *session, uint32_t rank, uint32_t slot, uint64_t step,
                      uint64_t version, uint64_t lsn, span values) {
    ps_history *history = &ledger->histories[slot];
    consistency asked = session->consistency[slot];
    if (in_rounds(ledger, slot)) {
        if (version != step) sim_violation(ledger->sim, "rank %u asked for version %d", rank, (int)step);
        check_version(ledger, slot, step, session->keys[slot], values);
        return;
    }
    if (lsn > history->count) {
        sim_violation(ledger->sim, "slot %u is shown at lsn %d, which nobody has applied", slot, (int)lsn);
        return;
    }
    if (session->fresh[slot] != 0)
        ps_diary_pulled(&history->diary, session->fresh[slot] - 1, lsn, sim_now_us(ledger->sim));
    if (lsn != 0 && !shows(history->events[lsn - 1].values, session->keys[slot], values))
        sim_violation(ledger->sim, "slot %u is shown with other bytes than rank %u asked for at lsn %d", slot, rank,
                      (int)lsn);
    if (lsn < session->due[slot] || lsn < session->seen[slot])
        sim_violation(ledger->sim, "rank %u is shown lsn %d of slot %u, after %d was acknowledged and %d shown", rank,
                      (int)lsn, slot, (int)session->due[slot], (int)session->seen[slot]);
    if (last_name(ledger, slot, lsn, rank) < session->wanted[slot])
        sim_violation(ledger->sim, "rank %u is shown slot %u at lsn %d, without what it pushed with that pull", rank,
                      slot, (int)lsn);
    session->seen[slot] = lsn;
    if (asked.kind == CONSISTENCY_SSP) check_bound(ledger, slot, lsn, step, asked.bound);
}

/* ---- Charts. */

void ps_ledger_member(ps_ledger *ledger, const sim_node *node, const chart_slot *slot, uint32_t index,
                      const chart_member *member, uint64_t birth, const replica *replica) {
    uint64_t needed = ledger->histories[index].acknowledged, has = 0;
    if (needed == 0) return;
    if (replica != NULL) {
        replica_look look = replica_look_at(replica);
        bool joins = look.phase == REPLICA_JOINING && look.epoch < member->since;
        if (joins || look.since == member->since) has = look.logged;
    }
    if (has < needed)
        sim_violation(ledger->sim, "%s is full in slot %u (epoch %d) and has %d of %d that were acknowledged",
                      sim_node_name(node), index, (int)(slot->epoch & 0xffffff), (int)has, (int)needed);
}

/* ---- Checkpoints. */

void ps_ledger_whole(ps_ledger *ledger, uint64_t checkpoint) {
    if (checkpoint > ledger->whole) ledger->whole = checkpoint;
}

/* The lsn at which a slot was cut; SIZE_MAX: it was not. */
static size_t cut_of(const ps_ledger *ledger, uint32_t slot, uint64_t checkpoint) {
    if (checkpoint == 0) return 0;
    tape_kind kind = in_rounds(ledger, slot) ? TAPE_ROUND : TAPE_MARK;
    uint64_t lsn = find_name(&ledger->histories[slot], 0, kind, 0, checkpoint);
    return lsn == 0 ? SIZE_MAX : lsn;
}

static void note_saved(ps_ledger *ledger, uint64_t checkpoint) {
    ledger->saved[ledger->saved_count++ % PS_SAVED_MAX] =
        (ps_saved){.checkpoint = checkpoint, .ranks = ledger->rank_count, .known = ledger->known};
}

void ps_ledger_saved(ps_ledger *ledger, uint64_t checkpoint, uint32_t slot, uint64_t lsn) {
    size_t cut = cut_of(ledger, slot, checkpoint);
    if (slot == 0) note_saved(ledger, checkpoint);
    if (lsn != cut)
        sim_violation(ledger->sim, "checkpoint %d has slot %u at lsn %d, and it was cut at %d", (int)checkpoint, slot,
                      (int)lsn, (int)cut);
    else if (ledger->round_slots != 0)
        check_free(ledger, slot, cut, checkpoint);
}

/* Outside BSP: whoever begins from it goes on, in every slot, with the step behind this one. */
void ps_ledger_exact(ps_ledger *ledger, uint64_t checkpoint) {
    sim_count(ledger->sim, "exact checkpoints", 1);
    for (uint32_t rank = 0; rank < ledger->rank_count; rank++)
        for (uint32_t slot = 0; slot < ledger->value_slots; slot++) {
            uint64_t name = last_name(ledger, slot, cut_of(ledger, slot, checkpoint), rank),
                     first = last_name(ledger, 0, cut_of(ledger, 0, checkpoint), rank);
            if (name != first || (name != 0 && name != name_tick(name_step(name))))
                sim_violation(ledger->sim,
                              "checkpoint %d is not exact: rank %u is at %" PRIx64 " in slot %u, at %" PRIx64 " in 0",
                              (int)checkpoint, rank, name, slot, first);
        }
}

/* What is known of it; NULL: nothing, so a generation begins from nothing. */
static ps_saved *saved_of(ps_ledger *ledger, uint64_t checkpoint) {
    for (size_t i = ledger->saved_count; i-- > 0 && i + PS_SAVED_MAX >= ledger->saved_count;)
        if (ledger->saved[i % PS_SAVED_MAX].checkpoint == checkpoint) return &ledger->saved[i % PS_SAVED_MAX];
    return NULL;
}

/* With whom a generation goes on: those of the checkpoint, if it has as many ranks. It may not be the first that begins
 * from it, and what was before that is what counts. */
static crowd members_of(ps_ledger *ledger, const chart *chart, const ps_round *open) {
    ps_saved *saved = saved_of(ledger, chart->origin);
    if (saved != NULL && !saved->used) saved->members = open->members;
    if (saved != NULL) saved->used = true;
    bool same = saved != NULL && chart->rank_count == saved->ranks;
    return same ? saved->members : crowd_first(chart->rounds.first_count);
}

static void forget_rounds(ps_ledger *ledger, const chart *chart) {
    uint64_t version = chart->origin;
    while (ledger->model_count <= version) add_model(ledger); /* while it is known who was in those rounds */
    if (ledger->round_count > version + 1) ledger->round_count = version + 1;
    if (ledger->model_count > version + 1) ledger->model_count = version + 1;
    ps_round *open = round_at(ledger, version);
    crowd members = members_of(ledger, chart, open);
    *open = (ps_round){.begun = true, .members = members};
}

/* Ranks that are new begin where the slowest is. Those that come back go on with what they had. */
static void give_names(ps_ledger *ledger, uint32_t slot, size_t cut, uint32_t before, const chart *chart) {
    ps_history *history = &ledger->histories[slot];
    while (history->gift_count != 0 && history->gifts[history->gift_count - 1].at >= cut) history->gift_count--;
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < before; i++) {
        uint64_t ended = name_ended(last_name(ledger, slot, cut, i));
        if (ended < least) least = ended;
    }
    uint32_t ranks = chart->rank_count;
    if (before >= ranks) return;
    size_t count = history->gift_count + ranks - before;
    history->gifts = xrealloc(history->gifts, count * sizeof *history->gifts);
    for (uint32_t i = before; i < ranks; i++)
        history->gifts[history->gift_count++] = (ps_gift){.at = cut,
                                                          .rank = i,
                                                          .name = cut == 0 || least == 0 ? 0 : name_tick(least),
                                                          .round = ledger->round_slots == 0 ? 0 : chart->origin};
}

/* What was asked in a generation, when that is over. */
static void check_one_value(ps_ledger *ledger, uint32_t slot) {
    ps_history *history = &ledger->histories[slot];
    if (!ps_diary_check(&history->diary, history->events, history->count, history->origin))
        sim_violation(ledger->sim, "%zu pushes and fresh pulls of slot %u are not those of one value",
                      history->diary.count, slot);
    sim_count(ledger->sim, "questions", history->diary.count);
    ps_diary_fini(&history->diary);
}

void ps_ledger_end(ps_ledger *ledger) {
    for (uint32_t i = 0; i < ledger->value_slots && !sim_failed(ledger->sim); i++) check_one_value(ledger, i);
}

void ps_ledger_decided(ps_ledger *ledger, const chart *chart) {
    if (chart->birth == ledger->birth) return;
    sim_note(ledger->sim, NULL, "a generation begins from checkpoint %d", (int)chart->origin);
    sim_count(ledger->sim, chart->origin == 0 ? "generations" : "restores", 1);
    if (chart->origin < ledger->whole && !ledger->rots)
        sim_violation(ledger->sim, "a generation begins from checkpoint %d, and %d was whole", (int)chart->origin,
                      (int)ledger->whole);
    if (chart->origin != 0 && saved_of(ledger, chart->origin) == NULL)
        note_saved(ledger, chart->origin); /* nobody was told */
    const ps_saved *saved = saved_of(ledger, chart->origin);
    uint32_t known = saved == NULL              ? 0
                     : ledger->round_slots != 0 ? saved->ranks
                                                : saved->known,
             all = chart->rank_count;
    if (known > all) sim_count(ledger->sim, "ranks left out", known - all);
    if (known > ledger->rank_count && all > ledger->rank_count) sim_count(ledger->sim, "ranks that are back", 1);
    for (uint32_t i = 0; i < chart->slot_count; i++) {
        ps_history *history = &ledger->histories[i];
        size_t cut = cut_of(ledger, i, chart->origin);
        if (cut > history->count) {
            sim_violation(ledger->sim, "slot %u was never cut for checkpoint %d", i, (int)chart->origin);
            return;
        }
        if (!in_rounds(ledger, i)) give_names(ledger, i, cut, known, chart);
        check_one_value(ledger, i);
        history->count = history->origin = cut;
        history->acknowledged = 0;
        history->version = in_rounds(ledger, i) ? chart->origin : 0;
    }
    if (ledger->round_slots != 0) forget_rounds(ledger, chart);
    ledger->birth = chart->birth;
    ledger->rank_count = all;
    ledger->known = known > all ? known : all;
    ledger->terms = chart->rounds;
}

void ps_ledger_loaded(ps_ledger *ledger, const sim_node *node, const replica *replica) {
    uint32_t slot = replica_slot(replica);
    const ps_history *history = &ledger->histories[slot];
    replica_look look = replica_look_at(replica);
    uint8_t bytes[256];
    buffer values = {.data = bytes, .capacity = sizeof bytes, .limit = sizeof bytes};
    if (look.birth != ledger->birth) return;
    bool rounds = in_rounds(ledger, slot);
    replica_write_values(replica, &values);
    size_t cut = cut_of(ledger, slot, look.origin);
    if (look.applied != cut || cut > history->count) {
        sim_violation(ledger->sim, "%s begins slot %u at lsn %d, and it was cut at %d", sim_node_name(node), slot,
                      (int)look.applied, (int)cut);
        return;
    }
    sim_count(ledger->sim, "shards", 1);
    if (rounds && !is_ledger(ledger, slot))
        check_version(ledger, slot, look.origin, PS_ALL_KEYS, span_of(values.data, PS_BYTES));
    if (!rounds && memcmp(values.data, history->events[cut - 1].values, PS_BYTES) != 0)
        sim_violation(ledger->sim, "%s begins slot %u with other bytes than were cut", sim_node_name(node), slot);
    for (uint32_t i = 0; !rounds && i < ledger->rank_count; i++)
        if (replica_name(replica, i) != last_name(ledger, slot, cut, i))
            sim_violation(ledger->sim, "%s begins slot %u with another name of rank %u", sim_node_name(node), slot, i);
}
