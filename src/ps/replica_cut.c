/* replica_cut.c — see replica.h: cutting a checkpoint, and beginning from one.
 *
 *   head:    MARK applied, or a round that ends with a cut ──► a copy of the state ── CUT … SAVED ──► dropped
 *                                                                   each tick: do you have it? No ──► CUT
 *   copy:    LOADING ── FETCH … SHARD ──► takes its place in the chain, as if it had always had this state
 *
 * The cut is made when the entry is applied, so it is the same whoever makes it, and training goes on while it is sent
 * and written. Only the head makes one: a head that is replaced before it is saved leaves a checkpoint that is never
 * whole, and another one follows (marker.h). */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "ps/replica_core.h"

#include "base/mutation.h"

enum { CLOCK_OF_ROUNDS = 1 };

void replica_drop_cut(replica *replica) {
    bale_unref(replica->cut.bale);
    replica->cut = (replica_cut){0};
}

/* A digest of the steps that ranks have ended: equal in all slots that were cut at the same step of each rank. 0: a
 * rank is in the middle of one. In rounds slots are cut at one version, and there is nothing to compare. */
static uint64_t clock_of(const replica *replica) {
    if (replica->consistency.kind == CONSISTENCY_BSP) return CLOCK_OF_ROUNDS;
    for (uint32_t i = 0; i < replica->rank_count; i++)
        if (replica->names[i] != 0 && replica->names[i] != name_tick(name_step(replica->names[i]))) return 0;
    return XXH3_64bits(replica->names, replica->rank_count * sizeof *replica->names) | 1;
}

/* Without its payload it asks whether that has come. */
static void say_cut(replica *replica, span payload) {
    const replica_cut *cut = &replica->cut;
    MR_ASSERT(cut->bale != NULL && replica->host->to_depot != NULL);
    part part = {.kind = PART_CUT,
                 .slot = replica->slot,
                 .epoch = replica->epoch,
                 .lsn = cut->lsn,
                 .commit = cut->clock,
                 .name = cut->checkpoint,
                 .payload = payload,
                 .bale = payload.size == 0 ? NULL : cut->bale};
    replica->host->to_depot(replica->host->context, &part);
}

static void send_cut(replica *replica) {
    replica_cut *cut = &replica->cut;
    if (MUTATED("cut-late") && replica->values != NULL) {
        bale_unref(cut->bale);
        cut->bale = replica_write_shard(replica);
        cut->lsn = replica->tape.applied;
        cut->clock = clock_of(replica);
    }
    say_cut(replica, bale_bytes(cut->bale));
}

void replica_make_cut(replica *replica, uint64_t checkpoint) {
    if (!replica_is_head(replica) || replica->host->to_depot == NULL) return;
    replica_drop_cut(replica);
    replica->cut = (replica_cut){checkpoint, replica->tape.applied, clock_of(replica), replica_write_shard(replica)};
    if (!MUTATED("cut-late")) send_cut(replica);
}

void replica_take_saved(replica *replica, const part *part) {
    if (part->name != replica->cut.checkpoint || part->name == 0) return;
    if (part->status == PART_RESEND)
        send_cut(replica);
    else
        replica_drop_cut(replica);
}

/* ---- Marks. */

/* The checkpoint that is cut, or will be, for one who wants `wanted` or a later one; 0: none. */
static uint64_t cut_for(const replica *replica, uint64_t wanted) {
    if (replica->marked >= wanted) return replica->marked;
    if (!replica_is_ledger(replica)) return 0;
    const ledger *ledger = replica->values;
    if (ledger->cuts && ledger->round + 1 >= wanted) return ledger->round + 1;
    return ledger->cuts_next ? ledger->round + 2 : 0;
}

static bool is_marked(const replica *replica) {
    for (uint64_t lsn = replica->tape.applied + 1; lsn <= tape_last(&replica->tape); lsn++)
        if (tape_at(&replica->tape, lsn)->kind == TAPE_MARK) return true;
    return false;
}

void replica_take_mark(replica *replica, const part *part) {
    bool rounds = replica->consistency.kind == CONSISTENCY_BSP;
    if (replica->phase != REPLICA_SERVING || (rounds && !replica_is_ledger(replica))) return;
    uint64_t cut = cut_for(replica, part->name);
    bool later = rounds && cut > replica->version;
    struct part answer = {.kind = PART_ORDERED,
                          .status = later ? PART_LATER : PART_OK,
                          .entry = TAPE_MARK,
                          .slot = replica->slot,
                          .epoch = replica->epoch,
                          .lsn = cut,
                          .name = part->name};
    if (cut != 0)
        replica->host->to_director(replica->host->context, &answer);
    else if (!is_marked(replica))
        replica_append(replica, &(tape_entry){.kind = TAPE_MARK, .name = part->name});
}

void replica_apply_mark(replica *replica, const tape_entry *entry) {
    if (replica_is_ledger(replica)) {
        ledger_apply(replica->values, entry);
        return;
    }
    replica->marked = entry->name;
    replica_make_cut(replica, entry->name);
}

/* ---- Beginning from a checkpoint. */

static void ask_shard(replica *replica) {
    part part = {.kind = PART_FETCH, .slot = replica->slot, .epoch = replica->epoch, .name = replica->origin};
    if (replica->host->to_depot != NULL) replica->host->to_depot(replica->host->context, &part);
}

/* The answer is large, and may be long on its way: it is asked for again at the second tick, the fourth, … and at the
 * latest after so many. */
enum { ASK_TICKS_MAX = 16 };
static bool is_due(unsigned ticks) {
    return ticks >= ASK_TICKS_MAX ? ticks % ASK_TICKS_MAX == 0 : ticks >= 2 && (ticks & (ticks - 1)) == 0;
}

void replica_load(replica *replica) {
    MR_ASSERT(replica->origin != 0 && replica->place >= 0 && replica->values == NULL);
    replica->phase = REPLICA_LOADING;
    replica->loading = 0;
    ask_shard(replica);
}

void replica_tick_cut(replica *replica) {
    if (replica->phase == REPLICA_LOADING && is_due(++replica->loading)) ask_shard(replica);
    if (replica->cut.checkpoint != 0) say_cut(replica, (span){0});
}

bool replica_take_shard(replica *replica, const part *part) {
    if (replica->phase != REPLICA_LOADING || part->name != replica->origin) return false;
    replica_make_copy(replica);
    if (!replica_read_shard(replica, part->payload)) {
        replica_drop_copy(replica);
        replica->phase = REPLICA_LOADING;
        return false;
    }
    tape_reset(&replica->tape, part->lsn);
    replica->changed = part->lsn;
    if (replica->host->on_loaded != NULL) replica->host->on_loaded(replica->host->watcher, replica);
    return true;
}
