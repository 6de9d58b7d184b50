/* incarnation.h — acquisition of an incarnation: a number that no earlier or later process of the same member has.
 *
 * An incarnation is the version of a value at the metadata store, written by this process. There are
 * INCARNATION_ACQUIRE_KEYS such values, and a member always uses the same one; so its incarnations grow, and of a
 * thousand processes that start at once only some dozens compete for a value. A process that lost the race tries again
 * from the value it finds, after a random delay that grows: so each process needs only a few requests, however many
 * others there are.
 *
 *   get ── present value ──► swap ── decided ──► done
 *    ▲                        │ another was faster, or the outcome is unknown
 *    └──────── later ─────────┘
 *
 * A number that was written without an answer belongs to no process. A metadata store that has lost its disk may give a
 * number below one of an earlier process, if no request has shown yet that it lost decisions (metadata_db.h): a process
 * that learns of the higher number acquires another incarnation, above that number. Pure: driven by answers of the
 * metadata store and ticks. */
#pragma once
#include "base/rng.h"
#include "cluster/metadata_store.h"

enum { INCARNATION_ACQUIRE_KEYS = 16 };
/* longest delay after the first failure; doubles with each further failure */
#define INCARNATION_ACQUIRE_WAIT_US     INT64_C(50000)
#define INCARNATION_ACQUIRE_WAIT_MAX_US INT64_C(1600000)

typedef void incarnation_acquire_done_fn(void *context, uint64_t incarnation);

typedef struct incarnation_acquire incarnation_acquire;

/* `done` is called once for the creation, and once for each incarnation_acquire_again after that. The metadata store
 * and the rng are borrowed for the object's life. */
incarnation_acquire *incarnation_acquire_create(metadata_store store, rng *rng, uint32_t member, int64_t now_us,
                                                incarnation_acquire_done_fn *done, void *context);
/* An earlier process had the incarnation `known`: acquires another one above it. */
void incarnation_acquire_again(incarnation_acquire *acquire, uint64_t known, int64_t now_us);
/* the caller ensures that no answer of the metadata store is pending */
void incarnation_acquire_destroy(incarnation_acquire *acquire);
int64_t incarnation_acquire_next_us(const incarnation_acquire *acquire);
void incarnation_acquire_tick(incarnation_acquire *acquire, int64_t now_us);
