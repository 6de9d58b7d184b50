/* py_torch.c — see py_torch.h. */
#include "python/native/py_torch.h"

#include <stdlib.h>
#include <string.h>

#include "python/native/py_numpy.h"

#define NAMES(X) X(requires_grad) X(is_cpu) X(layout) X(is_contiguous) X(is_neg) X(dtype) X(shape) X(data_ptr)

struct py_torch_library {
    PyTypeObject *parameter;
    PyObject *dtypes[MR_F64 + 1]; /* NULL: torch has no such dtype */
    PyObject *strided;
    PyObject *from_dlpack; /* NULL: not used */
#define X(name) PyObject *name;
    NAMES(X)
#undef X
};

/* ---- Lookups. */

/* Looks up all attributes. False: some are missing, as in a torch that is being imported. */
static bool look_up(py_torch_library *library, PyObject *torch) {
    PyObject *nn = PyObject_GetAttrString(torch, "nn"), *inner = PyObject_GetAttrString(torch, "_C");
    if (nn != NULL) library->parameter = (PyTypeObject *)PyObject_GetAttrString(nn, "Parameter");
    if (inner != NULL) library->from_dlpack = PyObject_GetAttrString(inner, "_from_dlpack");
    library->strided = PyObject_GetAttrString(torch, "strided");
    for (int i = 0; i <= MR_F64; i++) library->dtypes[i] = PyObject_GetAttrString(torch, mr_dtype_name((mr_dtype)i));
    Py_XDECREF(nn);
    Py_XDECREF(inner);
    PyErr_Clear();
    bool named = true;
#define X(name) named = (library->name = PyUnicode_InternFromString(#name)) != NULL && named;
    NAMES(X)
#undef X
    return named && inner != NULL && library->parameter != NULL && PyType_Check(library->parameter) &&
           library->strided != NULL && library->dtypes[MR_F32] != NULL;
}

static void forget(py_torch_library *library) {
    Py_XDECREF(library->parameter);
    Py_XDECREF(library->strided);
    Py_XDECREF(library->from_dlpack);
    for (int i = 0; i <= MR_F64; i++) Py_XDECREF(library->dtypes[i]);
#define X(name) Py_XDECREF(library->name);
    NAMES(X)
#undef X
    PyMem_Free(library);
}

static void try_making(py_torch_library *library);

/* The library record. NULL without an exception: torch is not imported, or not completely. */
static py_torch_library *library(void) {
    if (core.torch != NULL) return core.torch;
    PyObject *name = PyUnicode_FromString("torch"), *torch = name == NULL ? NULL : PyImport_GetModule(name);
    py_torch_library *made = torch == NULL ? NULL : PyMem_Calloc(1, sizeof *made);
    if (core.tensor == NULL && torch != NULL) core.tensor = (PyTypeObject *)PyObject_GetAttrString(torch, "Tensor");
    if (core.tensor != NULL && made != NULL && look_up(made, torch)) {
        core.torch = made;
        try_making(made);
    } else if (made != NULL) {
        forget(made);
    }
    Py_XDECREF(name);
    Py_XDECREF(torch);
    PyErr_Clear();
    return core.torch;
}

/* ---- Reading. */

bool py_torch_check(PyObject *object, bool or_parameter) {
    PyTypeObject *type = Py_TYPE(object);
    if (core.tensor != NULL && type == core.tensor) return true;
    return or_parameter && library() != NULL && type == core.torch->parameter;
}

/* Value of a boolean attribute, or of a method if `calls`; -1: an exception. */
static int is_so(PyObject *tensor, PyObject *name, bool calls) {
    PyObject *answer = calls ? PyObject_CallMethodNoArgs(tensor, name) : PyObject_GetAttr(tensor, name);
    if (answer == NULL) return -1;
    int so = answer == Py_True ? 1 : answer == Py_False ? 0 : PyObject_IsTrue(answer);
    Py_DECREF(answer);
    return so;
}

static int look_at_kind(const py_torch_library *library, PyObject *tensor, mr_dtype *out) {
    PyObject *layout = PyObject_GetAttr(tensor, library->layout);
    PyObject *dtype = layout == NULL ? NULL : PyObject_GetAttr(tensor, library->dtype);
    Py_XDECREF(layout); /* torch keeps its single layout objects for ever */
    Py_XDECREF(dtype);
    if (dtype == NULL) return -1;
    if (layout != library->strided) return 0;
    for (int i = MR_F64; i >= 0; i--) /* most are floats */
        if (library->dtypes[i] == dtype) {
            *out = (mr_dtype)i;
            return 1;
        }
    return 0;
}

static int look_at_shape(const py_torch_library *library, PyObject *tensor, mr_tensor *out) {
    PyObject *shape = PyObject_GetAttr(tensor, library->shape);
    int done = shape == NULL ? -1 : PyTuple_Check(shape) && PyTuple_GET_SIZE(shape) <= MR_TENSOR_DIMS_MAX;
    out->dims = done == 1 ? (int)PyTuple_GET_SIZE(shape) : 0;
    for (int i = 0; i < out->dims; i++) out->shape[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(shape, i));
    Py_XDECREF(shape);
    return done == 1 && PyErr_Occurred() ? -1 : done;
}

static int look_at_address(const py_torch_library *library, PyObject *tensor, mr_tensor *out) {
    PyObject *address = PyObject_CallMethodNoArgs(tensor, library->data_ptr);
    if (address == NULL) return -1;
    out->data = PyLong_AsVoidPtr(address);
    Py_DECREF(address);
    return out->data == NULL && PyErr_Occurred() ? -1 : 1;
}

int py_torch_look(PyObject *tensor, bool trained, mr_tensor *out) {
    const py_torch_library *torch = library();
    if (torch == NULL) return 0;
    int done = trained ? 0 : is_so(tensor, torch->requires_grad, false);
    if (done != 0) return done < 0 ? -1 : 0;
    done = look_at_kind(torch, tensor, &out->dtype);
    if (done == 1) done = is_so(tensor, torch->is_cpu, false);
    if (done == 1) done = is_so(tensor, torch->is_contiguous, true);
    if (done != 1) return done;
    done = is_so(tensor, torch->is_neg, true);
    if (done != 0) return done < 0 ? -1 : 0;
    done = look_at_shape(torch, tensor, out);
    return done == 1 ? look_at_address(torch, tensor, out) : done;
}

/* ---- Creation through DLPack; the records below are DLPack's. */

typedef struct dlpack_tensor {
    void *data;
    int32_t device_type, device_id;
    int32_t dims;
    uint8_t kind, bits;
    uint16_t lanes;
    int64_t *shape, *strides; /* NULL: contiguous */
    uint64_t offset;
} dlpack_tensor;

typedef struct dlpack {
    dlpack_tensor tensor;
    void *context;
    void (*release)(struct dlpack *self);
} dlpack;

typedef struct export { /* a record and its memory; a copy's numbers follow it */
    dlpack record;
    PyObject *owner; /* owned: object with the memory; NULL: a copy */
    int64_t shape[MR_TENSOR_DIMS_MAX];
}
export;

enum { TREE_DEPTH_MAX = 32 };
enum { ON_CPU = 1, INTEGER = 0, UNSIGNED = 1, REAL = 2, BRAIN = 4, DATA_ALIGN = 64 };
#define CAPSULE_NAME "dltensor" /* the consumer of the record renames the capsule */

static int kind_of(mr_dtype dtype) { /* -1: torch and DLPack disagreed in some versions */
    if (dtype == MR_BF16) return BRAIN;
    if (dtype >= MR_F16) return REAL;
    if (dtype == MR_U8) return UNSIGNED;
    return dtype >= MR_I8 && dtype <= MR_I64 ? INTEGER : -1;
}

/* Frees a record. torch calls this from any thread, with or without the GIL, also after the end of Python. */
static void release(dlpack *record) {
    export *export = (struct export *)record;
    if (export->owner != NULL && Py_IsInitialized()) {
        PyGILState_STATE state = PyGILState_Ensure();
        Py_DECREF(export->owner);
        PyGILState_Release(state);
    }
    free(export);
}

static void capsule_release(PyObject *capsule) {
    if (PyCapsule_IsValid(capsule, CAPSULE_NAME)) release(PyCapsule_GetPointer(capsule, CAPSULE_NAME));
}

static export *lend(const mr_tensor *tensor, PyObject *owner) {
    export *export = malloc(sizeof *export + (owner == NULL ? DATA_ALIGN + tensor->bytes : 0));
    if (export == NULL) return NULL;
    char *behind = (char *)(export + 1);
    behind += -(uintptr_t)behind & (DATA_ALIGN - 1);
    export->record = (dlpack){.tensor = {.data = owner == NULL ? behind : (void *)(uintptr_t)tensor->data,
                                         .device_type = ON_CPU,
                                         .dims = tensor->dims,
                                         .kind = (uint8_t)kind_of(tensor->dtype),
                                         .bits = (uint8_t)(8 * mr_dtype_size(tensor->dtype)),
                                         .lanes = 1,
                                         .shape = export->shape},
                              .release = release};
    export->owner = Py_XNewRef(owner);
    memcpy(export->shape, tensor->shape, (size_t)tensor->dims * sizeof *export->shape);
    if (owner == NULL) memcpy(behind, tensor->data, tensor->bytes);
    return export;
}

static PyObject *make(const py_torch_library *library, const mr_tensor *tensor, PyObject *owner) {
    export *export = lend(tensor, owner);
    PyObject *capsule = export == NULL ? NULL : PyCapsule_New(&export->record, CAPSULE_NAME, capsule_release);
    if (capsule == NULL) {
        if (export != NULL) release(&export->record);
        return export == NULL ? PyErr_NoMemory() : NULL;
    }
    PyObject *made = PyObject_CallOneArg(library->from_dlpack, capsule);
    Py_DECREF(capsule);
    return made;
}

static bool is_as_expected(PyObject *made, const mr_tensor *wanted) {
    mr_tensor seen;
    if (Py_TYPE(made) != core.tensor || py_torch_look(made, false, &seen) != 1) return false;
    if (seen.dtype != wanted->dtype || seen.dims != wanted->dims || seen.data == wanted->data) return false;
    return memcmp(seen.shape, wanted->shape, (size_t)seen.dims * sizeof *seen.shape) == 0 &&
           memcmp(seen.data, wanted->data, wanted->bytes) == 0;
}

static void try_making(py_torch_library *library) {
    static const float numbers[] = {1, 2, 3, 4, 5, 6};
    mr_tensor wanted = {.dtype = MR_F32, .dims = 2, .shape = {2, 3}, .data = numbers, .bytes = sizeof numbers};
    PyObject *made = library->from_dlpack == NULL ? NULL : make(library, &wanted, NULL);
    if (made == NULL || !is_as_expected(made, &wanted)) Py_CLEAR(library->from_dlpack);
    Py_XDECREF(made);
    PyErr_Clear();
}

static PyObject *make_if_possible(const mr_tensor *tensor, PyObject *owner) {
    const py_torch_library *torch = library();
    if (torch == NULL || torch->from_dlpack == NULL || tensor->bytes == 0 || kind_of(tensor->dtype) < 0) return NULL;
    return make(torch, tensor, owner);
}

PyObject *py_torch_copy(const mr_tensor *tensor) { return make_if_possible(tensor, NULL); }
PyObject *py_torch_of(const mr_tensor *tensor, PyObject *owner) { return make_if_possible(tensor, owner); }

/* ---- Weights. */

static void weights_dealloc(PyObject *self) {
    Py_XDECREF(((py_torch_weights *)self)->tree);
    Py_XDECREF(((py_torch_weights *)self)->otherwise);
    Py_XDECREF(((py_torch_weights *)self)->shares);
    PyObject_Free(self);
}

PyTypeObject py_torch_weights_type = {
    PY_CORE_TYPE("miniray._core.Weights", py_torch_weights, "Weights of a model on their way to a server."),
    .tp_dealloc = weights_dealloc,
};

PyObject *py_torch_weights_new(PyObject *module, PyObject *args) {
    PyObject *tree, *otherwise, *shares = NULL;
    if (!PyArg_ParseTuple(args, "OO|O!", &tree, &otherwise, &PyTuple_Type, &shares)) return NULL;
    py_torch_weights *made = PyObject_New(py_torch_weights, &py_torch_weights_type);
    if (made == NULL) return NULL;
    made->tree = Py_NewRef(tree);
    made->otherwise = Py_NewRef(otherwise);
    made->shares = Py_XNewRef(shares);
    return (PyObject *)made;
}

static bool is_usual(PyObject *tree, int depth) {
    PyObject *key, *item;
    if (depth > TREE_DEPTH_MAX) return false;
    if (PyList_CheckExact(tree) || PyTuple_CheckExact(tree)) {
        for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(tree); i++)
            if (!is_usual(PySequence_Fast_GET_ITEM(tree, i), depth + 1)) return false;
        return true;
    }
    if (PyDict_CheckExact(tree)) {
        for (Py_ssize_t at = 0; PyDict_Next(tree, &at, &key, &item);)
            if (!is_usual(item, depth + 1)) return false;
        return true;
    }
    return (core.ndarray != NULL && Py_TYPE(tree) == core.ndarray) || py_torch_check(tree, true);
}

PyObject *py_torch_are_usual(PyObject *module, PyObject *tree) { return PyBool_FromLong(is_usual(tree, 0)); }

PyObject *py_torch_are_own(PyObject *module, PyObject *tree) {
    if (!PyList_CheckExact(tree)) Py_RETURN_FALSE;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(tree); i++) {
        PyObject *item = PyList_GET_ITEM(tree, i);
        bool own = py_torch_check(item, true) || (Py_TYPE(item) == core.ndarray && py_numpy_is_writable(item));
        if (!own) Py_RETURN_FALSE;
    }
    Py_RETURN_TRUE;
}
