/* py_ps_memory.c — see py_ps.h: memory that servers of this machine can read (miniray/ps.h, mr_ps_buffer_alloc), as
 * buffers.
 *
 * An array over the memory may outlive the connection. After the close of the connection the Python object owns the
 * memory and unmaps it; before, the object returns the memory to the connection. */
#include <sys/mman.h>
#include <unistd.h>

#include "python/native/py_ps.h"

struct py_ps_memory {
    PyObject_HEAD py_ps_connection *connection; /* owned */
    py_ps_memory *before, *after;               /* links of the connection's list */
    void *bytes;
    size_t size;
    bool is_left; /* the connection no longer owns the memory */
};

static void link_in(py_ps_memory *memory) {
    py_ps_connection *connection = memory->connection;
    memory->after = connection->memories;
    if (memory->after != NULL) memory->after->before = memory;
    connection->memories = memory;
}

static void link_out(py_ps_memory *memory) {
    *(memory->before == NULL ? &memory->connection->memories : &memory->before->after) = memory->after;
    if (memory->after != NULL) memory->after->before = memory->before;
    memory->before = memory->after = NULL;
}

/* memory(bytes) → an object with a zeroed buffer of that many bytes */
PyObject *py_ps_memory_new(PyObject *object, PyObject *number) {
    py_ps_connection *self = (py_ps_connection *)object;
    size_t size = PyLong_AsSize_t(number);
    if ((size == (size_t)-1 && PyErr_Occurred()) || !py_ps_enter(self)) return NULL;
    py_ps_memory *memory = (py_ps_memory *)py_ps_memory_type.tp_alloc(&py_ps_memory_type, 0);
    mr_status status = MR_CANCELLED;
    if (memory != NULL) {
        memory->connection = (py_ps_connection *)Py_NewRef(object);
        memory->size = size;
        PY_CORE_WITHOUT_GIL(status = mr_ps_buffer_alloc(self->ps, size, &memory->bytes));
    }
    py_ps_leave(self);
    if (status == MR_OK) {
        link_in(memory);
        return (PyObject *)memory;
    }
    if (memory != NULL) py_ps_raise(status);
    Py_XDECREF(memory);
    return NULL;
}

void py_ps_memories_leave(py_ps_connection *connection) {
    while (connection->memories != NULL) {
        py_ps_memory *memory = connection->memories;
        link_out(memory);
        memory->is_left = true;
        if (connection->pid == getpid()) (void)mr_ps_buffer_detach(connection->ps, memory->bytes);
    }
}

static void dealloc(PyObject *object) {
    py_ps_memory *self = (py_ps_memory *)object;
    py_ps_connection *connection = self->connection;
    if (self->bytes != NULL && self->is_left) {
        munmap(self->bytes, self->size);
    } else if (self->bytes != NULL) {
        link_out(self);
        if (connection->pid == getpid()) (void)mr_ps_buffer_free(connection->ps, self->bytes);
    }
    Py_XDECREF(connection);
    Py_TYPE(object)->tp_free(object);
}

static int get_buffer(PyObject *object, Py_buffer *view, int flags) {
    py_ps_memory *self = (py_ps_memory *)object;
    return PyBuffer_FillInfo(view, object, self->bytes, (Py_ssize_t)self->size, 0, flags);
}

static PyBufferProcs buffer = {.bf_getbuffer = get_buffer};

PyTypeObject py_ps_memory_type = {
    PY_CORE_TYPE("miniray._core.PsMemory", py_ps_memory,
                 "Memory that servers of this machine read in place, for miniray.ps."),
    .tp_dealloc = dealloc,
    .tp_as_buffer = &buffer,
};
