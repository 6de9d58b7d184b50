/* context.h — start and end of the runtime in this process, and calls about it as a whole. The signatures that users
 * see are in miniray/_core_api/api.py; what comes here is checked already. */
#pragma once
#include "python/native/core.h"

PyObject *context_init(PyObject *module, PyObject *args);
PyObject *context_shutdown(PyObject *module, PyObject *none);
PyObject *context_is_initialized(PyObject *module, PyObject *none);
PyObject *context_address(PyObject *module, PyObject *none); /* of the node; None: not running */
PyObject *context_forked(PyObject *module, PyObject *none);  /* in a child process that the program made by fork */
PyObject *context_serve(PyObject *module, PyObject *none);   /* a worker's life; returns only if it could not begin */
/* What has come for an actor with a loop (mr_set_loop), and waking whoever waits for that. */
PyObject *context_serve_calls(PyObject *module, PyObject *timeout);
PyObject *context_make_way(PyObject *module, PyObject *none);
PyObject *context_wake_server(PyObject *module, PyObject *none);
PyObject *context_put(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *names);
PyObject *context_cancel(PyObject *module, PyObject *args);
PyObject *context_kill(PyObject *module, PyObject *args);
PyObject *context_get_actor(PyObject *module, PyObject *args);
PyObject *context_current_actor(PyObject *module, PyObject *none);
PyObject *context_calls(PyObject *module, PyObject *none);        /* how many this process has begun to run */
PyObject *context_call(PyObject *module, PyObject *none);         /* which of them this is */
PyObject *context_is_cancelled(PyObject *module, PyObject *none); /* whether it is */
PyObject *context_set_local(PyObject *module, PyObject *on);
PyObject *context_local_actor(PyObject *module, PyObject *args); /* in local mode: one that no node knows */
PyObject *context_create_actor(PyObject *module, PyObject *args);
