/* memory.c — see memory.h. */
#include "python/native/memory.h"

#include <string.h>

/* ---- The holder. */

typedef struct holder {
    PyObject_HEAD mr_value value;
    uint64_t generation;
} holder;

static void holder_dealloc(PyObject *self) {
    holder *held = (holder *)self;
    /* A value of a context that was shut down went with it. */
    if (core.mr != NULL && held->generation == core.generation) mr_value_release(&held->value);
    PyObject_Free(self);
}

PyTypeObject memory_holder_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "miniray._core.Holder",
    .tp_basicsize = sizeof(holder),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_dealloc = holder_dealloc,
    .tp_doc = "A received value that others read in place.",
};

PyObject *memory_holder(mr_value *value) {
    holder *made = PyObject_New(holder, &memory_holder_type);
    if (made == NULL) return NULL;
    made->value = *value;
    made->generation = core.generation;
    memset(value, 0, sizeof *value);
    return (PyObject *)made;
}

/* ---- A piece. */

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

PyTypeObject memory_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "miniray._core.Memory",
    .tp_basicsize = sizeof(piece),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_dealloc = piece_dealloc,
    .tp_as_buffer = &piece_procs,
    .tp_doc = "A piece of received memory.",
};

PyObject *memory_piece(PyObject *owner, const void *data, size_t size, bool writable) {
    piece *made = PyObject_New(piece, &memory_type);
    if (made == NULL) return NULL;
    made->owner = Py_NewRef(owner);
    made->data = data;
    made->size = (Py_ssize_t)size;
    made->writable = writable;
    return (PyObject *)made;
}

PyObject *memory_copy(const void *data, size_t size) { return PyByteArray_FromStringAndSize(data, (Py_ssize_t)size); }
