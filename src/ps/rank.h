/* rank.h — protocol state of one rank: unacknowledged pushes and pending pulls.
 *
 *                 cluster map   CLOCK of every slot it uses
 *   (created) ─────────► asking ───────────────────────► ready: pushes and pulls
 *                          ▲                               │
 *                          ├─── another generation: over ──┤
 *                          └─── rank_sync ─────────────────┘
 *
 * A push is kept, unchanged, until it is acknowledged; a push that is lost, refused or sent to the wrong server is
 * sent again, in order, after the next cluster map or the next tick. Each term of a rank first asks every slot for the
 * rank's last applied seq: the rank resumes at the lowest, and a seq that it repeats is acknowledged and not applied.
 * The pushes of the term before are committed or refused by then: a term never receives an answer that belongs to
 * another term. The rank does the same when another generation begins: its requests belong to a history that is over.
 *
 * In BSP the last slot is the round state (round_state.h). The rank pulls the round state like other slots, with every
 * version, and sends the terms of the round in it with every contribution to that round. A contribution to the round
 * state itself, an empty one, is the rank's end-of-step; under a policy of backup workers the rank sends it only after
 * all other slots have taken the rank's contributions. In a mixed deployment (cluster_map.h) it waits until the slots
 * without rounds have acknowledged all pushes of the rank up to that step: so at the round state's version k those
 * slots have all pushes of the steps before k, of every rank that was counted.
 *
 * The query of a pull is written and read by the engine (state_machine.h); the rank keeps the query until the answer
 * arrives, and repeats the pull.
 *
 * The bytes in flight to a server are bounded by that server's grant (credit.h), over all slots whose head it is;
 * other pushes wait until there is room, in the order of their slots' priorities; but no slot is passed over more
 * often than RANK_PATIENCE times the number of slots. All pushes for one slot are sent in order. If the number of
 * pulls is bounded, pulls wait in the same way; pulls of the round state do not wait.
 *
 * A tick asks whether a push has arrived, without its payload; the payload is sent again only if it has not.
 *
 * Bounds      RANK_WINDOW pushes per slot are kept; rank_push_pieces returns MR_BUSY for one more. Bytes in flight:
 *             the grant. One pull per slot, with its query.
 * Ownership   payloads and queries are held in their shared buffers until they are acknowledged or answered; those
 *             without a buffer are copied.
 * Pure: bytes in, bytes out, ticks. */
#pragma once
#include "ps/batcher.h"
#include "ps/round_state.h"

#define RANK_TICK_US INT64_C(80000)
enum { RANK_WINDOW = 8, RANK_PATIENCE = 4 };

typedef enum rank_spread {
    RANK_HEADS, /* pulls go to the head of a slot */
    /* with read replicas: pulls go to one replica while it answers; otherwise, and for CONSISTENCY_NEWEST, which is
     * newest there, to the head */
    RANK_HOT,
    RANK_ANY /* pulls go to all replicas in turn */
} rank_spread;

typedef struct rank_options {
    uint32_t rank;
    const char *address, *controller; /* address: copied; controller: borrowed for the rank's life */
    /* The slots that the rank pushes to and pulls from, borrowed for its life; NULL: all. The rank contacts no other
     * slot: a rank that trains a part of a large table needs only the servers of that part. Outside ASP every rank
     * sends its end-of-step to all slots. */
    const uint32_t *touches;
    uint32_t touch_count;
    uint32_t pulls_max; /* most pulls in flight, the round state's not counted; others wait; 0: no bound */
    rank_spread spread; /* replicas that pulls go to */
    void (*send)(void *context, const char *address, span bytes);
    /* see batcher.h */
    void (*send_pieces)(void *context, const char *address, const shared_bytes_piece *pieces, size_t count);
    /* Called before a push is sent to the head of this slot. Returns the payload in a form that the head can read,
     * with a reference for the rank; NULL: unchanged, and *afar is set if the payload refers to memory outside it.
     * May be NULL. */
    shared_bytes *(*carry)(void *context, uint32_t slot, span payload, bool *afar);
    void (*on_ready)(void *context);
    /* The generation is over: no pending request will be answered, and on_ready is called again. May be NULL. */
    void (*on_over)(void *context);
    void (*on_pushed)(void *context, uint32_t slot, uint64_t name, slot_message_status status); /* OK, MISSED, GONE */
    void (*on_pulled)(void *context, uint32_t slot, uint64_t version, uint64_t lsn, span values);
    /* a pull of the round state was answered; `terms` is borrowed */
    void (*on_round)(void *context, const round_state_terms *terms);
    /* the pulled version is gone; `version`: the current one */
    void (*on_gone)(void *context, uint32_t slot, uint64_t version);
    /* the order of rank_order was answered; it holds from `round` on */
    void (*on_ordered)(void *context, replica_log_kind kind, bool done, uint64_t round);
    void *context;
    map_cache *cache; /* shared; NULL: a private one */
    size_t piece;     /* bytes of a piece of a large message (transfer.h); 0: the default */
} rank_options;

typedef struct rank rank;

rank *rank_create(const rank_options *options);
void rank_destroy(rank *rank);
void rank_begin(rank *rank, uint64_t term, int64_t now_us); /* `term`: as the cluster map assigned it (cluster_map.h) */

/* `shared`: the buffer of the bytes, see batcher.h; NULL: they are copied */
void rank_take_bytes(rank *rank, span bytes, shared_bytes *shared);
int64_t rank_next_us(const rank *rank);
void rank_tick(rank *rank, int64_t now_us);

const cluster_map *rank_map(const rank *rank);
uint64_t rank_clock(const rank *rank, uint32_t slot); /* the last seq that is known to be applied */
/* version of the slot in CLOCK; without rounds, of a rank that has left: the step behind which it returns */
uint64_t rank_version(const rank *rank, uint32_t slot);
/* Asks all slots for the rank's position once more: on_ready is called again. Nothing may be unacknowledged or
 * unanswered. For a rank that has left (consistency.h), since the others have gone on. */
void rank_sync(rank *rank);

/* Pushes a payload to a slot. Seqs of one slot grow, with any gaps: several pushes in one payload have the seq of the
 * last. A seq that the clock has already passed is still sent, and acknowledged. So a process that repeats a step may
 * group its pushes in another way than the process before it, if no payload has pushes on both sides of the clock
 * that it got. The shared buffers of the payload and of the tail, in which the payload continues, are held until the
 * push is acknowledged. A payload without a shared buffer is copied. MR_BUSY: the window is full. */
MR_MUST mr_status rank_push_pieces(rank *rank, uint32_t slot, uint64_t name, span payload, shared_bytes *bytes,
                                   shared_bytes_piece tail);
/* The tail in this shared buffer is at `to` from now on, for repeated sends. Earlier messages are sent before the
 * move. */
void rank_move(rank *rank, const shared_bytes *bytes, span to);
typedef enum rank_pull_kind {
    RANK_PULL_ACKNOWLEDGED, /* the answer includes all acknowledged pushes of this rank to the slot */
    /* The answer includes all earlier pushes of this rank, acknowledged or not, so push and pull can be sent
     * together; a pull that arrives before its push waits at the server. Not for BSP, where the version says it. */
    RANK_PULL_BEHIND,
    /* The answer includes all pushes of all ranks that were acknowledged before the pull: the pull is confirmed along
     * the chain. Not for BSP, where versions are exact. */
    RANK_PULL_FRESH
} rank_pull_kind;

/* Pulls from a slot. One pull at a time per slot; a newer one replaces it. `step`: with rounds the version, or
 * CONSISTENCY_NEWEST, otherwise the step that all ranks must have ended (consistency_needs). The shared buffer of the
 * query is held until the answer; NULL: the query is copied. */
void rank_pull(rank *rank, uint32_t slot, uint64_t step, span query, shared_bytes *bytes, rank_pull_kind kind);

/* Sets the priority of a slot, 0 at first: from now on waiting requests of this rank for the slot go before those for
 * slots of a lower priority. Requests for one slot stay in order. */
void rank_prefer(rank *rank, uint32_t slot, uint8_t priority);

/* Joins or leaves BSP rounds: REPLICA_LOG_JOIN or REPLICA_LOG_LEAVE. One order at a time; a newer one replaces it.
 * The last member cannot leave. */
void rank_order(rank *rank, replica_log_kind kind);

/* True: the server of *slot has no memory for a push, which is repeated until it has. */
bool rank_refused(const rank *rank, uint32_t *slot);

void rank_flush(rank *rank); /* sends the added requests */
