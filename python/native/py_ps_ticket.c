/* py_ps_ticket.c — see py_ps.h: tickets, and the memory that their requests borrow. */
#include "python/native/py_ps.h"

#include <stdlib.h>
#include <unistd.h>

py_ps_ticket *py_ps_ticket_new(py_ps_connection *connection) {
    py_ps_ticket *ticket = (py_ps_ticket *)py_ps_ticket_type.tp_alloc(&py_ps_ticket_type, 0);
    if (ticket == NULL) return NULL;
    ticket->connection = (py_ps_connection *)Py_NewRef((PyObject *)connection);
    ticket->is_over = true; /* no memory is borrowed */
    return ticket;
}

void py_ps_ticket_begin(py_ps_ticket *ticket) {
    py_ps_connection *connection = ticket->connection;
    Py_INCREF(ticket);
    ticket->is_over = false;
    ticket->before = connection->final;
    *(connection->final == NULL ? &connection->first : &connection->final->after) = ticket;
    connection->final = ticket;
}

static void give_back(py_ps_ticket *ticket) {
    PyBuffer_Release(&ticket->pushed);
    PyBuffer_Release(&ticket->wanted);
    PyBuffer_Release(&ticket->listed);
    Py_CLEAR(ticket->mark);
    py_ps_keys_fini(&ticket->keys);
    free(ticket->offsets);
    free(ticket->gathered);
    free(ticket->found);
    ticket->offsets = NULL;
    ticket->gathered = ticket->found = NULL;
}

/* Copies the received values of keys that did not ascend to the caller's memory. */
static void deliver(py_ps_ticket *ticket) {
    if (ticket->found == NULL) return;
    if (ticket->row == 0)
        py_ps_keys_scatter_vectors(&ticket->keys, ticket->offsets, ticket->found, ticket->wanted.buf);
    else
        py_ps_keys_scatter(&ticket->keys, ticket->row, ticket->found, ticket->wanted.buf);
}

/* Ends the ticket. The connection releases its reference, so the ticket may be freed afterwards. */
static void finish(py_ps_ticket *ticket, mr_status status, const char *text) {
    py_ps_connection *connection = ticket->connection;
    bool is_dropped = Py_REFCNT(ticket) == 1;
    ticket->is_over = true;
    ticket->status = status;
    if (status == MR_OK)
        deliver(ticket);
    else if ((ticket->text = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace")) == NULL)
        PyErr_Clear();
    give_back(ticket);
    if (is_dropped && status != MR_OK && connection->failed == MR_OK) {
        connection->failed = status;
        Py_XSETREF(connection->failed_text, Py_XNewRef(ticket->text));
    }
    *(ticket->before == NULL ? &connection->first : &ticket->before->after) = ticket->after;
    *(ticket->after == NULL ? &connection->final : &ticket->after->before) = ticket->before;
    ticket->before = ticket->after = NULL;
    Py_DECREF(ticket);
}

/* Asks for the request's outcome. MR_TIMEOUT: the request is under way and uses its memory. A server without memory
 * gives the same status, since it may get memory later; a second query finds only requests that are under way. */
static mr_status ask(mr_ps *ps, mr_ps_ticket number, int64_t timeout_us, bool *refused) {
    mr_status status = mr_ps_wait(ps, number, timeout_us);
    *refused = false;
    if (status != MR_NOMEM) return status;
    status = mr_ps_wait(ps, number, 0);
    *refused = status == MR_NOMEM;
    return *refused ? MR_TIMEOUT : status == MR_NOT_FOUND ? MR_NOMEM : status;
}

void py_ps_tickets_sweep(py_ps_connection *connection) {
    while (connection->first != NULL && !connection->first->is_waited) {
        bool refused;
        mr_status status = ask(connection->ps, connection->first->number, 0, &refused);
        if (status == MR_TIMEOUT) return;
        finish(connection->first, status, mr_last_error());
    }
}

void py_ps_tickets_end(py_ps_connection *connection) {
    while (connection->first != NULL)
        finish(connection->first, MR_CLOSED, "the connection was closed before this request completed");
}

static mr_status wait_here(py_ps_ticket *self, double timeout_s) {
    enum { NAP_US = 1000 };
    bool refused = false;                                                   /* by a server without memory, recently */
    for (double waited_s = 0; self->is_waited; waited_s += 1e-6 * NAP_US) { /* another thread takes the answer */
        if (waited_s > timeout_s) return MR_TIMEOUT;
        if (!py_ps_enter(self->connection)) return MR_CANCELLED;
        PY_CORE_WITHOUT_GIL(usleep(NAP_US));
        py_ps_leave(self->connection);
    }
    if (self->is_over) return MR_OK;
    self->is_waited = true;
    py_ps_wait wait = py_ps_wait_begin((PyObject *)self->connection, timeout_s);
    while (py_ps_wait_next(&wait)) wait.status = ask(wait.ps, self->number, wait.slice_us, &refused);
    self->is_waited = false;
    if (wait.status != MR_TIMEOUT && wait.status != MR_CANCELLED) finish(self, wait.status, mr_last_error());
    return wait.status == MR_TIMEOUT && refused ? MR_NOMEM : wait.status;
}

/* Asks for the outcome. False: the request is under way, or, with MR_CANCELLED, an exception is set. */
static bool look(py_ps_ticket *self, double timeout_s, mr_status *status) {
    *status = MR_CANCELLED;
    if (!self->is_over) *status = wait_here(self, timeout_s);
    return self->is_over;
}

static PyObject *raise_shared(void) {
    PyObject *text = PyUnicode_FromString("another thread already waits for this request");
    if (text != NULL) py_ps_raise_text(MR_TIMEOUT, text);
    Py_XDECREF(text);
    return NULL;
}

/* wait(timeout in s) */
static PyObject *wait_(PyObject *object, PyObject *timeout) {
    py_ps_ticket *self = (py_ps_ticket *)object;
    mr_status status;
    double timeout_s = PyFloat_AsDouble(timeout);
    if (timeout_s == -1 && PyErr_Occurred()) return NULL;
    bool is_over = look(self, timeout_s, &status);
    if (!is_over && status == MR_TIMEOUT && self->is_waited) return raise_shared(); /* only the other thread asked */
    if (!is_over) return py_ps_raise(status);
    if (self->status == MR_OK) Py_RETURN_NONE;
    return py_ps_raise_text(self->status, self->text == NULL ? Py_None : self->text);
}

static PyObject *get_done(PyObject *object, void *none) {
    mr_status status;
    if (look((py_ps_ticket *)object, 0, &status)) Py_RETURN_TRUE;
    return status == MR_CANCELLED ? NULL : Py_NewRef(Py_False);
}

static PyObject *get_count(PyObject *object, void *none) { return PyLong_FromSize_t(((py_ps_ticket *)object)->count); }

/* ---- Vectors of unknown lengths, in the order of the given keys. */

static size_t index_of(const py_ps_ticket *self, size_t i) { return self->place == NULL ? i : self->place[i]; }

static PyObject *get_lengths(PyObject *object, void *none) {
    py_ps_ticket *self = (py_ps_ticket *)object;
    if (self->vectors == NULL) Py_RETURN_NONE;
    PyObject *lengths = PyList_New((Py_ssize_t)self->given);
    for (size_t i = 0; lengths != NULL && i < self->given; i++) {
        PyObject *length = PyLong_FromUnsignedLong(self->vectors->lengths[index_of(self, i)]);
        if (length == NULL) Py_CLEAR(lengths);
        if (length != NULL) PyList_SET_ITEM(lengths, (Py_ssize_t)i, length);
    }
    return lengths;
}

/* Copies the vectors of the given keys; false: no memory, or another size than `room`. */
static bool copy_vectors(const py_ps_ticket *self, uint8_t *to, size_t room) {
    const mr_ps_vectors *vectors = self->vectors;
    size_t *offsets = malloc((vectors->count + 1) * sizeof *offsets), used = 0;
    if (offsets == NULL) return false;
    offsets[0] = 0;
    for (size_t i = 0; i < vectors->count; i++) offsets[i + 1] = offsets[i] + vectors->lengths[i] * self->item;
    bool fits = true;
    for (size_t i = 0; fits && i < self->given; i++) {
        size_t index = index_of(self, i), size = offsets[index + 1] - offsets[index];
        fits = size <= room - used;
        if (fits && size != 0) memcpy(to + used, (const uint8_t *)vectors->values + offsets[index], size);
        used += fits ? size : 0;
    }
    free(offsets);
    return fits && used == room;
}

/* copy(memory) */
static PyObject *copy(PyObject *object, PyObject *memory) {
    py_ps_ticket *self = (py_ps_ticket *)object;
    Py_buffer view;
    if (self->vectors == NULL)
        return PyErr_Format(PyExc_ValueError, "request %llu has no vectors of unknown lengths",
                            (unsigned long long)self->number.v);
    if (PyObject_GetBuffer(memory, &view, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE) != 0) return NULL;
    bool copied = copy_vectors(self, view.buf, (size_t)view.len);
    PyBuffer_Release(&view);
    return copied ? Py_NewRef(Py_None) : PyErr_NoMemory();
}

static void dealloc(PyObject *object) {
    py_ps_ticket *self = (py_ps_ticket *)object;
    give_back(self);
    mr_ps_vectors_free(self->vectors);
    free(self->place);
    Py_XDECREF(self->text);
    Py_XDECREF(self->connection);
    Py_TYPE(object)->tp_free(object);
}

static PyMethodDef methods[] = {
    {"wait", wait_, METH_O, NULL},
    {"copy", copy, METH_O, NULL},
    {NULL},
};

static PyGetSetDef properties[] = {
    {"done", get_done, NULL, NULL, NULL},
    {"lengths", get_lengths, NULL, "Lengths of the vectors of the given keys; None: they were known.", NULL},
    {"count", get_count, NULL, "Number of keys in a range; more than fit if there are too many.", NULL},
    {NULL},
};

PyTypeObject py_ps_ticket_type = {
    PY_CORE_TYPE("miniray._core.PsTicket", py_ps_ticket, "A request to a parameter server, pending or complete."),
    .tp_dealloc = dealloc,
    .tp_methods = methods,
    .tp_getset = properties,
};
