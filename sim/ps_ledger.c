/* ps_ledger.c — see ps_ledger.h. */
#include "sim/ps_ledger.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "ps/rank.h"

void ps_ledger_init(ps_ledger *ledger, sim *sim, uint32_t slots, uint32_t ranks, consistency consistency) {
    *ledger = (ps_ledger){.sim = sim, .slot_count = slots, .rank_count = ranks, .consistency = consistency};
}

void ps_ledger_fini(ps_ledger *ledger) {
    for (size_t i = 0; i < PS_SLOTS_MAX; i++) free(ledger->histories[i].events);
    free(ledger->models);
}

/* ---- The history. */

static uint64_t last_name(const ps_history *history, size_t count, uint32_t rank) {
    for (size_t i = count; i-- > 0;)
        if (history->events[i].rank == rank) return history->events[i].name;
    return 0;
}

static void check_new(ps_ledger *ledger, uint32_t slot, const tape_entry *entry) {
    const ps_history *history = &ledger->histories[slot];
    bool round = entry->rank == TAPE_ROUND;
    uint64_t last = last_name(history, history->count, entry->rank);
    uint64_t wanted = round ? last + 1 : ps_next_name(entry->rank, slot, last);
    if (entry->name != wanted)
        sim_violation(ledger->sim, "slot %u: rank %d has %" PRIx64 " applied after %" PRIx64 ", not %" PRIx64, slot,
                      (int)entry->rank, entry->name, last, wanted);
    if (!round) return;
    for (uint32_t i = 0; i < ledger->slot_count; i++)
        if (ledger->histories[i].count + 1 < history->count + 1)
            sim_violation(ledger->sim, "slot %u is at version %zu, and slot %u at %zu", slot, history->count + 1, i,
                          ledger->histories[i].count);
}

/* A window of each rank is what a head has under way; a joiner that becomes the head may know of one window less. */
static void check_bounds(ps_ledger *ledger, const sim_node *node, const replica_look *look) {
    size_t most = ledger->consistency.kind == CONSISTENCY_BSP ? 2 : 2 * ledger->rank_count * RANK_WINDOW;
    if (look->logged - look->applied > most || look->open > ledger->rank_count)
        sim_violation(ledger->sim, "%s holds %d entries and %zu contributions", sim_node_name(node),
                      (int)(look->logged - look->applied), look->open);
}

void ps_ledger_applied(ps_ledger *ledger, const sim_node *node, const replica *replica, const tape_entry *entry) {
    uint32_t slot = replica_slot(replica);
    ps_history *history = &ledger->histories[slot];
    replica_look look = replica_look_at(replica);
    uint8_t bytes[PS_BYTES];
    buffer values = {.data = bytes, .capacity = sizeof bytes, .limit = sizeof bytes};
    replica_write_values(replica, &values);
    ps_event event = {.rank = entry->rank,
                      .name = entry->name,
                      .entry = XXH3_64bits(entry->payload.data, entry->payload.size),
                      .state = XXH3_64bits(values.data, values.size)};
    if (look.applied == history->count + 1) {
        check_new(ledger, slot, entry);
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
        if (known->rank != event.rank || known->name != event.name || known->entry != event.entry)
            sim_violation(ledger->sim, "slot %u has two entries at lsn %d: %s applies %" PRIx64 " of rank %d", slot,
                          (int)look.applied, sim_node_name(node), event.name, (int)event.rank);
        else if (known->state != event.state)
            sim_violation(ledger->sim, "%s has other bytes at lsn %d of slot %u", sim_node_name(node),
                          (int)look.applied, slot);
    }
    check_bounds(ledger, node, &look);
}

/* 0: it is not in the history. */
static uint64_t find_name(const ps_history *history, uint32_t rank, uint64_t name) {
    for (size_t i = history->count; i-- > 0;)
        if (history->events[i].rank == rank && history->events[i].name == name) return i + 1;
    return 0;
}

void ps_ledger_pushed(ps_ledger *ledger, ps_session *session, uint32_t rank, uint32_t slot, uint64_t name) {
    ps_history *history = &ledger->histories[slot];
    bool rounds = ledger->consistency.kind == CONSISTENCY_BSP;
    uint64_t lsn = find_name(history, rounds ? TAPE_ROUND : rank, name);
    if (lsn == 0)
        sim_violation(ledger->sim, "rank %u is told of %" PRIx64 " in slot %u, and nobody has applied it", rank, name,
                      slot);
    if (lsn > history->acknowledged) history->acknowledged = lsn;
    if (lsn > session->own[slot]) session->own[slot] = lsn;
}

/* ---- What is shown. */

void ps_ledger_asked(ps_session *session, uint32_t slot) {
    uint64_t own = session->own[slot], told = session->told[slot];
    session->due[slot] = own > told ? own : told;
}

static void check_bound(ps_ledger *ledger, uint32_t slot, uint64_t lsn, uint64_t step) {
    for (uint32_t i = 0; i < ledger->rank_count; i++) {
        uint64_t ended = name_ended(last_name(&ledger->histories[slot], lsn, i));
        if (ended + ledger->consistency.bound < step)
            sim_violation(ledger->sim, "slot %u is shown for step %d, and rank %u has ended %d", slot, (int)step, i,
                          (int)ended);
    }
}

uint64_t ps_ledger_shown_hash(const double values[][FLOATS_WIDTH], uint32_t slots) {
    return XXH3_64bits(values, slots * sizeof *values);
}

/* One more version of the sequential run: every rank in turn, from the version before. */
static void add_model(ps_ledger *ledger) {
    ledger->models = xrealloc(ledger->models, (ledger->model_count + 1) * sizeof *ledger->models);
    for (uint32_t slot = 0; slot < ledger->slot_count; slot++) {
        double *out = ledger->models[ledger->model_count][slot];
        void *fresh = floats_ops.create(slot);
        floats_ops.write(fresh, out);
        floats_ops.destroy(fresh);
        if (ledger->model_count == 0) continue;
        const double(*before)[FLOATS_WIDTH] = ledger->models[ledger->model_count - 1];
        uint64_t shown = ps_ledger_shown_hash(before, ledger->slot_count);
        double sum[FLOATS_WIDTH] = {0}, gradient[FLOATS_WIDTH];
        for (uint32_t rank = 0; rank < ledger->rank_count; rank++) {
            ps_gradient(rank, ledger->model_count - 1, slot, shown, gradient);
            for (size_t i = 0; i < FLOATS_WIDTH; i++) sum[i] += gradient[i];
        }
        memcpy(out, before[slot], PS_BYTES);
        floats_ops.apply(out, span_of(sum, PS_BYTES));
    }
    ledger->model_count++;
}

static void check_version(ps_ledger *ledger, uint32_t slot, uint64_t version, span values) {
    while (ledger->model_count <= version) add_model(ledger);
    if (values.size != PS_BYTES || memcmp(values.data, ledger->models[version][slot], PS_BYTES) != 0)
        sim_violation(ledger->sim, "version %d of slot %u is not the sequential run's", (int)version, slot);
}

void ps_ledger_pulled(ps_ledger *ledger, ps_session *session, uint32_t rank, uint32_t slot, uint64_t step,
                      uint64_t version, uint64_t lsn, span values) {
    const ps_history *history = &ledger->histories[slot];
    if (ledger->consistency.kind == CONSISTENCY_BSP) {
        if (version != step) sim_violation(ledger->sim, "rank %u asked for version %d", rank, (int)step);
        check_version(ledger, slot, step, values);
        return;
    }
    if (lsn > history->count) {
        sim_violation(ledger->sim, "slot %u is shown at lsn %d, which nobody has applied", slot, (int)lsn);
        return;
    }
    if (lsn != 0 && XXH3_64bits(values.data, values.size) != history->events[lsn - 1].state)
        sim_violation(ledger->sim, "slot %u is shown with other bytes than it has at lsn %d", slot, (int)lsn);
    if (lsn < session->due[slot] || lsn < session->seen[slot])
        sim_violation(ledger->sim, "rank %u is shown lsn %d of slot %u, after %d was acknowledged and %d shown", rank,
                      (int)lsn, slot, (int)session->due[slot], (int)session->seen[slot]);
    session->seen[slot] = lsn;
    if (ledger->consistency.kind == CONSISTENCY_SSP) check_bound(ledger, slot, lsn, step);
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
