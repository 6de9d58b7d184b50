/* worker.h — running tasks and being an actor, on behalf of others.
 *
 * Requests arrive while somebody drives (on_request) and wait in a queue; the worker's own thread takes them one at a
 * time, in the order in which they came, runs the body without the lock, and answers. An answer that finds no room is
 * kept until there is. A worker that is an actor runs only that actor's methods. */
#pragma once
#include "net/call.h"
#include "runtime/context.h"

worker *worker_create(mr_context *mr);
void worker_destroy(worker *worker);

/* With the lock held, from the context's events. */
void worker_request(worker *worker, const call_request *request);
void worker_cancel(worker *worker, call_token token);
void worker_room(worker *worker);
void worker_over(worker *worker); /* the node is gone: stop serving */

/* Serves until the node is gone. Takes the lock itself. */
void worker_serve(worker *worker);
