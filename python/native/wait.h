/* wait.h — waiting for objects: get and wait.
 *
 * First a look with the GIL held: what is there costs no more. Then the GIL is given up while the thread waits, in
 * slices, so that a signal's handler (Ctrl-C) runs soon. */
#pragma once
#include "python/native/core.h"

PyObject *wait_get(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *names);
/* When a timeout in seconds, or None, is over. False with an exception. */
bool wait_deadline(PyObject *timeout, int64_t *deadline_us);
int64_t wait_slice_us(int64_t deadline_us); /* to wait before the next look at signals; 0: it is over */

PyObject *wait_wait(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *names);

/* Raises what a failed object stands for, with the exception that its task gave. Returns NULL. */
PyObject *wait_raise(mr_context *mr, mr_ref ref, mr_status status);
