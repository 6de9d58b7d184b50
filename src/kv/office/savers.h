/* savers.h — the scheduler's list of processes that wait for a checkpoint they requested (mr_ps_checkpoint).
 *
 *   asks ── a checkpoint that was begun after that is whole ──► is told its number, as often as it asks
 *
 * Of the one that is being made slots may have been cut already: it does not answer a request that arrives now, but the
 * next one does. Nor is the first that this scheduler sees made: the scheduler before it may have had slots cut for it.
 * When that one is whole, no slot has been cut for a later one (marker.h).
 *
 * An asker has a token, and asks again and again; one that has not asked for SAVERS_SILENT_US is forgotten.
 *
 * Bounds      SAVERS_MAX at a time; one more is not taken until another is forgotten.
 * Pure. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SAVERS_MAX = 256 };
#define SAVERS_SILENT_US INT64_C(10000000)

typedef struct saver {
    uint64_t token;
    unsigned owed;   /* checkpoints that have to be whole first; 0: all are, */
    uint64_t number; /* and this was the last */
    int64_t asked_us;
} saver;

typedef struct savers { /* zero-initialized nobody waits */
    bool seen;          /* one was made */
    size_t count;
    saver list[SAVERS_MAX];
} savers;

/* `making`: one is under way. The number of the checkpoint that it asked for; 0: not yet. */
uint64_t savers_ask(savers *savers, uint64_t token, bool making, int64_t now_us);
void savers_whole(savers *savers, uint64_t number); /* the one that was under way is */
