/* py_model.c — see py_model.h. */
#include "python/native/py_model.h"

#include "miniray/model.h"
#include "python/native/py_actor.h"
#include "python/native/py_placement.h"
#include "python/native/py_ref.h"
#include "python/native/py_submit.h"

/* py_model_server(strategy or None, momentum, trim, options as for create_actor, (restore, checkpoint_dir,
 * checkpoint_every, resume) with None and 0 for what is not given) */
PyObject *py_model_server(PyObject *module, PyObject *args) {
    mr_sync_strategy strategy = MR_INIT(mr_sync_strategy);
    mr_actor_options options = MR_INIT(mr_actor_options);
    const char *group;
    Py_ssize_t group_size;
    mr_checkpoint_options checkpoints = MR_INIT(mr_checkpoint_options);
    if (!PyArg_ParseTuple(args, "zdd(ddziizziz#i)(zzdi)", &strategy.name, &strategy.momentum, &strategy.trim,
                          &options.num_cpus, &options.num_gpus, &options.resources, &options.max_restarts,
                          &options.max_call_retries, &options.name, &options.name_space, &options.detached, &group,
                          &group_size, &options.bundle, &checkpoints.restore, &checkpoints.checkpoint_dir,
                          &checkpoints.checkpoint_every, &checkpoints.resume) ||
        !py_placement_read(group, group_size, &options.placement_group) || py_core_context() == NULL)
        return NULL;
    if (options.max_restarts == 0) options.max_restarts = -1; /* Python gives its default, and 0 is none */
    if (options.max_call_retries == 0) options.max_call_retries = -1;
    mr_actor id;
    mr_status status = mr_model_server_open(core.mr, &strategy, &checkpoints, &options, &id);
    if (status != MR_OK) return py_core_raise(status);
    PyObject *name = PyUnicode_FromString("ParameterServer");
    if (name == NULL) {
        mr_actor_release(core.mr, id);
        return NULL;
    }
    PyObject *made = py_actor_new(id, name, Py_None);
    Py_DECREF(name);
    return made;
}

static bool read_handle(PyObject *object, mr_actor *out) {
    if (!PyObject_TypeCheck(object, &py_actor_type))
        return PyErr_Format(PyExc_TypeError, "expected an ActorHandle, not %s", Py_TYPE(object)->tp_name) != NULL;
    if (!py_actor_usable(object)) return false;
    *out = py_actor_id(object);
    return true;
}

/* Reads references of weights, one for each worker. False with an exception. */
static bool read_weights(PyObject *list, size_t count, mr_ref *out) {
    if (!PyList_Check(list) || (size_t)PyList_GET_SIZE(list) != count)
        return PyErr_Format(PyExc_TypeError, "expected a list of %zu ObjectRefs, one for each worker, not %s", count,
                            Py_TYPE(list)->tp_name) != NULL;
    for (size_t i = 0; i < count; i++) {
        PyObject *item = PyList_GET_ITEM(list, (Py_ssize_t)i);
        if (!py_ref_check(item))
            return PyErr_Format(PyExc_TypeError, "the weights of worker %zu are %s, not an ObjectRef", i,
                                Py_TYPE(item)->tp_name) != NULL;
        if (!py_ref_usable(item)) return false;
        out[i] = ((struct py_ref *)item)->ref;
    }
    return true;
}

/* have_methods([workers], (names)): whether all are handles of actors known to have all of these methods */
PyObject *py_model_have_methods(PyObject *module, PyObject *args) {
    PyObject *list, *names;
    if (!PyArg_ParseTuple(args, "O!O!", &PyList_Type, &list, &PyTuple_Type, &names)) return NULL;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); i++) {
        PyObject *item = PyList_GET_ITEM(list, i);
        if (!PyObject_TypeCheck(item, &py_actor_type)) Py_RETURN_FALSE;
        for (Py_ssize_t n = 0; n < PyTuple_GET_SIZE(names); n++)
            if (!py_actor_has(item, PyTuple_GET_ITEM(names, n))) Py_RETURN_FALSE;
    }
    Py_RETURN_TRUE;
}

/* py_model_sync(server, [workers], skip_dead, get, set, [weights]). get, set: names of the workers' methods; None:
 * default. weights: results of `get` for each worker; None: the sync calls `get`. */
PyObject *py_model_sync(PyObject *module, PyObject *args) {
    PyObject *handle, *list, *given;
    mr_sync_options options = MR_INIT(mr_sync_options);
    mr_actor server;
    if (!PyArg_ParseTuple(args, "OO!pzzO", &handle, &PyList_Type, &list, &options.skip_dead, &options.get_method,
                          &options.set_method, &given) ||
        !read_handle(handle, &server))
        return NULL;
    size_t count = (size_t)PyList_GET_SIZE(list);
    mr_actor *workers = PyMem_Calloc(count + 1, sizeof *workers + sizeof(mr_ref));
    if (workers == NULL) return PyErr_NoMemory();
    mr_ref *weights = (mr_ref *)(workers + count);
    bool read = given == Py_None || read_weights(given, count, weights);
    if (given != Py_None) options.weights = weights;
    for (size_t i = 0; read && i < count; i++) read = read_handle(PyList_GET_ITEM(list, (Py_ssize_t)i), &workers[i]);
    mr_ref ref;
    PyObject *result = NULL;
    if (read) result = py_submit_result(mr_model_sync(core.mr, server, workers, count, &options, &ref), &ref, 1);
    PyMem_Free(workers);
    return result;
}

PyObject *py_model_pull(PyObject *module, PyObject *handle) {
    mr_actor server;
    mr_ref ref;
    if (!read_handle(handle, &server)) return NULL;
    return py_submit_result(mr_model_pull(core.mr, server, &ref), &ref, 1);
}

/* give_arrays(): receivers may write to arrays from this process, as with the library's own server. Used by servers
 * written in Python. */
PyObject *py_model_give_arrays(PyObject *module, PyObject *none) {
    core.gives_arrays = true;
    Py_RETURN_NONE;
}
