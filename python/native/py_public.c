/* py_public.c — see py_public.h. A wrapper in Python would be a frame of each traceback; this one is none. It is like
 * the function in every other respect: name, documentation, signature, binding to objects, pickling. */
#include "python/native/py_public.h"

#include <stddef.h>
#include <stdint.h>

typedef struct public_function {
    PyObject_HEAD PyObject *function; /* owned */
    vectorcallfunc call;
} public_function;

/* Completes the text of a TypeError or another error about an argument (tracebacks.explain). */
static void explain(PyObject *function, PyObject *const *args, size_t count, PyObject *names) {
    PyObject *type, *error, *frames, *given = PyList_New(0);
    PyErr_Fetch(&type, &error, &frames);
    PyErr_NormalizeException(&type, &error, &frames);
    if (frames != NULL) PyException_SetTraceback(error, frames);
    Py_ssize_t all = PyVectorcall_NARGS(count) + (names == NULL ? 0 : PyTuple_GET_SIZE(names));
    for (Py_ssize_t i = 0; i < all; i++) py_core_append(&given, Py_NewRef(args[i]));
    if (given != NULL)
        Py_XDECREF(py_core_call(PY_CORE_explain, "(OOOO)", error, function, given, names == NULL ? Py_None : names));
    Py_XDECREF(given);
    PyErr_Clear(); /* an error here would hide the other one */
    PyErr_Restore(type, error, frames);
}

static bool is_about_argument(void) {
    return PyErr_ExceptionMatches(PyExc_TypeError) || PyErr_ExceptionMatches(PyExc_AttributeError) ||
           PyErr_ExceptionMatches(PyExc_ValueError);
}

/* ---- Generators, whose exceptions come when they are read. */

typedef struct public_iterator {
    PyObject_HEAD PyObject *generator; /* owned */
} public_iterator;

static PyObject *iterator_next(PyObject *self) {
    PyObject *generator = ((public_iterator *)self)->generator, *item = Py_TYPE(generator)->tp_iternext(generator);
    if (item == NULL && PyErr_Occurred()) py_core_cut();
    return item;
}

/* close, send and what else a generator has. */
static PyObject *iterator_getattr(PyObject *self, PyObject *name) {
    return PyObject_GetAttr(((public_iterator *)self)->generator, name);
}

static int iterator_traverse(PyObject *self, visitproc visit, void *arg) {
    Py_VISIT(((public_iterator *)self)->generator);
    return 0;
}

static int iterator_clear(PyObject *self) {
    Py_CLEAR(((public_iterator *)self)->generator);
    return 0;
}

static void iterator_dealloc(PyObject *self) {
    PyObject_GC_UnTrack(self);
    Py_CLEAR(((public_iterator *)self)->generator);
    PyObject_GC_Del(self);
}

PyTypeObject py_public_iterator_type = {
    PY_CORE_CLASS("miniray._core.PublicIterator", public_iterator,
                  Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_HAVE_GC, NULL),
    .tp_dealloc = iterator_dealloc,
    .tp_traverse = iterator_traverse,
    .tp_clear = iterator_clear,
    .tp_getattro = iterator_getattr,
    .tp_iter = PyObject_SelfIter,
    .tp_iternext = iterator_next,
};

/* The generator as an iterator; it is moved. */
static PyObject *iterator_of(PyObject *generator) {
    public_iterator *made = PyObject_GC_New(public_iterator, &py_public_iterator_type);
    if (made == NULL) {
        Py_DECREF(generator);
        return NULL;
    }
    made->generator = generator;
    PyObject_GC_Track(made);
    return (PyObject *)made;
}

/* ---- Functions. */

static PyObject *called(PyObject *self, PyObject *const *args, size_t count, PyObject *names) {
    PyObject *result = PyObject_Vectorcall(((public_function *)self)->function, args, count, names);
    if (result != NULL) return PyGen_CheckExact(result) ? iterator_of(result) : result;
    if (is_about_argument()) explain(((public_function *)self)->function, args, count, names);
    py_core_cut();
    return NULL;
}

static PyObject *public_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
    PyObject *function;
    if (!PyArg_ParseTuple(args, "O:PublicFunction", &function)) return NULL;
    public_function *made = PyObject_GC_New(public_function, type);
    if (made == NULL) return NULL;
    made->function = Py_NewRef(function);
    made->call = called;
    PyObject_GC_Track(made);
    return (PyObject *)made;
}

static int public_traverse(PyObject *self, visitproc visit, void *arg) {
    Py_VISIT(((public_function *)self)->function);
    return 0;
}

static int public_clear(PyObject *self) {
    Py_CLEAR(((public_function *)self)->function);
    return 0;
}

static void public_dealloc(PyObject *self) {
    PyObject_GC_UnTrack(self);
    Py_CLEAR(((public_function *)self)->function);
    PyObject_GC_Del(self);
}

static PyObject *public_bind(PyObject *self, PyObject *object, PyObject *type) {
    return object == NULL || object == Py_None ? Py_NewRef(self) : PyMethod_New(self, object);
}

static PyObject *public_repr(PyObject *self) { return PyObject_Repr(((public_function *)self)->function); }

static PyObject *public_get(PyObject *self, void *name) {
    return PyObject_GetAttrString(((public_function *)self)->function, name);
}

static int public_set(PyObject *self, PyObject *value, void *name) {
    return PyObject_SetAttrString(((public_function *)self)->function, name, value);
}

static PyObject *public_function_get(PyObject *self, void *none) {
    return Py_NewRef(((public_function *)self)->function);
}

/* Pickled by its name, as functions are. */
static PyObject *public_reduce(PyObject *self, PyObject *none) {
    return public_get(self, (void *)(uintptr_t) "__qualname__");
}

static PyMethodDef public_methods[] = {{"__reduce__", public_reduce, METH_NOARGS, NULL}, {NULL}};

#define OF_FUNCTION(name) \
    { name, public_get, public_set, NULL, (void *)(uintptr_t)name }
static PyGetSetDef public_getset[] = {
    OF_FUNCTION("__name__"),
    OF_FUNCTION("__qualname__"),
    OF_FUNCTION("__module__"),
    OF_FUNCTION("__doc__"),
    OF_FUNCTION("__annotations__"),
    OF_FUNCTION("__code__"),
    OF_FUNCTION("__defaults__"),
    OF_FUNCTION("__kwdefaults__"),
    OF_FUNCTION("__globals__"),
    OF_FUNCTION("__type_params__"),
    {"__wrapped__", public_function_get, NULL, NULL, NULL},
    {NULL},
};

PyTypeObject py_public_type = {
    PY_CORE_CLASS("miniray._core.PublicFunction", public_function,
                  Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR, NULL),
    .tp_new = public_new,
    .tp_dealloc = public_dealloc,
    .tp_traverse = public_traverse,
    .tp_clear = public_clear,
    .tp_repr = public_repr,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(public_function, call),
    .tp_descr_get = public_bind,
    .tp_methods = public_methods,
    .tp_getset = public_getset,
};
