/* py_stream.h — streams: values that a task or a method yields, one by one, while it runs
 * (miniray/_actors/generators.py).
 *
 * The GIL is released while a value waits for its reader. The value must not change meanwhile, so it is pickled if
 * other threads of the actor run and its type is not immutable. */
#pragma once
#include "python/native/py_internal.h"

PyObject *py_stream_next(PyObject *module, PyObject *args); /* (ref, seconds or None): the next value; None: timeout */
PyObject *py_stream_peek(PyObject *module, PyObject *ref);  /* reference of the next value, which need not be ready */
PyObject *py_stream_ended(PyObject *module, PyObject *ref); /* whether the next item, which is ready, is the end */

/* In a worker: yields the values of a function's result (moved); NULL: fails with the current exception. Returns the
 * answer of the call. */
mr_status py_stream_answer(mr_call *call, PyObject *result);
/* Yields one value, for the host of an actor. MR_BUSY: `wait` is false, and the stream is full. */
mr_status py_stream_give(mr_call *call, PyObject *value, bool wait);
