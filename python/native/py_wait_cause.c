/* py_wait_cause.c — see py_wait_cause.h. */
#include "python/native/py_wait_cause.h"

#include <time.h>

enum { CAUSE_MAX = 600, TEXT_MAX = CAUSE_MAX + 60 };

static struct timespec now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now;
}

py_wait_begun py_wait_cause_begin(void) { return (py_wait_begun){.at = now(), .generation = core.generation}; }

static bool has_text(PyObject *error) {
    PyObject *args = PyObject_GetAttrString(error, "args");
    bool none = args != NULL && PyTuple_Check(args) && PyTuple_GET_SIZE(args) == 0;
    Py_XDECREF(args);
    return !none;
}

static bool is_bare(PyObject *error) {
    return error != NULL && (PyObject *)Py_TYPE(error) == PyExc_KeyboardInterrupt && !has_text(error);
}

static bool is_wanted(PyObject *error, const py_wait_begun *begun) {
    bool is_driver = core.mr != NULL && core.serving == NULL && core.generation == begun->generation;
    return is_driver && is_bare(error);
}

static void set_text(PyObject *error, const char *text) {
    PyObject *args = Py_BuildValue("(N)", PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace"));
    if (args == NULL || PyObject_SetAttrString(error, "args", args) != 0) PyErr_Clear();
    Py_XDECREF(args);
}

void py_wait_cause_add(const py_wait_begun *begun, mr_ref ref) {
    PyObject *type, *error, *traceback;
    char cause[CAUSE_MAX] = "", text[TEXT_MAX];
    const struct timespec end = now();
    mr_status status = MR_OK;
    mr_context *mr = core.mr;
    PyErr_Fetch(&type, &error, &traceback);
    PyErr_NormalizeException(&type, &error, &traceback);
    if (is_wanted(error, begun)) PY_CORE_WAIT(status = mr_why(mr, ref, MR_FOREVER, cause, sizeof cause));
    if (status == MR_OK && cause[0] != '\0') {
        snprintf(text, sizeof text, "interrupted after %.3g s waiting for %s",
                 (double)(end.tv_sec - begun->at.tv_sec) + (double)(end.tv_nsec - begun->at.tv_nsec) / 1e9, cause);
        set_text(error, text);
    }
    PyErr_Restore(type, error, traceback);
}

void py_wait_cause_tell(const char *text) {
    PyObject *type, *error, *traceback;
    PyErr_Fetch(&type, &error, &traceback);
    PyErr_NormalizeException(&type, &error, &traceback);
    if (core.serving == NULL && is_bare(error)) set_text(error, text);
    PyErr_Restore(type, error, traceback);
}
