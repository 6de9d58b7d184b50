/* stream.h — generators: what a task or a method yields, one by one, while it runs (miniray/_actors/generators.py).
 *
 * The GIL is given up while a value waits to be taken. Nobody may change the value meanwhile, so where other threads of
 * the actor run it travels as a pickle, unless it is of a kind that cannot change. */
#pragma once
#include "python/native/core.h"

PyObject *stream_next(PyObject *module, PyObject *args); /* (ref, seconds or None): None: not there in time */
PyObject *stream_peek(PyObject *module, PyObject *ref);  /* the next one, before it is there */
PyObject *stream_ended(PyObject *module, PyObject *ref); /* whether the next one, which is there, is the end */

/* In a worker. Gives out what a function returned (moved); NULL: with the exception that is set. The answer of the call
 * comes back. */
mr_status stream_answer(mr_call *call, PyObject *result);
/* One value, from the host of an actor. MR_BUSY: it would have to wait and should not. */
mr_status stream_give(mr_call *call, PyObject *value, bool wait);
