/* py_inspect.c — see py_inspect.h. */
#include "python/native/py_inspect.h"

#include <stdlib.h>

#include "miniray/admin.h"
#include "python/native/py_actor.h"
#include "python/native/py_decode.h"

enum { GPUS_MAX = 64 };

/* Asks for a value, or if `what` is NULL for the trace. Called without the GIL. */
static mr_status ask(mr_context *mr, const char *what, size_t limit, mr_value *value, mr_trace *trace) {
    mr_inspect *inspect;
    MR_TRY(mr_inspect_within(mr, &inspect));
    mr_status status =
        what == NULL ? mr_inspect_trace(inspect, limit, trace) : mr_inspect_ask(inspect, what, NULL, limit, value);
    mr_inspect_close(inspect);
    return status;
}

PyObject *py_inspect_ask(PyObject *module, PyObject *args) {
    const char *what;
    Py_ssize_t limit;
    mr_value value;
    mr_status status;
    if (!PyArg_ParseTuple(args, "sn", &what, &limit)) return NULL;
    mr_context *mr = py_core_context();
    if (mr == NULL) return NULL;
    PY_CORE_WAIT(status = ask(mr, what, (size_t)limit, &value, NULL));
    return status == MR_OK ? py_decode_owned(&value) : py_core_raise(status);
}

PyObject *py_inspect_trace(PyObject *module, PyObject *args) {
    Py_ssize_t limit;
    mr_trace made;
    mr_status status;
    if (!PyArg_ParseTuple(args, "n", &limit)) return NULL;
    mr_context *mr = py_core_context();
    if (mr == NULL) return NULL;
    PY_CORE_WAIT(status = ask(mr, NULL, (size_t)limit, NULL, &made));
    if (status != MR_OK) return py_core_raise(status);
    PyObject *bytes = PyBytes_FromStringAndSize(made.json, (Py_ssize_t)made.size);
    free(made.json);
    return bytes;
}

static PyObject *int_of(const void *item) { return PyLong_FromLong(*(const int *)item); }

PyObject *py_inspect_gpu_ids(PyObject *module, PyObject *none) {
    int ids[GPUS_MAX];
    size_t count = core.mr == NULL ? 0 : mr_gpu_ids(core.mr, ids, GPUS_MAX);
    return py_core_list(ids, count > GPUS_MAX ? GPUS_MAX : count, sizeof *ids, int_of);
}

PyObject *py_inspect_facts(PyObject *module, PyObject *actor) {
    if (Py_TYPE(actor) != &py_actor_type)
        return PyErr_Format(PyExc_TypeError, "facts() takes an ActorHandle, not %s", Py_TYPE(actor)->tp_name);
    if (!py_actor_usable(actor)) return NULL;
    mr_actor_info *facts = PyMem_Malloc(sizeof *facts);
    if (facts == NULL) return PyErr_NoMemory();
    mr_context *mr = core.mr;
    mr_actor id = py_actor_id(actor);
    mr_status status;
    PY_CORE_WAIT(status = mr_actor_info_get(mr, id, facts));
    PyObject *told = status == MR_OK ? Py_BuildValue("sssI", facts->class_name, facts->name, facts->name_space,
                                                     (unsigned)facts->starts)
                                     : py_core_raise(status);
    PyMem_Free(facts);
    return told;
}
