/* py_ps_callback.h — requests with a callback at their end: the library notifies, a Python thread waits and calls.
 *
 *  send ──► pending ── the library's `done` ──► notified ── py_ps_callback ──► Python (miniray/ps/_callbacks.py)
 *                  └─── the connection is closed ──┘
 *
 * A slip is any Python object; it is returned once for each request that was sent with it.
 * Threads  notifying neither needs nor takes the GIL. The lists belong to the Python object and outlive the library's
 *          connection. */
#pragma once
#include "python/native/py_ps.h"

/* A slip for the next request: `done` and `context` of its options. NULL with an exception. */
py_ps_slip *py_ps_slip_new(py_ps_connection *connection, PyObject *slip);
void py_ps_slip_drop(py_ps_slip *slip); /* the request was not made; NULL: no-op */
void py_ps_slip_ring(void *slip, mr_status status);

void py_ps_slips_ring(py_ps_connection *connection); /* notifies all pending slips; no further notification follows */
void py_ps_slips_free(py_ps_connection *connection); /* before the connection is freed */

PyObject *py_ps_callback(PyObject *connection, PyObject *timeout); /* told(timeout in s) → slip or None (timeout) */
PyObject *py_ps_tell(PyObject *connection, PyObject *slip);        /* tell(slip): as if its request had ended */
