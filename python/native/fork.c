/* fork.c — see fork.h. */
#include "python/native/fork.h"

static void before(void) {
    PyEval_RestoreThread(core.serving);
    PyOS_BeforeFork();
}

static void parent(void) {
    PyOS_AfterFork_Parent();
    PyObject *helper = core_helper_get(CORE_has_copied);
    PyObject *done = helper == NULL ? NULL : PyObject_CallNoArgs(helper);
    if (done == NULL) PyErr_WriteUnraisable(helper);
    Py_XDECREF(done);
    core.serving = PyEval_SaveThread();
}

static void child(uint32_t number) {
    PyOS_AfterFork_Child();
    PyObject *helper = core_helper_get(CORE_copied);
    PyObject *done = helper == NULL ? NULL : PyObject_CallFunction(helper, "I", number);
    if (done == NULL) PyErr_WriteUnraisable(helper);
    Py_XDECREF(done);
    core.serving = PyEval_SaveThread();
}

const mr_fork *fork_of_workers(void) {
    static const mr_fork hooks = {.before = before, .parent = parent, .child = child};
    return &hooks;
}
