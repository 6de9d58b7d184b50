/* ps_generations.c — see ps_checker.h: checkpoints, and the generations that begin from them. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "ps/rank.h"
#include "sim/ps/ps_checker_internal.h"

/* ---- Checkpoints. */

void ps_checker_whole(ps_checker *checker, uint64_t checkpoint) {
    if (checkpoint > checker->whole) checker->whole = checkpoint;
}

/* The lsn of a slot's snapshot in the checkpoint; SIZE_MAX: it has none. */
static size_t cut_of(ps_checker *checker, uint32_t slot, uint64_t checkpoint) {
    const ps_saved *saved = ps_saved_find(&checker->saved, checkpoint);
    if (checkpoint == 0) return 0;
    return saved == NULL || !saved->has[slot] ? SIZE_MAX : saved->lsn[slot];
}

/* The version of a slot with rounds when it had so many entries. */
static uint64_t version_at(const ps_checker_history *history, size_t count) {
    for (size_t i = count; i-- > 0;)
        if (history->events[i].kind == REPLICA_LOG_ROUND) return history->events[i].name;
    return 0;
}

/* A mark of this checkpoint: the one at `lsn`, or the last one. A slot may be marked twice (checkpointer.h). */
static uint64_t find_mark(const ps_checker_history *history, uint64_t lsn, uint64_t checkpoint) {
    uint64_t last = 0;
    for (size_t i = 0; i < history->count; i++) {
        const ps_event *event = &history->events[i];
        if (event->kind == REPLICA_LOG_MARK && event->name == checkpoint) last = i + 1;
        if (last == lsn && last != 0) return last;
    }
    return last;
}

/* With rounds a slot may be cut at any lsn at which it has the version; without, at the mark. */
static void check_cut(ps_checker *checker, uint32_t slot, uint64_t lsn, const ps_saved *saved) {
    const ps_checker_history *history = &checker->histories[slot];
    bool rounds = ps_checker_in_rounds(checker, slot);
    uint64_t cut = rounds ? lsn : find_mark(history, lsn, saved->checkpoint);
    if (lsn != cut || lsn > history->count || lsn < history->origin) {
        sim_violation(checker->sim, "checkpoint %d has slot %u at lsn %d, and it was cut at %d", (int)saved->checkpoint,
                      slot, (int)lsn, (int)cut);
        return;
    }
    if (rounds && version_at(history, lsn) != saved->version)
        sim_violation(checker->sim, "checkpoint %d is of version %d, and has slot %u at version %d",
                      (int)saved->checkpoint, (int)saved->version, slot, (int)version_at(history, lsn));
    if (rounds && saved->version + 1 == history->version) sim_count(checker->sim, "kept versions cut", 1);
    if (checker->round_slots != 0) ps_checker_check_free(checker, slot, lsn, saved->version);
}

void ps_checker_saved(ps_checker *checker, uint64_t checkpoint, const uint64_t lsn[PS_SLOTS_MAX]) {
    uint32_t slots = checker->value_slots + (checker->round_slots != 0);
    if (ps_saved_find(&checker->saved, checkpoint) != NULL) return;
    ps_saved *saved = ps_saved_add(&checker->saved, checkpoint);
    saved->ranks = checker->rank_count;
    saved->known = checker->known;
    saved->version = checker->round_slots == 0 ? 0 : version_at(&checker->histories[0], lsn[0]);
    if (saved->version != checkpoint && checker->round_slots != 0) sim_count(checker->sim, "versions saved again", 1);
    for (uint32_t slot = 0; slot < slots; slot++) {
        saved->lsn[slot] = lsn[slot];
        saved->has[slot] = true;
        check_cut(checker, slot, lsn[slot], saved);
    }
}

/* Outside BSP: every slot has the same last step of each rank, so a restored rank continues with the next step in every
 * slot. */
void ps_checker_exact(ps_checker *checker, uint64_t checkpoint) {
    sim_count(checker->sim, "exact checkpoints", 1);
    for (uint32_t rank = 0; rank < checker->rank_count; rank++)
        for (uint32_t slot = 0; slot < checker->value_slots; slot++) {
            uint64_t name = ps_checker_last_name(checker, slot, cut_of(checker, slot, checkpoint), rank),
                     first = ps_checker_last_name(checker, 0, cut_of(checker, 0, checkpoint), rank);
            if (name != first || (name != 0 && name != seq_tick(seq_step(name)) && !seq_is_left(name)))
                sim_violation(checker->sim,
                              "checkpoint %d is not exact: rank %u is at %" PRIx64 " in slot %u, at %" PRIx64 " in 0",
                              (int)checkpoint, rank, name, slot, first);
        }
}

/* The version of slots with rounds with which a generation begins. */
static uint64_t origin_version(ps_checker *checker, uint64_t origin) {
    const ps_saved *saved = ps_saved_find(&checker->saved, origin);
    return saved == NULL ? 0 : saved->version;
}

/* Members of the first round of a generation: those of the checkpoint, if the number of ranks is the same. Several
 * generations may begin from one checkpoint; the members recorded at the first of them count. */
static rank_set members_of(ps_checker *checker, const cluster_map *map, const ps_round *open) {
    ps_saved *saved = ps_saved_find(&checker->saved, map->origin);
    if (saved != NULL && !saved->used) saved->members = open->members;
    if (saved != NULL) saved->used = true;
    bool same = saved != NULL && map->rank_count == saved->ranks;
    return same ? saved->members : rank_set_first(map->rounds.first_count);
}

static void forget_rounds(ps_checker *checker, const cluster_map *map) {
    uint64_t version = origin_version(checker, map->origin);
    while (checker->model_count <= version)
        ps_checker_add_model(checker); /* before the members of these rounds are forgotten */
    if (checker->round_count > version + 1) checker->round_count = version + 1;
    if (checker->model_count > version + 1) checker->model_count = version + 1;
    ps_round *open = ps_checker_round_at(checker, version);
    rank_set members = members_of(checker, map, open);
    *open = (ps_round){.begun = true, .members = members};
}

/* New ranks begin at the step of the slowest rank. Ranks that return continue from their seqs. */
static void give_names(ps_checker *checker, uint32_t slot, size_t cut, uint32_t before, const cluster_map *map) {
    ps_checker_history *history = &checker->histories[slot];
    while (history->contribution_count != 0 && history->contributions[history->contribution_count - 1].at >= cut)
        history->contribution_count--;
    uint64_t least = UINT64_MAX, left = UINT64_MAX;
    for (uint32_t i = 0; i < before; i++) {
        uint64_t name = ps_checker_last_name(checker, slot, cut, i), *lowest = seq_is_left(name) ? &left : &least;
        if (seq_ended(name) < *lowest) *lowest = seq_ended(name);
    }
    if (least == UINT64_MAX) least = left;
    uint32_t ranks = map->rank_count;
    if (before >= ranks) return;
    size_t count = history->contribution_count + ranks - before;
    history->contributions = xrealloc(history->contributions, count * sizeof *history->contributions);
    for (uint32_t i = before; i < ranks; i++)
        history->contributions[history->contribution_count++] =
            (ps_contribution){.at = cut,
                              .rank = i,
                              .name = cut == 0 || least == 0 ? 0 : seq_tick(least),
                              .round = origin_version(checker, map->origin)};
}

/* Checks all requests of a generation at its end. */
static void check_one_value(ps_checker *checker, uint32_t slot) {
    ps_checker_history *history = &checker->histories[slot];
    if (!ps_history_check(&history->history, history->events, history->count, history->origin))
        sim_violation(checker->sim, "%zu pushes and fresh pulls of slot %u are not those of one value",
                      history->history.count, slot);
    sim_count(checker->sim, "questions", history->history.count);
    ps_history_fini(&history->history);
}

void ps_checker_end(ps_checker *checker) {
    for (uint32_t i = 0; i < checker->value_slots && !sim_failed(checker->sim); i++) check_one_value(checker, i);
}

void ps_checker_decided(ps_checker *checker, const cluster_map *map) {
    if (map->birth == checker->birth) return;
    sim_note(checker->sim, NULL, "a generation begins from checkpoint %d", (int)map->origin);
    sim_count(checker->sim, map->origin == 0 ? "generations" : "restores", 1);
    if (map->origin < checker->whole && !checker->rots)
        sim_violation(checker->sim, "a generation begins from checkpoint %d, and %d was whole", (int)map->origin,
                      (int)checker->whole);
    ps_saved_drop_after(&checker->saved, map->origin);
    const ps_saved *saved = ps_saved_find(&checker->saved, map->origin);
    uint32_t known = saved == NULL ? 0 : checker->round_slots != 0 ? saved->ranks : saved->known, all = map->rank_count;
    if (known > all) sim_count(checker->sim, "ranks left out", known - all);
    if (known > checker->rank_count && all > checker->rank_count) sim_count(checker->sim, "ranks that are back", 1);
    for (uint32_t i = 0; i < map->slot_count; i++) {
        ps_checker_history *history = &checker->histories[i];
        size_t cut = cut_of(checker, i, map->origin);
        if (cut > history->count) {
            sim_violation(checker->sim, "slot %u was never cut for checkpoint %d", i, (int)map->origin);
            return;
        }
        if (!ps_checker_in_rounds(checker, i)) give_names(checker, i, cut, known, map);
        check_one_value(checker, i);
        history->count = history->origin = cut;
        history->acknowledged = 0;
        history->version = ps_checker_in_rounds(checker, i) ? origin_version(checker, map->origin) : 0;
    }
    if (checker->round_slots != 0) forget_rounds(checker, map);
    checker->birth = map->birth;
    checker->rank_count = all;
    checker->known = known > all ? known : all;
    checker->terms = map->rounds;
}

void ps_checker_loaded(ps_checker *checker, const sim_node *node, const replica *replica) {
    uint32_t slot = replica_slot(replica);
    ps_checker_history *history = &checker->histories[slot];
    replica_look look = replica_look_at(replica);
    uint8_t bytes[256];
    buffer values = {.data = bytes, .capacity = sizeof bytes, .limit = sizeof bytes};
    if (look.birth != checker->birth) return;
    bool rounds = ps_checker_in_rounds(checker, slot);
    replica_write_values(replica, &values);
    size_t cut = cut_of(checker, slot, look.origin);
    if (look.applied != cut || cut > history->count) {
        sim_violation(checker->sim, "%s begins slot %u at lsn %d, and it was cut at %d", sim_node_name(node), slot,
                      (int)look.applied, (int)cut);
        return;
    }
    sim_count(checker->sim, "shards", 1);
    if (rounds && !ps_checker_is_round_state(checker, slot))
        ps_checker_check_version(checker, slot, origin_version(checker, look.origin), PS_ALL_KEYS,
                                 span_of(values.data, PS_BYTES));
    if (!rounds && memcmp(values.data, history->events[cut - 1].values, PS_BYTES) != 0)
        sim_violation(checker->sim, "%s begins slot %u with other bytes than were cut", sim_node_name(node), slot);
    for (uint32_t i = 0; !rounds && i < checker->rank_count; i++)
        if (replica_name(replica, i) != ps_checker_last_name(checker, slot, cut, i))
            sim_violation(checker->sim, "%s begins slot %u with another name of rank %u", sim_node_name(node), slot, i);
}
