/* share.c — see share.h. */
#include "python/native/share.h"

#include "miniray/model.h"
#include "python/native/ref.h"

typedef struct share {
    PyObject_HEAD mr_share *share; /* owned */
    Py_ssize_t size;
    uint64_t generation; /* of the context that gave it */
    PyObject *weak;
} share;

/* open(bytes) */
PyObject *share_open(PyObject *module, PyObject *bytes) {
    size_t size = PyLong_AsSize_t(bytes);
    if (size == (size_t)-1 && PyErr_Occurred()) return NULL;
    if (core_context() == NULL) return NULL;
    share *made = PyObject_New(share, &share_type);
    if (made == NULL) return NULL;
    *made = (share){.ob_base = made->ob_base, .size = (Py_ssize_t)size, .generation = core.generation};
    mr_status status;
    Py_BEGIN_ALLOW_THREADS status = mr_share_open(core.mr, size, &made->share);
    Py_END_ALLOW_THREADS if (status == MR_OK) return (PyObject *)made;
    Py_DECREF(made);
    return core_raise(status);
}

static void dealloc(PyObject *self) {
    if (((share *)self)->weak != NULL) PyObject_ClearWeakRefs(self);
    mr_share_close(((share *)self)->share);
    PyObject_Free(self);
}

static int get_buffer(PyObject *self, Py_buffer *view, int flags) {
    share *shared = (share *)self;
    return PyBuffer_FillInfo(view, self, mr_share_data(shared->share), shared->size, 0, flags);
}

static PyObject *get_address(PyObject *self, void *unused) {
    return PyLong_FromVoidPtr(mr_share_data(((share *)self)->share));
}

/* [(offset, bytes)] as tensors, which is all that mr_share_lend looks at. False with an exception. */
static bool read_places(const share *shared, PyObject *list, mr_tensor *out) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); i++) {
        Py_ssize_t offset, bytes;
        if (!PyArg_ParseTuple(PyList_GET_ITEM(list, i), "nn", &offset, &bytes)) return false;
        out[i] = (mr_tensor){
            .dtype = MR_U8, .data = (const char *)mr_share_data(shared->share) + offset, .bytes = (size_t)bytes};
    }
    return true;
}

/* lend([(offset, bytes)]) → what the loan begins with, None: not now */
static PyObject *lend(PyObject *self, PyObject *list) {
    share *shared = (share *)self;
    if (!PyList_Check(list)) return PyErr_Format(PyExc_TypeError, "a list of places is needed");
    if (core.mr == NULL || shared->generation != core.generation) Py_RETURN_NONE;
    size_t count = (size_t)PyList_GET_SIZE(list);
    mr_tensor *tensors = PyMem_Calloc(count + 1, sizeof *tensors);
    mr_loan loan;
    if (tensors == NULL) return PyErr_NoMemory();
    bool read = read_places(shared, list, tensors);
    mr_status status = read ? mr_share_lend(shared->share, tensors, count, &loan) : MR_INVALID;
    PyMem_Free(tensors);
    if (!read) return NULL;
    if (status == MR_BUSY) Py_RETURN_NONE;
    if (status == MR_OK) status = mr_retain(core.mr, loan.region);
    if (status != MR_OK) return core_raise(status);
    PyObject *ref = ref_new(loan.region);
    if (ref == NULL) return NULL;
    return Py_BuildValue("yNLLL", MR_LOAN_MARK, ref, (long long)loan.ticket, (long long)loan.half,
                         (long long)loan.bytes);
}

/* take(ticket, place) → whether it was this one's */
static PyObject *take(PyObject *self, PyObject *args) {
    long long ticket, place;
    bool taken;
    if (!PyArg_ParseTuple(args, "LL", &ticket, &place)) return NULL;
    mr_status status = mr_share_take_back(((share *)self)->share, ticket, place, &taken);
    return status == MR_OK ? PyBool_FromLong(taken) : core_raise(status);
}

static PyMethodDef methods[] = {
    {"lend", lend, METH_O, NULL},
    {"take", take, METH_VARARGS, NULL},
    {NULL},
};

static PyGetSetDef properties[] = {
    {"address", get_address, NULL, "Where its buffer begins.", NULL},
    {NULL},
};

static PyBufferProcs procs = {.bf_getbuffer = get_buffer};

PyTypeObject share_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "miniray._core.Share",
    .tp_basicsize = sizeof(share),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_dealloc = dealloc,
    .tp_weaklistoffset = offsetof(share, weak),
    .tp_methods = methods,
    .tp_getset = properties,
    .tp_as_buffer = &procs,
    .tp_doc = "A block of shared memory for a model.",
};
