/* leavers.h — the scheduler's list of draining servers (farewell.h). One that is started again stays. It keeps nothing
 * that matters: a draining server repeats its message.
 *
 * Pure. */
#pragma once
#include "kv/office/seats.h"

typedef struct leavers {              /* zeros: no server leaves */
    uint64_t incarnations[SEATS_MAX]; /* by number; 0: that server stays */
    uint32_t numbers[SEATS_MAX];      /* of the servers that leave, sorted: for director_retire */
    size_t count;
} leavers;

/* `number` is below SEATS_MAX. True: something has changed. */
bool leavers_add(leavers *leavers, uint32_t number, uint64_t incarnation);
/* A server was heard as this process: an earlier one that was to go is gone. True: something has changed. */
bool leavers_heard(leavers *leavers, uint32_t number, uint64_t incarnation);
bool leavers_has(const leavers *leavers, uint32_t number, uint64_t incarnation);
