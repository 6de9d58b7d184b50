/* final_checkpoint.h — the checkpoint that a scheduler makes before the deployment ends: when it is stopped, or when
 * its last server drains. Otherwise the next start would continue without the pushes since the newest checkpoint.
 *
 *                              a requested checkpoint is complete ──► COMPLETE: it has its number
 *   (none) ── begin ──► WAITING
 *                              ├── some slot has had no live server for FINAL_CHECKPOINT_GONE_US ──► GONE
 *                              └── no slot was saved for `patience_us`, or FINAL_CHECKPOINT_MAX_US are over ──► LATE
 *
 * The time is bounded by progress, since a large model on a slow disk takes long.
 *
 * Pure. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#define FINAL_CHECKPOINT_TICK_US     INT64_C(20000)
#define FINAL_CHECKPOINT_PATIENCE_US INT64_C(30000000) /* the default */
#define FINAL_CHECKPOINT_GONE_US     INT64_C(1500000)
#define FINAL_CHECKPOINT_MAX_US      INT64_C(600000000)

typedef enum final_checkpoint_phase {
    FINAL_CHECKPOINT_NONE,
    FINAL_CHECKPOINT_WAITING,
    FINAL_CHECKPOINT_COMPLETE,
    FINAL_CHECKPOINT_GONE,
    FINAL_CHECKPOINT_LATE
} final_checkpoint_phase;

typedef struct final_checkpoint { /* zero-initialized: none */
    final_checkpoint_phase phase;
    uint64_t token;                                 /* of the request (kv/control/checkpoint_requests.h) */
    uint64_t number;                                /* COMPLETE: its number */
    int64_t begun_us, moved_us, served_us, next_us; /* moved: last progress; served: every slot had a live server */
    uint64_t making, saved;                         /* last known progress */
    int64_t patience_us;
} final_checkpoint;

typedef struct final_checkpoint_facts {
    uint64_t number;        /* the checkpoint that answers the request; 0: none yet */
    uint64_t making, saved; /* the checkpoint in the making, and its saved slots */
    bool served;            /* every slot has a live server */
} final_checkpoint_facts;

void final_checkpoint_begin(final_checkpoint *final, uint64_t token, int64_t patience_us, int64_t now_us);
/* True: the wait has ended with this call. */
bool final_checkpoint_tick(final_checkpoint *final, const final_checkpoint_facts *facts, int64_t now_us);
