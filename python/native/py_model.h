/* py_model.h — miniray/model.h for miniray.ps: the calls of a sync are made in C. */
#pragma once
#include "python/native/py_internal.h"

PyObject *py_model_server(PyObject *module, PyObject *args);
PyObject *py_model_have_methods(PyObject *module, PyObject *args);
PyObject *py_model_sync(PyObject *module, PyObject *args);
PyObject *py_model_pull(PyObject *module, PyObject *server);
PyObject *py_model_give_arrays(PyObject *module, PyObject *none);
