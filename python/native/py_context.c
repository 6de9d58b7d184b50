/* py_context.c — see py_context.h. */
#include "python/native/py_context.h"

#include <string.h>
#include <time.h>

#include "python/native/py_actor.h"
#include "python/native/py_encode.h"
#include "python/native/py_fork.h"
#include "python/native/py_function.h"
#include "python/native/py_nearest_name.h"
#include "python/native/py_output.h"
#include "python/native/py_placement.h"
#include "python/native/py_ref.h"
#include "python/native/py_reply.h"
#include "python/native/py_stack.h"
#include "python/native/py_submit.h"
#include "python/native/py_wait.h"

enum { COMMAND_MAX = 512 };

/* ---- Start and end. */

/* Reads the strings of a list, borrowed from it; NULL terminates the array. False with an exception. */
static bool read_command(PyObject *list, const char *out[COMMAND_MAX + 1]) {
    Py_ssize_t count = PyList_GET_SIZE(list);
    if (count > COMMAND_MAX) {
        PyErr_Format(PyExc_ValueError, "the command line of workers has %zd words; the limit is %d", count,
                     COMMAND_MAX);
        return false;
    }
    for (Py_ssize_t i = 0; i < count; i++)
        if ((out[i] = PyUnicode_AsUTF8(PyList_GET_ITEM(list, i))) == NULL) return false;
    out[count] = NULL;
    return true;
}

/* Runs the handler of a signal (Ctrl-C) that arrives while a call waits for memory; the call raises its exception. */
static bool has_signal(void *user) {
    PyGILState_STATE state = PyGILState_Ensure();
    bool raised = PyErr_CheckSignals() != 0;
    PyGILState_Release(state);
    return raised;
}

/* init(address, num_workers, num_gpus, resources, store_bytes, namespace, command of a worker, executable of the node)
 */
static PyObject *init(PyObject *module, PyObject *args) {
    mr_options options = MR_INIT(mr_options);
    unsigned long long store_bytes = 0;
    PyObject *worker;
    const char *command[COMMAND_MAX + 1];
    if (!PyArg_ParseTuple(args, "zidzKziO!s", &options.address, &options.num_workers, &options.num_gpus,
                          &options.resources, &store_bytes, &options.name_space, &options.log_to_driver, &PyList_Type,
                          &worker, &options.node) ||
        !read_command(worker, command))
        return NULL;
    if (core.mr != NULL)
        return PyErr_Format(PyExc_RuntimeError,
                            "miniray is already running in this process: call miniray.shutdown() first");
    options.store_bytes = (size_t)store_bytes;
    options.worker = command;
    options.fork = py_fork_of_workers();
    options.print = py_output_print;
    mr_context *mr = NULL;
    mr_status status;
    PY_CORE_WITHOUT_GIL(status = mr_init(&options, &mr));
    if (status == MR_NOT_FOUND) return PyErr_Format(PyExc_ConnectionError, "%s", mr_last_error());
    if (status != MR_OK) return py_core_raise(status);
    mr_on_memory_wait(mr, has_signal, NULL);
    py_core_set_context(mr);
    Py_RETURN_NONE;
}

static PyObject *shut_down(PyObject *module, PyObject *none) {
    mr_context *mr = core.mr;
    if (mr == NULL || core.calls > 0) Py_RETURN_NONE; /* the node ends a worker */
    py_core_set_context(NULL);
    Py_BEGIN_ALLOW_THREADS
        /* Waiting threads leave, and see that core.mr has changed. */
        mr_end_waits(mr);
    for (;;) {
        PyGILState_STATE gil = PyGILState_Ensure();
        bool waiting = core.waiting > 0;
        PyGILState_Release(gil);
        if (!waiting) break;
        nanosleep(&(struct timespec){.tv_nsec = 1000 * 1000}, NULL);
    }
    mr_shutdown(mr);
    py_output_end();
    Py_END_ALLOW_THREADS Py_RETURN_NONE;
}

static PyObject *is_initialized(PyObject *module, PyObject *none) { return PyBool_FromLong(core.mr != NULL); }

/* Address of the node; None: not running. */
static PyObject *address(PyObject *module, PyObject *none) {
    return core.mr == NULL ? Py_NewRef(Py_None) : PyUnicode_FromString(mr_address(core.mr));
}

/* Called in a child process that the program forked. The child drops the parent's context, whose threads do not exist
 * here, and leaves it unchanged. */
static PyObject *forked(PyObject *module, PyObject *none) {
    if (core.mr != NULL) py_core_set_context(NULL);
    core.waiting = 0;
    py_wait_forked();
    py_output_forked();
    Py_RETURN_NONE;
}

/* Main loop of a worker; returns only if the start failed. In a worker and in a zygote mr_init does not return. */
static PyObject *serve(PyObject *module, PyObject *none) {
    mr_options options = MR_OPTIONS(mr_options, .fork = py_fork_of_workers());
    mr_context *mr = NULL;
    mr_on_describe(py_stack_describe, NULL);
    core.serving = PyEval_SaveThread();
    mr_status status = mr_init(&options, &mr);
    PyEval_RestoreThread(core.serving);
    if (status == MR_OK) mr_shutdown(mr);
    return PyErr_Format(PyExc_RuntimeError, "process %d is no worker: a worker is started by its node, not by hand",
                        (int)getpid());
}

/* ---- Calls of an actor that runs an event loop (mr_set_loop). */

static mr_status serve_for(mr_context *mr, void *what, int64_t timeout_us) { return mr_serve(mr, timeout_us); }

/* serve_calls(seconds or None): runs received calls, or waits for one. False: the runtime has ended. A short wait keeps
 * the GIL, as in get. */
static PyObject *serve_calls(PyObject *module, PyObject *timeout) {
    enum { SOON_US = 1 };
    double seconds = timeout == Py_None ? 1e9 : PyFloat_AsDouble(timeout);
    if (seconds == -1 && PyErr_Occurred()) return NULL;
    if (core.mr == NULL) Py_RETURN_FALSE;
    mr_status status = mr_serve(core.mr, seconds > 0 ? SOON_US : 0);
    int64_t timeout_us = seconds >= 1e9 ? MR_FOREVER : (int64_t)(seconds * 1e6);
    bool waits = status == MR_TIMEOUT && (timeout_us < 0 || timeout_us > SOON_US);
    if (waits && !py_wait_for(serve_for, NULL, timeout_us, &status)) return NULL;
    return PyBool_FromLong(status != MR_CLOSED);
}

static PyObject *make_way(PyObject *module, PyObject *none) {
    if (core.mr != NULL) mr_yield_cpu(core.mr);
    Py_RETURN_NONE;
}

static PyObject *wake_server(PyObject *module, PyObject *none) {
    if (core.mr != NULL) mr_serve_wake(core.mr);
    Py_RETURN_NONE;
}

/* ---- Objects. */

/* put(value): _owner= is ignored, since the node owns named objects. */
static PyObject *put(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *names) {
    PyObject *value = count > 0 ? args[0] : NULL;
    for (Py_ssize_t i = 0; names != NULL && i < PyTuple_GET_SIZE(names); i++) {
        PyObject *name = PyTuple_GET_ITEM(names, i);
        if (count == 0 && PyUnicode_CompareWithASCIIString(name, "value") == 0)
            value = args[count + i];
        else if (PyUnicode_READ_CHAR(name, 0) != '_')
            return py_nearest_name_refuse("put", name, (const char *const[]){"value", NULL});
    }
    if (count > 1 || value == NULL) return PyErr_Format(PyExc_TypeError, "put() takes one value, not %zd", count);
    if (py_core_context() == NULL) return NULL;
    if (py_ref_check(value))
        return PyErr_Format(PyExc_TypeError,
                            "Calling 'put' on an ObjectRef is not allowed: it is an object already. To "
                            "put it all the same, wrap it in a list.");
    py_encoder encoder;
    mr_arg made;
    mr_ref ref;
    PyObject *result = NULL;
    py_encoder_init(&encoder);
    if (py_encoder_value(&encoder, value, &made)) {
        mr_status status = py_encoder_put(&encoder, value, &made, py_encoder_is_much(encoder.bytes), &ref);
        if (!PyErr_Occurred()) result = py_submit_result(status, &ref, 1);
    }
    py_encoder_fini(&encoder);
    return result;
}

PY_CORE_PUBLIC(put)

/* cancel(ref, force, recursive) */
static PyObject *cancel(PyObject *module, PyObject *args) {
    PyObject *object;
    int force, recursive;
    if (!PyArg_ParseTuple(args, "Opp", &object, &force, &recursive)) return NULL;
    if (!py_ref_check(object))
        return PyErr_Format(PyExc_TypeError, "cancel() takes an ObjectRef, not %R; kill() ends an actor", object);
    if (!py_ref_usable(object)) return NULL;
    mr_ref ref = ((struct py_ref *)object)->ref;
    mr_status status = force       ? mr_cancel_force(core.mr, ref)
                       : recursive ? mr_cancel(core.mr, ref)
                                   : mr_cancel_only(core.mr, ref);
    if (status == MR_INVALID && force)
        return PyErr_Format(PyExc_ValueError,
                            "cancel(): force=True is for tasks, and this is a call of an actor: kill() ends the actor");
    if (status != MR_OK && status != MR_NOT_FOUND) return py_core_raise(status); /* ready: nothing to cancel */
    Py_RETURN_NONE;
}

/* ---- Actors. */

/* kill(actor, no_restart) */
static PyObject *kill_actor(PyObject *module, PyObject *args) {
    PyObject *object;
    int for_good;
    if (!PyArg_ParseTuple(args, "Op", &object, &for_good)) return NULL;
    if (Py_TYPE(object) != &py_actor_type)
        return PyErr_Format(PyExc_ValueError, "kill() takes an actor, not %R; cancel() ends a task", object);
    if (!py_actor_usable(object)) return NULL;
    mr_status status;
    mr_context *mr = core.mr;
    mr_actor id = py_actor_id(object);
    PY_CORE_WAIT(status = for_good ? mr_actor_kill(mr, id) : mr_actor_restart(mr, id));
    if (status != MR_OK) return py_core_raise(status);
    Py_RETURN_NONE;
}

static PyObject *get_actor(PyObject *module, PyObject *args) {
    const char *name, *name_space;
    if (!PyArg_ParseTuple(args, "sz", &name, &name_space)) return NULL;
    mr_context *mr = py_core_context();
    if (mr == NULL) return NULL;
    mr_actor id;
    mr_status status;
    PY_CORE_WAIT(status = mr_actor_find(mr, name, name_space, &id));
    if (status != MR_OK) return py_core_raise(status);
    return py_actor_found(id);
}

static PyObject *current_actor(PyObject *module, PyObject *none) {
    if (core.actor.word[0] == 0 && core.actor.word[1] == 0) Py_RETURN_NONE;
    return py_actor_borrowed(core.actor);
}

/* Number of calls that this process has begun to run. */
static PyObject *calls(PyObject *module, PyObject *none) { return PyLong_FromUnsignedLongLong(core.calls); }

/* Number of the running call, and whether that call is cancelled. */
static PyObject *call(PyObject *module, PyObject *none) { return PyLong_FromUnsignedLongLong(py_reply_number()); }

static PyObject *is_cancelled(PyObject *module, PyObject *none) { return PyBool_FromLong(py_reply_is_cancelled()); }

static PyObject *set_local(PyObject *module, PyObject *on) {
    core.is_local = PyObject_IsTrue(on) == 1;
    Py_RETURN_NONE;
}

/* local_actor(id, class_name, methods): handle of an actor of local mode, which no node knows */
static PyObject *local_actor(PyObject *module, PyObject *args) {
    const char *bytes;
    Py_ssize_t size;
    PyObject *class_name, *methods;
    mr_actor id = {{0}};
    if (!PyArg_ParseTuple(args, "y#UO!", &bytes, &size, &class_name, &PyDict_Type, &methods)) return NULL;
    if (size != sizeof id.word)
        return PyErr_Format(PyExc_ValueError, "an actor id has %zu bytes, not %zd", sizeof id.word, size);
    for (size_t i = 0; i < sizeof id.word; i++) /* two hexadecimal digits per byte, as in a printed id */
        id.word[i / 8] = id.word[i / 8] << 8 | (uint8_t)bytes[i];
    return py_actor_new(id, class_name, methods);
}

/* ---- Creating actors. */

typedef struct creation { /* arguments of create_actor; all borrowed */
    PyObject *class_name, *code, *inside, *positional, *keywords, *methods;
    mr_actor_options options;
} creation;

/* Collects the arguments as for vectorcall: (values, positional ones first; names of the keywords). New references. */
static bool flatten(const creation *creation, PyObject **stack, PyObject **names) {
    PyObject *values = PyDict_Values(creation->keywords), *keys = PyDict_Keys(creation->keywords);
    PyObject *rest = values == NULL ? NULL : PyList_AsTuple(values);
    *names = keys == NULL ? NULL : PyList_AsTuple(keys);
    *stack = rest == NULL ? NULL : PySequence_Concat(creation->positional, rest);
    Py_XDECREF(values);
    Py_XDECREF(keys);
    Py_XDECREF(rest);
    return *stack != NULL && *names != NULL;
}

static PyObject *create(const creation *creation, PyObject *stack, PyObject *names) {
    py_function_code carried = {.bytes = Py_NewRef(creation->code), .inside = Py_NewRef(creation->inside)};
    py_submit_signature anything = {.most = -1};
    const char *name = PyUnicode_AsUTF8(creation->class_name);
    PyObject *handle = NULL;
    py_encoder encoder;
    mr_arg *made;
    size_t count;
    py_encoder_init(&encoder);
    if (name != NULL &&
        py_submit_arguments(&encoder, &anything, 1, ((PyTupleObject *)stack)->ob_item,
                            PyTuple_GET_SIZE(creation->positional), PyTuple_GET_SIZE(names) > 0 ? names : NULL, &made,
                            &count) &&
        py_function_code_argument(&carried, &encoder, &made[0])) {
        mr_actor id;
        mr_context *mr = core.mr;
        py_encoder_away away;
        size_t given = (size_t)PyTuple_GET_SIZE(stack);
        if (py_encoder_release(&encoder, ((PyTupleObject *)stack)->ob_item, &made[1], given, &away)) {
            mr_status status = mr_actor_create(mr, name, &creation->options, made, count, &id);
            if (py_encoder_regain(&away))
                handle =
                    status == MR_OK ? py_actor_new(id, creation->class_name, creation->methods) : py_core_raise(status);
        }
    }
    py_encoder_fini(&encoder);
    py_function_code_fini(&carried);
    return handle;
}

/* create_actor(class_name, (code, inside), (num_cpus, num_gpus, resources, max_restarts, max_task_retries, name,
 * namespace, detached, placement group, bundle), args, kwargs, methods, methods as shown to other processes): the GIL
 * is released while the node creates the actor. */
static PyObject *create_actor(PyObject *module, PyObject *args) {
    creation given = {.options = MR_INIT(mr_actor_options)};
    mr_actor_options *options = &given.options;
    PyObject *stack = NULL, *names = NULL, *handle = NULL;
    const char *about, *group;
    Py_ssize_t about_size, group_size;
    if (!PyArg_ParseTuple(args, "U(O!O!)(ddziizziz#i)O!O!Oy#", &given.class_name, &PyBytes_Type, &given.code,
                          &PyTuple_Type, &given.inside, &options->num_cpus, &options->num_gpus, &options->resources,
                          &options->max_restarts, &options->max_call_retries, &options->name, &options->name_space,
                          &options->detached, &group, &group_size, &options->bundle, &PyTuple_Type, &given.positional,
                          &PyDict_Type, &given.keywords, &given.methods, &about, &about_size) ||
        !py_placement_read(group, group_size, &options->placement_group) || py_core_context() == NULL)
        return NULL;
    if (group == NULL) options->placement_group = core.captured;
    options->about = (mr_span){about, (size_t)about_size};
    if (flatten(&given, &stack, &names)) handle = create(&given, stack, names);
    Py_XDECREF(stack);
    Py_XDECREF(names);
    return handle;
}

PyMethodDef py_context_functions[] = {
    {"put", PY_CORE_FAST(put_public), METH_FASTCALL | METH_KEYWORDS,
     "put(value)\n--\n\nStores a value; returns its ObjectRef, which many tasks may use."},
    {"init", init, METH_VARARGS, NULL},
    {"shutdown", shut_down, METH_NOARGS, NULL},
    {"is_initialized", is_initialized, METH_NOARGS, "Whether init() has been called and shutdown() has not."},
    {"address", address, METH_NOARGS, NULL},
    {"forked", forked, METH_NOARGS, NULL},
    {"serve", serve, METH_NOARGS, NULL},
    {"cancel", cancel, METH_VARARGS, NULL},
    {"serve_calls", serve_calls, METH_O, NULL},
    {"make_way", make_way, METH_NOARGS, NULL},
    {"wake_server", wake_server, METH_NOARGS, NULL},
    {"kill", kill_actor, METH_VARARGS, NULL},
    {"get_actor", get_actor, METH_VARARGS, NULL},
    {"current_actor", current_actor, METH_NOARGS, "The handle of the actor that this process is, or None."},
    {"calls", calls, METH_NOARGS, NULL},
    {"call", call, METH_NOARGS, NULL},
    {"is_cancelled", is_cancelled, METH_NOARGS, NULL},
    {"set_local", set_local, METH_O, NULL},
    {"local_actor", local_actor, METH_VARARGS, NULL},
    {"create_actor", create_actor, METH_VARARGS, NULL},
    {NULL},
};
