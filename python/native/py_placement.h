/* py_placement.h — placement groups (miniray/placement.h); miniray/util/placement_group.py checks what comes here. */
#pragma once
#include "python/native/py_internal.h"

PyObject *py_placement_create(PyObject *module, PyObject *args); /* (bundles, strategy, name): its name, as bytes */
PyObject *py_placement_wait(PyObject *module, PyObject *args);   /* (name, seconds): whether it is set aside */
PyObject *py_placement_remove(PyObject *module, PyObject *name);
PyObject *py_placement_capture(PyObject *module, PyObject *name);  /* core.captured is this from now on; b"": none */
bool py_placement_is_captured(void);                               /* whether there is one */
PyObject *py_placement_captured(PyObject *module, PyObject *none); /* that, as bytes, or None */

/* The name that bytes hold; none of them (or NULL): no group. False with an exception. */
bool py_placement_read(const char *bytes, Py_ssize_t size, mr_placement_group *out);
