/* rank.h — protocol state of one rank: unacknowledged pushes and pending pulls.
 *
 *                 cluster map   CLOCK of every slot it uses
 *   (created) ─────────► asking ───────────────────────► ready: pushes and pulls
 *                          ▲                               │
 *                          └─── another generation: over ──┘
 *
 * A part is kept, unchanged, until it is acknowledged; whatever is lost, refused or sent to the wrong server is sent
 * again, in order, after the next cluster map or the next tick. Each term of a rank, in whichever process, first asks
 * every slot how far the rank had come: it resumes at the lowest, and the names that it repeats are acknowledged and
 * not applied. What the term before it had under way is committed or refused by then: it is told of nothing as its own
 * that is another's. It does the same when another generation begins: what it was doing belongs to a history that is
 * over.
 *
 * In BSP the last slot is the round state (round_state.h). It is pulled as the others are, with every version: what it
 * says about the round goes with every contribution to it. A contribution to the round state itself, an empty one, is
 * the rank's tick; under a policy of backup workers it waits here until all other slots have taken theirs. In a mixed
 * deployment (cluster_map.h) it waits until the slots without rounds have acknowledged what the rank has pushed to them
 * up to that step: so the round state's version k says that they have all of the steps before k, of every rank that was
 * counted.
 *
 * What a pull asks for is the engine's to write and to read (state_machine.h); it is kept until it is answered, and
 * asked again.
 *
 * What may be under way to a server is what that server grants (credit.h), over all slots that it leads; the rest waits
 * here, and goes as room comes: by the priority of its slot; but nobody is passed over more often than if every other
 * slot had gone RANK_PATIENCE times. All that is for one slot goes in order, so what comes first in a slot has the
 * priority of whatever comes behind it. Pulls wait likewise if there may be so many at a time only: whoever reads
 * slowly asks slowly; but for the round state's.
 *
 * A tick asks whether what was sent has come, without its payload; that is sent again if it has not.
 *
 * Bounds      RANK_WINDOW parts per slot are kept; rank_push_pieces says MR_BUSY to one more. Under way: what is
 *             granted. One pull per slot, and what it asks for.
 * Ownership  payloads and queries are held in their shared buffers until they are acknowledged or answered; those that
 *            come
 *             without one are copied.
 * Pure: bytes in, bytes out, ticks. */
#pragma once
#include "ps/batcher.h"
#include "ps/round_state.h"

#define RANK_TICK_US INT64_C(80000)
enum { RANK_WINDOW = 8, RANK_PATIENCE = 4 };

typedef enum rank_spread {
    RANK_HEADS, /* pulls go to the head of a slot */
    RANK_HOT,   /* to one of its copies, if it has some for reading; this rank to that one, as long as it answers */
    RANK_ANY    /* to its copies in turn */
} rank_spread;

typedef struct rank_options {
    uint32_t rank;
    const char *address, *controller; /* copied */
    /* The slots that it pushes to and pulls from, borrowed for its life; NULL: all. It asks no other for anything: one
     * that trains a part of a large table talks to the servers of that part. Outside ASP every rank ticks all slots. */
    const uint32_t *touches;
    uint32_t touch_count;
    uint32_t pulls_max; /* so many pulls are under way at a time, the others wait, but the round state's; 0: no bound */
    rank_spread spread; /* whom pulls go to */
    void (*send)(void *context, const char *address, span bytes);
    /* see batcher.h */
    void (*send_pieces)(void *context, const char *address, const shared_bytes_piece *pieces, size_t count);
    /* Before a push leaves for the head of this slot: its payload as that one can read it, moved to the rank; NULL: as
     * it is, and *afar says whether it speaks of bytes that lie elsewhere. May be NULL itself. */
    shared_bytes *(*carry)(void *context, uint32_t slot, span payload, bool *afar);
    void (*on_ready)(void *context);
    /* The generation is over: nothing that is under way will be answered, and on_ready comes again. May be NULL. */
    void (*on_over)(void *context);
    void (*on_pushed)(void *context, uint32_t slot, uint64_t name, slot_message_status status); /* OK, MISSED, GONE */
    void (*on_pulled)(void *context, uint32_t slot, uint64_t version, uint64_t lsn, span values);
    /* a pull of the round state was answered; borrowed */
    void (*on_round)(void *context, const round_state_terms *terms);
    void (*on_gone)(void *context, uint32_t slot, uint64_t version); /* to a pull: that version is over, this is now */
    /* rank_order: it holds from there */
    void (*on_ordered)(void *context, replica_log_kind kind, bool done, uint64_t round);
    void *context;
    map_cache *cache; /* shared; NULL: one of its own */
} rank_options;

typedef struct rank rank;

rank *rank_create(const rank_options *options);
void rank_destroy(rank *rank);
void rank_begin(rank *rank, uint64_t term, int64_t now_us); /* that the cluster map gave it (cluster_map.h) */

/* where it lies, see batcher.h; NULL: it is copied */
void rank_take_bytes(rank *rank, span bytes, shared_bytes *shared);
int64_t rank_next_us(const rank *rank);
void rank_tick(rank *rank, int64_t now_us);

const cluster_map *rank_map(const rank *rank);
uint64_t rank_clock(const rank *rank, uint32_t slot);   /* the last name that is known to be applied */
uint64_t rank_version(const rank *rank, uint32_t slot); /* that CLOCK said */

/* Names of one slot grow, by any steps: a batch of pushes has the name of its last. A name that the clock has already
 * passed is sent all the same, and acknowledged. So whoever repeats a step may cut it into other batches than whoever
 * played it before, as long as none has pushes on both sides of the clock that it was given.
 *
 * The shared buffer of the payload, and that of the tail in which the payload goes on, are held until the push is
 * acknowledged. A payload without a shared buffer is copied. MR_BUSY: the window is full. */
MR_MUST mr_status rank_push_pieces(rank *rank, uint32_t slot, uint64_t name, span payload, shared_bytes *bytes,
                                   shared_bytes_piece tail);
/* The tail that this shared buffer holds lies here now, should it be sent again. Whatever was said before has left the
 * rank. */
void rank_move(rank *rank, const shared_bytes *bytes, span to);
/* One at a time per slot; a newer one replaces it. `step`: of a slot with rounds the version, else the step that all
 * ranks have to have ended (consistency_needs). `query`: what is asked for; its shared buffer is held until it is
 * answered, NULL: it is copied. */
void rank_pull(rank *rank, uint32_t slot, uint64_t step, span query, shared_bytes *bytes);
/* The same, and what it is shown has whatever was pushed to the slot before: it need not be acknowledged, so both can
 * go at once. A pull that comes before its push waits for it at the server. Not of BSP, where versions say it. */
void rank_pull_behind(rank *rank, uint32_t slot, uint64_t step, span query, shared_bytes *bytes);

/* What this rank asks of a slot goes before what it asks of slots of a lower priority, wherever something waits. All
 * that it asks of one slot stays in order. From now on; 0 at first. */
void rank_prefer(rank *rank, uint32_t slot, uint8_t priority);

/* As current as when it was asked, whoever pushed: goes down the chain. Not of BSP, where versions are exact. */
void rank_pull_fresh(rank *rank, uint32_t slot, uint64_t step, span query, shared_bytes *bytes);

/* Of BSP: REPLICA_LOG_JOIN or REPLICA_LOG_LEAVE, one at a time; a newer one replaces it. The last member cannot leave.
 * */
void rank_order(rank *rank, replica_log_kind kind);

/* Is there a slot whose server has no memory for what was pushed to it? It is pushed again until there is. */
bool rank_refused(const rank *rank, uint32_t *slot);

void rank_flush(rank *rank); /* what was asked for goes out */
