/* wait.h — waiting for objects: get and wait.
 *
 * First a look with the GIL held: what is there costs no more. Then the GIL is given up while the thread waits, in
 * slices, so that a signal's handler (Ctrl-C) runs soon. */
#pragma once
#include "python/native/core.h"

PyObject *wait_get(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *names);
PyObject *wait_wait(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *names);
