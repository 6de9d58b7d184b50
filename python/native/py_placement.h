/* py_placement.h — placement groups (miniray/placement.h); miniray/util/placement_group.py checks the arguments. */
#pragma once
#include "python/native/py_internal.h"

PyObject *py_placement_create(PyObject *module, PyObject *args); /* (bundles, strategy, name): id, as bytes */
PyObject *py_placement_wait(PyObject *module, PyObject *args);   /* (id, seconds): whether reserved */
PyObject *py_placement_remove(PyObject *module, PyObject *name);
PyObject *py_placement_capture(PyObject *module, PyObject *name);  /* sets core.captured; b"": none */
bool py_placement_is_captured(void);                               /* whether a group is captured */
PyObject *py_placement_captured(PyObject *module, PyObject *none); /* the captured group, as bytes, or None */

/* Reads a group's id; no bytes (or NULL): no group. False with an exception. */
bool py_placement_read(const char *bytes, Py_ssize_t size, mr_placement_group *out);
