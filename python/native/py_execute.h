/* py_execute.h — bodies that a worker runs: one for all tasks, one for all classes and one for all methods of Python.
 *
 * The runtime calls a body without the GIL; the body takes the GIL, reads the arguments, calls the function, and
 * answers with its result or exception. */
#pragma once
#include "python/native/py_internal.h"

void py_execute_register(void);

/* Makes a result (moved) the answer of the call; NULL: the current exception. With the GIL. */
mr_status py_execute_answer(mr_call *call, PyObject *result);

/* Runs the method of a call that was given to a host (py_reply.h), on the actor's instance. With the GIL. */
PyObject *py_execute_call(mr_call *call, PyObject *instance);
