/* py_numpy.c — see py_numpy.h. */
#include "python/native/py_numpy.h"

#include <string.h>

/* Indexes of functions in the table. The function TABLE_VERSION returns the version shifted by VERSION_SHIFT. */
enum { TABLE_VERSION = 0, TABLE_NEW_FROM_DESCR = 94, VERSION_SHIFT = 24 };
/* Flags: C-contiguous; each number at a multiple of its size; writable. */
enum { FLAG_ROWS = 0x1, FLAG_ALIGNED = 0x100, FLAG_WRITABLE = 0x400 };

typedef struct described { /* PyArray_Descr: the fields used here */
    PyObject_HEAD PyTypeObject *scalar;
    char kind, letter, byte_order, former_flags;
    int number;
} described;

typedef struct py_numpy { /* PyArrayObject: the fields used here */
    PyObject_HEAD char *data;
    int dims;
    Py_ssize_t *shape, *strides;
    PyObject *base;
    described *type;
    int flags;
} py_numpy;

typedef unsigned version_fn(void);
typedef PyObject *new_fn(PyTypeObject *type, PyObject *dtype, int dims, const Py_ssize_t *shape,
                         const Py_ssize_t *strides, void *data, int flags, PyObject *like);

/* The mr_dtype of NumPy's type number; -1: none. */
static int dtype_of_number(int number) {
    static const int8_t dtypes[] = {MR_BOOL, MR_I8,  MR_U8,  MR_I16, MR_U16, MR_I32, MR_U32,
                                    MR_I64,  MR_U64, MR_I64, MR_U64, MR_F32, MR_F64};
    enum { HALF = 23 };
    if (number == HALF) return MR_F16;
    return number >= 0 && (size_t)number < sizeof dtypes ? dtypes[number] : -1;
}

/* ---- Checks of the interface. */

/* The function table of an imported module; NULL: not imported, or without a table. */
static void *const *table_of(const char *module_name) {
    PyObject *name = PyUnicode_FromString(module_name);
    PyObject *module = name == NULL ? NULL : PyImport_GetModule(name);
    PyObject *capsule = module == NULL ? NULL : PyObject_GetAttrString(module, "_ARRAY_API");
    void *const *table = capsule == NULL ? NULL : PyCapsule_GetPointer(capsule, NULL);
    Py_XDECREF(name);
    Py_XDECREF(module);
    Py_XDECREF(capsule);
    PyErr_Clear();
    return table;
}

static bool is_as_expected(PyObject *made, PyObject *dtype) {
    Py_buffer view;
    if (Py_TYPE(made) != core.ndarray || PyObject_GetBuffer(made, &view, PyBUF_FORMAT | PyBUF_ND) != 0) return false;
    const py_numpy *seen = (const py_numpy *)made;
    bool same = seen->data == view.buf && seen->dims == 2 && view.ndim == 2 && seen->shape[0] == view.shape[0] &&
                seen->shape[1] == view.shape[1] && (PyObject *)seen->type == dtype &&
                (seen->flags & (FLAG_ROWS | FLAG_ALIGNED)) == (FLAG_ROWS | FLAG_ALIGNED) &&
                (size_t)view.itemsize == mr_dtype_size((mr_dtype)dtype_of_number(seen->type->number));
    PyBuffer_Release(&view);
    return same;
}

static void try_interface(void) {
    core.array_tried = true;
    PyObject *dtype = py_numpy_dtype(MR_I64);
    void *const *table = table_of("numpy._core._multiarray_umath"); /* since NumPy 2 */
    if (table == NULL) table = table_of("numpy.core._multiarray_umath");
    if (table == NULL || dtype == NULL) return PyErr_Clear();
    unsigned version = ((version_fn *)(uintptr_t)table[TABLE_VERSION])() >> VERSION_SHIFT;
    if (version != 1 && version != 2) return;
    new_fn *make = (new_fn *)(uintptr_t)table[TABLE_NEW_FROM_DESCR];
    const Py_ssize_t shape[] = {3, 5};
    PyObject *made = make(core.ndarray, Py_NewRef(dtype), 2, shape, NULL, NULL, 0, NULL);
    if (made != NULL && is_as_expected(made, dtype)) core.array_make = (void (*)(void))make;
    Py_XDECREF(made);
    PyErr_Clear();
}

static new_fn *interface(void) {
    if (!core.array_tried) try_interface();
    return (new_fn *)core.array_make;
}

/* ---- Use of the interface. */

PyObject *py_numpy_dtype(mr_dtype dtype) {
    if (core.dtypes[dtype] == NULL) {
        PyObject *numpy = PyImport_ImportModule("numpy");
        if (numpy != NULL) core.dtypes[dtype] = PyObject_CallMethod(numpy, "dtype", "s", mr_dtype_name(dtype));
        Py_XDECREF(numpy);
    }
    return core.dtypes[dtype];
}

PyObject *py_numpy_shape(const int64_t *lengths, int dims) {
    PyObject *shape = PyTuple_New(dims);
    for (int i = 0; shape != NULL && i < dims; i++) PyTuple_SET_ITEM(shape, i, PyLong_FromLongLong(lengths[i]));
    if (PyErr_Occurred()) Py_CLEAR(shape);
    return shape;
}

bool py_numpy_look(PyObject *object, mr_tensor *out) {
    if (interface() == NULL) return false;
    const py_numpy *seen = (const py_numpy *)object;
    int dtype = dtype_of_number(seen->type->number);
    bool in_rows = (seen->flags & (FLAG_ROWS | FLAG_ALIGNED)) == (FLAG_ROWS | FLAG_ALIGNED);
    bool is_native = seen->type->byte_order == '=' || seen->type->byte_order == '|';
    if (!in_rows || !is_native || dtype < 0 || seen->dims > MR_TENSOR_DIMS_MAX) return false;
    out->data = seen->data;
    out->dtype = (mr_dtype)dtype;
    out->dims = seen->dims;
    for (int i = 0; i < seen->dims; i++) out->shape[i] = seen->shape[i];
    return true;
}

bool py_numpy_is_writable(PyObject *object) {
    return interface() != NULL && (((const py_numpy *)object)->flags & FLAG_WRITABLE) != 0;
}

PyObject *py_numpy_copy(const mr_tensor *tensor) {
    new_fn *make = interface();
    PyObject *dtype = make == NULL ? NULL : py_numpy_dtype(tensor->dtype);
    if (dtype == NULL) return NULL;
    Py_ssize_t shape[MR_TENSOR_DIMS_MAX];
    for (int i = 0; i < tensor->dims; i++) shape[i] = (Py_ssize_t)tensor->shape[i];
    PyObject *made = make(core.ndarray, Py_NewRef(dtype), tensor->dims, shape, NULL, NULL, 0, NULL);
    if (made != NULL && tensor->bytes > 0) memcpy(((py_numpy *)made)->data, tensor->data, tensor->bytes);
    return made;
}
