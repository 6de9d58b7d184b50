/* replica.h — one server's replica of one slot: the chain, the log, the state.
 *
 *                        enters an epoch in whose chain it is …
 *          ┌──────────────────┬─────────────────────┬─────────────────┐
 *          ▼ not first        ▼ first of several    ▼ alone           │
 *       MEMBER             ENTERING              SERVING             OUT ── STATE from the tail ──► JOINING
 *          │                  │ all have entered,   ▲                 ▲                               │
 *          │                  │ the longest log     │                 │                               │
 *          │                  ▼ is taken            │                 │                               │
 *          │              INHERITING ─ all commits ─┘                 │                               │
 *          └───── enters an epoch in whose chain it is not ───────────┘◄──────────────────────────────┘
 *                                                      (or in it: what it was filled with is its copy)
 *
 * The first cluster map of a generation that begins from a checkpoint finds it LOADING, until the checkpoint store has
 * sent its shard.
 *
 * The head gives an entry its lsn, logs it and passes it down the chain; each member logs in order of lsn. What the
 * tail has logged, every member has: it is committed. The tail applies it and says so upwards; each member applies what
 * it hears is committed, and the head tells the rank. So:
 *
 *   1  applied <= level <= logged. State is what is applied, always a committed prefix.
 *   2  level: what has come down the chain in this epoch. The tail commits up to its level, never up to its log: what
 *      it inherited from another epoch may be logged by nobody else.
 *   3  Every part carries the epoch of its slot, and is acted upon in that very epoch only. Whoever enters an epoch has
 *      sealed all earlier ones. A commit needs every member of its chain; one of them is in the next chain, and it logs
 *      nothing of the old epoch any more: a deposed head can commit nothing.
 *   4  A new head takes the longest log of all members, and serves when all of that has committed. Logs of members are
 *      prefixes of each other, so the longest has whatever was acknowledged.
 *   5  A joiner is filled by the tail: state at one lsn, then every entry behind it. Once it is gated the tail commits
 *      only what the joiner has, too; when it also has all that the tail has applied, and all that it had logged when
 *  it entered the epoch (others may have committed that), the next cluster map may make it full. Only an epoch ends a
 *  gate: nobody in the chain can know whether that cluster map was decided.
 *   6  names[rank] is the name applied last: part of the state, copied and replicated with it. A name at or below it is
 *      acknowledged and not applied; a name in the log is acknowledged when it commits; any other must follow its
 *      `prev`. In BSP the version counts rounds, and stands for the names of all ranks.
 *   7  A round is closed with the set that its terms name: the members, by the contributions themselves, or whom the
 *  round state has decided upon (round_state.h). A rank that is frozen is in no such set before the round state has
 *  decided.
 *
 *  What a round needs to know of all slots (norm_reports.h) the round state commits before a slot closes with it.
 *
 *   8  A pull is answered by any member, from its state: the head once it serves, another once it has applied all that
 *      it had logged when it entered (that may have been acknowledged to others). One that must be fresh goes down the
 *      chain as an empty entry: a head that was deposed commits nothing. One that may not be answered yet waits for the
 *      entry that makes it true.
 *
 *  9  A checkpoint is cut by entries: a mark, or in BSP a round that the round state has marked; so all slots are cut
 *     at
 *      one version. The head copies the state when it applies the entry, and sends it until it is saved
 *      (checkpoint_store.h).
 *
 *      A contribution that is repeated with other bytes, by another process of its rank that should have computed the
 *      same, is not taken: the first counts, and whoever looks is told.
 *
 *  10  What is not acknowledged is held on credit (credit.h): a head refuses what a rank has beyond its share, a member
 *      does not log what it has no room for; it stays where it was. The contributions of a round are added up as soon
 *      as they are the next of its set, so a head holds one sum and those that came early.
 *
 * replica_check asserts what one copy can see of these: of 1 the order of the three, and that a server without a copy
 * has nothing of one; of 2 and 4 that a head has all it logged in its level, and serves once what it inherited is
 * applied; of 3 that its phase follows from its place in the chain of its epoch; of 5 that a joiner is filled, begins,
 * is gated and is ready in this order; of 6 that the last name of each rank in the log is known; of 7 that
 * contributions, the sum and the decided set fit together; of 8 that one pull of each rank waits; of 9 that a cut has
 * its bytes. What 10 says of all copies of a server is asserted by slot_server_check.
 *
 * Pure: parts in, parts out, ticks for what may have been lost: those ask, and send again only what has not come. Time
 * decides nothing.
 *
 * Bounds      the log by the windows and the credit of the ranks; contributions of one open round; one kept version;
 *             one cut; one waiting pull of each rank, and what it asks for; for a joiner REPLICA_KEPT_MAX entries,
 *             twice as many with every tick up to REPLICA_SLACK_DOUBLES times, or as many bytes as REPLICA_KEPT_LINKS
 *             links may have.
 * Ownership  payloads stay in their shared buffers (shared_bytes.h). */
#pragma once
#include "ps/cluster_map.h"
#include "ps/replica_log.h"
#include "ps/state_machine.h"

enum { REPLICA_GATE_SLACK = 4, REPLICA_KEPT_MAX = 64, REPLICA_KEPT_LINKS = 16, REPLICA_SLACK_DOUBLES = 6 };

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

typedef struct replica_host { /* what a replica needs of its server */
    const state_machine_ops *values;
    void *values_context; /* for create */
    uint32_t server;
    uint64_t incarnation;
    credit *credit; /* of the server; NULL: nobody counts */

    /* parts are borrowed for the call */
    void (*to_server)(void *context, uint32_t server, const slot_message *message);
    void (*to_rank)(void *context, uint32_t rank, const slot_message *message);
    void (*to_controller)(void *context, const slot_message *message);
    /* of another slot; the host sets the epoch */
    void (*to_head)(void *context, uint32_t slot, const slot_message *message);
    /* NULL: there are no checkpoints */
    void (*to_checkpoints)(void *context, const slot_message *message);
    void *context;
    void (*on_loaded)(void *watcher, const replica *replica); /* it begins from a checkpoint; may be NULL */
    /* this entry; may be NULL */
    void (*on_applied)(void *watcher, const replica *replica, const replica_log_entry *entry);
    void *watcher;
} replica_host;

replica *replica_create(const replica_host *host, uint32_t slot); /* borrowed for its life; OUT */
void replica_destroy(replica *replica);

void replica_enter(replica *replica, const cluster_map *map); /* no-op if the slot's epoch is not newer */
/* the payload lies in the shared buffer */
void replica_take(replica *replica, uint32_t from, const slot_message *message, shared_bytes *bytes);
void replica_tick(replica *replica, int64_t now_us); /* says again what may be lost */

/* Asserts the invariants above (base/invariants.h). */
void replica_check(const replica *replica);

/* ---- For those who look on. */

typedef struct replica_dispute { /* contributions that were repeated with other bytes */
    uint64_t count;
    uint32_t rank; /* the last of them */
    uint64_t round;
} replica_dispute;

typedef struct replica_look {
    replica_phase phase;
    uint64_t epoch, since, birth, origin, applied, logged, level, version;
    size_t open;              /* contributions of the round */
    uint64_t linked;          /* bytes that it holds on the credit of its link */
    bool joins, gated, ready; /* it is a tail that fills somebody */
    replica_dispute dispute;  /* as far as this head has had both */
} replica_look;
replica_look replica_look_at(const replica *replica);
uint32_t replica_slot(const replica *replica);
void replica_write_values(const replica *replica, buffer *out);        /* replaces the content */
const void *replica_values(const replica *replica);                    /* NULL: it has no copy, or of the round state */
uint64_t replica_held(const replica *replica, uint32_t rank);          /* bytes, on this rank's credit */
uint64_t replica_name(const replica *replica, uint32_t rank);          /* applied last */
const struct round_state *replica_round_state(const replica *replica); /* of the slot that is one; NULL: no copy */
