/* py_shared_model.c — see py_shared_model.h. */
#include "python/native/py_shared_model.h"

#include "miniray/model.h"

typedef struct py_shared_model {
    PyObject_HEAD mr_shared_model *share; /* owned */
    Py_ssize_t size;
    uint64_t generation; /* generation of the context that made the block */
    PyObject *weak;
} py_shared_model;

/* open(bytes) */
PyObject *py_shared_model_open(PyObject *module, PyObject *bytes) {
    size_t size = PyLong_AsSize_t(bytes);
    if (size == (size_t)-1 && PyErr_Occurred()) return NULL;
    if (py_core_context() == NULL) return NULL;
    py_shared_model *made = PyObject_New(py_shared_model, &py_shared_model_type);
    if (made == NULL) return NULL;
    *made = (py_shared_model){.ob_base = made->ob_base, .size = (Py_ssize_t)size, .generation = core.generation};
    mr_status status;
    PY_CORE_WITHOUT_GIL(status = mr_shared_model_open(core.mr, size, &made->share));
    if (status == MR_OK) return (PyObject *)made;
    Py_DECREF(made);
    return py_core_raise(status);
}

static void dealloc(PyObject *self) {
    if (((py_shared_model *)self)->weak != NULL) PyObject_ClearWeakRefs(self);
    mr_shared_model_close(((py_shared_model *)self)->share);
    PyObject_Free(self);
}

static int get_buffer(PyObject *self, Py_buffer *view, int flags) {
    py_shared_model *shared = (py_shared_model *)self;
    return PyBuffer_FillInfo(view, self, mr_shared_model_data(shared->share), shared->size, 0, flags);
}

bool py_shared_model_lend(PyObject *self, mr_arg *weights) {
    const py_shared_model *shared = (py_shared_model *)self;
    mr_arg loan;
    if (!PyObject_TypeCheck(self, &py_shared_model_type) || core.mr == NULL || shared->generation != core.generation)
        return false;
    if (mr_shared_model_export(shared->share, *weights, &loan) != MR_OK) return false;
    *weights = loan;
    return true;
}

/* The model copy of the process, made at its first use. */
static mr_model_copy *model_copy_of_process(void) {
    if (core.model_copy != NULL && core.model_copy_generation != core.generation) {
        mr_model_copy_close(core.model_copy);
        core.model_copy = NULL;
    }
    if (core.model_copy == NULL && core.mr != NULL && mr_model_copy_open(core.mr, &core.model_copy) != MR_OK)
        core.model_copy = NULL;
    core.model_copy_generation = core.generation;
    return core.model_copy;
}

bool py_shared_model_lend_copy(mr_call *call, mr_arg *weights) {
    mr_model_copy *model_copy = model_copy_of_process();
    mr_arg loan;
    if (model_copy == NULL || mr_model_copy_export(model_copy, call, *weights, &loan) != MR_OK) return false;
    *weights = loan;
    return true;
}

/* take(ticket, place) → whether the ticket belongs to this block */
static PyObject *take(PyObject *self, PyObject *args) {
    long long ticket, place;
    bool taken;
    if (!PyArg_ParseTuple(args, "LL", &ticket, &place)) return NULL;
    mr_status status = mr_shared_model_import(((py_shared_model *)self)->share, ticket, place, &taken);
    return status == MR_OK ? PyBool_FromLong(taken) : py_core_raise(status);
}

static PyMethodDef methods[] = {
    {"take", take, METH_VARARGS, NULL},
    {NULL},
};

static PyBufferProcs procs = {.bf_getbuffer = get_buffer};

PyTypeObject py_shared_model_type = {
    PY_CORE_TYPE("miniray._core.Share", py_shared_model, "A block of shared memory for a model."),
    .tp_dealloc = dealloc,
    .tp_weaklistoffset = offsetof(py_shared_model, weak),
    .tp_methods = methods,
    .tp_as_buffer = &procs,
};
