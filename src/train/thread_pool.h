/* thread_pool.h — thread pool: a few threads that share one piece of work at a time.
 *
 *     thread_pool_run(thread pool, average_some, &job);  every member and the caller run average_some(&job), then
 *                                                        thread_pool_run returns
 *
 * The function divides the work itself, usually by taking numbers from an atomic counter until there are no more: a
 * member that is late or slow takes fewer. Work whose result does not depend on who does which part has the same result
 * with any number of members, also with none (a thread pool of one is the caller alone and costs nothing).
 *
 * Members sleep between runs. They block every signal, so that the program's own threads get those.
 *
 *     asleep ── round changes ──► working ── the last one wakes the caller ──► asleep
 *
 * Threads  thread_pool_run by one thread at a time. */
#pragma once
#include <stddef.h>

#include "miniray/status.h"

typedef struct thread_pool thread_pool;

/* `size` counts the caller; 0: the number of CPUs of this process. If a thread does not start, there is one less. */
MR_MUST mr_status thread_pool_create(size_t size, thread_pool **out);
void thread_pool_destroy(thread_pool *pool); /* NULL is fine */

size_t thread_pool_size(const thread_pool *pool); /* with the caller; 1 for NULL */

typedef void thread_pool_fn(void *job);
void thread_pool_run(thread_pool *pool, thread_pool_fn *fn, void *job); /* NULL: the caller alone */
