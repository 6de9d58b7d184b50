/* checkpointer.h — checkpointer: the controller's part of checkpoints, which orders them and learns from which one a
 * generation begins.
 *
 *            checkpointer_want   the checkpoint store has a complete one, `wanted` or later
 *   (nothing) ──────────► MARK wanted ─────────────────────────────────────────────────────► reported once
 *                          ▲    │ heads answer which checkpoint they cut: the checkpointer waits for it
 *                          └────┘ CHECKPOINTER_PATIENCE_US: a head has missed its cut; the next one
 *
 * A slow disk delays the checkpoint store: while snapshots are being saved, or no report arrives, the checkpointer
 * cannot conclude that a head has missed its cut. So patience ends only after CHECKPOINTER_SIGNS reports without
 * progress. Large cuts arrive in pieces, of all slots at once (transfer.h), and each piece is progress. A server that
 * copies a large slot for its cut sends nothing until it has the copy: patience does not end while a head is silent
 * (checkpointer_excuse), for otherwise the next cut would replace this one before its first piece, again and again.
 *
 * Outside BSP a checkpoint may be exact: all slots are cut at the same step of each rank. Then ranks quiesce
 * (quiesce.h) for as short a time as possible: the cuts are saved while the ranks train.
 *
 *               all are paused             all heads have cut            complete
 *   PAUSING ──────────────────────► CUTTING ──────────────────► SAVING ─────────► reported once
 *      ▲ └────────────┬────────────────┘ │ `pause_us` since it began  │ CHECKPOINTER_PATIENCE_US
 *      │              └──────────────────┴─────────────┬────────────────┘
 *      └── RESTING: all ranks train, longer each time ◄┘ the next one
 *
 * Each of these arrows but the first ends the pause, and so does its time limit, without any message; if this process
 * is gone the workers end the pause (quiesce_client.h). The pause also ends when the checkpoint store has the
 * checkpoint complete before all heads have reported their cuts. The next pause begins after at least as long a time.
 * If a rank did not stop, or died inside a step, slots are cut at different steps, and the checkpoint store does not
 * complete that checkpoint: so time decides only how soon there is a checkpoint.
 *
 *              checkpointer_seal      SEALED n
 *  (nothing) ──────────► SEAL of n ───────────► the newest there can be before the cluster map n + 1
 *
 * With rounds the round state is asked first, and answers which version will be cut. Slots without rounds, which a
 * mixed deployment has, too, are asked after that cut: then they have all steps before it, of every rank that was
 * counted (rank.h), and a rank that resumes from there repeats the rest.
 *
 * A version is cut when its round ends, and is the number of that checkpoint. If no worker has a rank, or no version
 * was cut for CHECKPOINTER_STILL_US, the rounds may stand still: ranks wait, compute, or ended inside a step. Then the
 * last version that all slots have reached is cut:
 *
 *   ranks train ── no rank, or no cut for long ──► which version is open? ── v ──► MARK v now ── all OK ──► complete
 *        ▲                                                                          │  ▲ │
 *        └─ a slot is past v + 1: rounds go on; or CHECKPOINTER_PATIENCE_US ────────┘  └─┘ a slot has not reached v:
 *                                                                                          the next number, v - 1
 *
 * One number may be tried at two versions: that of a version that was cut now, and that of the next round that ends. So
 * each cut names its version, also those of slots without rounds, which are marked again for another version; the
 * checkpoint store keeps the cuts of the higher one.
 *
 * Slots are at most one version apart, and a slot that is past v has kept v (replica_checkpoint.c). The number of this
 * checkpoint is v, or one more than the newest if that is higher: so tables can be saved before the first round, and
 * slots without rounds while no round ends. If v is the version of the newest complete checkpoint and all slots have
 * rounds, that checkpoint has everything, and is the wanted one.
 *
 * The checkpoint store keeps on its disk the number at which it was sealed. If it reports a number above that of the
 * seal, the metadata store has lost its disk: the controller that begins a generation sends the number to the metadata
 * store, which then begins above it (cluster/metadata_db.h).
 *
 * Invariants (checkpointer_check)
 *   1  Only a checkpoint that is wanted is in another phase than RESTING.
 *   2  Ranks are paused in the phases PAUSING and CUTTING, and not in SAVING.
 *   3  cut_count is the number of slots that have cut.
 *   4  A checkpoint that was made was reported by the store; attempts that failed in a row are counted up to
 *      CHECKPOINTER_REST_MAX.
 *
 * The checkpointer keeps no durable state: a controller that starts again learns the newest checkpoint from the
 * checkpoint store. Time decides only when another one is tried.
 *
 * Pure. */
#pragma once
#include "ps/quiesce.h"

#define CHECKPOINTER_PATIENCE_US INT64_C(1500000)
/* with ranks in rounds: time after which the open version is cut */
#define CHECKPOINTER_STILL_US INT64_C(2000000)
/* bound, besides half of the pause, after which all ranks end the same step (quiesce.h) */
#define CHECKPOINTER_PRESS_US INT64_C(1000000)
enum { CHECKPOINTER_SIGNS = 10 };
enum { CHECKPOINTER_REST_MAX = 4 }; /* doublings of the time between two attempts */

typedef enum checkpointer_phase {
    CHECKPOINTER_RESTING,
    CHECKPOINTER_PAUSING,
    CHECKPOINTER_CUTTING,
    CHECKPOINTER_SAVING
} checkpointer_phase;

typedef struct checkpointer { /* ready when zero-initialized; ends with checkpointer_fini */
    bool exact;               /* checkpoints outside BSP are exact */
    int64_t pause_us;         /* longest pause of the ranks for an exact checkpoint */
    bool heard;               /* the checkpoint store has reported */
    uint64_t newest;          /* newest known complete checkpoint */
    uint64_t newest_version;  /* 1 + the version of slots with rounds in it; 0: unknown */
    uint64_t wanted;          /* number of the wanted checkpoint; 0: none */
    bool begun;               /* the patience counts */
    bool made;                /* a checkpoint ordered by this process was complete */
    uint32_t round_state;     /* slot of the round state when it was asked last */
    uint64_t cut;             /* last checkpoint that the round state has cut */
    uint64_t cut_version;     /* 1 + the version in it */
    bool asked;               /* the round state was asked to cut, at asked_us */
    int64_t asked_us;
    bool now;             /* a version is cut although no round ends */
    uint64_t now_version; /* 1 + that version; 0: the round state has not answered yet */
    uint64_t tried;       /* last number under which a version was cut so */
    int64_t until_us;
    uint32_t signs;         /* reports of the checkpoint store since the patience began */
    uint64_t making, saved; /* last report of the store: number of the checkpoint in the making, and its stored slots */
    uint64_t arrived;       /* likewise: bytes of large cuts that have arrived */
    bool sealed;
    uint64_t number, origin; /* number of the seal; origin: newest checkpoint, from the store's answer */
    /* highest number at which the checkpoint store was ever sealed, from its reports */
    uint64_t known;

    checkpointer_phase phase; /* phase of an exact checkpoint; RESTING until until_us */
    quiesce quiesce;
    int64_t since_us, press_us;     /* begin of the pause; time from which ranks are pressed to end the same step */
    int64_t free_us;                /* ranks train at least until then: as long as the last pause took */
    uint64_t pauses;                /* highest pause number known to any process */
    uint32_t failures;              /* failed attempts in a row */
    uint32_t slot_count, cut_count; /* cut_count: slots whose heads have cut */
    bool *has_cut;                  /* by slot, owned */
} checkpointer;

void checkpointer_fini(checkpointer *checkpointer);
void checkpointer_check(const checkpointer *checkpointer); /* asserts the invariants above */
void checkpointer_want(checkpointer *checkpointer);
void checkpointer_restart(checkpointer *checkpointer); /* another generation begins, maybe from an older checkpoint */
/* Repeats the orders for the wanted checkpoint. */
void checkpointer_order(checkpointer *checkpointer, const cluster_map *map, batcher *batcher, quiesce_workers workers,
                        int64_t now_us);
/* A head is silent, and may be making its cut: the patience begins again. */
void checkpointer_excuse(checkpointer *checkpointer);
/* True: the wanted checkpoint is complete; `newest` has its number. */
bool checkpointer_take(checkpointer *checkpointer, const cluster_map *map, const slot_message *message);
/* True: the phase of an exact checkpoint can end, so the caller calls checkpointer_order now and not with the next
 * tick. */
bool checkpointer_moves(const checkpointer *checkpointer, const cluster_map *map, quiesce_workers workers);

/* No slot has cut a checkpoint above *number. False: the bound is unknown. Heads may hold cuts that an earlier
 * controller ordered, and report them when the next is ordered; so the bound is unknown until a checkpoint of this
 * controller is complete. */
bool checkpointer_bound(const checkpointer *checkpointer, uint64_t *number);

/* Asks the checkpoint store for a seal. True: the store has answered for this number. */
bool checkpointer_seal(checkpointer *checkpointer, batcher *batcher, const char *checkpoints, uint64_t number);
