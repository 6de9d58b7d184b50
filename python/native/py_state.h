/* py_state.h — state of an actor that survives its process (mr_state_set), for servers written in Python. */
#pragma once
#include "python/native/py_internal.h"

PyObject *py_state_set(PyObject *module, PyObject *parts);
PyObject *py_state_get(PyObject *module, PyObject *none);
PyObject *py_state_call_number(PyObject *module, PyObject *none);
