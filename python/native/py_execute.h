/* py_execute.h — bodies that a worker runs: one for all tasks, one for all classes and one for all methods of Python.
 *
 * The runtime calls them without the GIL; they take it, read the arguments, call the function, and answer with its
 * result or exception. */
#pragma once
#include "python/native/py_internal.h"

void py_execute_register(void);

/* Turns a result (moved), or with NULL the exception that is set, into the answer of the call. With the GIL. */
mr_status py_execute_answer(mr_call *call, PyObject *result);

/* Runs the method of a call that was given to a host (py_reply.h), on its instance. With the GIL. */
PyObject *py_execute_call(mr_call *call, PyObject *instance);
