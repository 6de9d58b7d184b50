/* py_reply.h — Reply: a call of an actor that runs several at once, until it is answered.
 *
 * An actor whose methods are coroutines, or that has max_concurrency, has a host (miniray/_actors/concurrency.py): the
 * host receives each call as a Reply, calls reply.run(instance) in its loop or in a thread, and then reply.done(value)
 * or reply.failed(error), once. A dropped Reply has failed. */
#pragma once
#include "python/native/py_internal.h"

extern PyTypeObject py_reply_type;

mr_call *py_reply_call(PyObject *reply); /* NULL: it was answered */

/* Before a submission: it belongs to the call that this coroutine or thread runs (reply.run), if that is a call of a
 * host. */
void py_reply_resume(void);

/* The number (core.calls) of the call that this coroutine or thread runs; outside a host's calls the latest. */
uint64_t py_reply_number(void);

/* Whether the call that this coroutine or thread runs, or else the process, is cancelled. */
bool py_reply_is_cancelled(void);

/* The call must have been deferred. NULL with an exception, and it is not answered. */
PyObject *py_reply_new(mr_call *call);
