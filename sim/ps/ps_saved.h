/* ps_saved.h — the checker's records of complete checkpoints (ps_checker.h): the lsn at which each slot was cut, and
 * what the deployment was then. */
#pragma once
#include "ps/rank_set.h"
#include "sim/ps/ps_workload.h"

enum { PS_SAVED_MAX = 8 }; /* the checkpoint store keeps fewer */

typedef struct ps_saved { /* a checkpoint */
    uint64_t checkpoint;
    uint64_t version;           /* of slots with rounds */
    uint32_t ranks, known;      /* number of ranks; number of ranks that have ever existed, up to then */
    bool has[PS_SLOTS_MAX];     /* the slot is part of it, */
    uint64_t lsn[PS_SLOTS_MAX]; /* cut at this lsn */
    bool used;                  /* a generation has begun from this checkpoint: */
    rank_set members;           /* members of the round with which it continued */
} ps_saved;

typedef struct ps_saved_list { /* the last PS_SAVED_MAX; zero-initialized: none */
    ps_saved list[PS_SAVED_MAX];
    size_t count; /* all so far */
} ps_saved_list;

/* The record replaces the oldest. */
ps_saved *ps_saved_add(ps_saved_list *saved, uint64_t checkpoint);
/* NULL: none */
ps_saved *ps_saved_find(ps_saved_list *saved, uint64_t checkpoint);
/* Drops the records of later checkpoints: they were damaged, and their numbers will be used again. */
void ps_saved_drop_after(ps_saved_list *saved, uint64_t checkpoint);
