/* metadata_store.h — metadata store interface (get, compare-and-swap, lease, watch): an operation table.
 *
 * Named values, each with a version that grows by one with each change. A change is a compare-and-swap, so each version
 * of each value is decided once; and it is durable before it is answered. Backends: a metadata store in this process
 * (metadata_local.h), or in another one, over control messages (metadata_remote.h); the content of a metadata store is
 * kept in a metadata storage (metadata_storage.h).
 *
 * A version is a generation and, below it, a count of changes. A metadata store that has lost its decisions (its
 * disk) does not continue counting, because it would decide the same versions again: it begins another generation, in
 * which nothing was ever written (cluster/metadata_db.h). So versions only grow and are never given twice, whatever is
 * lost; and a value whose version has the count 0 was never written.
 *
 * Leases      A value may be attached to a lease, a number that its holder draws. A lease that is not renewed in time
 *             ends, and the values attached to it become empty: a change like any other. Time decides only how soon
 *             that happens; a caller that must be sure uses swaps from the version it knows.
 * Users       election.h elects a leader with it.
 *
 * The operations do not block. `done` is called exactly once for each, later, never from within the operation. */
#pragma once
#include "base/bytes.h"
#include "miniray/status.h"

enum { METADATA_STORE_COUNT_BITS = 36, METADATA_STORE_GENERATION_MAX = (1 << 28) - 1 };
#define METADATA_STORE_COUNT_MAX    ((UINT64_C(1) << METADATA_STORE_COUNT_BITS) - 1)
#define METADATA_STORE_LEASE_MAX_US INT64_C(60000000)

static inline uint64_t metadata_store_version(uint64_t generation, uint64_t count) {
    return generation << METADATA_STORE_COUNT_BITS | count;
}
static inline uint64_t metadata_store_generation(uint64_t version) { return version >> METADATA_STORE_COUNT_BITS; }
static inline uint64_t metadata_store_count(uint64_t version) { return version & METADATA_STORE_COUNT_MAX; }

/* For log messages: generation and count. */
#define METADATA_STORE_FORMAT "%llu.%llu"
#define METADATA_STORE_ARGS(version) \
    (unsigned long long)metadata_store_generation(version), (unsigned long long)metadata_store_count(version)

struct control_message; /* control_message.h */

typedef struct metadata_store_answer { /* borrowed for the duration of `done` */
    mr_status status;
    uint64_t version; /* version of `value`; count 0: never written in this generation */
    span value;
} metadata_store_answer;

typedef void metadata_store_done_fn(void *argument, const metadata_store_answer *answer);

typedef struct metadata_store_ops {
    const char *name;

    /* Reads the newest version, which is at least `known`, the newest one that the caller knows (0: none). Not MR_OK:
     * the request failed (MR_TIMEOUT, MR_CLOSED, MR_IO, …). */
    void (*get)(void *self, const char *key, uint64_t known, metadata_store_done_fn *done, void *argument);

    /* Makes `value` (borrowed for the call) version expected + 1 if `expected` is the newest one, and attaches it to
     * `lease` (0: none).
     *   MR_OK         decided: the answer has the new version and no value
     *   MR_STALE      refused, because another version is there: the answer has the newest. That may be this very
     *                 value: a network may deliver a swap twice, and lose the answer to the first
     *   MR_NOT_FOUND  refused: the lease has ended, or never began
     *   MR_INVALID    refused: malformed key; MR_TOO_LARGE: the value is too large, or there are too many of them
     *   else          unknown: the swap may have been decided, or be decided later; call get to find out */
    void (*compare_and_swap)(void *self, const char *key, uint64_t expected, span value, uint64_t lease,
                             metadata_store_done_fn *done, void *argument);

    /* As get, but answered when there is a version above `known`. MR_TIMEOUT: no change for a while; call again. A
     * watch may miss versions that existed only briefly, never the newest. */
    void (*watch)(void *self, const char *key, uint64_t known, metadata_store_done_fn *done, void *argument);

    /* Begins a lease with that number (not 0), or renews it, for `ttl_us` (at most METADATA_STORE_LEASE_MAX_US) from
     * the arrival of the request; 0 ends it at once. Not MR_OK: unknown whether it took effect. */
    void (*lease)(void *self, uint64_t lease, int64_t ttl_us, metadata_store_done_fn *done, void *argument);
} metadata_store_ops;

typedef struct metadata_store { /* two words, passed by value */
    const metadata_store_ops *ops;
    void *self;
} metadata_store;

/* First member of a backend whose requests are control messages (control_message.h): `ask` copies the message, sets
 * its request number and answers it later. */
typedef struct metadata_store_asker {
    void (*ask)(struct metadata_store_asker *asker, struct control_message *question, metadata_store_done_fn *done,
                void *argument);
} metadata_store_asker;

metadata_store metadata_store_of(metadata_store_asker *asker); /* `asker` is borrowed for the metadata store's life */
