/* py_model_session.h — sessions of models (miniray/model.h) as Python objects, for miniray.ps.
 *
 * A session owns the buffers of Python that its requests borrow: those of the weights, and those of gradients until a
 * later call has succeeded. It ends with its connection. */
#pragma once
#include "python/native/py_ps.h"

/* A method of a connection: (name, timeout in s, options of a table (py_ps_table_options_read), [(name, number of the
 * dtype, shape, buffer of weights or None, frozen)], bytes that describe the model) → a session. */
PyObject *py_model_session_open(PyObject *connection, PyObject *args);
void py_model_sessions_end(py_ps_connection *connection); /* before the connection closes */

extern PyTypeObject py_model_session_type;
