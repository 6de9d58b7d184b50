/* ps_history.h — request and answer times of pushes and fresh pulls of one slot, seen from outside.
 *
 * Outside BSP a slot behaves as one value for fresh pulls: each push and each fresh pull takes effect at one moment
 * between its request and its answer, whichever servers have the slot meanwhile. This is linearizability, and
 * linearizability.h checks it: the v-th push of the slot makes version v from v - 1; a fresh pull reads the version
 * after the last push that its answer contains. A push without an answer takes effect at any time after its request, or
 * never. ps_checker.h checks that the bytes of a version are those of a sequential run.
 *
 * One history covers one generation: pushes before its checkpoint were requested in an earlier one. */
#pragma once
#include "sim/linearizability.h"
#include "sim/ps/ps_workload.h"

typedef struct ps_event { /* an entry of a slot, at one lsn */
    uint8_t kind;
    uint32_t rank;
    uint64_t name, entry, state;        /* hashes of the entry and of the values after it */
    double values[FLOAT_MACHINE_WIDTH]; /* the values; unused for the round state */
} ps_event;

typedef struct ps_question {
    uint32_t rank;
    uint64_t name;                 /* seq of a push; 0: a fresh pull */
    int64_t asked_us, answered_us; /* LINEARIZABILITY_NEVER: no answer */
    uint64_t lsn;                  /* lsn of a pull's answer */
    uint64_t version;              /* version that a push made; 0: none */
} ps_question;

typedef struct ps_history { /* zero-initialized it is empty and ready */
    ps_question *questions; /* owned, in the order of the requests */
    size_t count, capacity;
} ps_history;

void ps_history_fini(ps_history *history); /* empties it for another generation */

/* A rank pushes values. A repeated seq, from any process, counts from its first request. */
void ps_history_push(ps_history *history, uint32_t rank, uint64_t name, int64_t now_us);
void ps_history_pushed(ps_history *history, uint32_t rank, uint64_t name, int64_t now_us);

size_t ps_history_pull(ps_history *history, int64_t now_us); /* returns the number of this pull */
void ps_history_pulled(ps_history *history, size_t pull, uint64_t lsn, int64_t now_us);

/* Compares the requests with the slot's entries; those after `origin` are of this generation. */
bool ps_history_check(ps_history *history, const ps_event *events, size_t count, size_t origin);
