/* py_model_session.c — see py_model_session.h. */
#include "python/native/py_model_session.h"

#include <unistd.h>

#include "miniray/model.h"

typedef struct loan { /* buffers that requests of the session may use */
    struct loan *next;
    size_t count;
    Py_buffer views[]; /* `obj` NULL: none */
} loan;

struct py_model_session {
    PyObject_HEAD py_ps_connection *connection; /* owned */
    py_model_session *next;                     /* in the connection's list */
    mr_model_session *session;                  /* owned; NULL: closed */
    uint32_t rank;
    size_t count;
    size_t *bytes;  /* owned: size of each tensor */
    loan *loans;    /* owned, the newest first */
    loan *weights;  /* one of them: memory of the tensors */
    bool is_unsure; /* a pull into other memory failed, so the tensors have either memory */
    bool is_busy;   /* a thread calls the session */
};

/* ---- Buffers. */

static void free_loan(loan *loan) {
    for (size_t i = 0; i < loan->count; i++)
        if (loan->views[i].obj != NULL) PyBuffer_Release(&loan->views[i]);
    PyMem_Free(loan);
}

/* Frees the loans that no request uses any more: all but the weights and this one (NULL: none). */
static void free_loans(py_model_session *self, const loan *used) {
    for (loan **at = &self->loans; *at != NULL;) {
        loan *loan = *at;
        if (self->is_unsure || loan == self->weights || loan == used) {
            at = &loan->next;
            continue;
        }
        *at = loan->next;
        free_loan(loan);
    }
}

/* Takes a contiguous buffer of each object of the list that is not None. NULL with an exception. */
static loan *take(py_model_session *self, PyObject *list, int flags) {
    if (!PyList_Check(list) || (size_t)PyList_GET_SIZE(list) != self->count)
        return PyErr_Format(PyExc_ValueError, "expected a list of %zu buffers, one for each tensor", self->count), NULL;
    loan *made = PyMem_Calloc(1, sizeof *made + self->count * sizeof *made->views);
    if (made == NULL) return PyErr_NoMemory(), NULL;
    made->count = self->count;
    for (size_t i = 0; i < self->count; i++) {
        PyObject *object = PyList_GET_ITEM(list, (Py_ssize_t)i);
        if (object == Py_None) continue;
        if (PyObject_GetBuffer(object, &made->views[i], PyBUF_C_CONTIGUOUS | flags) == 0 &&
            (size_t)made->views[i].len == self->bytes[i])
            continue;
        if (!PyErr_Occurred())
            PyErr_Format(PyExc_ValueError, "tensor %zu has %zu bytes, and its buffer %zd", i, self->bytes[i],
                         made->views[i].len);
        free_loan(made);
        return NULL;
    }
    return made;
}

static void add_loan(py_model_session *self, loan *loan) {
    loan->next = self->loans;
    self->loans = loan;
}

/* The addresses of the buffers, which PyMem_Free frees. NULL with an exception. */
static void **addresses_of(const loan *loan) {
    void **addresses = PyMem_Calloc(loan->count + 1, sizeof *addresses);
    if (addresses == NULL) return (void **)PyErr_NoMemory();
    for (size_t i = 0; i < loan->count; i++) addresses[i] = loan->views[i].obj == NULL ? NULL : loan->views[i].buf;
    return addresses;
}

/* ---- Opening. */

typedef struct description {
    mr_model_tensor *tensors; /* owned */
    PyObject *memories;       /* owned: a buffer or None for each */
} description;

static void drop_description(description *description) {
    PyMem_Free(description->tensors);
    Py_XDECREF(description->memories);
}

static bool read_tensor(PyObject *item, mr_model_tensor *out, PyObject **memory) {
    PyObject *shape;
    int dtype, frozen;
    if (!PyArg_ParseTuple(item, "siO!Op", &out->name, &dtype, &PyTuple_Type, &shape, memory, &frozen)) return false;
    if (PyTuple_GET_SIZE(shape) > MR_TENSOR_DIMS_MAX)
        return PyErr_Format(PyExc_ValueError, "tensor '%s' has %zd dimensions; the limit is %d", out->name,
                            PyTuple_GET_SIZE(shape), MR_TENSOR_DIMS_MAX) != NULL;
    out->dtype = (mr_dtype)dtype;
    out->frozen = frozen;
    out->dims = (int)PyTuple_GET_SIZE(shape);
    for (int k = 0; k < out->dims; k++)
        if ((out->shape[k] = PyLong_AsLongLong(PyTuple_GET_ITEM(shape, k))) == -1 && PyErr_Occurred()) return false;
    return true;
}

/* Reads the list of tensors, whose names are borrowed from it, and measures them. False with an exception. */
static bool describe(py_model_session *self, PyObject *list, description *out) {
    self->count = (size_t)PyList_GET_SIZE(list);
    self->bytes = PyMem_Calloc(self->count + 1, sizeof *self->bytes);
    *out = (description){PyMem_Calloc(self->count + 1, sizeof *out->tensors), PyList_New(PyList_GET_SIZE(list))};
    if (self->bytes == NULL || out->tensors == NULL || out->memories == NULL) return PyErr_NoMemory() != NULL;
    for (size_t i = 0; i < self->count; i++) {
        PyObject *memory;
        mr_model_tensor *tensor = &out->tensors[i];
        if (!read_tensor(PyList_GET_ITEM(list, (Py_ssize_t)i), tensor, &memory)) return false;
        PyList_SET_ITEM(out->memories, (Py_ssize_t)i, Py_NewRef(memory));
        self->bytes[i] = mr_dtype_size(tensor->dtype);
        for (int k = 0; k < tensor->dims; k++) self->bytes[i] *= (size_t)tensor->shape[k];
    }
    return true;
}

/* Lets the tensors borrow the buffers. */
static bool lend(py_model_session *self, const description *given) {
    loan *weights = take(self, given->memories, PyBUF_WRITABLE);
    if (weights == NULL) return false;
    add_loan(self, weights);
    self->weights = weights;
    for (size_t i = 0; i < self->count; i++)
        if (weights->views[i].obj != NULL) given->tensors[i].data = weights->views[i].buf;
    return true;
}

static bool open_session(py_model_session *self, const description *given, const mr_model_session_options *options,
                         double timeout_s) {
    py_ps_wait wait = py_ps_wait_begin((PyObject *)self->connection, timeout_s);
    while (py_ps_wait_next(&wait))
        wait.status =
            mr_model_session_open(wait.ps, given->tensors, self->count, options, wait.slice_us, &self->session);
    if (wait.status != MR_OK) return py_ps_raise(wait.status) != NULL;
    mr_ps_info info;
    mr_ps_info_get(self->connection->ps, &info);
    self->rank = info.rank;
    self->next = self->connection->sessions;
    self->connection->sessions = self;
    return true;
}

PyObject *py_model_session_open(PyObject *connection, PyObject *args) {
    mr_ps_table_options table;
    mr_model_session_options options = MR_INIT(mr_model_session_options);
    PyObject *given, *list;
    Py_ssize_t about_size;
    double timeout_s;
    if (!PyArg_ParseTuple(args, "sdO!O!y#", &options.name, &timeout_s, &PyTuple_Type, &given, &PyList_Type, &list,
                          &options.about.data, &about_size) ||
        py_ps_table_options_read(given, &table) == NULL)
        return NULL;
    table.kind = 0; /* the tensors determine these */
    table.dtype = 0;
    options.table = &table;
    options.about.size = (size_t)about_size;
    py_model_session *self = (py_model_session *)py_model_session_type.tp_alloc(&py_model_session_type, 0);
    if (self == NULL) return NULL;
    self->connection = (py_ps_connection *)Py_NewRef(connection);
    description description = {0};
    if (!describe(self, list, &description) || !lend(self, &description) ||
        !open_session(self, &description, &options, timeout_s))
        Py_CLEAR(self);
    drop_description(&description);
    return (PyObject *)self;
}

/* ---- Calls. */

static bool enter(py_model_session *self) {
    if (self->session == NULL)
        return PyErr_Format(PyExc_RuntimeError, "the session of rank %u is closed: open another one", self->rank) !=
               NULL;
    if (self->is_busy)
        return PyErr_Format(PyExc_RuntimeError, "another thread uses the session of rank %u: open one for each thread",
                            self->rank) != NULL;
    return self->is_busy = true;
}

/* Ends a call that has waited for all requests, or has failed. */
static bool leave(py_model_session *self, mr_status status) {
    self->is_busy = false;
    if (status == MR_OK) free_loans(self, NULL);
    if (status != MR_OK) py_ps_raise(status);
    return status == MR_OK;
}

/* begin(timeout) → the step */
static PyObject *begin(PyObject *object, PyObject *timeout) {
    py_model_session *self = (py_model_session *)object;
    uint64_t step = 0;
    if (!enter(self)) return NULL;
    py_ps_wait wait = py_ps_wait_begin((PyObject *)self->connection, PyFloat_AsDouble(timeout));
    while (py_ps_wait_next(&wait)) wait.status = mr_model_session_begin(self->session, wait.slice_us, &step);
    self->is_busy = false;
    return wait.status == MR_OK ? PyLong_FromUnsignedLongLong(step) : py_ps_raise(wait.status);
}

/* Adds the buffers, and returns their addresses, which PyMem_Free frees. NULL with an exception. */
static void **borrow(py_model_session *self, PyObject *list, int flags, loan **out) {
    void **addresses = NULL;
    loan *loan = take(self, list, flags);
    if (loan != NULL && (addresses = addresses_of(loan)) == NULL) free_loan(loan);
    if (addresses == NULL) return NULL;
    add_loan(self, loan);
    *out = loan;
    return addresses;
}

/* pull([buffer or None] or None, timeout): into these buffers from now on; None: into those of the last pull */
static PyObject *pull(PyObject *object, PyObject *args) {
    py_model_session *self = (py_model_session *)object;
    PyObject *list;
    double timeout_s;
    void **addresses = NULL;
    loan *weights = self->weights;
    if (!PyArg_ParseTuple(args, "Od", &list, &timeout_s) || !enter(self)) return NULL;
    if (list != Py_None && (addresses = borrow(self, list, PyBUF_WRITABLE, &weights)) == NULL) {
        self->is_busy = false;
        return NULL;
    }
    py_ps_wait wait = py_ps_wait_begin((PyObject *)self->connection, timeout_s);
    while (py_ps_wait_next(&wait)) wait.status = mr_model_session_pull(self->session, addresses, wait.slice_us);
    PyMem_Free(addresses);
    if (list != Py_None) self->is_unsure = wait.status != MR_OK;
    if (wait.status == MR_OK) self->weights = weights;
    return leave(self, wait.status) ? Py_NewRef(Py_None) : NULL;
}

/* push([buffer or None], learning rate (0: the table's, negative: 0), timeout): the buffers of the gradients are used
 * until a later call has succeeded */
static PyObject *push(PyObject *object, PyObject *args) {
    py_model_session *self = (py_model_session *)object;
    PyObject *list;
    double timeout_s;
    loan *gradients;
    mr_model_push_options options = MR_INIT(mr_model_push_options);
    if (!PyArg_ParseTuple(args, "Ofd", &list, &options.rate, &timeout_s) || !enter(self)) return NULL;
    void **addresses = borrow(self, list, PyBUF_SIMPLE, &gradients);
    if (addresses == NULL) {
        self->is_busy = false;
        return NULL;
    }
    const void *const *values = (const void *const *)addresses;
    py_ps_wait wait = py_ps_wait_begin((PyObject *)self->connection, timeout_s);
    while (py_ps_wait_next(&wait)) wait.status = mr_model_session_push(self->session, values, &options, wait.slice_us);
    PyMem_Free(addresses);
    self->is_busy = false;
    if (wait.status == MR_OK) free_loans(self, gradients);
    return py_ps_outcome(wait.status);
}

/* skip(timeout): ends the step without a gradient of this rank */
static PyObject *skip(PyObject *object, PyObject *timeout) {
    py_model_session *self = (py_model_session *)object;
    if (!enter(self)) return NULL;
    py_ps_wait wait = py_ps_wait_begin((PyObject *)self->connection, PyFloat_AsDouble(timeout));
    while (py_ps_wait_next(&wait)) wait.status = mr_model_session_skip(self->session, wait.slice_us);
    return leave(self, wait.status) ? Py_NewRef(Py_None) : NULL;
}

/* version(timeout) → number of steps in the weights */
static PyObject *version(PyObject *object, PyObject *timeout) {
    py_model_session *self = (py_model_session *)object;
    uint64_t number = 0;
    if (!enter(self)) return NULL;
    py_ps_wait wait = py_ps_wait_begin((PyObject *)self->connection, PyFloat_AsDouble(timeout));
    while (py_ps_wait_next(&wait)) wait.status = mr_model_session_version(self->session, wait.slice_us, &number);
    return leave(self, wait.status) ? PyLong_FromUnsignedLongLong(number) : NULL;
}

/* leave(timeout): no other rank waits for this one any more */
static PyObject *leave_rounds(PyObject *object, PyObject *timeout) {
    py_model_session *self = (py_model_session *)object;
    if (!enter(self)) return NULL;
    py_ps_wait wait = py_ps_wait_begin((PyObject *)self->connection, PyFloat_AsDouble(timeout));
    while (py_ps_wait_next(&wait)) wait.status = mr_model_session_leave(self->session, wait.slice_us);
    return leave(self, wait.status) ? Py_NewRef(Py_None) : NULL;
}

static PyObject *get_skipped(PyObject *object, void *none) {
    py_model_session *self = (py_model_session *)object;
    if (!enter(self)) return NULL;
    self->is_busy = false;
    return PyLong_FromUnsignedLongLong(mr_model_session_skipped(self->session));
}

/* ---- End. */

/* A forked process has neither the library's threads nor the parent's requests. */
static void end(py_model_session *self) {
    mr_model_session *session = self->session;
    self->session = NULL;
    if (session != NULL && self->connection->pid == getpid()) mr_model_session_close(session, 0);
}

void py_model_sessions_end(py_ps_connection *connection) {
    for (py_model_session *each = connection->sessions; each != NULL; each = each->next) end(each);
    connection->sessions = NULL;
}

/* close(): requests that are under way continue without the session's caller */
static PyObject *close_(PyObject *object, PyObject *none) {
    py_model_session *self = (py_model_session *)object;
    if (self->is_busy)
        return PyErr_Format(PyExc_RuntimeError, "cannot close the session of rank %u: another thread uses it",
                            self->rank),
               NULL;
    end(self);
    Py_RETURN_NONE;
}

static void dealloc(PyObject *object) {
    py_model_session *self = (py_model_session *)object;
    for (py_model_session **at = &self->connection->sessions; *at != NULL; at = &(*at)->next)
        if (*at == self) {
            *at = self->next;
            break;
        }
    end(self);
    self->weights = NULL;
    self->is_unsure = false;
    free_loans(self, NULL);
    PyMem_Free(self->bytes);
    Py_DECREF(self->connection);
    Py_TYPE(object)->tp_free(object);
}

static PyMethodDef methods[] = {
    {"begin", begin, METH_O, NULL},       {"pull", pull, METH_VARARGS, NULL},
    {"push", push, METH_VARARGS, NULL},   {"skip", skip, METH_O, NULL},
    {"version", version, METH_O, NULL},   {"leave", leave_rounds, METH_O, NULL},
    {"close", close_, METH_NOARGS, NULL}, {NULL},
};

static PyGetSetDef properties[] = {
    {"skipped", get_skipped, NULL, "steps that this rank was left out of", NULL},
    {NULL},
};

PyTypeObject py_model_session_type = {
    PY_CORE_TYPE("miniray._core.ModelSession", py_model_session, "A session of a model, for miniray.ps."),
    .tp_dealloc = dealloc,
    .tp_methods = methods,
    .tp_getset = properties,
};
