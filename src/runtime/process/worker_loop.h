/* worker_loop.h — main loop of a worker process: its threads run the calls of the worker (worker.h) without the lock,
 * and drive the transport while there are none. There is one thread; an actor with max_concurrency gets more when it is
 * created. */
#pragma once
#include "runtime/process/context.h"

void worker_loop(mr_context *mr); /* returns when the node is gone or sends WORKER_LEAVE; takes the lock itself */
/* Afterwards, in a leaving worker of tasks: runs until no process needs it any more (worker_is_needed). */
void worker_loop_out(mr_context *mr);
