/* py_fork.c — see py_fork.h. */
#include "python/native/py_fork.h"

static void before(void) {
    PyEval_RestoreThread(core.serving);
    PyOS_BeforeFork();
}

static void parent(void) {
    PyOS_AfterFork_Parent();
    py_core_report(PY_CORE_has_copied, py_core_call(PY_CORE_has_copied, "()"));
    core.serving = PyEval_SaveThread();
}

static void child(uint32_t number) {
    PyOS_AfterFork_Child();
    py_core_report(PY_CORE_copied, py_core_call(PY_CORE_copied, "(I)", number));
    core.serving = PyEval_SaveThread();
}

const mr_fork *py_fork_of_workers(void) {
    static const mr_fork hooks = {.before = before, .parent = parent, .child = child};
    return &hooks;
}
