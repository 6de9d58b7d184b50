/* py_wait.h — waiting for objects: get and wait.
 *
 * First a look with the GIL held: what is there costs no more. Then the GIL is given up while the thread waits, in
 * slices, so that a signal's handler (Ctrl-C) runs soon. */
#pragma once
#include "python/native/py_internal.h"

PyObject *py_wait_get(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *names);
/* When a timeout in seconds, or None, is over. False with an exception. */
bool py_wait_deadline(PyObject *timeout, int64_t *deadline_us);
int64_t py_wait_deadline_us(double seconds);
int64_t py_wait_left_us(int64_t deadline_us, int64_t most_us); /* 0: it is over */

/* Something that the runtime can be waited for, without the GIL; MR_TIMEOUT: it is not there yet. */
typedef mr_status (*py_wait_fn)(mr_context *mr, void *what, int64_t timeout_us);
/* Waits for one slice of the time that is left. False: it is over; or an exception is set, by a signal's handler or
 * because the runtime was shut down. */
bool py_wait_slice(py_wait_fn wait, void *what, int64_t deadline_us, mr_status *status);

PyObject *py_wait_wait(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *names);

/* Raises what a failed object stands for, with the exception that its task gave. Returns NULL. */
PyObject *py_wait_raise(mr_context *mr, mr_ref ref, mr_status status);
