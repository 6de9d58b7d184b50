/* py_reply.h — Reply: a call of an actor that runs several at once, until it is answered.
 *
 * An actor whose methods are coroutines, or that has max_concurrency, has a host (miniray/_actors/concurrency.py): it
 * is handed each call as a Reply, says reply.run(instance) in its loop or in a thread, and then reply.done(value) or
 * reply.failed(error), once. A Reply that is dropped has failed. */
#pragma once
#include "python/native/py_internal.h"

extern PyTypeObject py_reply_type;

mr_call *py_reply_call(PyObject *reply); /* NULL: it was answered */

/* Before anything is submitted: it belongs to the call that this coroutine or thread runs (reply.run), if it is one
 * of a host's. */
void py_reply_resume(void);

/* Which of the calls that this process has begun to run (core.calls) it is that this coroutine or thread runs; outside
 * of a host's the latest. */
uint64_t py_reply_number(void);

/* Whether nobody waits any more for the call that this coroutine or thread runs, or else the process. */
bool py_reply_is_cancelled(void);

/* The call must have been deferred. NULL with an exception, and it is not answered. */
PyObject *py_reply_new(mr_call *call);
