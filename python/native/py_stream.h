/* py_stream.h — streams: values that a task or a method yields, one by one, while it runs
 * (miniray/_actors/generators.py).
 *
 * The GIL is released while a value waits for its reader. The value must not change meanwhile, so where other threads
 * of the actor run it is pickled, unless its type is immutable. */
#pragma once
#include "python/native/py_internal.h"

PyObject *py_stream_next(PyObject *module, PyObject *args); /* (ref, seconds or None): None: timeout */
PyObject *py_stream_peek(PyObject *module, PyObject *ref);  /* the next one, before it is ready */
PyObject *py_stream_ended(PyObject *module, PyObject *ref); /* whether the next one, which is ready, is the end */

/* In a worker. Yields the values of a function's result (moved); NULL: of the exception that is set. Returns the answer
 * of the call. */
mr_status py_stream_answer(mr_call *call, PyObject *result);
/* One value, from the host of an actor. MR_BUSY: it would have to wait, and must not. */
mr_status py_stream_give(mr_call *call, PyObject *value, bool wait);
