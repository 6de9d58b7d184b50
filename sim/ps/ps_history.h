/* ps_history.h — when ranks asked and when they were answered: pushes and fresh pulls of one slot, from outside.
 *
 * Outside BSP a slot promises that it is one value for fresh pulls: each push and each fresh pull takes place at one
 * moment between its request and its answer, whichever servers have the slot meanwhile. That is linearizability, and
 * linearizability.h decides it: a push that is the v-th of the slot makes version v of v - 1, a fresh pull has read the
 * version behind the last push that it shows. A push that was never answered happened at any time behind its request,
 * or never. ps_checker.h checks that the bytes of a version are those of a sequential run.
 *
 * Of one generation: pushes behind its checkpoint were requested in an earlier one. */
#pragma once
#include "sim/linearizability.h"
#include "sim/ps/ps_workload.h"

typedef struct ps_event { /* of a slot, at one lsn */
    uint8_t kind;
    uint32_t rank;
    uint64_t name, entry, state;        /* hashes of the entry and of the values behind it */
    double values[FLOAT_MACHINE_WIDTH]; /* those, but of a round state */
} ps_event;

typedef struct ps_question {
    uint32_t rank;
    uint64_t name;                 /* of a push; 0: it is a fresh pull */
    int64_t asked_us, answered_us; /* LINEARIZABILITY_NEVER */
    uint64_t lsn;                  /* that a pull was shown */
    uint64_t version;              /* that a push made; 0: none */
} ps_question;

typedef struct ps_history { /* zero-initialized it is empty and ready */
    ps_question *questions; /* owned, in the order in which they were asked */
    size_t count, capacity;
} ps_history;

void ps_history_fini(ps_history *history); /* it is empty, and ready for another generation */

/* A rank pushes values; a name that is given again, by whichever process, was asked for the first time. */
void ps_history_push(ps_history *history, uint32_t rank, uint64_t name, int64_t now_us);
void ps_history_pushed(ps_history *history, uint32_t rank, uint64_t name, int64_t now_us);

size_t ps_history_pull(ps_history *history, int64_t now_us); /* the number of this pull */
void ps_history_pulled(ps_history *history, size_t pull, uint64_t lsn, int64_t now_us);

/* Against what the slot did: its entries, those behind `origin` in this generation. */
bool ps_history_check(ps_history *history, const ps_event *events, size_t count, size_t origin);
