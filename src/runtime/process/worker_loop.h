/* worker_loop.h — the life of a worker process: its threads run what the worker (worker.h) has, without the lock, and
 * drive while there is nothing to run. There is one; an actor with max_concurrency gets more when it is made. */
#pragma once
#include "runtime/process/context.h"

void worker_loop(mr_context *mr); /* until the node is gone, or wants it to leave; takes the lock itself */
/* Then, in a worker of tasks that leaves: until nobody needs it any more (worker_is_needed). */
void worker_loop_out(mr_context *mr);
