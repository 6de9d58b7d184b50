/* py_context.h — start and end of the runtime in this process, and calls about it as a whole. The signatures that users
 * see are in miniray/_core_api/api.py, which checks the arguments. */
#pragma once
#include "python/native/py_internal.h"

PyObject *py_context_init(PyObject *module, PyObject *args);
PyObject *py_context_shutdown(PyObject *module, PyObject *none);
PyObject *py_context_is_initialized(PyObject *module, PyObject *none);
PyObject *py_context_address(PyObject *module, PyObject *none); /* of the node; None: not running */
PyObject *py_context_forked(PyObject *module, PyObject *none);  /* in a child process that the program forked */
/* a worker's main loop; returns only if it could not begin */
PyObject *py_context_serve(PyObject *module, PyObject *none);
/* Calls received for an actor with a loop (mr_set_loop), and waking the thread that waits for them. */
PyObject *py_context_serve_calls(PyObject *module, PyObject *timeout);
PyObject *py_context_make_way(PyObject *module, PyObject *none);
PyObject *py_context_wake_server(PyObject *module, PyObject *none);
PyObject *py_context_put(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *names);
PyObject *py_context_cancel(PyObject *module, PyObject *args);
PyObject *py_context_kill(PyObject *module, PyObject *args);
PyObject *py_context_get_actor(PyObject *module, PyObject *args);
PyObject *py_context_current_actor(PyObject *module, PyObject *none);
PyObject *py_context_calls(PyObject *module, PyObject *none);        /* calls that this process has begun to run */
PyObject *py_context_call(PyObject *module, PyObject *none);         /* the number of the running call */
PyObject *py_context_is_cancelled(PyObject *module, PyObject *none); /* whether it is */
PyObject *py_context_set_local(PyObject *module, PyObject *on);
PyObject *py_context_local_actor(PyObject *module, PyObject *args); /* in local mode: an actor that no node knows */
PyObject *py_context_create_actor(PyObject *module, PyObject *args);
