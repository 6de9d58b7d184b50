/* look.h — queries about the node and the machine (miniray/admin.h), as Python objects. */
#pragma once
#include "python/native/core.h"

PyObject *look_ask(PyObject *module, PyObject *args);     /* look(what, limit) */
PyObject *look_trace(PyObject *module, PyObject *args);   /* trace(limit): bytes of JSON */
PyObject *look_gpu_ids(PyObject *module, PyObject *none); /* of what runs here */
PyObject *look_facts(PyObject *module, PyObject *actor);  /* facts(actor): (class, name, name space, starts) */
