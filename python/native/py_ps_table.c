/* py_ps_table.c — see py_ps.h: tables, and requests about keys and arrays.
 *
 * Buffers from Python are contiguous and in the dtype of the request, which miniray/ps/_arrays.py ensures; their sizes
 * are checked here, so that nothing is read or written outside them. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "python/native/py_numpy.h"
#include "python/native/py_ps_callback.h"

/* ---- Creation and opening. */

static PyObject *wrap(py_ps_connection *connection, mr_ps_table *table) {
    py_ps_table *made = (py_ps_table *)py_ps_table_type.tp_alloc(&py_ps_table_type, 0);
    if (made == NULL) {
        mr_ps_table_free(table);
        return NULL;
    }
    made->connection = (py_ps_connection *)Py_NewRef((PyObject *)connection);
    made->table = table;
    made->options.size = sizeof made->options;
    mr_ps_table_options_get(table, &made->options);
    return (PyObject *)made;
}

/* Reads [(name, (items, …))]; the names are borrowed from the list. NULL with an exception. */
static mr_ps_array *read_arrays(PyObject *list, uint32_t *count) {
    if (!PyList_Check(list) || PyList_GET_SIZE(list) > MR_PS_ARRAYS_MAX)
        return PyErr_Format(PyExc_ValueError, "a table takes a list of at most %d arrays, not %zd", MR_PS_ARRAYS_MAX,
                            PyList_Check(list) ? PyList_GET_SIZE(list) : -1),
               NULL;
    mr_ps_array *arrays = PyMem_Calloc((size_t)PyList_GET_SIZE(list) + 1, sizeof *arrays);
    if (arrays == NULL) return PyErr_NoMemory(), NULL;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); i++) {
        PyObject *shape;
        if (!PyArg_ParseTuple(PyList_GET_ITEM(list, i), "sO!", &arrays[i].name, &PyTuple_Type, &shape)) goto drop;
        if (PyTuple_GET_SIZE(shape) > MR_TENSOR_DIMS_MAX) {
            PyErr_Format(PyExc_ValueError, "array '%s' has %zd dimensions; the limit is %d", arrays[i].name,
                         PyTuple_GET_SIZE(shape), MR_TENSOR_DIMS_MAX);
            goto drop;
        }
        arrays[i].dims = (int)PyTuple_GET_SIZE(shape);
        for (int k = 0; k < arrays[i].dims; k++)
            if ((arrays[i].shape[k] = PyLong_AsLongLong(PyTuple_GET_ITEM(shape, k))) == -1 && PyErr_Occurred())
                goto drop;
    }
    *count = (uint32_t)PyList_GET_SIZE(list);
    return arrays;

drop:
    PyMem_Free(arrays);
    return NULL;
}

/* Creates or opens a table. Options NULL: the table must exist. */
static PyObject *obtain(PyObject *connection, const char *name, const mr_ps_table_options *options, double timeout_s) {
    mr_ps_table *table;
    py_ps_wait wait = py_ps_wait_begin(connection, timeout_s);
    while (py_ps_wait_next(&wait))
        wait.status = options == NULL ? mr_ps_table_open(wait.ps, name, wait.slice_us, &table)
                                      : mr_ps_table_create(wait.ps, name, options, wait.slice_us, &table);
    return wait.status == MR_OK ? wrap(wait.connection, table) : py_ps_raise(wait.status);
}

/* ---- Hyperparameters, in the order of MR_PS_HYPERPARAMETERS. */

PyObject *py_ps_hyperparameters(void) {
#define X(name, least, below, initial, text)    "(ss)"
#define PAIR(name, least, below, initial, text) , #name, text
    return Py_BuildValue("(" MR_PS_HYPERPARAMETERS(X) ")" MR_PS_HYPERPARAMETERS(PAIR));
#undef PAIR
#undef X
}

static bool read_hyperparameters(PyObject *given, mr_ps_table_options *o) {
#define X(name, ...)     "f"
#define PLACE(name, ...) , &o->name
    return PyArg_ParseTuple(given, MR_PS_HYPERPARAMETERS(X) MR_PS_HYPERPARAMETERS(PLACE));
#undef PLACE
#undef X
}

/* Adds the hyperparameters to the options of a table; the dictionary is owned, NULL with an exception. */
static PyObject *with_hyperparameters(PyObject *options, const mr_ps_table_options *o) {
#define X(name, ...) py_core_insert(&options, PyUnicode_FromString(#name), PyFloat_FromDouble((double)o->name));
    MR_PS_HYPERPARAMETERS(X)
#undef X
    return options;
}

PyObject *py_ps_table_options_read(PyObject *given, mr_ps_table_options *o) {
    PyObject *arrays, *hyperparameters;
    int kind, dtype;
    unsigned long long first_key, last_key, seed, rows_max, age_max;
    *o = (mr_ps_table_options)MR_INIT(mr_ps_table_options);
    if (!PyArg_ParseTuple(given, "iiIOIpKKzzzzfO!KfppIKKzz", &kind, &dtype, &o->dim, &arrays, &o->block, &o->ordered,
                          &first_key, &last_key, &o->optimizer, &o->schedule, &o->initializer, &o->compression,
                          &o->rate, &PyTuple_Type, &hyperparameters, &seed, &o->clip_norm, &o->average, &o->refuse_nan,
                          &o->admit, &rows_max, &age_max, &o->consistency, &o->precision) ||
        !read_hyperparameters(hyperparameters, o))
        return NULL;
    o->kind = (mr_ps_kind)kind;
    o->dtype = (mr_dtype)dtype;
    o->first_key = first_key;
    o->last_key = last_key;
    o->seed = seed;
    o->rows_max = rows_max;
    o->age_max = age_max;
    return arrays;
}

PyObject *py_ps_table_create(PyObject *connection, PyObject *args) {
    mr_ps_table_options o;
    PyObject *given, *list;
    const char *name;
    double timeout_s;
    if (!PyArg_ParseTuple(args, "sdO!", &name, &timeout_s, &PyTuple_Type, &given) ||
        (list = py_ps_table_options_read(given, &o)) == NULL)
        return NULL;
    mr_ps_array *arrays = read_arrays(list, &o.array_count);
    if (arrays == NULL) return NULL;
    o.arrays = arrays;
    PyObject *made = obtain(connection, name, &o, timeout_s);
    PyMem_Free(arrays);
    return made;
}

PyObject *py_ps_table_open(PyObject *connection, PyObject *args) {
    const char *name;
    double timeout_s;
    return PyArg_ParseTuple(args, "sd", &name, &timeout_s) ? obtain(connection, name, NULL, timeout_s) : NULL;
}

static PyObject *drop(PyObject *object, PyObject *timeout) {
    py_ps_table *self = (py_ps_table *)object;
    py_ps_wait wait = py_ps_wait_begin((PyObject *)self->connection, PyFloat_AsDouble(timeout));
    while (py_ps_wait_next(&wait)) wait.status = mr_ps_table_drop(self->table, wait.slice_us);
    return py_ps_outcome(wait.status);
}

static void dealloc(PyObject *object) {
    py_ps_table *self = (py_ps_table *)object;
    if (self->connection->pid == getpid()) mr_ps_table_free(self->table);
    Py_XDECREF(self->connection);
    Py_TYPE(object)->tp_free(object);
}

/* ---- Properties. */

static PyObject *array_of(const void *item) {
    const mr_ps_array *array = item;
    return Py_BuildValue("sN", array->name, py_numpy_shape(array->shape, array->dims));
}

static PyObject *get_options(PyObject *object, void *none) {
    static const char *const kinds[] = {"sparse", "vectors", "dense"};
    const mr_ps_table_options *o = &((py_ps_table *)object)->options;
    PyObject *options = Py_BuildValue(
        "{s:s,s:s,s:I,s:N,s:I,s:N,s:K,s:K,s:s,s:s,s:s,s:s,s:f,s:K,s:f,"
        "s:N,s:N,s:I,s:K,s:K,s:s,s:z}",
        "kind", kinds[o->kind], "dtype", mr_dtype_name(o->dtype), "dim", o->dim, "arrays",
        py_core_list(o->arrays, o->array_count, sizeof *o->arrays, array_of), "block", o->block, "ordered",
        PyBool_FromLong(o->ordered), "first_key", (ull)o->first_key, "last_key", (ull)o->last_key, "optimizer",
        o->optimizer, "schedule", o->schedule, "initializer", o->initializer, "compression", o->compression, "lr",
        o->rate, "seed", (ull)o->seed, "clip_norm", o->clip_norm, "average", PyBool_FromLong(o->average), "refuse_nan",
        PyBool_FromLong(o->refuse_nan), "admit", o->admit, "rows_max", (ull)o->rows_max, "age_max", (ull)o->age_max,
        "consistency", o->consistency, "precision", o->precision);
    return with_hyperparameters(options, o);
}

static PyObject *get_name(PyObject *object, void *none) {
    return PyUnicode_FromString(mr_ps_table_name(((py_ps_table *)object)->table));
}

/* ---- Requests about keys. */

typedef struct request {
    py_ps_table *table;
    py_ps_ticket *ticket; /* owned until it is returned */
    Py_buffer keys, lengths;
    uint32_t *sorted_lengths; /* owned */
    mr_ps_request_options options;
    PyObject *told; /* borrowed: a slip (py_ps_callback.h); NULL: no callback */
    size_t count;   /* number of given keys, or of items of an array */
    uint32_t array;
    uint64_t first, last; /* items of the array, or keys of a range */
} request;

/* Bytes of a value in Python's memory. */
static size_t item_of(const request *request) { return mr_dtype_size(request->options.dtype); }

/* Takes a contiguous buffer of the object, unless it is None. False with an exception. */
static bool take(PyObject *object, Py_buffer *view, bool writable) {
    if (object == Py_None) return true;
    return PyObject_GetBuffer(object, view, PyBUF_C_CONTIGUOUS | (writable ? PyBUF_WRITABLE : 0)) == 0;
}

static bool has_size(const Py_buffer *view, size_t bytes, const char *what) {
    if (view->obj == NULL || (size_t)view->len == bytes) return true;
    return PyErr_Format(PyExc_ValueError, "the %s have %zd bytes; the keys need %zu", what, view->len, bytes) != NULL;
}

/* Bytes of the values of all keys. SIZE_MAX with an exception. */
static size_t measure(request *request) {
    py_ps_ticket *ticket = request->ticket;
    const mr_ps_table_options *options = &request->table->options;
    size_t item = item_of(request), at = 0;
    if (request->count > PY_PS_KEYS_MAX)
        return PyErr_Format(PyExc_ValueError, "a request has %zu keys; the limit is %d", request->count,
                            PY_PS_KEYS_MAX),
               SIZE_MAX;
    if (options->kind == MR_PS_SPARSE) {
        ticket->row = options->dim * item;
        return request->count * ticket->row;
    }
    if (request->lengths.obj == NULL || (size_t)request->lengths.len != request->count * sizeof(uint32_t))
        return PyErr_Format(PyExc_ValueError, "%zu keys need %zu lengths, not %zd", request->count, request->count,
                            request->lengths.obj == NULL ? 0 : request->lengths.len / (Py_ssize_t)sizeof(uint32_t)),
               SIZE_MAX;
    const uint32_t *lengths = request->lengths.buf;
    ticket->offsets = malloc((request->count + 1) * sizeof *ticket->offsets);
    if (ticket->offsets == NULL) return PyErr_NoMemory(), SIZE_MAX;
    for (size_t i = 0; i < request->count; i++) {
        ticket->offsets[i] = at;
        at += (size_t)lengths[i] * item;
    }
    ticket->offsets[request->count] = at;
    return at;
}

/* Sorts vectors whose keys do not ascend, and their lengths. */
static bool sort_vectors(request *request) {
    py_ps_ticket *ticket = request->ticket;
    const uint32_t *lengths = request->lengths.buf;
    if (ticket->keys.count != ticket->keys.given)
        return PyErr_Format(PyExc_ValueError, "%zu of %zu keys are repeated: a push of vectors takes each key once",
                            ticket->keys.given - ticket->keys.count, ticket->keys.given) != NULL;
    request->sorted_lengths = malloc(request->count * sizeof *request->sorted_lengths);
    if (request->sorted_lengths == NULL) return PyErr_NoMemory() != NULL;
    for (size_t i = 0; i < request->count; i++) request->sorted_lengths[i] = lengths[ticket->keys.order[i]];
    return true;
}

/* Allocates memory for sorted and added values, which are filled in, and for received ones. */
static bool sort(request *request, size_t bytes) {
    py_ps_ticket *ticket = request->ticket;
    const mr_ps_table_options *options = &request->table->options;
    if (!py_ps_keys_init(&ticket->keys, request->keys.buf, request->count)) return PyErr_NoMemory() != NULL;
    if (ticket->keys.keys == NULL) return true;
    if (ticket->row == 0 && !sort_vectors(request)) return false;
    size_t needed = ticket->row == 0 ? bytes : ticket->keys.count * ticket->row;
    if (ticket->pushed.obj != NULL) ticket->gathered = malloc(needed + 1);
    if (ticket->wanted.obj != NULL) ticket->found = malloc(needed + 1);
    if ((ticket->pushed.obj != NULL && ticket->gathered == NULL) ||
        (ticket->wanted.obj != NULL && ticket->found == NULL))
        return PyErr_NoMemory() != NULL;
    if (ticket->gathered == NULL) return true;
    if (ticket->row == 0)
        PY_CORE_WITHOUT_GIL(
            py_ps_keys_gather_vectors(&ticket->keys, ticket->offsets, ticket->pushed.buf, ticket->gathered));
    else
        PY_CORE_WITHOUT_GIL(py_ps_keys_gather(&ticket->keys, request->options.dtype, options->dim,
                                              request->options.set != 0, ticket->pushed.buf, ticket->gathered));
    return true;
}

typedef mr_status send_fn(const request *request);

static mr_status send_keys(const request *request) {
    py_ps_ticket *ticket = request->ticket;
    bool sorted = ticket->keys.keys != NULL;
    mr_ps_table *table = request->table->table;
    const uint64_t *keys = sorted ? ticket->keys.keys : request->keys.buf;
    const uint32_t *lengths = sorted && ticket->row == 0 ? request->sorted_lengths : request->lengths.buf;
    const void *from = sorted ? ticket->gathered : ticket->pushed.buf;
    void *to = sorted ? ticket->found : ticket->wanted.buf;
    size_t count = ticket->keys.count;
    if (ticket->wanted.obj == NULL)
        return mr_ps_push(table, keys, count, from, lengths, &request->options, &ticket->number);
    if (ticket->pushed.obj == NULL)
        return mr_ps_pull(table, keys, count, to, lengths, &request->options, &ticket->number);
    return mr_ps_push_pull(table, keys, count, from, to, lengths, &request->options, &ticket->number);
}

static mr_status send_array(const request *request) {
    py_ps_ticket *ticket = request->ticket;
    mr_ps_table *table = request->table->table;
    if (ticket->wanted.obj == NULL)
        return mr_ps_push_array(table, request->array, ticket->pushed.buf, request->first, request->count,
                                &request->options, &ticket->number);
    if (ticket->pushed.obj != NULL)
        return mr_ps_push_pull_array(table, request->array, ticket->pushed.buf, ticket->wanted.buf, request->first,
                                     request->count, &request->options, &ticket->number);
    return mr_ps_pull_array(table, request->array, ticket->wanted.buf, request->first, request->count,
                            &request->options, &ticket->number);
}

/* Makes the request, and returns its ticket. */
static PyObject *send(request *request, send_fn *how) {
    enum { SWEEP_EVERY = 16 };
    py_ps_connection *connection = request->table->connection;
    mr_status status;
    py_ps_slip *slip = NULL;
    if (!py_ps_enter(connection)) return NULL;
    if (request->told != NULL && (slip = py_ps_slip_new(connection, request->told)) == NULL) {
        py_ps_leave(connection);
        return NULL;
    }
    if (slip != NULL) request->options.done = py_ps_slip_ring;
    request->options.context = slip;
    if (++connection->requests % SWEEP_EVERY == 0) py_ps_tickets_sweep(connection);
    PY_CORE_WITHOUT_GIL(status = how(request));
    py_ps_leave(connection);
    if (status != MR_OK) {
        PyObject *none = py_ps_raise(status);
        py_ps_slip_drop(slip);
        return none;
    }
    py_ps_ticket_begin(request->ticket);
    return Py_NewRef((PyObject *)request->ticket);
}

static void fini(request *request) {
    PyBuffer_Release(&request->keys);
    PyBuffer_Release(&request->lengths);
    free(request->sorted_lengths);
    Py_XDECREF(request->ticket);
}

/* How a request is made: (priority, whether it assigns, whether a push that is not finite is left out, dtype of the
 * values or 0: the table's, learning rate as in mr_ps_request_options). False with an exception. */
static bool init(request *request, PyObject *table, PyObject *form, PyObject *told) {
    int priority, set, skips, dtype;
    float rate;
    if (!PyArg_ParseTuple(form, "ippif", &priority, &set, &skips, &dtype, &rate)) return false;
    request->table = (py_ps_table *)table;
    request->told = told == Py_None ? NULL : told;
    request->options =
        MR_OPTIONS(mr_ps_request_options, .priority = (uint8_t)priority, .set = set, .skip_nonfinite = skips,
                   .rate = rate, .dtype = dtype != 0 ? (mr_dtype)dtype : request->table->options.dtype);
    if (mr_dtype_size(request->options.dtype) == 0)
        return PyErr_Format(PyExc_ValueError, "a request of dtype %d: the table has %s", dtype,
                            mr_dtype_name(request->table->options.dtype)) != NULL;
    request->ticket = py_ps_ticket_new(request->table->connection);
    return request->ticket != NULL;
}

/* Sets the version of a pull, which the ticket keeps; None: unconditional. */
static void set_mark(request *request, PyObject *mark) {
    if (mark == Py_None) return;
    request->ticket->mark = Py_NewRef(mark);
    request->options.version = ((py_ps_mark *)mark)->mark;
}

static bool is_mark(PyObject *mark) {
    if (mark == Py_None || Py_IS_TYPE(mark, &py_ps_mark_type)) return true;
    return PyErr_Format(PyExc_TypeError, "version is %.100s: it must be what version() of this table returned",
                        Py_TYPE(mark)->tp_name) != NULL;
}

/* Whether a conditional pull can receive in the caller's memory. Slots without changes send nothing, so their values
 * must be there already. False with an exception. */
static bool is_in_place(const request *request) {
    if (request->options.version == NULL || request->ticket->keys.keys == NULL) return true;
    return PyErr_Format(PyExc_ValueError, "the keys of a pull with a version must ascend, without repeats") != NULL;
}

/* keys(keys as u64, lengths as u32 or None, pushed or None, wanted or None, form (init), mark or None, slip or None)
 * → a ticket */
static PyObject *ask_keys(PyObject *object, PyObject *args) {
    PyObject *keys, *lengths, *pushed, *wanted, *form, *mark, *told, *made = NULL;
    request request = {0};
    if (!PyArg_ParseTuple(args, "OOOOO!OO", &keys, &lengths, &pushed, &wanted, &PyTuple_Type, &form, &mark, &told) ||
        !is_mark(mark) || !init(&request, object, form, told))
        return NULL;
    set_mark(&request, mark);
    py_ps_ticket *ticket = request.ticket;
    if (!take(keys, &request.keys, false) || !take(lengths, &request.lengths, false) ||
        !take(pushed, &ticket->pushed, false) || !take(wanted, &ticket->wanted, true))
        goto fini;
    request.count = (size_t)request.keys.len / sizeof(uint64_t);
    size_t bytes = measure(&request);
    if (bytes != SIZE_MAX && has_size(&ticket->pushed, bytes, "values") &&
        has_size(&ticket->wanted, bytes, "results") && sort(&request, bytes) && is_in_place(&request))
        made = send(&request, send_keys);
fini:
    fini(&request);
    return made;
}

static mr_status send_vectors(const request *request) {
    py_ps_ticket *ticket = request->ticket;
    const uint64_t *keys = ticket->keys.keys != NULL ? ticket->keys.keys : request->keys.buf;
    return mr_ps_pull_vectors(request->table->table, keys, ticket->keys.count, &ticket->vectors, &request->options,
                              &ticket->number);
}

/* vectors(keys as u64, form, slip or None) → a ticket, which has the lengths and the values of the vectors */
static PyObject *ask_vectors(PyObject *object, PyObject *args) {
    PyObject *keys, *form, *told, *made = NULL;
    request request = {0};
    if (!PyArg_ParseTuple(args, "OO!O", &keys, &PyTuple_Type, &form, &told) || !init(&request, object, form, told))
        return NULL;
    py_ps_ticket *ticket = request.ticket;
    ticket->item = item_of(&request);
    if (take(keys, &request.keys, false)) {
        ticket->given = (size_t)request.keys.len / sizeof(uint64_t);
        if (ticket->given > PY_PS_KEYS_MAX) {
            PyErr_Format(PyExc_ValueError, "a request has %zu keys; the limit is %d", ticket->given, PY_PS_KEYS_MAX);
        } else if (!py_ps_keys_init(&ticket->keys, request.keys.buf, ticket->given)) {
            PyErr_NoMemory();
        } else {
            ticket->place = ticket->keys.place; /* outlives the request */
            ticket->keys.place = NULL;
            made = send(&request, send_vectors);
        }
    }
    fini(&request);
    return made;
}

/* array(number, first item, pushed or None, wanted or None, form, mark or None, slip or None) → a ticket. At least one
 * of pushed and wanted is given; if both, with the same size. */
static PyObject *ask_array(PyObject *object, PyObject *args) {
    PyObject *pushed, *wanted, *form, *mark, *told, *made = NULL;
    unsigned long long first;
    request request = {0};
    if (!PyArg_ParseTuple(args, "IKOOO!OO", &request.array, &first, &pushed, &wanted, &PyTuple_Type, &form, &mark,
                          &told) ||
        !is_mark(mark) || !init(&request, object, form, told))
        return NULL;
    py_ps_ticket *ticket = request.ticket;
    request.first = first;
    set_mark(&request, mark);
    if (take(pushed, &ticket->pushed, false) && take(wanted, &ticket->wanted, true)) {
        const Py_buffer *view = ticket->wanted.obj == NULL ? &ticket->pushed : &ticket->wanted;
        request.count = (size_t)view->len / item_of(&request);
        if (has_size(&ticket->pushed, (size_t)view->len, "values")) made = send(&request, send_array);
    }
    fini(&request);
    return made;
}

static mr_status send_range(const request *request) {
    py_ps_ticket *ticket = request->ticket;
    mr_ps_table *table = request->table->table;
    if (ticket->pushed.obj != NULL && ticket->wanted.obj != NULL)
        return mr_ps_push_pull_range(table, request->first, request->count, ticket->pushed.buf, ticket->wanted.buf,
                                     &request->options, &ticket->number);
    if (ticket->pushed.obj != NULL)
        return mr_ps_push_range(table, request->first, request->count, ticket->pushed.buf, &request->options,
                                &ticket->number);
    return mr_ps_pull_range(table, request->first, request->last, ticket->listed.buf, ticket->wanted.buf,
                            request->count, &ticket->count, &request->options, &ticket->number);
}

/* range(first, last, keys to be written, values to be written, form) → a ticket */
static PyObject *ask_range(PyObject *object, PyObject *args) {
    PyObject *keys, *wanted, *form, *made = NULL;
    unsigned long long first, last;
    request request = {0};
    if (!PyArg_ParseTuple(args, "KKOOO!", &first, &last, &keys, &wanted, &PyTuple_Type, &form) ||
        !init(&request, object, form, Py_None))
        return NULL;
    py_ps_ticket *ticket = request.ticket;
    request.first = first;
    request.last = last;
    if (take(keys, &ticket->listed, true) && take(wanted, &ticket->wanted, true)) {
        const mr_ps_table_options *options = &request.table->options;
        request.count = (size_t)ticket->listed.len / sizeof(uint64_t);
        if (has_size(&ticket->wanted, request.count * options->dim * item_of(&request), "results"))
            made = send(&request, send_range);
    }
    fini(&request);
    return made;
}

/* push_range(first, values, wanted or None, form, slip or None) → a ticket */
static PyObject *give_range(PyObject *object, PyObject *args) {
    PyObject *pushed, *wanted, *form, *told, *made = NULL;
    unsigned long long first;
    request request = {0};
    if (!PyArg_ParseTuple(args, "KOOO!O", &first, &pushed, &wanted, &PyTuple_Type, &form, &told) ||
        !init(&request, object, form, told))
        return NULL;
    request.first = first;
    if (take(pushed, &request.ticket->pushed, false) && take(wanted, &request.ticket->wanted, true) &&
        has_size(&request.ticket->wanted, (size_t)request.ticket->pushed.len, "results")) {
        size_t row = request.table->options.dim * item_of(&request);
        request.count = row == 0 ? 0 : (size_t)request.ticket->pushed.len / row; /* 0: vectors have no ranges */
        made = send(&request, send_range);
    }
    fini(&request);
    return made;
}

static PyObject *make_mark(PyObject *object, PyObject *none) { return py_ps_mark_new(((py_ps_table *)object)->table); }

static PyMethodDef methods[] = {
    {"range", ask_range, METH_VARARGS, NULL},
    {"push_range", give_range, METH_VARARGS, NULL},
    {"mark", make_mark, METH_NOARGS, NULL},
    {"keys", ask_keys, METH_VARARGS, NULL},
    {"vectors", ask_vectors, METH_VARARGS, NULL},
    {"array", ask_array, METH_VARARGS, NULL},
    {"drop", drop, METH_O, NULL},
    {NULL},
};

static PyGetSetDef properties[] = {
    {"options", get_options, NULL, "The table's options, with every default.", NULL},
    {"name", get_name, NULL, NULL, NULL},
    {NULL},
};

PyTypeObject py_ps_table_type = {
    PY_CORE_TYPE("miniray._core.PsTable", py_ps_table, "A table of a parameter server, for miniray.ps."),
    .tp_dealloc = dealloc,
    .tp_methods = methods,
    .tp_getset = properties,
};
