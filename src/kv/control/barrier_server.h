/* barrier_server.h — barrier, scheduler's side: the ranks that have arrived, and the barriers that have opened.
 *
 * A barrier has a name. Each arriving rank reports the place of its program: a number that grows, and that a process
 * which replays a step repeats. So the state of a barrier is the last place that each rank has passed, and the rule is
 * one line:
 *
 *   a rank arrives at `place` ── place ≤ passed[rank] ──► a replay: the rank continues at once
 *                           └─ else come[rank] = place; when come[r] > passed[r] for every rank r:
 *                              passed = come, for all of them: the round opens
 *
 *   place    step · 2^20, + 2^19 if the step was open, + rounds of this barrier passed at that step
 *            of a process that has not begun a step yet: rounds it has passed, from 1 (a separate barrier, `early`): a
 *            restarted process begins with these, whatever its next step is
 *
 * In BSP, where all ranks are at the same step, a restarted rank that begins with step k counts as having passed every
 * place before that step: no rank waits for it there. When another generation begins from a checkpoint each rank counts
 * as having passed every place before its next step, and none behind it. (Outside BSP ranks may then continue from both
 * sides of a barrier: a rank before it waits until the others arrive at the next round.)
 *
 * An opened round is durable (barrier_server_encode) before any rank is informed. An arrived rank repeats its message
 * until it is answered.
 *
 * Bounds  BARRIER_SERVER_MAX barriers and BARRIER_SERVER_BYTES_MAX bytes: of the barriers without waiting ranks, the
 *         one that opened longest ago is deleted first.
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
    uint64_t opened;         /* number of the barrier's last round, counted over all barriers: orders them by age */
    uint64_t *passed, *come; /* by rank, owned */
} barrier;

typedef struct barrier_server_rank {
    uint64_t generation, first; /* generation of the rank's last message, and the rank's first step in it */
} barrier_server_rank;

typedef struct barrier_server { /* initialized by barrier_server_init */
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

/* Sets the current generation; ranks that arrived in another one must arrive again. */
void barrier_server_begin(barrier_server *server, uint64_t generation);
/* A rank continues with step `first` in this generation; no-op if the generation is not the current one. */
void barrier_server_resume(barrier_server *server, uint32_t rank, uint64_t generation, uint64_t first);

/* A ready rank has arrived. *opens: the round opens, and must be durable before any rank is informed. MR_OK: the rank
 * continues; MR_BUSY: it waits. MR_INVALID: the rank is not ready in this generation; MR_TOO_LARGE: ranks wait at the
 * largest number of barriers already. */
MR_MUST mr_status barrier_server_come(barrier_server *server, uint32_t rank, const char *name, bool early,
                                      uint64_t place, bool *opens);
/* Ranks that are missing at a barrier where others wait; returns their number, which may exceed `most`. */
size_t barrier_server_missing(const barrier_server *server, const char *name, bool early, uint32_t *ranks, size_t most);

size_t barrier_server_size(const barrier_server *server);
void barrier_server_encode(const barrier_server *server, writer *writer);
/* Decodes into a server that was initialized for the same number of ranks. MR_CORRUPT: nothing has changed. */
MR_MUST mr_status barrier_server_decode(span bytes, barrier_server *server);
