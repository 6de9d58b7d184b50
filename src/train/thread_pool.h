/* thread_pool.h — thread pool: a few threads that work on one job at a time.
 *
 *     thread_pool_run(pool, average_some, &job);  every member and the caller run average_some(&job); then
 *                                                 thread_pool_run returns
 *
 * The function divides the work itself, usually by taking numbers from an atomic counter until none is left, so a late
 * or slow member takes fewer. A job whose result does not depend on which member does which part has the same result
 * with any number of members. A pool of size 1 has no threads: the caller runs the function alone.
 *
 * Members sleep between runs. They block all signals, so that the program's own threads receive them.
 *
 *     asleep ── round changes ──► working ── the last one wakes the caller ──► asleep
 *
 * Threads  thread_pool_run by one thread at a time. */
#pragma once
#include <stddef.h>

#include "miniray/status.h"

typedef struct thread_pool thread_pool;

/* `size` includes the caller; 0: the number of CPUs of this process. Threads that cannot be started are left out. */
MR_MUST mr_status thread_pool_create(size_t size, thread_pool **out);
void thread_pool_destroy(thread_pool *pool); /* NULL: a no-op */

size_t thread_pool_size(const thread_pool *pool); /* includes the caller; 1 for NULL */

typedef void thread_pool_fn(void *job);
void thread_pool_run(thread_pool *pool, thread_pool_fn *fn, void *job); /* pool NULL: the caller runs fn alone */
