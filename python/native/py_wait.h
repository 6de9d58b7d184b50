/* py_wait.h — waiting for objects: get and wait.
 *
 * The first check holds the GIL, so a ready object costs no more. Then the GIL is released while the thread waits, in
 * slices, so that a signal's handler (Ctrl-C) runs soon. */
#pragma once
#include "python/native/py_internal.h"

PyObject *py_wait_get(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *names);
/* The deadline of a timeout in seconds, or of None. False with an exception. */
bool py_wait_deadline(PyObject *timeout, int64_t *deadline_us);
int64_t py_wait_deadline_us(double seconds);
int64_t py_wait_left_us(int64_t deadline_us, int64_t most_us); /* time left; 0: the deadline has passed */

/* Waits in the runtime, without the GIL; MR_TIMEOUT: not ready yet. */
typedef mr_status (*py_wait_fn)(mr_context *mr, void *what, int64_t timeout_us);
/* Waits for one slice of the remaining time. False: the time is over, or an exception is set, by a signal's handler or
 * because the runtime was shut down. */
bool py_wait_slice(py_wait_fn wait, void *what, int64_t deadline_us, mr_status *status);

PyObject *py_wait_wait(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *names);

/* Raises the error of a failed object, with the exception of its task. Returns NULL. */
PyObject *py_wait_raise(mr_context *mr, mr_ref ref, mr_status status);
