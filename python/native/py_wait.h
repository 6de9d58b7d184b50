/* py_wait.h — waiting for objects: get and wait.
 *
 * The first check holds the GIL, so a ready object costs no more. Then the GIL is released while the thread waits. A
 * signal interrupts the wait of the main thread, and its handler (Ctrl-C) runs at once. */
#pragma once
#include "python/native/py_internal.h"

PyObject *py_wait_get(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *names);
/* Reads a timeout in seconds, or None: MR_FOREVER. False with an exception. */
bool py_wait_timeout(PyObject *timeout, int64_t *timeout_us);
int64_t py_wait_deadline_us(double seconds);
int64_t py_wait_left_us(int64_t deadline_us, int64_t most_us); /* time left; 0: the deadline has passed */

/* Waits in the runtime, without the GIL; MR_TIMEOUT: not ready yet. */
typedef mr_status (*py_wait_fn)(mr_context *mr, void *what, int64_t timeout_us);
/* Waits, unless the timeout is 0, and sets the status. False with an exception, of a signal's handler or because the
 * runtime was shut down. */
bool py_wait_for(py_wait_fn wait, void *what, int64_t timeout_us, mr_status *status);
void py_wait_forked(void); /* in a child process: forgets the parent's state */

PyObject *py_wait_wait(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *names);

/* Raises the error of a failed object, with the exception of its task. Returns NULL. */
PyObject *py_wait_raise(mr_context *mr, mr_ref ref, mr_status status);
