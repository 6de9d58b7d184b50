/* py_buffer.c — see py_buffer.h. */
#include "python/native/py_buffer.h"

#include <string.h>

/* ---- The holder. */

typedef struct holder {
    PyObject_HEAD mr_value value;
    uint64_t generation;
    PyObject *written; /* owned: first address given out as writable; NULL: none */
    bool first;        /* and no other holder has given out that address */
} holder;

/* Number of holders that have given out that address. */
static Py_ssize_t writers_of(PyObject *address) {
    PyObject *count = core.writers == NULL ? NULL : PyDict_GetItem(core.writers, address);
    return count == NULL ? 0 : PyLong_AsSsize_t(count);
}

static bool set_writers(PyObject *address, Py_ssize_t count) {
    if (core.writers == NULL && (core.writers = PyDict_New()) == NULL) return false;
    if (count == 0) return PyDict_DelItem(core.writers, address) == 0;
    PyObject *number = PyLong_FromSsize_t(count);
    bool set = number != NULL && PyDict_SetItem(core.writers, address, number) == 0;
    Py_XDECREF(number);
    return set;
}

static void forget_written(const holder *held) {
    if (!set_writers(held->written, writers_of(held->written) - 1)) PyErr_WriteUnraisable(NULL);
    Py_DECREF(held->written);
}

static void holder_dealloc(PyObject *self) {
    holder *held = (holder *)self;
    if (held->written != NULL) forget_written(held);
    /* The value of a context that was shut down was freed with the context. */
    if (core.mr != NULL && held->generation == core.generation) mr_value_release(&held->value);
    PyObject_Free(self);
}

PyTypeObject py_buffer_holder_type = {
    PY_CORE_TYPE("miniray._core.Holder", holder, "A received value that others read in place."),
    .tp_dealloc = holder_dealloc,
};

PyObject *py_buffer_holder(mr_value *value) {
    holder *made = PyObject_New(holder, &py_buffer_holder_type);
    if (made == NULL) return NULL;
    made->value = *value;
    made->generation = core.generation;
    made->written = NULL;
    made->first = false;
    memset(value, 0, sizeof *value);
    return (PyObject *)made;
}

/* ---- Pieces. */

typedef struct piece {
    PyObject_HEAD PyObject *owner;
    const void *data;
    Py_ssize_t size;
    bool writable;
} piece;

static void piece_dealloc(PyObject *self) {
    Py_XDECREF(((piece *)self)->owner);
    PyObject_Free(self);
}

static int piece_buffer(PyObject *self, Py_buffer *view, int flags) {
    piece *shown = (piece *)self;
    return PyBuffer_FillInfo(view, self, (void *)(uintptr_t)shown->data, shown->size, !shown->writable, flags);
}

static PyBufferProcs piece_procs = {.bf_getbuffer = piece_buffer};

PyTypeObject py_buffer_type = {
    PY_CORE_TYPE("miniray._core.Memory", piece, "A piece of received memory."),
    .tp_dealloc = piece_dealloc,
    .tp_as_buffer = &piece_procs,
};

static PyObject *piece_of(PyObject *owner, const void *data, size_t size, bool writable) {
    piece *made = PyObject_New(piece, &py_buffer_type);
    if (made == NULL) return NULL;
    made->owner = Py_NewRef(owner);
    made->data = data;
    made->size = (Py_ssize_t)size;
    made->writable = writable;
    return (PyObject *)made;
}

PyObject *py_buffer_piece(PyObject *owner, const void *data, size_t size) { return piece_of(owner, data, size, false); }

/* A value is always read in the same order, so the first address given out identifies the value. */
int py_buffer_is_first(PyObject *owner, const void *data) {
    holder *held = (holder *)owner;
    if (held->written != NULL) return held->first;
    PyObject *address = PyLong_FromVoidPtr((void *)(uintptr_t)data);
    Py_ssize_t others = address == NULL ? -1 : writers_of(address);
    if (others < 0 || !set_writers(address, others + 1)) {
        Py_XDECREF(address);
        return -1;
    }
    held->written = address;
    held->first = others == 0;
    return held->first;
}

PyObject *py_buffer_own(PyObject *owner, const void *data, size_t size) {
    int first = py_buffer_is_first(owner, data);
    if (first != 0) return first < 0 ? NULL : piece_of(owner, data, size, true);
    PyObject *copy = PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)size);
    mr_status status = copy == NULL ? MR_OK : mr_read_sealed(core.mr, data, size, PyByteArray_AS_STRING(copy));
    if (status == MR_OK) return copy;
    Py_DECREF(copy);
    return py_core_raise(status);
}

void *py_buffer_start(PyObject *memory) {
    return PyByteArray_Check(memory) ? PyByteArray_AS_STRING(memory) : (void *)(uintptr_t)((piece *)memory)->data;
}

PyObject *py_buffer_copy(const void *data, size_t size) {
    return PyByteArray_FromStringAndSize(data, (Py_ssize_t)size);
}
