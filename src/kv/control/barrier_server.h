/* barrier_server.h — barrier, scheduler's side: the ranks that have arrived, and the barriers that have opened.
 *
 * A barrier has a name. Each arriving rank names the place of its program: a number that grows, and that a process
 * which replays a step repeats. So the memory of a barrier is one place for each rank, the last one that the rank has
 * passed, and the rule is one line:
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
 * everything before that step: no rank waits for it there. When another generation begins from a checkpoint each rank
 * has passed every place before the step with which it goes on, and none behind it. (Outside BSP ranks may go on from
 * both sides of a barrier then: the one before it waits until the others come next.)
 *
 * An opened round is written down (barrier_server_encode) before any rank hears of it. A rank that has arrived repeats
 * its message until it is answered.
 *
 * Bounds  BARRIER_SERVER_MAX barriers and BARRIER_SERVER_BYTES_MAX bytes: of the barriers without waiting ranks, the
 *         one that opened longest ago is forgotten first.
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
    uint64_t opened;         /* counts all rounds of all barriers: gives their order */
    uint64_t *passed, *come; /* by rank, owned */
} barrier;

typedef struct barrier_server_rank {
    uint64_t generation, first; /* in which the rank was heard, and its first step in it */
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

/* The current generation: ranks that arrived in another one have to arrive again. */
void barrier_server_begin(barrier_server *server, uint64_t generation);
/* A rank goes on with this step, in this generation; no-op if the generation is not the current one. */
void barrier_server_resume(barrier_server *server, uint32_t rank, uint64_t generation, uint64_t first);

/* A ready rank has arrived. *opens: the round opens, and is to be written down before any rank hears of it. MR_OK: the
 * rank goes on; MR_BUSY: it waits. MR_INVALID: no such rank is ready; MR_TOO_LARGE: ranks wait at the largest number of
 * barriers already. */
MR_MUST mr_status barrier_server_come(barrier_server *server, uint32_t rank, const char *name, bool early,
                                      uint64_t place, bool *opens);
/* The ranks that are missing at a barrier where others wait; returns their number, which may exceed `most`. */
size_t barrier_server_missing(const barrier_server *server, const char *name, bool early, uint32_t *ranks, size_t most);

size_t barrier_server_size(const barrier_server *server);
void barrier_server_encode(const barrier_server *server, writer *writer);
/* Into one that was initialized for the same ranks. MR_CORRUPT: nothing has changed. */
MR_MUST mr_status barrier_server_decode(span bytes, barrier_server *server);
