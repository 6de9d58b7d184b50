/* py_checkpoint.c — see py_checkpoint.h. Paths are texts in the encoding of the file system. */
#include "python/native/py_checkpoint.h"

#include <stdio.h>

#include "miniray/model.h"
#include "python/native/py_actor.h"
#include "python/native/py_context.h"
#include "python/native/py_submit.h"

#define SAVER "miniray.model_saver"

enum { MODEL_PART = 1 }; /* of the state of the server in Python (miniray/ps/_model_server.py) */

static PyObject *done(mr_status status) { return status == MR_OK ? Py_NewRef(Py_None) : py_core_raise(status); }

/* checkpoint_save(server, path): a reference to the absolute path */
PyObject *py_checkpoint_save(PyObject *module, PyObject *args) {
    PyObject *handle, *path;
    mr_ref ref;
    if (!PyArg_ParseTuple(args, "O!O&", &py_actor_type, &handle, PyUnicode_FSConverter, &path)) return NULL;
    PyObject *saved = NULL;
    if (py_actor_usable(handle))
        saved = py_submit_result(mr_model_save(core.mr, py_actor_id(handle), PyBytes_AS_STRING(path), &ref), &ref, 1);
    Py_DECREF(path);
    return saved;
}

/* checkpoint_peek(path): (strategy, momentum, trim, version, num_syncs); None: there is no checkpoint */
PyObject *py_checkpoint_peek(PyObject *module, PyObject *args) {
    PyObject *path;
    mr_model_checkpoint facts;
    if (!PyArg_ParseTuple(args, "O&", PyUnicode_FSConverter, &path)) return NULL;
    mr_status status = mr_model_checkpoint_peek(PyBytes_AS_STRING(path), &facts);
    Py_DECREF(path);
    if (status == MR_NOT_FOUND) Py_RETURN_NONE;
    if (status != MR_OK) return py_core_raise(status);
    return Py_BuildValue("(sddKK)", facts.strategy, facts.momentum, facts.trim, (unsigned long long)facts.version,
                         (unsigned long long)facts.num_syncs);
}

/* checkpoint_read(path): references to the model, and to [weights, state] */
PyObject *py_checkpoint_read(PyObject *module, PyObject *args) {
    PyObject *path;
    mr_ref refs[2];
    mr_status status;
    if (!PyArg_ParseTuple(args, "O&", PyUnicode_FSConverter, &path)) return NULL;
    PY_CORE_WITHOUT_GIL(status = mr_model_checkpoint_read(core.mr, PyBytes_AS_STRING(path), &refs[0], &refs[1]));
    Py_DECREF(path);
    return py_submit_result(status, refs, 2);
}

/* checkpoint_set_aside(path) */
PyObject *py_checkpoint_set_aside(PyObject *module, PyObject *args) {
    PyObject *path;
    if (!PyArg_ParseTuple(args, "O&", PyUnicode_FSConverter, &path)) return NULL;
    mr_status status = mr_model_checkpoint_set_aside(PyBytes_AS_STRING(path));
    Py_DECREF(path);
    return done(status);
}

/* ---- The state of the running server, as a checkpoint. */

typedef struct facts { /* (strategy, version, num_syncs, weights, state) */
    mr_model_checkpoint checkpoint;
    Py_buffer weights, state;
    mr_value model; /* owned; nil: no model yet */
} facts;

static void facts_fini(facts *facts) {
    mr_value_release(&facts->model);
    PyBuffer_Release(&facts->weights);
    PyBuffer_Release(&facts->state);
}

/* False with an exception. */
static bool read_facts(PyObject *tuple, facts *out) {
    unsigned long long version, syncs;
    const char *strategy;
    *out = (struct facts){.checkpoint = {.momentum = 0}};
    if (core.call == NULL) return PyErr_Format(PyExc_RuntimeError, "no method of a model server runs") != NULL;
    if (!PyArg_ParseTuple(tuple, "sKKy*y*", &strategy, &version, &syncs, &out->weights, &out->state)) return false;
    mr_model_checkpoint *made = &out->checkpoint;
    snprintf(made->strategy, sizeof made->strategy, "%s", strategy);
    made->version = version;
    made->num_syncs = syncs;
    made->weights = out->weights.buf;
    made->weight_count = (size_t)out->weights.len / sizeof *made->weights;
    made->state = (mr_span){out->state.buf, (size_t)out->state.len};
    mr_status status = version == 0 ? MR_OK : mr_state_get(core.call, MODEL_PART, &out->model);
    if (status == MR_OK) return true;
    facts_fini(out);
    return py_core_raise(status) != NULL;
}

/* checkpoint_write(path, facts) */
PyObject *py_checkpoint_write(PyObject *module, PyObject *args) {
    PyObject *path, *tuple;
    facts facts;
    mr_status status;
    if (!PyArg_ParseTuple(args, "O&O!", PyUnicode_FSConverter, &path, &PyTuple_Type, &tuple)) return NULL;
    if (!read_facts(tuple, &facts)) {
        Py_DECREF(path);
        return NULL;
    }
    PY_CORE_WITHOUT_GIL(status = mr_model_checkpoint_write(PyBytes_AS_STRING(path), &facts.checkpoint, &facts.model));
    facts_fini(&facts);
    Py_DECREF(path);
    return done(status);
}

/* ---- Checkpoints at intervals. */

static void close_saver(PyObject *capsule) {
    mr_model_saver *saver = PyCapsule_GetPointer(capsule, SAVER);
    PY_CORE_WITHOUT_GIL(mr_model_saver_close(saver));
}

/* checkpoint_saver(path, seconds): a thread, which ends with the object */
PyObject *py_checkpoint_saver(PyObject *module, PyObject *args) {
    PyObject *path;
    double every;
    mr_model_saver *saver;
    if (!PyArg_ParseTuple(args, "O&d", PyUnicode_FSConverter, &path, &every)) return NULL;
    mr_status status = mr_model_saver_open(PyBytes_AS_STRING(path), every, &saver);
    Py_DECREF(path);
    return status == MR_OK ? PyCapsule_New(saver, SAVER, close_saver) : py_core_raise(status);
}

/* checkpoint_offer(saver, facts) */
PyObject *py_checkpoint_offer(PyObject *module, PyObject *args) {
    PyObject *capsule, *tuple;
    facts facts;
    if (!PyArg_ParseTuple(args, "O!O!", &PyCapsule_Type, &capsule, &PyTuple_Type, &tuple)) return NULL;
    mr_model_saver *saver = PyCapsule_GetPointer(capsule, SAVER);
    if (saver == NULL || !read_facts(tuple, &facts)) return NULL;
    mr_status status = mr_model_saver_offer(saver, &facts.checkpoint, facts.model);
    facts.model = (mr_value){0}; /* moved */
    facts_fini(&facts);
    return done(status);
}
