/* leavers.h — servers that have said that they go, as the scheduler knows them (farewell.h). One that is started again
 * stays. It keeps nothing that matters: whoever goes says so again and again.
 *
 * Pure. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct leavers { /* zero-initialized nobody goes */
    uint32_t *numbers;   /* owned, sorted: for director_retire */
    uint64_t *incarnations;
    size_t count;
} leavers;

void leavers_fini(leavers *leavers);
bool leavers_add(leavers *leavers, uint32_t number, uint64_t incarnation); /* true: something has changed */
/* A server was heard as this process: an earlier one that was to go is gone. True: something has changed. */
bool leavers_heard(leavers *leavers, uint32_t number, uint64_t incarnation);
bool leavers_has(const leavers *leavers, uint32_t number, uint64_t incarnation);
