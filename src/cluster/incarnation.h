/* incarnation.h — acquisition of an incarnation: a number that no earlier or later process of the same member has.
 *
 * It is the version of a value at the metadata store, which this process has written. There are
 * INCARNATION_ACQUIRE_KEYS such values, and a member always uses the same one; so its incarnations grow, and a thousand
 * that start at once are in each other's way by the dozen only. A process that lost the race tries again from the value
 * it finds, after a random delay that grows: so all of them together ask a few times each, not as often as there are
 * others.
 *
 *   get ── present value ──► swap ── decided ──► done
 *    ▲                        │ another was faster, or the outcome is unknown
 *    └──────── later ─────────┘
 *
 * A number that was written without an answer belongs to no process. A metadata store that has lost its disk may give a
 * number below one of an earlier process, if no request has shown it yet what it has forgotten (metadata_db.h): a
 * process that learns of the higher number acquires another incarnation, above that number. Pure: driven by answers of
 * the metadata store and ticks. */
#pragma once
#include "base/rng.h"
#include "cluster/metadata_store.h"

enum { INCARNATION_ACQUIRE_KEYS = 16 };
/* at most, after the first failure; twice that after each further one */
#define INCARNATION_ACQUIRE_WAIT_US     INT64_C(50000)
#define INCARNATION_ACQUIRE_WAIT_MAX_US INT64_C(1600000)

typedef void incarnation_acquire_done_fn(void *context, uint64_t incarnation);

typedef struct incarnation_acquire incarnation_acquire;

/* `done` is called once, and once more after each incarnation_acquire_again that finds it done. The metadata store and
 * the rng are borrowed for its life. */
incarnation_acquire *incarnation_acquire_create(metadata_store store, rng *rng, uint32_t member, int64_t now_us,
                                                incarnation_acquire_done_fn *done, void *context);
/* An earlier process had `known`: it takes another incarnation, above that. */
void incarnation_acquire_again(incarnation_acquire *acquire, uint64_t known, int64_t now_us);
void incarnation_acquire_destroy(incarnation_acquire *acquire); /* the metadata store owes it no answer any more */
int64_t incarnation_acquire_next_us(const incarnation_acquire *acquire);
void incarnation_acquire_tick(incarnation_acquire *acquire, int64_t now_us);
