/* py_state.c — see py_state.h. The functions are for the body of an actor that runs one call at a time. */
#include "python/native/py_state.h"

#include "python/native/py_context.h"
#include "python/native/py_decode.h"
#include "python/native/py_ref.h"

typedef struct parts {
    mr_arg args[MR_STATE_PARTS_MAX];
    mr_value values[MR_STATE_PARTS_MAX]; /* owned; nil: none */
    size_t count;
} parts;

static bool check(const char *what) {
    return core.call != NULL || PyErr_Format(PyExc_RuntimeError, "%s: no method of an actor runs", what) != NULL;
}

static bool keep(mr_status status, mr_value *value, mr_arg *out) {
    if (status != MR_OK) return py_core_raise(status) != NULL;
    *out = mr_value_arg(value);
    return true;
}

/* False with an exception. */
static bool read_part(PyObject *item, size_t index, mr_value *value, mr_arg *out) {
    if (item == Py_None) return keep(mr_state_get(core.call, index, value), value, out);
    if (PyBytes_Check(item)) {
        *out = mr_bytes(PyBytes_AS_STRING(item), (size_t)PyBytes_GET_SIZE(item));
        return true;
    }
    if (py_ref_check(item))
        return py_ref_usable(item) &&
               keep(mr_get(core.mr, ((struct py_ref *)item)->ref, MR_FOREVER, value), value, out);
    Py_ssize_t argument = PyLong_AsSsize_t(item);
    if (argument == -1 && PyErr_Occurred()) return false;
    if (argument < 0) argument += (Py_ssize_t)mr_arg_count(core.call);
    return keep(mr_arg_keep(core.call, (size_t)argument, value), value, out);
}

/* state_set((part, …)). A part is bytes; an ObjectRef of an own object; the index of an argument of the running call,
 * below 0 from the end; or None: the part as it is. Arguments are kept without a copy. */
PyObject *py_state_set(PyObject *module, PyObject *list) {
    parts parts = {.count = 0};
    if (!check("state_set")) return NULL;
    if (!PyTuple_Check(list) || PyTuple_GET_SIZE(list) > MR_STATE_PARTS_MAX)
        return PyErr_Format(PyExc_TypeError, "state_set: expected a tuple of at most %d parts, not %R",
                            MR_STATE_PARTS_MAX, list);
    bool read = true;
    for (; read && parts.count < (size_t)PyTuple_GET_SIZE(list); parts.count++)
        read = read_part(PyTuple_GET_ITEM(list, (Py_ssize_t)parts.count), parts.count, &parts.values[parts.count],
                         &parts.args[parts.count]);
    mr_status status = MR_OK;
    mr_call *call = core.call;
    if (read) PY_CORE_WITHOUT_GIL(status = mr_state_set(call, parts.args, parts.count));
    for (size_t i = 0; i < parts.count; i++) mr_value_release(&parts.values[i]);
    if (!read) return NULL;
    return status == MR_OK ? Py_NewRef(Py_None) : py_core_raise(status);
}

/* state_get() returns a tuple of the parts, which is empty if the actor has no state. */
PyObject *py_state_get(PyObject *module, PyObject *none) {
    if (!check("state_get")) return NULL;
    PyObject *list = PyList_New(0), *tuple;
    mr_value value;
    mr_status status = MR_OK;
    for (size_t i = 0; list != NULL && (status = mr_state_get(core.call, i, &value)) == MR_OK; i++) {
        PyObject *part = py_decode_owned(&value);
        if (part == NULL || PyList_Append(list, part) != 0) Py_CLEAR(list);
        Py_XDECREF(part);
    }
    if (list == NULL) return NULL;
    tuple = status == MR_NOT_FOUND ? PyList_AsTuple(list) : py_core_raise(status);
    Py_DECREF(list);
    return tuple;
}

/* call_number(): (caller, number) of the running call; None: the call is never sent again. */
PyObject *py_state_call_number(PyObject *module, PyObject *none) {
    if (!check("call_number")) return NULL;
    uint64_t caller, number = mr_call_number(core.call, &caller);
    if (number == 0) Py_RETURN_NONE;
    return Py_BuildValue("(KK)", (unsigned long long)caller, (unsigned long long)number);
}
