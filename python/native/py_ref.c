/* py_ref.c — see py_ref.h. */
#include "python/native/py_ref.h"

enum { SPARE_MAX = 16 * 1024 };

typedef struct spares { /* freed objects for reuse */
    py_ref *list[SPARE_MAX];
    size_t count;
} spares;

static spares spare;

PyObject *py_ref_new(mr_ref given) {
    py_ref *made;
    if (spare.count > 0) {
        made = spare.list[--spare.count];
        PyObject_Init((PyObject *)made, &py_ref_type);
    } else {
        made = PyObject_New(py_ref, &py_ref_type);
    }
    if (made == NULL) {
        mr_release(core.mr, given);
        return NULL;
    }
    made->ref = given;
    made->generation = core.generation;
    made->actor = (mr_actor){{0}};
    return (PyObject *)made;
}

PyObject *py_ref_id_text(const uint64_t word[2]) {
    char hex[PY_REF_HEX_SIZE + 1];
    PyOS_snprintf(hex, sizeof hex, "%016llx%016llx", (unsigned long long)word[0], (unsigned long long)word[1]);
    return PyUnicode_FromString(hex);
}

void py_ref_made_by(PyObject *result, mr_actor actor) {
    if (py_ref_check(result)) ((py_ref *)result)->actor = actor;
    for (Py_ssize_t i = 0; PyList_CheckExact(result) && i < PyList_GET_SIZE(result); i++)
        ((py_ref *)PyList_GET_ITEM(result, i))->actor = actor;
}

void py_ref_name_actor(PyObject *self) {
    const uint64_t *word = ((py_ref *)self)->actor.word;
    PyObject *type, *value, *traceback;
    if ((word[0] | word[1]) == 0) return;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    PyObject *name = py_ref_id_text(word);
    if (value != NULL && name != NULL && PyObject_HasAttrString(value, "actor_id"))
        (void)PyObject_SetAttrString(value, "actor_id", name);
    Py_XDECREF(name);
    PyErr_Restore(type, value, traceback);
}

static void py_ref_dealloc(PyObject *self) {
    py_ref *ref = (struct py_ref *)self;
    if (core.mr != NULL && ref->generation == core.generation) mr_release(core.mr, ref->ref);
    if (spare.count < SPARE_MAX)
        spare.list[spare.count++] = ref;
    else
        PyObject_Free(self);
}

bool py_ref_usable(PyObject *self) {
    if (core.mr != NULL && ((py_ref *)self)->generation == core.generation) return true;
    return PyErr_Format(
               PyExc_RuntimeError,
               "this ObjectRef belongs to a runtime that was shut down: make it again after `miniray.init()`") != NULL;
}

bool py_ref_encode(PyObject *self, mr_arg *out) {
    if (!py_ref_usable(self)) return false;
    *out = mr_future(((py_ref *)self)->ref);
    return true;
}

PyObject *py_ref_decode(const mr_value *value) {
    mr_ref inside;
    mr_status status = mr_value_ref(value, &inside);
    if (status == MR_OK) status = mr_retain(core.mr, inside); /* the value's reference ends with the value */
    return status == MR_OK ? py_ref_new(inside) : py_core_raise(status);
}

/* ---- Python interface. */

static PyObject *py_ref_repr(PyObject *self) {
    PyObject *hex = py_ref_id_text(((py_ref *)self)->ref.word);
    PyObject *text = hex == NULL ? NULL : PyUnicode_FromFormat("ObjectRef(%U)", hex);
    Py_XDECREF(hex);
    return text;
}

static PyObject *py_ref_hex(PyObject *self, PyObject *none) { return py_ref_id_text(((py_ref *)self)->ref.word); }

/* The bytes of the id whose text is py_ref_hex. */
static PyObject *py_ref_binary(PyObject *self, PyObject *none) {
    const uint64_t *word = ((py_ref *)self)->ref.word;
    char bytes[PY_REF_HEX_SIZE / 2];
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (char)(word[i / 8] >> (56 - 8 * (i % 8)));
    return PyBytes_FromStringAndSize(bytes, sizeof bytes);
}

Py_hash_t py_ref_hash(PyObject *self) {
    const uint64_t *word = ((py_ref *)self)->ref.word;
    Py_hash_t hash = (Py_hash_t)(word[0] * UINT64_C(0x9e3779b97f4a7c15) ^ word[1]);
    return hash == -1 ? -2 : hash;
}

PyObject *py_ref_compare(PyObject *left, PyObject *right, int how) {
    if (Py_TYPE(left) != Py_TYPE(right) || (how != Py_EQ && how != Py_NE)) Py_RETURN_NOTIMPLEMENTED;
    const uint64_t *a = ((py_ref *)left)->ref.word, *b = ((py_ref *)right)->ref.word;
    return PyBool_FromLong((a[0] == b[0] && a[1] == b[1]) == (how == Py_EQ));
}

PyObject *py_ref_reduce(PyObject *self, PyObject *none) { return py_core_call(PY_CORE_reduce_inside, "(O)", self); }
static PyObject *py_ref_await(PyObject *self) { return py_core_call(PY_CORE_await_ref, "(O)", self); }
static PyObject *py_ref_future(PyObject *self, PyObject *none) { return py_core_call(PY_CORE_future_of, "(O)", self); }

static PyObject *py_ref_as_future(PyObject *self, PyObject *none) {
    return py_core_call(PY_CORE_async_future_of, "(O)", self);
}

static PyObject *py_ref_on_completed(PyObject *self, PyObject *callback) {
    return py_core_call(PY_CORE_call_when_there, "(OO)", self, callback);
}

static PyObject *py_ref_task_id(PyObject *self, PyObject *none) {
    return py_core_call(PY_CORE_task_id_of, "(O)", self);
}
static PyObject *py_ref_job_id(PyObject *self, PyObject *none) { return py_core_call(PY_CORE_job_id_of, "(O)", self); }

/* ---- The type. */

static PyObject *py_ref_is_nil(PyObject *self, PyObject *none) {
    const uint64_t *word = ((py_ref *)self)->ref.word;
    return PyBool_FromLong((word[0] | word[1]) == 0);
}

static PyObject *py_ref_nil(PyObject *type, PyObject *none) { return py_ref_new((mr_ref){{0}}); }
static PyObject *py_ref_size(PyObject *type, PyObject *none) { return PyLong_FromLong(PY_REF_HEX_SIZE / 2); }
static PyObject *py_ref_call_site(PyObject *self, PyObject *none) { return PyUnicode_FromString(""); }

/* ObjectRef(binary): another reference to an object of which this process has a reference. */
static PyObject *py_ref_make(PyTypeObject *type, PyObject *args, PyObject *names) {
    const char *bytes;
    Py_ssize_t size;
    if ((names != NULL && PyDict_GET_SIZE(names) > 0) || !PyArg_ParseTuple(args, "y#", &bytes, &size))
        return PyErr_Occurred()
                   ? NULL
                   : PyErr_Format(PyExc_TypeError,
                                  "ObjectRef() takes no keywords, but %zd were given: pass the bytes of binary()",
                                  names == NULL ? (Py_ssize_t)0 : PyDict_GET_SIZE(names));
    if (size != PY_REF_HEX_SIZE / 2)
        return PyErr_Format(PyExc_ValueError, "an ObjectRef has %d bytes, not %zd", PY_REF_HEX_SIZE / 2, size);
    if (py_core_context() == NULL) return NULL;
    mr_ref named = {{0}};
    for (Py_ssize_t i = 0; i < size; i++) named.word[i / 8] = named.word[i / 8] << 8 | (uint8_t)bytes[i];
    mr_status status = mr_retain(core.mr, named);
    return status == MR_OK ? py_ref_new(named) : py_core_raise(status);
}

static PyObject *py_ref_from_hex(PyObject *type, PyObject *text) {
    PyObject *bytes = PyObject_CallMethod((PyObject *)&PyBytes_Type, "fromhex", "O", text);
    PyObject *made = bytes == NULL ? NULL : PyObject_CallOneArg(type, bytes);
    Py_XDECREF(bytes);
    return made;
}

static PyMethodDef py_ref_methods[] = {
    {"hex", py_ref_hex, METH_NOARGS, "The object's id in hex."},
    {"binary", py_ref_binary, METH_NOARGS, "The object's id as bytes."},
    {"task_id", py_ref_task_id, METH_NOARGS, "The TaskID of the task that creates the object."},
    {"job_id", py_ref_job_id, METH_NOARGS, "The JobID of this driver."},
    {"is_nil", py_ref_is_nil, METH_NOARGS, "Whether this is ObjectRef.nil()."},
    {"from_hex", py_ref_from_hex, METH_O | METH_CLASS, "The ObjectRef of a hex()."},
    {"nil", py_ref_nil, METH_NOARGS | METH_STATIC, "A reference to no object."},
    {"size", py_ref_size, METH_NOARGS | METH_STATIC, "The number of bytes of an id."},
    {"call_site", py_ref_call_site, METH_NOARGS, "Always an empty text: call sites are not recorded."},
    {"future", py_ref_future, METH_NOARGS, "A concurrent.futures.Future of its object."},
    {"as_future", py_ref_as_future, METH_NOARGS, "An asyncio.Future of its object, in the loop that runs."},
    {"_on_completed", py_ref_on_completed, METH_O,
     "Calls a function with its object, in a thread, when that is there."},
    {"__reduce__", py_ref_reduce, METH_NOARGS, NULL},
    {"__class_getitem__", Py_GenericAlias, METH_O | METH_CLASS, "ObjectRef[int], for annotations."},
    {NULL},
};

static PyAsyncMethods py_ref_async = {.am_await = py_ref_await};

PyTypeObject py_ref_type = {
    PY_CORE_CLASS("miniray.ObjectRef", py_ref, 0,
                  "A future, or an object that was put: `miniray.get(ref)` gives its value."),
    .tp_new = py_ref_make,
    .tp_dealloc = py_ref_dealloc,
    .tp_repr = py_ref_repr,
    .tp_hash = py_ref_hash,
    .tp_richcompare = py_ref_compare,
    .tp_methods = py_ref_methods,
    .tp_as_async = &py_ref_async,
};
