/* group_ledger.c — see group_ledger.h. */
#include "sim/cluster/group_ledger.h"

#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "cluster/coordinator.h"

void group_ledger_init(group_ledger *ledger, sim *sim) {
    *ledger = (group_ledger){.sim = sim};
    ledger->doings = xcalloc(GROUP_PIECES_MAX, sizeof *ledger->doings);
}

void group_ledger_fini(group_ledger *ledger) {
    roster_fini(&ledger->roster);
    free(ledger->doings);
}

void group_ledger_came(group_ledger *ledger, uint32_t id, uint64_t incarnation, const char *name, uint64_t round) {
    group_coming *coming = &ledger->comings[id];
    *coming = (group_coming){.incarnation = incarnation, .round = round};
    strcpy(coming->name, name);
}

void group_ledger_did(group_ledger *ledger, uint32_t id, uint64_t incarnation, const roster_piece *piece) {
    MR_ASSERT(ledger->doing_count < GROUP_PIECES_MAX);
    ledger->doings[ledger->doing_count++] = (group_doing){id, incarnation, *piece};
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

/* ---- Barriers. */

static void check_opened(group_ledger *ledger, const roster *roster, const roster_barrier *barrier) {
    for (size_t i = 0; i < roster->member_count; i++) {
        const roster_member *member = &roster->members[i];
        const group_coming *coming = &ledger->comings[member->id];
        if ((member->role & barrier->group) == 0) continue;
        bool came = coming->incarnation == member->incarnation && coming->round >= barrier->round &&
                    strcmp(coming->name, barrier->name) == 0;
        /* One that was let in behind the opening, in the same decision, was not waited for. */
        const roster_member *before = roster_find(&ledger->roster, member->id);
        bool was_in = before != NULL && before->incarnation == member->incarnation;
        if (!came && was_in)
            sim_violation(ledger->sim, "round %d of '%s' opens, and %u has not come", (int)barrier->round,
                          barrier->name, member->id);
    }
}

static void check_barriers(group_ledger *ledger, const roster *roster) {
    for (size_t i = 0; i < roster->barrier_count; i++) {
        const roster_barrier *now = &roster->barriers[i], *before = roster_barrier_of(&ledger->roster, now->name);
        uint64_t round = before == NULL ? 0 : before->round;
        if (now->round < round) sim_violation(ledger->sim, "'%s' goes back to round %d", now->name, (int)now->round);
        if (now->round != round + 1) continue;
        sim_count(ledger->sim, now->broken == now->round ? "rounds broken" : "rounds", 1);
        if (now->broken != now->round) check_opened(ledger, roster, now);
    }
}

/* ---- Parts. */

static bool was_done(const group_ledger *ledger, uint32_t index, uint64_t to) {
    const roster_part *part = &ledger->roster.parts[index];
    for (size_t i = 0; i < ledger->doing_count; i++) {
        const group_doing *doing = &ledger->doings[i];
        const roster_piece *piece = &doing->piece;
        if (piece->part == index && piece->epoch == ledger->roster.epoch && piece->from == part->position &&
            piece->to == to && doing->id == part->holder && doing->incarnation == part->incarnation)
            return true;
    }
    return false;
}

static void check_parts(group_ledger *ledger, const roster *roster) {
    bool next = roster->epoch == ledger->roster.epoch + 1;
    if (roster->epoch != ledger->roster.epoch && !next)
        sim_violation(ledger->sim, "epoch %d follows %d", (int)roster->epoch, (int)ledger->roster.epoch);
    for (uint32_t i = 0; i < roster->part_count && i < ledger->roster.part_count; i++) {
        uint64_t before = ledger->roster.parts[i].position;
        uint64_t now = next ? roster->parts[i].size : roster->parts[i].position;
        if (now < before)
            sim_violation(ledger->sim, "part %u goes back from %d to %d", i, (int)before, (int)now);
        else if (now > before && !was_done(ledger, i, now))
            sim_violation(ledger->sim, "part %u is at %d, and its holder did not do that from %d", i, (int)now,
                          (int)before);
        if (now > before) sim_count(ledger->sim, "pieces", 1);
    }
    if (next) sim_count(ledger->sim, "epochs", 1);
}

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

/* A decision of which the marshal did not hear is seen together with the one behind it. */
void group_ledger_decided(group_ledger *ledger, const roster *roster) {
    if (roster->number <= ledger->roster.number) return;
    sim_count(ledger->sim, "rosters", 1);
    if (roster->number == ledger->roster.number + 1) {
        check_barriers(ledger, roster);
        check_parts(ledger, roster);
    }
    check_shares(ledger, roster);
    roster_copy(&ledger->roster, roster);
}
