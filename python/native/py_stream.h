/* py_stream.h — streams: values that a task or a method yields, one by one, while it runs
 * (miniray/_actors/generators.py).
 *
 * The GIL is released while a value waits for its reader. The value must not change meanwhile, so where other threads
 * of the actor run it is pickled, unless its type is immutable. */
#pragma once
#include "python/native/py_internal.h"

PyObject *py_stream_next(PyObject *module, PyObject *args); /* (ref, seconds or None): None: not there in time */
PyObject *py_stream_peek(PyObject *module, PyObject *ref);  /* the next one, before it is there */
PyObject *py_stream_ended(PyObject *module, PyObject *ref); /* whether the next one, which is there, is the end */

/* In a worker. Gives out what a function returned (moved); NULL: with the exception that is set. The answer of the call
 * comes back. */
mr_status py_stream_answer(mr_call *call, PyObject *result);
/* One value, from the host of an actor. MR_BUSY: it would have to wait and should not. */
mr_status py_stream_give(mr_call *call, PyObject *value, bool wait);
