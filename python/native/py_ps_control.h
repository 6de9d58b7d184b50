/* py_ps_control.h — barriers, reports and messages of miniray/ps.h, as methods of a connection (py_ps.h).
 *
 * The library's thread that reads a request of another process puts the request into an inbox, without the GIL; a
 * Python thread takes it out and answers. A dropped request is answered with an empty response. */
#pragma once
#include "python/native/py_ps.h"

PyObject *py_ps_barrier(PyObject *connection, PyObject *args); /* (name, group, timeout in s) */
PyObject *py_ps_report(PyObject *connection, PyObject *args);  /* (key, number) */
PyObject *py_ps_send(PyObject *connection, PyObject *args);    /* (role, number, app, head, body) → ticket */
/* (ticket, timeout in s) → [(role, number, status, head, body)] */
PyObject *py_ps_responses(PyObject *connection, PyObject *args);
PyObject *py_ps_handle(PyObject *connection, PyObject *app); /* puts requests for this app into the inbox from now on */
/* (app, timeout in s) → (role, number, head, body, request) or None */
PyObject *py_ps_receive(PyObject *connection, PyObject *args);
PyObject *py_ps_answer(PyObject *module, PyObject *args);    /* (request, head, body): answers a request, once */
PyObject *py_ps_processes(PyObject *module, PyObject *args); /* (address or None, timeout in s) → [dict] */
PyObject *py_ps_overview(PyObject *module, PyObject *args);  /* (address or None, timeout in s) → a dict */

void py_ps_messages_drop(py_ps_connection *connection); /* frees the unanswered messages of a closed connection */
