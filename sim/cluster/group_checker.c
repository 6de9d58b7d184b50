/* group_checker.c — see group_checker.h. */
#include "sim/cluster/group_checker.h"

#include <stdlib.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/alloc.h"
#include "cluster/metadata_store.h"

void group_checker_init(group_checker *checker, sim *sim) {
    *checker = (group_checker){.sim = sim};
    checker->steps = xcalloc(GROUP_SITES_MAX, sizeof *checker->steps);
}

void group_checker_fini(group_checker *checker) {
    consumer_group_fini(&checker->group);
    free(checker->steps);
}

static bool is_piece(const batch_claims_piece *a, const batch_claims_piece *b) {
    return a->part == b->part && a->epoch == b->epoch && a->from == b->from && a->to == b->to;
}

void group_checker_did(group_checker *checker, uint32_t rank, uint64_t step, const batch_claims_piece *piece) {
    if (step >= GROUP_STEPS_MAX) return;
    const group_step *known = &checker->steps[rank][step];
    sim_count(checker->sim, "steps", 1);
    if (!known->given || !is_piece(&known->piece, piece))
        sim_violation(checker->sim, "rank %u does step %d with a piece that was not decided for it", rank, (int)step);
}

static uint64_t hash_of(const consumer_group *group) {
    size_t size = consumer_group_size(group);
    uint8_t *bytes = xmalloc(size);
    writer writer = writer_of(bytes, size);
    consumer_group_encode(group, &writer);
    uint64_t hash = XXH3_64bits(bytes, size);
    free(bytes);
    return hash;
}

void group_checker_knows(group_checker *checker, const sim_node *node, const consumer_group *group) {
    uint64_t number = metadata_store_count(group->number), hash = hash_of(group);
    if (number >= GROUP_GROUPS_MAX) return;
    if (checker->hashes[number] == 0) checker->hashes[number] = hash;
    if (checker->hashes[number] != hash)
        sim_violation(checker->sim, "%s knows another roster %d", sim_node_name(node), (int)number);
}

/* ---- Shards. */

static void check_parts(group_checker *checker, const consumer_group *group) {
    if (group->epoch < checker->group.epoch)
        sim_violation(checker->sim, "epoch %d follows %d", (int)group->epoch, (int)checker->group.epoch);
    if (group->epoch != checker->group.epoch) return;
    for (uint32_t i = 0; i < group->part_count && i < checker->group.part_count; i++) {
        uint64_t before = checker->group.parts[i].position, now = group->parts[i].position;
        if (now < before) sim_violation(checker->sim, "part %u goes back from %d to %d", i, (int)before, (int)now);
    }
}

/* ---- Claims. */

static void give_items(group_checker *checker, uint32_t rank, uint64_t step, const batch_claims_piece *piece) {
    sim_count(checker->sim, "pieces", 1);
    if (piece->epoch >= GROUP_EPOCHS_MAX) return;
    for (uint64_t item = piece->from; item < piece->to; item++) {
        bool *given = &checker->given[piece->epoch][piece->part][item];
        if (*given)
            sim_violation(checker->sim, "item %d of part %u is given out again in epoch %d: to rank %u, step %d",
                          (int)item, piece->part, (int)piece->epoch, rank, (int)step);
        *given = true;
    }
}

static void check_claim(group_checker *checker, const batch_claim *claim) {
    for (uint64_t step = claim->step; step < claim->step + claim->count && step < GROUP_STEPS_MAX; step++) {
        group_step *known = &checker->steps[claim->rank][step];
        batch_claims_piece piece = batch_claims_piece_of(claim, step);
        if (known->given && !is_piece(&known->piece, &piece))
            sim_violation(checker->sim, "step %d of rank %u has another piece than before", (int)step, claim->rank);
        if (!known->given) give_items(checker, claim->rank, step, &piece);
        *known = (group_step){true, piece};
    }
}

static void check_claims(group_checker *checker, const consumer_group *group) {
    for (size_t i = 0; i < group->claims.count; i++) check_claim(checker, &group->claims.list[i]);
    for (; checker->counted < group->epoch && checker->counted < GROUP_EPOCHS_MAX; checker->counted++) {
        sim_count(checker->sim, "epochs", 1);
        for (uint32_t i = 0; i < group->part_count; i++)
            for (uint64_t item = 0; item < group->parts[i].size; item++)
                if (!checker->given[checker->counted][i][item])
                    sim_violation(checker->sim, "item %d of part %u is left out of epoch %d", (int)item, i,
                                  (int)checker->counted);
    }
}

/* ---- Members that hold shards. */

static void check_shares(group_checker *checker, const consumer_group *group) {
    size_t least = SIZE_MAX, most = 0, workers = consumer_group_group(group, CONSUMER_GROUP_WORKER);
    for (size_t i = 0; i < group->member_count; i++) {
        size_t count = 0;
        for (size_t k = 0; k < group->part_count; k++) {
            const consumer_group_part *part = &group->parts[k];
            count += part->position != part->size && part->holder == group->members[i].id &&
                     part->incarnation == group->members[i].incarnation;
        }
        if (group->members[i].role != CONSUMER_GROUP_WORKER) continue;
        if (count < least) least = count;
        if (count > most) most = count;
    }
    if (workers != 0 && most > least + 1)
        sim_violation(checker->sim, "one worker has %d parts, another %d", (int)most, (int)least);
    for (uint32_t i = 0; i < group->part_count && workers != 0; i++) {
        const consumer_group_part *part = &group->parts[i];
        const consumer_group_member *holder = consumer_group_find(group, part->holder);
        bool is_here = holder != NULL && holder->incarnation == part->incarnation;
        if (part->position != part->size && !is_here) sim_violation(checker->sim, "nobody has part %u", i);
    }
}

/* The group leader may miss a decision; the checker then sees that decision together with the next one. No claim is
 * missed: a claim is dropped when its worker reports the step as over, and the worker learns of the claim from the
 * group leader. */
void group_checker_decided(group_checker *checker, const consumer_group *group) {
    if (group->number <= checker->group.number) return;
    sim_count(checker->sim, "rosters", 1);
    check_parts(checker, group);
    check_claims(checker, group);
    check_shares(checker, group);
    consumer_group_copy(&checker->group, group);
}
