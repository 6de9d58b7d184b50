/* py_nearest_name.h — mr_nearest_name for miniray/_core_api/did_you_mean.py. */
#pragma once
#include "python/native/py_internal.h"

/* nearest_name(name, names): the similar name; None: no name is similar. */
PyObject *py_nearest_name(PyObject *module, PyObject *args);

/* Raises the TypeError of a keyword argument that the function does not know; `known`, which ends with NULL, are the
 * names of those that it knows. Returns NULL. */
PyObject *py_nearest_name_refuse(const char *function, PyObject *keyword, const char *const *known);
