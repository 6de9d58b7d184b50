/* barrier_server.h — barrier, scheduler's side: the ranks that have arrived, and the barriers that have opened.
 *
 * A barrier has a name. Each rank that comes says at which place of its program it is: a number that grows, and that a
 * process which plays a step again says again (BARRIERS_PLACE). So the memory of a barrier is one place for each rank,
 * the last one that it has passed, and the rule is one line:
 *
 *   a rank comes at `place` ── place ≤ passed[rank] ──► it has been here before: it goes on at once
 *                           └─ else come[rank] = place; when all ranks have come behind what they passed:
 *                              passed = come, for all of them: the round opens
 *
 *   place    step · 2^20, + 2^19 if the step was open, + how many rounds of this barrier it has passed at that step
 *            of a process that has not begun a step yet: how many it has passed, from 1 (that is a barrier of its own,
 *            `early`): a process that is started again begins with these, whatever step it will go on with
 *
 * In BSP, where all ranks are at the same step, a rank that begins with step k (it was started again) has passed
 * everything before that step: nobody waits for it there. When another generation begins from a checkpoint each rank
 * has passed what is before the step with which it goes on, and nothing behind it. (Outside BSP ranks may go on from
 * both sides of a barrier then: the one before it waits until the others come next.)
 *
 * What has opened is written down (barrier_server_encode) before anybody is told. A rank that has arrived repeats its
 * message until it is answered.
 *
 * Bounds  BARRIER_SERVER_MAX barriers and BARRIER_SERVER_BYTES_MAX bytes: the one that has opened longest ago, with
 *         nobody
 *             waiting, is forgotten first.
 * Pure. */
#pragma once
#include "base/bytes.h"
#include "miniray/ps.h"

#define BARRIER_SERVER_KEY "barriers"
enum { BARRIER_SERVER_MAX = 64, BARRIER_SERVER_BYTES_MAX = 100 * 1000, BARRIER_SERVER_INDEX_MAX = (1 << 19) - 1 };

static inline uint64_t barrier_server_place(uint64_t step, bool open, uint32_t index) {
    return step << 20 | (uint64_t)open << 19 | index;
}

typedef struct barrier {
    char name[MR_PS_NAME_MAX];
    bool early;
    uint64_t opened;         /* counts all rounds of all barriers: which was last */
    uint64_t *passed, *come; /* by rank, owned */
} barrier;

typedef struct barrier_server_rank {
    uint64_t generation, first; /* in which it was heard, and the step with which it came into it */
} barrier_server_rank;

typedef struct barrier_server { /* barrier_server_init */
    uint32_t rank_count;
    bool rounds;         /* BSP */
    uint64_t generation; /* 0: none yet */
    uint64_t opened;
    barrier_server_rank *ranks; /* owned */
    barrier *list;              /* owned */
    uint32_t count;
} barrier_server;

void barrier_server_init(barrier_server *server, uint32_t rank_count, bool rounds);
void barrier_server_fini(barrier_server *server);

/* The generation that holds now: who has come in another one has to come again. */
void barrier_server_begin(barrier_server *server, uint64_t generation);
/* A rank goes on with this step, in this generation; no-op if that is not the one that holds. */
void barrier_server_resume(barrier_server *server, uint32_t rank, uint64_t generation, uint64_t first);

/* A rank that goes on has come. *opens: that opens the round, which is to be written down before anybody is told.
 * MR_OK: it goes on; MR_BUSY: it waits. MR_INVALID: no such rank goes on; MR_TOO_LARGE: at all barriers that there can
 * be some wait. */
MR_MUST mr_status barrier_server_come(barrier_server *server, uint32_t rank, const char *name, bool early,
                                      uint64_t place, bool *opens);
/* Who has not come, to a barrier where somebody waits; returns how many there are, which may be more than `most`. */
size_t barrier_server_missing(const barrier_server *server, const char *name, bool early, uint32_t *ranks, size_t most);

size_t barrier_server_size(const barrier_server *server);
void barrier_server_encode(const barrier_server *server, writer *writer);
/* Into what was initialized for the same ranks. MR_CORRUPT: nothing has changed. */
MR_MUST mr_status barrier_server_decode(span bytes, barrier_server *server);
