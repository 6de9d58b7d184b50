/* replica_checkpoint.c — see replica.h: cutting a checkpoint, and loading one.
 *
 *   head:    MARK applied, or a round that ends with a cut ──► a copy of the state ── CUT … SAVED ──► dropped
 *            MARK of the open version (no round ends)      ──┘
 *                                                                   each tick: a question; RESEND ──► CUT
 *   replica: LOADING ── FETCH … SHARD ──► takes its place in the chain, as if it had always had this state
 *
 * The cut is made when the entry is applied, so every replica would make the same cut, and training continues while the
 * cut is sent and written. Only the head makes one: a head that is replaced before its cut is saved leaves a checkpoint
 * that is never complete, and another one follows (checkpointer.h).
 *
 * With rounds the values at a version are those bytes until the next round is applied, whenever they are copied, and
 * are kept until the round after that. So while no round ends, because ranks wait, compute or are gone, the last
 * version that all slots have reached is cut without an entry. A slot that has ended one round more, because a rank
 * ended inside the step, cuts the version that it has kept: the checkpoint has one version in all slots, and no rank is
 * waited for. */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "ps/replica_internal.h"

#include "base/mutation.h"

enum { CLOCK_OF_ROUNDS = 1 };

void replica_drop_cut(replica *replica) {
    shared_bytes_unref(replica->cut.bytes);
    replica->cut = (replica_cut){0};
}

/* Digest of the steps that ranks have ended: equal in all slots that were cut at the same step of each rank. 0: a
 * rank is in the middle of a step. Slots with rounds are cut at one version and have a constant. */
static uint64_t clock_of(const replica *replica) {
    if (replica->consistency.kind == CONSISTENCY_BSP) return CLOCK_OF_ROUNDS;
    for (uint32_t i = 0; i < replica->rank_count; i++) {
        uint64_t name = replica->names[i];
        if (name != 0 && name != seq_tick(seq_step(name)) && !seq_is_left(name)) return 0;
    }
    return XXH3_64bits(replica->names, replica->rank_count * sizeof *replica->names) | 1;
}

/* Sends a CUT; without a payload it asks whether the store has the snapshot. */
static void say_cut(replica *replica, span payload) {
    const replica_cut *cut = &replica->cut;
    MR_ASSERT(cut->bytes != NULL && replica->host->to_checkpoints != NULL);
    slot_message message = {.kind = SLOT_MESSAGE_CUT,
                            .slot = replica->slot,
                            .epoch = replica->epoch,
                            .lsn = cut->lsn,
                            .commit = cut->clock,
                            .name = cut->checkpoint,
                            .prev = cut->version,
                            .payload = payload,
                            .bytes = payload.size == 0 ? NULL : cut->bytes};
    replica->host->to_checkpoints(replica->host->context, &message);
}

static void send_cut(replica *replica) {
    replica_cut *cut = &replica->cut;
    if (MUTATED("cut-late") && replica->values != NULL) {
        shared_bytes_unref(cut->bytes);
        cut->bytes = replica_write_shard(replica, false);
        cut->lsn = replica->log.applied;
        cut->clock = clock_of(replica);
    }
    say_cut(replica, shared_bytes_bytes(cut->bytes));
}

void replica_make_cut(replica *replica, uint64_t checkpoint, bool kept) {
    if (!replica_is_head(replica) || replica->host->to_checkpoints == NULL) return;
    MR_ASSERT(!kept || (replica->turned != 0 && replica->version != 0));
    bool rounds = replica->consistency.kind == CONSISTENCY_BSP;
    replica_drop_cut(replica);
    replica->cut = (replica_cut){.checkpoint = checkpoint,
                                 .lsn = kept ? replica->turned - 1 : replica->log.applied,
                                 .version = rounds ? 1 + replica->version - kept : replica->marked_version,
                                 .clock = clock_of(replica),
                                 .bytes = replica_write_shard(replica, kept)};
    if (!MUTATED("cut-late")) send_cut(replica);
}

void replica_take_saved(replica *replica, const slot_message *message) {
    if (message->name != replica->cut.checkpoint || message->name == 0) return;
    if (message->status == SLOT_MESSAGE_RESEND) {
        send_cut(replica);
        return;
    }
    replica->stored = message->name;
    replica_drop_cut(replica);
}

/* ---- Marks. */

/* The checkpoint from `wanted` on that is cut or will be cut; 0: none. A slot without rounds that was cut for another
 * version of the rounds is cut again. */
static uint64_t cut_for(const replica *replica, uint64_t wanted, uint32_t version) {
    bool again = replica->marked == wanted && version > replica->marked_version && !replica_is_round_state(replica);
    if (replica->marked >= wanted && !again) return replica->marked;
    if (!replica_is_round_state(replica)) return 0;
    const round_state *state = replica->values;
    if (state->cuts && state->round + 1 >= wanted) return state->round + 1;
    return state->cuts_next ? state->round + 2 : 0;
}

static bool is_marked(const replica *replica) {
    for (uint64_t lsn = replica->log.applied + 1; lsn <= replica_log_last(&replica->log); lsn++)
        if (replica_log_at(&replica->log, lsn)->kind == REPLICA_LOG_MARK) return true;
    return false;
}

/* Cuts the version `lsn` - 1 for the checkpoint `name`, once: the open version, or the one before. Without `lsn` this
 * is the question which version is open. */
static void mark_now(replica *replica, const slot_message *message) {
    uint64_t open = 1 + replica->version;
    bool kept = message->lsn + 1 == open && message->lsn != 0 && replica->turned != 0 && !MUTATED("cut-open");
    bool fits = message->lsn == open || kept;
    if (fits && replica->cut.checkpoint != message->name && replica->stored != message->name)
        replica_make_cut(replica, message->name, kept);
    replica->host->to_controller(replica->host->context,
                                 &(slot_message){.kind = SLOT_MESSAGE_ORDERED,
                                                 .status = fits ? SLOT_MESSAGE_OK : SLOT_MESSAGE_GONE,
                                                 .entry = REPLICA_LOG_MARK,
                                                 .slot = replica->slot,
                                                 .epoch = replica->epoch,
                                                 .lsn = replica->version,
                                                 .name = message->name,
                                                 .prev = SLOT_MESSAGE_MARK_NOW});
}

void replica_take_mark(replica *replica, const slot_message *message) {
    bool rounds = replica->consistency.kind == CONSISTENCY_BSP;
    if (rounds && replica->phase == REPLICA_SERVING && message->prev == SLOT_MESSAGE_MARK_NOW) {
        mark_now(replica, message);
        return;
    }
    if (replica->phase != REPLICA_SERVING || (rounds && !replica_is_round_state(replica))) return;
    uint64_t cut = cut_for(replica, message->name, (uint32_t)message->lsn);
    bool later = rounds && cut > replica->version;
    struct slot_message answer = {.kind = SLOT_MESSAGE_ORDERED,
                                  .status = later ? SLOT_MESSAGE_LATER : SLOT_MESSAGE_OK,
                                  .entry = REPLICA_LOG_MARK,
                                  .slot = replica->slot,
                                  .epoch = replica->epoch,
                                  .lsn = cut,
                                  .name = message->name};
    if (cut != 0)
        replica->host->to_controller(replica->host->context, &answer);
    else if (!is_marked(replica))
        replica_append(replica, &(replica_log_entry){.kind = REPLICA_LOG_MARK,
                                                     .rank = rounds ? 0 : (uint32_t)message->lsn,
                                                     .name = message->name});
}

void replica_apply_mark(replica *replica, const replica_log_entry *entry) {
    if (replica_is_round_state(replica)) {
        round_state_apply(replica->values, entry);
        return;
    }
    replica->marked = entry->name;
    replica->marked_version = entry->rank;
    replica_make_cut(replica, entry->name, false);
}

/* ---- Loading a checkpoint. */

static void ask_shard(replica *replica) {
    slot_message message = {
        .kind = SLOT_MESSAGE_FETCH, .slot = replica->slot, .epoch = replica->epoch, .name = replica->origin};
    if (replica->host->to_checkpoints != NULL) replica->host->to_checkpoints(replica->host->context, &message);
}

/* The answer is large and may be in flight for long: FETCH is repeated at the ticks 2, 4, 8, and then after every
 * ASK_TICKS_MAX ticks. */
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

bool replica_take_shard(replica *replica, const slot_message *message) {
    if (replica->phase != REPLICA_LOADING || message->name != replica->origin) return false;
    replica_make_copy(replica);
    if (!replica_read_shard(replica, message->payload)) {
        replica_drop_copy(replica);
        replica->phase = REPLICA_LOADING;
        return false;
    }
    replica_log_reset(&replica->log, message->lsn);
    replica->changed = message->lsn;
    if (replica->host->on_loaded != NULL) replica->host->on_loaded(replica->host->watcher, replica);
    return true;
}
