/* coordinator.h — what a cluster decides, through an operation table.
 *
 * Named values, each with a version that grows by one with each change. A change is a compare-and-swap, so each version
 * of each value is decided once; and it is durable before anybody is told. Backends: the keeper of this cluster,
 * reached by letters (remote.h).
 *
 * A version is a generation and, below it, a count of changes. A coordinator that has lost what it decided (its disk)
 * does not go on counting, for it would decide again what was decided: it begins another generation, in which nothing
 * was ever written (cluster/keeper.h). So versions only grow and are never given twice, whatever is lost; and a value
 * whose version has the count 0 is nobody's.
 *
 * The slots do not block. `done` is called exactly once for each, later, never from within the slot. */
#pragma once
#include <stdint.h>

#include "base/bytes.h"
#include "miniray/status.h"

enum { COORDINATOR_COUNT_BITS = 40, COORDINATOR_GENERATION_MAX = (1 << 24) - 1 };

static inline uint64_t coordinator_version(uint64_t generation, uint64_t count) {
    return generation << COORDINATOR_COUNT_BITS | count;
}
static inline uint64_t coordinator_generation(uint64_t version) { return version >> COORDINATOR_COUNT_BITS; }
static inline uint64_t coordinator_count(uint64_t version) {
    return version & ((UINT64_C(1) << COORDINATOR_COUNT_BITS) - 1);
}

/* For people: generation and count. */
#define COORDINATOR_FORMAT "%llu.%llu"
#define COORDINATOR_ARGS(version) \
    (unsigned long long)coordinator_generation(version), (unsigned long long)coordinator_count(version)

typedef struct coordinator_answer { /* borrowed for the duration of done */
    mr_status status;
    uint64_t version; /* of the value below; its count is 0: never written in this generation */
    span value;
} coordinator_answer;

typedef void coordinator_done_fn(void *argument, const coordinator_answer *answer);

typedef struct coordinator_ops {
    const char *name;

    /* The newest version, which is at least `known`, the newest that the asker has heard of (0: none). MR_OK, or it
     * could not be asked (MR_TIMEOUT, MR_CLOSED, MR_IO, …). */
    void (*get)(void *self, const char *key, uint64_t known, coordinator_done_fn *done, void *argument);

    /* Makes `value` (borrowed for the call) version expected + 1, if `expected` is the newest one.
     *   MR_OK     decided: the answer has the new version and no value
     *   MR_STALE  refused, because another version is there: the answer has the newest
     *   else      not known: it may have been decided, or be decided yet. Ask with get. */
    void (*compare_and_swap)(void *self, const char *key, uint64_t expected, span value, coordinator_done_fn *done,
                             void *argument);
} coordinator_ops;

typedef struct coordinator { /* two words, passed by value */
    const coordinator_ops *ops;
    void *self;
} coordinator;
