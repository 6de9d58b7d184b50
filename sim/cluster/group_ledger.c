/* group_ledger.c — see group_ledger.h. */
#include "sim/cluster/group_ledger.h"

#include <stdlib.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/alloc.h"
#include "cluster/coordinator.h"

void group_ledger_init(group_ledger *ledger, sim *sim) {
    *ledger = (group_ledger){.sim = sim};
    ledger->steps = xcalloc(GROUP_SEATS_MAX, sizeof *ledger->steps);
}

void group_ledger_fini(group_ledger *ledger) {
    roster_fini(&ledger->roster);
    free(ledger->steps);
}

static bool is_piece(const claims_piece *a, const claims_piece *b) {
    return a->part == b->part && a->epoch == b->epoch && a->from == b->from && a->to == b->to;
}

void group_ledger_did(group_ledger *ledger, uint32_t rank, uint64_t step, const claims_piece *piece) {
    if (step >= GROUP_STEPS_MAX) return;
    const group_step *known = &ledger->steps[rank][step];
    sim_count(ledger->sim, "steps", 1);
    if (!known->given || !is_piece(&known->piece, piece))
        sim_violation(ledger->sim, "rank %u does step %d with a piece that was not decided for it", rank, (int)step);
}

static uint64_t hash_of(const roster *roster) {
    size_t size = roster_size(roster);
    uint8_t *bytes = xmalloc(size);
    writer writer = writer_of(bytes, size);
    roster_encode(roster, &writer);
    uint64_t hash = XXH3_64bits(bytes, size);
    free(bytes);
    return hash;
}

void group_ledger_knows(group_ledger *ledger, const sim_node *node, const roster *roster) {
    uint64_t number = coordinator_count(roster->number), hash = hash_of(roster);
    if (number >= GROUP_ROSTERS_MAX) return;
    if (ledger->hashes[number] == 0) ledger->hashes[number] = hash;
    if (ledger->hashes[number] != hash)
        sim_violation(ledger->sim, "%s knows another roster %d", sim_node_name(node), (int)number);
}

/* ---- Parts. */

static void check_parts(group_ledger *ledger, const roster *roster) {
    if (roster->epoch < ledger->roster.epoch)
        sim_violation(ledger->sim, "epoch %d follows %d", (int)roster->epoch, (int)ledger->roster.epoch);
    if (roster->epoch != ledger->roster.epoch) return;
    for (uint32_t i = 0; i < roster->part_count && i < ledger->roster.part_count; i++) {
        uint64_t before = ledger->roster.parts[i].position, now = roster->parts[i].position;
        if (now < before) sim_violation(ledger->sim, "part %u goes back from %d to %d", i, (int)before, (int)now);
    }
}

/* ---- Claims. */

static void give_items(group_ledger *ledger, uint32_t rank, uint64_t step, const claims_piece *piece) {
    sim_count(ledger->sim, "pieces", 1);
    if (piece->epoch >= GROUP_EPOCHS_MAX) return;
    for (uint64_t item = piece->from; item < piece->to; item++) {
        bool *given = &ledger->given[piece->epoch][piece->part][item];
        if (*given)
            sim_violation(ledger->sim, "item %d of part %u is given out again in epoch %d: to rank %u, step %d",
                          (int)item, piece->part, (int)piece->epoch, rank, (int)step);
        *given = true;
    }
}

static void check_claim(group_ledger *ledger, const claim *claim) {
    for (uint64_t step = claim->step; step < claim->step + claim->count && step < GROUP_STEPS_MAX; step++) {
        group_step *known = &ledger->steps[claim->rank][step];
        claims_piece piece = claims_piece_of(claim, step);
        if (known->given && !is_piece(&known->piece, &piece))
            sim_violation(ledger->sim, "step %d of rank %u has another piece than before", (int)step, claim->rank);
        if (!known->given) give_items(ledger, claim->rank, step, &piece);
        *known = (group_step){true, piece};
    }
}

static void check_claims(group_ledger *ledger, const roster *roster) {
    for (size_t i = 0; i < roster->claims.count; i++) check_claim(ledger, &roster->claims.list[i]);
    for (; ledger->counted < roster->epoch && ledger->counted < GROUP_EPOCHS_MAX; ledger->counted++) {
        sim_count(ledger->sim, "epochs", 1);
        for (uint32_t i = 0; i < roster->part_count; i++)
            for (uint64_t item = 0; item < roster->parts[i].size; item++)
                if (!ledger->given[ledger->counted][i][item])
                    sim_violation(ledger->sim, "item %d of part %u is left out of epoch %d", (int)item, i,
                                  (int)ledger->counted);
    }
}

/* ---- Shares. */

static void check_shares(group_ledger *ledger, const roster *roster) {
    size_t least = SIZE_MAX, most = 0, workers = roster_group(roster, ROSTER_WORKER);
    for (size_t i = 0; i < roster->member_count; i++) {
        size_t count = 0;
        for (size_t k = 0; k < roster->part_count; k++) {
            const roster_part *part = &roster->parts[k];
            count += part->position != part->size && part->holder == roster->members[i].id &&
                     part->incarnation == roster->members[i].incarnation;
        }
        if (roster->members[i].role != ROSTER_WORKER) continue;
        if (count < least) least = count;
        if (count > most) most = count;
    }
    if (workers != 0 && most > least + 1)
        sim_violation(ledger->sim, "one worker has %d parts, another %d", (int)most, (int)least);
    for (uint32_t i = 0; i < roster->part_count && workers != 0; i++) {
        const roster_part *part = &roster->parts[i];
        const roster_member *holder = roster_find(roster, part->holder);
        bool is_here = holder != NULL && holder->incarnation == part->incarnation;
        if (part->position != part->size && !is_here) sim_violation(ledger->sim, "nobody has part %u", i);
    }
}

/* A decision of which the marshal did not hear is seen together with the one behind it. No claim is missed so: it is
 * forgotten when its worker says that it is over, which has it from the marshal. */
void group_ledger_decided(group_ledger *ledger, const roster *roster) {
    if (roster->number <= ledger->roster.number) return;
    sim_count(ledger->sim, "rosters", 1);
    check_parts(ledger, roster);
    check_claims(ledger, roster);
    check_shares(ledger, roster);
    roster_copy(&ledger->roster, roster);
}
