/* core.c — see core.h. */
#include "python/native/core.h"

core_state core;

PyObject *core_helper_get(core_helper which) {
    static const char *const names[] = {
#define X(name, module) #name,
        CORE_HELPERS(X)
#undef X
    };
    static const char *const modules[] = {
#define X(name, module) module,
        CORE_HELPERS(X)
#undef X
    };
    if (core.helpers[which] == NULL) {
        PyObject *module = PyImport_ImportModule(modules[which]);
        core.helpers[which] = module == NULL ? NULL : PyObject_GetAttrString(module, names[which]);
        Py_XDECREF(module);
    }
    return core.helpers[which];
}

PyObject *core_call(core_helper which, const char *format, ...) {
    va_list values;
    va_start(values, format);
    PyObject *args = Py_VaBuildValue(format, values);
    va_end(values);
    PyObject *helper = args == NULL ? NULL : core_helper_get(which);
    PyObject *result = helper == NULL ? NULL : PyObject_Call(helper, args, NULL);
    Py_XDECREF(args);
    return result;
}

void core_report(core_helper which, PyObject *done) {
    if (done == NULL) PyErr_WriteUnraisable(core.helpers[which]);
    Py_XDECREF(done);
}

PyObject *core_list(const void *items, size_t count, size_t size, PyObject *(*of)(const void *item)) {
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list != NULL && i < count; i++) core_append(&list, of((const char *)items + i * size));
    return list;
}

void core_append(PyObject **list, PyObject *item) {
    if (item == NULL || PyList_Append(*list, item) != 0) Py_CLEAR(*list);
    Py_XDECREF(item);
}

void core_insert(PyObject **dict, PyObject *key, PyObject *item) {
    if (key == NULL || item == NULL || PyDict_SetItem(*dict, key, item) != 0) Py_CLEAR(*dict);
    Py_XDECREF(key);
    Py_XDECREF(item);
}

void core_set_context(mr_context *mr) {
    core.mr = mr;
    core.generation++;
}

mr_context *core_context(void) {
    if (core.mr != NULL) return core.mr;
    PyObject *done = core_call(CORE_auto_init, "()");
    if (done == NULL) return NULL;
    Py_DECREF(done);
    if (core.mr == NULL)
        PyErr_SetString(PyExc_RuntimeError, "miniray was shut down while it started: call miniray.init()");
    return core.mr;
}

PyObject *core_raise(mr_status status) {
    if (status == MR_CANCELLED && PyErr_Occurred()) return NULL; /* what it was given up for */
    Py_XDECREF(core_call(CORE_raise_failure, "(isO)", (int)status, mr_last_error(), Py_None));
    return NULL;
}
