/* py_inspect.h — queries about the node and the machine (miniray/admin.h), as Python objects. */
#pragma once
#include "python/native/py_internal.h"

PyObject *py_inspect_ask(PyObject *module, PyObject *args);     /* look(what, limit) */
PyObject *py_inspect_trace(PyObject *module, PyObject *args);   /* trace(limit): bytes of JSON */
PyObject *py_inspect_gpu_ids(PyObject *module, PyObject *none); /* GPUs of the running task or actor */
PyObject *py_inspect_facts(PyObject *module, PyObject *actor);  /* facts(actor): (class, name, name space, starts) */
