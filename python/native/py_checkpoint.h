/* py_checkpoint.h — checkpoints of model servers (miniray/model.h), also for the server in Python. */
#pragma once
#include "python/native/py_internal.h"

PyObject *py_checkpoint_save(PyObject *module, PyObject *args);
PyObject *py_checkpoint_peek(PyObject *module, PyObject *args);
PyObject *py_checkpoint_read(PyObject *module, PyObject *args);
PyObject *py_checkpoint_write(PyObject *module, PyObject *args);
PyObject *py_checkpoint_set_aside(PyObject *module, PyObject *args);
PyObject *py_checkpoint_saver(PyObject *module, PyObject *args);
PyObject *py_checkpoint_offer(PyObject *module, PyObject *args);
