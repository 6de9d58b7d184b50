/* py_reply.h — Reply: a received call of an actor that runs several calls at once, until the call is answered.
 *
 * An actor whose methods are coroutines, or that has max_concurrency, has a host (miniray/_actors/concurrency.py): the
 * host receives each call as a Reply, calls reply.run(instance) in its loop or in a thread, and then reply.done(value)
 * or reply.failed(error), once. A dropped Reply has failed. */
#pragma once
#include "python/native/py_internal.h"

extern PyTypeObject py_reply_type;

mr_call *py_reply_call(PyObject *reply); /* NULL: the call was answered */

/* Called before a submission: makes the host's call that this coroutine or thread runs (reply.run), if any, the
 * parent. */
void py_reply_resume(void);

/* Number (core.calls) of the call that this coroutine or thread runs; outside a host's calls, of the latest call. */
uint64_t py_reply_number(void);

/* Whether the call that this coroutine or thread runs is cancelled; outside a host's calls, the process's running
 * call. */
bool py_reply_is_cancelled(void);

/* Makes a Reply of a deferred call. NULL with an exception; the call is then not answered. */
PyObject *py_reply_new(mr_call *call);
