/* placement.h — placement groups (miniray/placement.h); miniray/util/placement_group.py checks what comes here. */
#pragma once
#include "python/native/core.h"

PyObject *placement_create(PyObject *module, PyObject *args); /* (bundles, strategy, name): its name, as bytes */
PyObject *placement_wait(PyObject *module, PyObject *args);   /* (name, seconds): whether it is set aside */
PyObject *placement_remove(PyObject *module, PyObject *name);
PyObject *placement_capture(PyObject *module, PyObject *name);  /* core.captured is this from now on; b"": none */
bool placement_is_captured(void);                               /* whether there is one */
PyObject *placement_captured(PyObject *module, PyObject *none); /* that, as bytes, or None */

/* The name that bytes hold; none of them (or NULL): no group. False with an exception. */
bool placement_read(const char *bytes, Py_ssize_t size, mr_placement_group *out);
