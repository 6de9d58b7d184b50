/* replica.h — one server's replica of one slot: the chain, the log, the state.
 *
 *                        enters an epoch whose chain includes it …
 *          ┌──────────────────┬─────────────────────┬─────────────────┐
 *          ▼ not first        ▼ first of several    ▼ alone           │
 *       MEMBER             ENTERING              SERVING             OUT ── STATE from the tail ──► JOINING
 *          │                  │ all have entered,   ▲                 ▲                               │
 *          │                  │ the longest log     │                 │                               │
 *          │                  ▼ is taken            │                 │                               │
 *          │              INHERITING ─ all commits ─┘                 │                               │
 *          └───── enters an epoch whose chain does not ───────────────┘◄──────────────────────────────┘
 *                                                      (or in it: the filled state is its replica)
 *
 * The first cluster map of a generation that begins from a checkpoint finds the replica LOADING, until the checkpoint
 * store has sent its snapshot.
 *
 * The head assigns an lsn to an entry, logs the entry and sends it down the chain; each member logs in order of lsn.
 * An entry that the tail has logged is in the log of every member: the entry is committed. The tail applies the entry
 * and reports the lsn up the chain; each member applies entries that are reported as committed, and the head answers
 * the rank. So:
 *
 *   1  applied <= level <= logged. The state is the applied entries, always a committed prefix.
 *   2  level: the last entry received down the chain in this epoch. The tail commits up to its level, never up to its
 *      log: entries inherited from another epoch may be in no other log.
 *   3  Every slot message carries the epoch of its slot, and has effect in exactly that epoch. A replica that enters
 *      an epoch ignores messages of earlier ones. A commit needs every member of its chain; one of them is in the next
 *      chain, and logs nothing of the old epoch any more: a deposed head cannot commit.
 *   4  A new head takes the longest log of all members, and serves when all of that has committed. Logs of members are
 *      prefixes of each other, so the longest has all acknowledged entries.
 *   5  The tail fills a joiner: with the state at one lsn, which travels in pieces (transfer.h), then every later
 *      entry. Once the joiner is gated the tail commits only entries that the joiner has, too; when the joiner also has
 *      all entries that the tail has applied, and all that the tail had logged when it entered the epoch (others may
 *      have committed those), the next cluster map may add the joiner to the chain. Only an epoch ends a gate: no
 *      member of the chain can know whether that cluster map was decided.
 *   6  names[rank] is the last applied seq: part of the state, copied and replicated with it. A seq at or below it is
 *      acknowledged and not applied; a seq in the log is acknowledged when it commits; any other must follow its
 *      `prev`. In BSP the version counts rounds, and replaces the seqs of the ranks.
 *   7  A round is closed with the set in its terms: the members, known from the contributions, or the set that the
 *      round state has decided (round_state.h). A frozen rank is in no such set before the round state has decided.
 *      Norms of all slots that a round needs (norm_reports.h) are committed by the round state before a slot closes
 *      with them.
 *   8  Any member answers a pull from its state: the head once it serves, another member once it has applied all that
 *      it had logged when it entered (those entries may have been acknowledged). A fresh pull is sent down the chain
 *      as an empty entry, which a deposed head cannot commit. A pull that may not be answered yet waits for the entry
 *      that allows the answer.
 *   9  A checkpoint is cut by entries: a mark, or in BSP a round that the round state has marked; so all slots are cut
 *      at one version. The head copies the state when it applies the entry, and sends the copy until the checkpoint
 *      store has saved it (checkpoint_store.h).
 *
 *      A contribution that is repeated with other bytes, by another process of its rank that should have computed the
 *      same, is ignored: the first counts, and the dispute is reported (replica_dispute).
 *
 *  10  Unacknowledged bytes are held on credit (credit.h): a head refuses pushes of a rank beyond its limit, a member
 *      does not log an entry without room for it; the sender keeps the entry. A contribution is added to the sum of
 *      its round as soon as it is the next one of the set, so a head holds one sum and the contributions that arrived
 *      early.
 *
 * replica_check asserts what one replica can see: for 1, the order of the three, and that a server without a replica
 * has no state of one; for 2 and 4, that a head's level is the end of its log, and that it serves once the inherited
 * entries are applied; for 3, that its phase follows from its place in the chain of its epoch; for 5, that a joiner is
 * filled, begun and ready in this order, and not ready without a gate; for 6, that the last seq of each rank in the log
 * is known; for 7, that contributions, the sum and the decided set fit together; for 8, that one pull of each rank
 * waits; for 9, that a cut has its bytes. slot_server_check asserts 10 for all replicas of a server.
 *
 * Pure: messages in, messages out, ticks for lost messages: a tick asks first, and resends only what has not arrived.
 * Correctness does not depend on time.
 *
 * Bounds      the log: windows and credit of the ranks; contributions of one open round; one kept version; one cut;
 *             one waiting pull of each rank, with its query; for a joiner REPLICA_KEPT_MAX entries, twice as many with
 *             every tick up to REPLICA_SLACK_DOUBLES times, or the link credit of REPLICA_KEPT_LINKS links in bytes;
 *             REPLICA_KEPT_STATE entries while its state is on the way: with more the gate is closed until it arrives.
 * Ownership   payloads stay in their shared buffers (shared_bytes.h). */
#pragma once
#include "ps/cluster_map.h"
#include "ps/replica_log.h"
#include "ps/state_machine.h"

enum {
    REPLICA_GATE_SLACK = 4,
    REPLICA_KEPT_MAX = 64,
    REPLICA_KEPT_LINKS = 16,
    REPLICA_SLACK_DOUBLES = 6,
    REPLICA_KEPT_STATE = REPLICA_LOG_MAX / 4
};

typedef enum replica_phase {
    REPLICA_OUT,
    REPLICA_LOADING,
    REPLICA_JOINING,
    REPLICA_MEMBER,
    REPLICA_ENTERING,
    REPLICA_INHERITING,
    REPLICA_SERVING
} replica_phase;

typedef struct replica replica;

typedef struct replica_host { /* operations of the server that a replica needs */
    const state_machine_ops *values;
    void *values_context; /* context of `values` */
    uint32_t server;
    uint64_t incarnation;
    credit *credit; /* credit of the server; NULL: not counted */

    /* messages are borrowed for the call */
    void (*to_server)(void *context, uint32_t server, const slot_message *message);
    void (*to_rank)(void *context, uint32_t rank, const slot_message *message);
    void (*to_controller)(void *context, const slot_message *message);
    /* to the head of another slot; the host sets slot and epoch */
    void (*to_head)(void *context, uint32_t slot, const slot_message *message);
    /* NULL: no checkpoints */
    void (*to_checkpoints)(void *context, const slot_message *message);
    void *context;
    /* the replica was loaded from a checkpoint; may be NULL */
    void (*on_loaded)(void *watcher, const replica *replica);
    /* an entry was applied; may be NULL */
    void (*on_applied)(void *watcher, const replica *replica, const replica_log_entry *entry);
    void *watcher;
} replica_host;

/* `host` is borrowed for the replica's life; the phase is OUT */
replica *replica_create(const replica_host *host, uint32_t slot);
void replica_destroy(replica *replica);

void replica_enter(replica *replica, const cluster_map *map); /* no-op if the slot's epoch is not newer */
/* `bytes`: shared buffer that holds the payload */
void replica_take(replica *replica, uint32_t from, const slot_message *message, shared_bytes *bytes);
void replica_tick(replica *replica, int64_t now_us); /* repeats messages that may be lost */

/* Asserts the invariants above (base/invariants.h). */
void replica_check(const replica *replica);

/* ---- For inspection. */

typedef struct replica_dispute { /* contributions that were repeated with other bytes */
    uint64_t count;
    uint32_t rank; /* rank and round of the last dispute */
    uint64_t round;
} replica_dispute;

typedef struct replica_look {
    replica_phase phase;
    uint64_t epoch, since, birth, origin, applied, logged, level, version;
    size_t open;              /* contributions to the open round */
    uint64_t linked;          /* bytes held on the credit of the link */
    bool joins, gated, ready; /* state of a tail that fills a joiner */
    replica_dispute dispute;  /* counts only contributions of which this head has received both versions */
} replica_look;
replica_look replica_look_at(const replica *replica);
uint32_t replica_slot(const replica *replica);
void replica_write_values(const replica *replica, buffer *out); /* replaces the content of *out */
const void *replica_values(const replica *replica);             /* NULL: no replica, or the replica of a round state */
uint64_t replica_held(const replica *replica, uint32_t rank);   /* bytes held on this rank's credit */
uint64_t replica_name(const replica *replica, uint32_t rank);   /* last applied seq of the rank */
/* only for the slot of the round state; NULL: no replica */
const struct round_state *replica_round_state(const replica *replica);
