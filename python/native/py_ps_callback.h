/* py_ps_callback.h — requests with a callback at their end: the library notifies, a thread of Python waits and calls.
 *
 *  send ──► pending ── the library's `done` ──► notified ── py_ps_callback ──► Python (miniray/ps/_callbacks.py)
 *                  └─── the connection is closed ──┘
 *
 * A slip is any Python object: it comes back once for each request that it was sent with.
 * Threads  notifying needs no GIL, and takes none. The lists outlive the library's connection, with its Python
 *          object. */
#pragma once
#include "python/native/py_ps.h"

/* For a request that is about to be made: `done` and `context` of its options. NULL with an exception. */
py_ps_slip *py_ps_slip_new(py_ps_connection *connection, PyObject *slip);
void py_ps_slip_drop(py_ps_slip *slip); /* the request was not made. NULL: no-op */
void py_ps_slip_ring(void *slip, mr_status status);

void py_ps_slips_ring(py_ps_connection *connection); /* all pending ones: no further notifications come */
void py_ps_slips_free(py_ps_connection *connection); /* the connection is freed next */

PyObject *py_ps_callback(PyObject *connection, PyObject *timeout); /* told(timeout in s) → a slip, or None in time */
PyObject *py_ps_tell(PyObject *connection, PyObject *slip);        /* tell(slip): as if a request of it were over */
