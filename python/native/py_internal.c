/* py_internal.c — see py_internal.h. */
#include "python/native/py_internal.h"

py_core_state core;

PyObject *py_core_helper_get(py_core_helper which) {
    static const struct {
        const char *name, *module;
    } helpers[] = {
#define X(name, module) {#name, module},
        PY_CORE_HELPERS(X)
#undef X
    };
    if (core.helpers[which] == NULL) {
        PyObject *module = PyImport_ImportModule(helpers[which].module);
        core.helpers[which] = module == NULL ? NULL : PyObject_GetAttrString(module, helpers[which].name);
        Py_XDECREF(module);
    }
    return core.helpers[which];
}

void py_core_cut(void) {
    PyObject *type, *error, *frames;
    PyErr_Fetch(&type, &error, &frames);
    PyErr_NormalizeException(&type, &error, &frames);
    if (frames != NULL) PyException_SetTraceback(error, frames);
    PyObject *helper = frames == NULL ? NULL : py_core_helper_get(PY_CORE_cut);
    PyObject *kept = helper == NULL ? NULL : PyObject_CallOneArg(helper, error);
    if (kept != NULL) Py_SETREF(frames, kept == Py_None ? NULL : Py_NewRef(kept));
    Py_XDECREF(kept);
    PyErr_Clear(); /* an error here would hide the other one */
    PyErr_Restore(type, error, frames);
}

PyObject *py_core_call(py_core_helper which, const char *format, ...) {
    va_list values;
    va_start(values, format);
    PyObject *args = Py_VaBuildValue(format, values);
    va_end(values);
    PyObject *helper = args == NULL ? NULL : py_core_helper_get(which);
    PyObject *result = helper == NULL ? NULL : PyObject_Call(helper, args, NULL);
    Py_XDECREF(args);
    if (result == NULL) py_core_cut();
    return result;
}

void py_core_report(py_core_helper which, PyObject *done) {
    if (done == NULL) PyErr_WriteUnraisable(core.helpers[which]);
    Py_XDECREF(done);
}

PyObject *py_core_list(const void *items, size_t count, size_t size, PyObject *(*of)(const void *item)) {
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list != NULL && i < count; i++) py_core_append(&list, of((const char *)items + i * size));
    return list;
}

void py_core_append(PyObject **list, PyObject *item) {
    if (*list != NULL && (item == NULL || PyList_Append(*list, item) != 0)) Py_CLEAR(*list);
    Py_XDECREF(item);
}

void py_core_insert(PyObject **dict, PyObject *key, PyObject *item) {
    if (*dict != NULL && (key == NULL || item == NULL || PyDict_SetItem(*dict, key, item) != 0)) Py_CLEAR(*dict);
    Py_XDECREF(key);
    Py_XDECREF(item);
}

void py_core_set_context(mr_context *mr) {
    core.mr = mr;
    core.generation++;
}

mr_context *py_core_context(void) {
    if (core.mr != NULL) return core.mr;
    PyObject *done = py_core_call(PY_CORE_auto_init, "()");
    if (done == NULL) return NULL;
    Py_DECREF(done);
    if (core.mr == NULL)
        PyErr_SetString(PyExc_RuntimeError, "miniray was shut down while it started: call miniray.init()");
    return core.mr;
}

PyObject *py_core_raise(mr_status status) {
    if (status == MR_CANCELLED && PyErr_Occurred()) return NULL; /* the signal handler's */
    Py_XDECREF(py_core_call(PY_CORE_raise_failure, "(isO)", (int)status, mr_last_error(), Py_None));
    return NULL;
}
