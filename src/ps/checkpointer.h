/* checkpointer.h — checkpointer: the controller's part of checkpoints, which orders them and learns from which one a
 * generation begins.
 *
 *            checkpointer_want  the checkpoint store has one that is whole, at `wanted` or behind
 *   (nothing) ──────────► MARK wanted ─────────────────────────────────────────────────────► told, once
 *                          ▲    │ heads say which one they cut: that is what is waited for
 *                    └────┘ CHECKPOINTER_PATIENCE_US: somebody has missed its cut; the next one
 *
 * A disk may be slow, and the checkpoint store with it: nobody has missed anything while shards are being saved, or
 * while the checkpoint store says nothing at all. So patience ends only when it was heard CHECKPOINTER_SIGNS times and
 * had nothing new.
 *
 * Outside BSP a checkpoint may be exact: all slots are cut at the same step of each rank. Then ranks stand still
 * meanwhile (quiesce.h), for as short a time as can be: what was cut is saved while they go on.
 *
 *               all stand still            all heads have cut            whole
 *   PAUSING ──────────────────────► CUTTING ──────────────────► SAVING ─────────► told, once
 *      ▲ └────────────┬────────────────┘ │ `pause_us` since it began  │ CHECKPOINTER_PATIENCE_US
 *      │              └──────────────────┴─────────────┬────────────────┘
 *      └── RESTING: everybody trains, longer each time ◄┘ the next one
 *
 * A pause ends with each of these arrows but the first, and with its bound whoever says what; if this process is gone
 * workers end it (quiesce_client.h). It also ends when the checkpoint store has it whole before all heads have said
 * that they cut. The next one begins after at least as long a time. The checkpoint store takes no checkpoint for whole
 * whose slots were cut at different steps, because somebody did not stand still, or died in the middle of a step: so
 * time decides nothing but how soon there is one.
 *
 *              checkpointer_seal      SEALED n
 *  (nothing) ──────────► SEAL of n ───────────► the newest there can be before the cluster map n + 1
 *
 * Where there are rounds the round state is asked first, and says which version will be cut; slots without rounds,
 * which a mixed deployment has besides, are asked when it has been: then they have all steps before it, of every rank
 * that was counted (rank.h), and whoever goes on from there repeats the rest.
 *
 * The checkpoint store remembers on its disk at which number it was sealed. One above that of the seal is from before
 * the metadata store lost its own: whoever begins tells the metadata store, which then begins above it
 * (cluster/metadata_db.h).
 *
 * Invariants (checkpointer_check)
 *   1  Only a checkpoint that is wanted is in another phase than RESTING.
 *   2  Ranks are told to stand still while it is PAUSING or CUTTING, and not while it is SAVING.
 *   3  The slots that have cut are counted.
 *  4  One that was made was heard of; attempts that failed in a row are counted up to CHECKPOINTER_REST_MAX.
 *
 * It keeps nothing that matters: a controller that starts again learns the newest from the checkpoint store. Time
 * decides only when another one is tried.
 *
 * Pure. */
#pragma once
#include "ps/quiesce.h"

#define CHECKPOINTER_PATIENCE_US INT64_C(1500000)
#define CHECKPOINTER_PRESS_US    INT64_C(1000000) /* or half of the pause: then all end the same step (quiesce.h) */
enum { CHECKPOINTER_SIGNS = 10 };
enum { CHECKPOINTER_REST_MAX = 4 }; /* doublings of the time between two attempts */

typedef enum checkpointer_phase {
    CHECKPOINTER_RESTING,
    CHECKPOINTER_PAUSING,
    CHECKPOINTER_CUTTING,
    CHECKPOINTER_SAVING
} checkpointer_phase;

typedef struct checkpointer { /* zero-initialized it is ready; checkpointer_fini */
    bool exact;               /* outside BSP */
    int64_t pause_us;         /* of those: ranks stand still no longer than that */
    bool heard;               /* of the checkpoint store */
    uint64_t newest;          /* that is whole, as far as it is known */
    uint64_t wanted;          /* 0: nobody wants one */
    bool begun;               /* the patience counts */
    bool made;                /* one was whole that this process has ordered */
    uint32_t round_state;     /* as the cluster map had it when it was last asked; */
    uint64_t cut;             /* and the last version that it has cut */
    int64_t until_us;
    uint32_t signs;         /* of the checkpoint store, since then */
    uint64_t making, saved; /* the checkpoint that it is saving, and how many slots of it: as it said last */
    bool sealed;
    uint64_t number, origin; /* of the seal, and what it said */
    /* the highest number at which the checkpoint store was ever sealed, as far as it said so */
    uint64_t known;

    checkpointer_phase phase; /* of an exact one; RESTING until until_us */
    quiesce quiesce;
    int64_t since_us, press_us;     /* of the pause */
    int64_t free_us;                /* ranks train until then at least: as long as they stood still before */
    uint64_t pauses;                /* the number of the last one that anybody has heard of */
    uint32_t failures;              /* in a row */
    uint32_t slot_count, cut_count; /* heads that have cut: */
    bool *has_cut;                  /* by slot, owned */
} checkpointer;

typedef struct checkpointer_crew { /* workers that are known: of exact ones */
    const quiesce_worker *workers;
    size_t count;
} checkpointer_crew;

void checkpointer_fini(checkpointer *checkpointer);
void checkpointer_check(const checkpointer *checkpointer); /* asserts the invariants above */
void checkpointer_want(checkpointer *checkpointer);
void checkpointer_restart(checkpointer *checkpointer); /* another generation has begun, from an earlier one perhaps */
/* Says again what is wanted. */
void checkpointer_order(checkpointer *checkpointer, const cluster_map *map, batcher *batcher, checkpointer_crew crew,
                        int64_t now_us);
/* True: what was wanted is whole, and `newest`. */
bool checkpointer_take(checkpointer *checkpointer, const cluster_map *map, const slot_message *message);
/* Of an exact one: what was waited for is there, and should be ordered now rather than with the next tick. */
bool checkpointer_moves(const checkpointer *checkpointer, const cluster_map *map, checkpointer_crew crew);

/* No checkpoint above *number has been cut by any slot. False: that is not known. What an earlier process ordered may
 * lie with heads, which say so when they are asked for the next one: so nothing is known before that is whole. */
bool checkpointer_bound(const checkpointer *checkpointer, uint64_t *number);

/* Asks the checkpoint store; true: it has answered for this number. */
bool checkpointer_seal(checkpointer *checkpointer, batcher *batcher, const char *checkpoints, uint64_t number);
