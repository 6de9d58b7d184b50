/* py_ps_version.c — see py_ps.h: versions for conditional pulls (miniray/ps.h, mr_ps_version). */
#include "python/native/py_ps.h"

PyObject *py_ps_mark_new(const mr_ps_table *table) {
    py_ps_mark *made = (py_ps_mark *)py_ps_mark_type.tp_alloc(&py_ps_mark_type, 0);
    if (made == NULL) return NULL;
    mr_status status = mr_ps_version_create(table, &made->mark);
    if (status == MR_OK) return (PyObject *)made;
    Py_DECREF(made);
    return py_ps_raise(status);
}

static PyObject *get_changed(PyObject *object, void *none) {
    return PyLong_FromUnsignedLongLong(mr_ps_version_changed(((py_ps_mark *)object)->mark));
}

static void dealloc(PyObject *object) {
    mr_ps_version_free(((py_ps_mark *)object)->mark);
    Py_TYPE(object)->tp_free(object);
}

static PyGetSetDef properties[] = {
    {"changed", get_changed, NULL, "Parts that its last pull has written.", NULL},
    {NULL},
};

PyTypeObject py_ps_mark_type = {
    PY_CORE_TYPE("miniray._core.PsMark", py_ps_mark, "What a conditional pull has seen, for miniray.ps."),
    .tp_dealloc = dealloc,
    .tp_getset = properties,
};
