/* py_execute.c — see py_execute.h. */
#include "python/native/py_execute.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "python/native/py_decode.h"
#include "python/native/py_encode.h"
#include "python/native/py_function.h"
#include "python/native/py_interrupt.h"
#include "python/native/py_reply.h"
#include "python/native/py_stream.h"

enum { FEW = 16 };

/* ---- Arguments. */

typedef struct stack { /* as for vectorcall */
    PyObject **all;    /* objects, owned, after one free place for a borrowed self */
    size_t count;      /* without self */
    PyObject *names;   /* owned: names of the last arguments; NULL: none */
    PyObject *few[FEW + 1];
} stack;

static void stack_fini(stack *stack) {
    for (size_t i = 1; i <= stack->count; i++) Py_XDECREF(stack->all[i]);
    if (stack->all != stack->few) PyMem_Free(stack->all);
    Py_XDECREF(stack->names);
}

/* Makes a tuple of the names "a\0b\0". */
static PyObject *names_of(mr_span text) {
    PyObject *list = PyList_New(0), *tuple = NULL;
    const char *at = text.data, *end = at + text.size;
    while (list != NULL && at < end) {
        size_t size = strnlen(at, (size_t)(end - at));
        PyObject *name = PyUnicode_FromStringAndSize(at, (Py_ssize_t)size);
        if (name != NULL) PyUnicode_InternInPlace(&name);
        py_core_append(&list, name);
        at += size + 1;
    }
    if (list != NULL) tuple = PyList_AsTuple(list);
    Py_XDECREF(list);
    return tuple;
}

/* Reads the names of keyword arguments, if the last argument contains them. */
static bool read_names(mr_call *call, size_t first, size_t *count, PyObject **names) {
    mr_value last;
    mr_custom custom;
    *names = NULL;
    if (*count == 0 || mr_arg_value(call, first + *count - 1, &last) != MR_OK) return true;
    if (mr_value_kind(&last) != MR_KIND_CUSTOM || mr_value_custom(&last, &custom) != MR_OK) return true;
    if (custom.format != ENCODE_FORMAT_KEYWORDS) return true;
    *names = names_of(custom.data);
    --*count;
    if (*names == NULL) return false;
    if ((size_t)PyTuple_GET_SIZE(*names) <= *count) return true;
    return PyErr_Format(PyExc_ValueError, "malformed call: %zd keyword names for %zu arguments",
                        PyTuple_GET_SIZE(*names), *count) != NULL;
}

static bool stack_init(stack *stack, mr_call *call, size_t first) {
    size_t count = mr_arg_count(call) - first;
    *stack = (struct stack){.all = stack->few};
    if (!read_names(call, first, &count, &stack->names)) return false;
    if (count > FEW) stack->all = PyMem_Calloc(count + 1, sizeof *stack->all);
    if (stack->all == NULL) {
        stack->all = stack->few;
        return PyErr_NoMemory() != NULL;
    }
    for (; stack->count < count; stack->count++) {
        PyObject *object = py_decode_argument(call, first + stack->count);
        if (object == NULL) return false;
        stack->all[stack->count + 1] = object;
    }
    return true;
}

static size_t positional(const stack *stack) {
    return stack->count - (stack->names == NULL ? 0 : (size_t)PyTuple_GET_SIZE(stack->names));
}

/* ---- Results. */

/* Takes and clears the current exception; owned. */
static PyObject *take_exception(void) {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    if (traceback != NULL) PyException_SetTraceback(value, traceback);
    Py_XDECREF(type);
    Py_XDECREF(traceback);
    return value;
}

/* Makes the current exception the failure of the call. */
static mr_status answer_exception(mr_call *call) {
    PyObject *value = take_exception();
    PyObject *told = py_core_call(PY_CORE_describe_failure, "(Os)", value, mr_call_name(call));
    const char *message, *detail;
    Py_ssize_t size;
    mr_status status;
    if (told != NULL && PyArg_ParseTuple(told, "sy#", &message, &detail, &size)) {
        status = mr_fail_with(call, (mr_span){detail, (size_t)size}, message);
    } else {
        PyErr_Clear();
        status = mr_fail(call, "an exception that cannot be formatted");
    }
    Py_XDECREF(told);
    Py_XDECREF(value);
    return status;
}

static mr_status answer_with(mr_call *call, size_t index, PyObject *object) {
    py_encoder encoder;
    mr_arg value;
    py_encoder_init(&encoder);
    encoder.call = call;
    mr_status status = MR_OK;
    py_encoder_away away;
    bool done = py_encoder_value(&encoder, object, &value), much = done && py_encoder_is_much(encoder.bytes);
    if (much) done = py_encoder_release(&encoder, &object, &value, 1, &away);
    if (done) status = mr_return_at(call, index, value);
    if (much && done) done = py_encoder_regain(&away);
    py_encoder_fini(&encoder);
    return done ? status : answer_exception(call);
}

/* The values of a generator, if its caller wants several results; the result is moved. */
static PyObject *yielded(mr_call *call, PyObject *result, size_t count) {
    if (count != 1) return py_core_call(PY_CORE_several, "(Nns)", result, (Py_ssize_t)count, mr_call_name(call));
    PyObject *self = mr_self(call);
    return py_core_call(PY_CORE_single, "(NsO)", result, mr_call_name(call), self == NULL ? Py_None : self);
}

static mr_status answer_with_each(mr_call *call, PyObject *result, size_t count) {
    const char *kind = Py_TYPE(result)->tp_name;
    PyObject *items = PySequence_Fast(result, "");
    if (items == NULL && PyErr_ExceptionMatches(PyExc_TypeError))
        PyErr_Format(PyExc_TypeError, "Task returned one object (%s), but num_returns=%zu: return a tuple of %zu", kind,
                     count, count);
    if (items == NULL) return answer_exception(call);
    mr_status status = MR_OK;
    if ((size_t)PySequence_Fast_GET_SIZE(items) != count) {
        PyErr_Format(PyExc_ValueError, "Task returned %zd objects, but num_returns=%zu",
                     PySequence_Fast_GET_SIZE(items), count);
        status = answer_exception(call);
    }
    for (size_t i = 0; i < count && status == MR_OK; i++)
        status = answer_with(call, i, PySequence_Fast_GET_ITEM(items, (Py_ssize_t)i));
    Py_DECREF(items);
    return status;
}

/* Ends a child that the body forked with os.fork, as a program that returns. */
static mr_status answer_in_child(mr_call *call, PyObject *result) {
    py_core_call(PY_CORE_end_child, "(sN)", mr_call_name(call), result == NULL ? take_exception() : Py_NewRef(Py_None));
    _exit(EXIT_FAILURE); /* the child could not print the error */
}

mr_status py_execute_answer(mr_call *call, PyObject *result) {
    if (core.mr == NULL) return answer_in_child(call, result);
    if (result != NULL && mr_call_streams(call)) { /* all values were yielded */
        Py_DECREF(result);
        return MR_OK;
    }
    size_t count = mr_return_count(call);
    if (result != NULL && PyGen_CheckExact(result)) result = yielded(call, result, count);
    if (result == NULL) return answer_exception(call);
    mr_status status = count == 1 ? answer_with(call, 0, result) : answer_with_each(call, result, count);
    Py_DECREF(result);
    return status;
}

/* ---- Bodies. */

/* Whether no other Python thread exists that could want the GIL. */
static bool is_alone(void) {
    return PyThreadState_Next(PyInterpreterState_ThreadHead(PyInterpreterState_Get())) == NULL;
}

/* Runs the host's loop, which also waits for calls. */
static void run_host(PyObject *host) {
    PyObject *done = PyObject_CallMethod(host, "run", NULL);
    if (done == NULL) PyErr_WriteUnraisable(host);
    Py_XDECREF(done);
}

/* Idle function of the worker's thread. The GIL is kept between two calls in quick succession. */
static void serve(void *user) {
    enum { SOON_US = 1 }; /* also the time worth spinning */
    PyGILState_STATE gil = PyGILState_Ensure();
    mr_status status = MR_OK;
    while (status != MR_CLOSED) {
        if (core.loop_host != NULL) run_host(core.loop_host);
        status = mr_serve(core.mr, is_alone() ? SOON_US : 0);
        if (status != MR_TIMEOUT) continue;
        PY_CORE_WITHOUT_GIL(status = mr_serve(core.mr, MR_FOREVER));
    }
    PyGILState_Release(gil);
}

static void begin(mr_call *call) {
    py_core_set_context(mr_call_context(call));
    mr_set_loop(call, serve, NULL);
    py_core_report(PY_CORE_begin, py_core_call(PY_CORE_begin, "()"));
}

static PyGILState_STATE enter(mr_call *call) {
    PyGILState_STATE gil = PyGILState_Ensure();
    if (core.mr == NULL) begin(call);
    core.calls++;
    return gil;
}

/* Copies CUDA_VISIBLE_DEVICES, which the runtime sets for a task or an actor, to os.environ. */
static bool see_gpus(void) {
    const char *now = getenv("CUDA_VISIBLE_DEVICES");
    if (now == core.gpus) return true;
    PyObject *done = py_core_call(PY_CORE_see_gpus, "(z)", now);
    Py_XDECREF(done);
    core.gpus = getenv("CUDA_VISIBLE_DEVICES");
    return done != NULL;
}

/* The code of the call, sent with the name or as the first argument; `first` becomes the index of the next argument. */
static PyObject *code_of(mr_call *call, size_t *first) {
    void **kept;
    mr_span code = mr_call_code(call, &kept);
    *first = code.size > 0 ? 0 : 1;
    if (code.size > 0) return py_function_of_code(code, kept);
    mr_value value;
    mr_status status = mr_arg_value(call, 0, &value);
    return status == MR_OK ? py_function_of(&value) : py_core_raise(status);
}

/* Calls a function, which is moved, with the arguments from `first` on; NULL with an exception. */
static PyObject *call_with_arguments(PyObject *function, mr_call *call, size_t first) {
    PyObject *result = NULL;
    if (function == NULL) return NULL;
    stack stack;
    if (stack_init(&stack, call, first))
        result = PyObject_Vectorcall(function, stack.all + 1, positional(&stack) | PY_VECTORCALL_ARGUMENTS_OFFSET,
                                     stack.names);
    stack_fini(&stack);
    Py_DECREF(function);
    return result;
}

static PyObject *call_code(mr_call *call) {
    size_t first;
    PyObject *function = see_gpus() ? code_of(call, &first) : NULL;
    return function == NULL ? NULL : call_with_arguments(function, call, first);
}

static mr_status run_task(mr_call *call) {
    PyGILState_STATE gil = enter(call);
    mr_call *outer = core.call; /* the waiting call, if this call runs meanwhile */
    core.call = call;
    py_interrupt_begin(call);
    PyObject *result = call_code(call);
    bool streams = mr_call_streams(call);
    if (!streams) py_interrupt_end();
    mr_status status = streams ? py_stream_answer(call, result) : py_execute_answer(call, result);
    if (streams) py_interrupt_end();
    core.call = outer;
    PyGILState_Release(gil);
    return status;
}

/* Runs when the last handle of the actor is released: the class's __del__ and exit functions. */
static void drop_instance(void *instance) {
    PyGILState_STATE gil = PyGILState_Ensure();
    py_core_report(PY_CORE_leave, py_core_call(PY_CORE_leave, "(O)", instance));
    Py_DECREF((PyObject *)instance);
    py_core_report(PY_CORE_left, py_core_call(PY_CORE_left, "()"));
    PyGILState_Release(gil);
}

/* Sets the name that is shown with the actor's output to the actor's repr. */
static void say_name(PyObject *instance) {
    if (!core.is_hosted && Py_TYPE(instance)->tp_repr == PyBaseObject_Type.tp_repr) return;
    PyObject *done = py_core_call(PY_CORE_say_name, "(O)", instance);
    if (done == NULL) PyErr_WriteUnraisable(instance);
    Py_XDECREF(done);
}

static mr_status run_create(mr_call *call) {
    PyGILState_STATE gil = enter(call);
    core.actor = mr_call_self(call); /* the constructor may ask for its actor */
    mr_call *outer = core.call;
    core.call = call;
    PyObject *instance = call_code(call);
    core.call = outer;
    if (core.mr == NULL) return answer_in_child(call, instance);
    mr_status status = instance == NULL ? answer_exception(call) : mr_set_self(call, instance, drop_instance);
    core.is_hosted = instance != NULL && PyObject_HasAttrString((PyObject *)Py_TYPE(instance), "__miniray_host__");
    if (core.is_hosted && PyObject_HasAttrString(instance, "run")) core.loop_host = instance;
    if (instance != NULL) say_name(instance);
    PyGILState_Release(gil);
    return status;
}

/* Keeps the function of a call's name for ever: in this dict, and in *kept for the runtime's name. */
static PyObject *keep(PyObject *name, PyObject *found, void **kept) {
    if (core.names == NULL && (core.names = PyDict_New()) == NULL) return NULL;
    return *kept = PyDict_SetDefault(core.names, name, found);
}

/* Calls a method that every actor has, or one whose call states how it is retried (methods.py). A worker runs one
 * actor, so a function that is called with the actor only is the same the next time; kept NULL: the function is not
 * kept. */
static PyObject *call_found_method(mr_call *call, PyObject *self, void **kept) {
    const char *called = mr_call_name(call);
    PyObject *name = PyUnicode_FromString(called);
    PyObject *method = name == NULL ? NULL : py_core_call(PY_CORE_found_method, "(OO)", self, name);
    bool same = kept != NULL && method != NULL && strchr(called, '?') == NULL && PyMethod_Check(method) &&
                PyMethod_GET_SELF(method) == self && PyFunction_Check(PyMethod_GET_FUNCTION(method));
    if (same && keep(name, PyMethod_GET_FUNCTION(method), kept) == NULL) Py_CLEAR(method);
    Py_XDECREF(name);
    return call_with_arguments(method, call, 0);
}

/* The first `size` bytes of a call's name, interned; borrowed. */
static PyObject *kept_name(const char *text, size_t size, void **kept) {
    PyObject *name = PyUnicode_FromStringAndSize(text, (Py_ssize_t)size);
    if (name != NULL) PyUnicode_InternInPlace(&name);
    PyObject *found = name == NULL ? NULL : keep(name, name, kept);
    Py_XDECREF(name);
    return found;
}

/* The bytes of the concurrency group in a call's name ("method@group", and marks of other options). */
static size_t group_bytes(const char *called) {
    const char *mark = strchr(called, '@');
    return mark == NULL ? 0 : strcspn(mark + 1, "!?");
}

/* Raises for a concurrency group: an actor that runs one call at a time has none. */
static PyObject *raise_no_group(const char *called, PyObject *self) {
    size_t bare = strcspn(called, "@");
    PyObject *method = PyUnicode_FromStringAndSize(called, (Py_ssize_t)bare);
    PyObject *group = PyUnicode_FromStringAndSize(called + bare + 1, (Py_ssize_t)group_bytes(called));
    if (method != NULL && group != NULL)
        PyErr_Format(
            PyExc_ValueError,
            "%s has no concurrency group '%U', which a call of %U() names: @remote(concurrency_groups={'%U': 1}) "
            "makes it",
            Py_TYPE(self)->tp_name, group, method, group);
    Py_XDECREF(method);
    Py_XDECREF(group);
    return NULL;
}

static PyObject *call_method(mr_call *call) {
    void **kept;
    (void)mr_call_code(call, &kept);
    PyObject *name = *kept, *result = NULL;
    if (name == NULL) {
        const char *called = mr_call_name(call);
        if (group_bytes(called) > 0) return raise_no_group(called, mr_self(call));
        if (strncmp(called, "__ray_", 6) == 0 || strchr(called, '?') != NULL)
            return call_found_method(call, mr_self(call), kept);
        name = kept_name(called, strcspn(called, "@"), kept);
    }
    if (name == NULL) return NULL;
    stack stack;
    if (stack_init(&stack, call, 0)) {
        PyObject *self = stack.all[0] = mr_self(call);
        PyObject *function = PyFunction_Check(name) ? name : _PyType_Lookup(Py_TYPE(self), name);
        bool plain = function != NULL && PyFunction_Check(function); /* not another attribute of that name */
        result = plain ? PyObject_Vectorcall(function, stack.all, positional(&stack) + 1, stack.names)
                       : PyObject_VectorcallMethod(name, stack.all, positional(&stack) + 1, stack.names);
    }
    stack_fini(&stack);
    return result;
}

PyObject *py_execute_call(mr_call *call, PyObject *instance) {
    void **kept;
    (void)mr_call_code(call, &kept);
    PyObject *function = _PyType_Lookup(Py_TYPE(instance), *kept); /* the name that call_start kept */
    PyObject *result = NULL;
    if (function == NULL || !PyFunction_Check(function)) return call_found_method(call, instance, NULL);
    stack stack;
    Py_INCREF(function);
    if (stack_init(&stack, call, 0)) {
        stack.all[0] = instance;
        result = PyObject_Vectorcall(function, stack.all, positional(&stack) + 1, stack.names);
    }
    stack_fini(&stack);
    Py_DECREF(function);
    return result;
}

/* host.start(reply, name) */
static PyObject *call_start(mr_call *call, PyObject *host, PyObject *reply) {
    void **kept;
    (void)mr_call_code(call, &kept);
    const char *called = mr_call_name(call);
    PyObject *name = *kept != NULL ? *kept : kept_name(called, strlen(called), kept);
    if (core.start == NULL) core.start = PyUnicode_InternFromString("start");
    if (name == NULL || core.start == NULL) return NULL;
    PyObject *given[] = {host, reply, name};
    return PyObject_VectorcallMethod(core.start, given, sizeof given / sizeof *given, NULL);
}

static mr_status start_at_host(mr_call *call, PyObject *host) {
    PyObject *done = NULL;
    mr_defer(call);
    PyObject *reply = py_reply_new(call);
    if (reply != NULL) done = call_start(call, host, reply);
    if (done == NULL && reply != NULL) PyErr_WriteUnraisable(host); /* the dropped reply has failed */
    if (reply == NULL) mr_finish(call, py_execute_answer(call, NULL));
    Py_XDECREF(reply);
    Py_XDECREF(done);
    return MR_OK;
}

static mr_status run_method(mr_call *call) {
    PyGILState_STATE gil = enter(call);
    mr_call *outer = core.call;
    if (!core.is_hosted) core.call = call;
    mr_status status = core.is_hosted          ? start_at_host(call, mr_self(call))
                       : mr_call_streams(call) ? py_stream_answer(call, call_method(call))
                                               : py_execute_answer(call, call_method(call));
    core.call = outer;
    PyGILState_Release(gil);
    return status;
}

void py_execute_register(void) {
    mr_register_task("*", run_task);
    mr_register_method("*", NULL, run_create);
    mr_register_method("*", "*", run_method);
}
