/* py_function.c — see py_function.h. */
#include "python/native/py_function.h"

#include <structmember.h>

#include "python/native/py_decode.h"
#include "python/native/py_placement.h"
#include "python/native/py_ref.h"
#include "python/native/py_reply.h"
#include "python/native/py_submit.h"

enum { INLINE_MAX = 4096 };

typedef struct py_function {
    PyObject_HEAD PyObject *source; /* owned: the function */
    PyObject *name;                 /* owned: str */
    const char *shown;              /* name of its tasks, inside `texts`; NULL: `name` */
    PyObject *settings;             /* owned: dict of the options as given */
    PyObject *check;                /* owned: see py_submit_signature */
    PyObject *texts;                /* owned: keeps the texts of `options` alive */
    py_submit_signature signature;
    mr_task_options options;
    bool placed;  /* the options name a placement group, */
    int captures; /* whose tasks start further tasks in the same group */
    int bound;    /* the options name a required node */
    py_function_code code;
    struct py_function *origin; /* owned: function with the same code from which .options() made this one; NULL: none */
    PyObject *dict;             /* __doc__, __wrapped__ and the like */
    PyObject *weak;
} py_function;

/* ---- Code. */

/* Reads the helper's result: (bytes, (references and handles)). */
bool py_function_code_make(py_function_code *code, PyObject *source) {
    if (code->bytes != NULL) return true;
    PyObject *bytes, *inside, *made = py_core_call(PY_CORE_dump_function, "(O)", source);
    if (made == NULL) return false;
    bool good = PyArg_ParseTuple(made, "SO!", &bytes, &PyTuple_Type, &inside);
    if (good) {
        code->bytes = Py_NewRef(bytes);
        code->inside = Py_NewRef(inside);
    }
    Py_DECREF(made);
    return good;
}

static bool write_code(const py_function_code *code, py_encoder *encoder, mr_arg *out) {
    mr_arg bytes = mr_bytes(PyBytes_AS_STRING(code->bytes), (size_t)PyBytes_GET_SIZE(code->bytes));
    size_t count = (size_t)PyTuple_GET_SIZE(code->inside);
    *out = bytes;
    if (count == 0) return true;
    mr_arg *items = py_encoder_args(encoder, count + 1);
    if (items == NULL) return false;
    items[0] = bytes;
    for (size_t i = 0; i < count; i++)
        if (!py_encoder_value(encoder, PyTuple_GET_ITEM(code->inside, (Py_ssize_t)i), &items[i + 1])) return false;
    *out = mr_tuple(items, count + 1);
    return true;
}

bool py_function_code_argument(py_function_code *code, py_encoder *encoder, mr_arg *out) {
    bool is_put = code->put != NULL && code->generation == core.generation;
    if (is_put) return py_ref_encode(code->put, out);
    if (!write_code(code, encoder, out)) return false;
    if (PyBytes_GET_SIZE(code->bytes) <= INLINE_MAX) return true;
    mr_ref made;
    mr_status status = mr_put(core.mr, *out, &made);
    if (status != MR_OK) return py_core_raise(status) != NULL;
    Py_XSETREF(code->put, py_ref_new(made));
    code->generation = core.generation;
    return code->put != NULL && py_ref_encode(code->put, out);
}

void py_function_code_fini(py_function_code *code) {
    Py_CLEAR(code->bytes);
    Py_CLEAR(code->inside);
    Py_CLEAR(code->put);
}

/* ---- Received code. */

/* Loads the code and caches it by its hash. */
static PyObject *load(PyObject *id, mr_span span, PyObject *inside) {
    PyObject *made = py_core_call(PY_CORE_load_function, "(y#O)", (const char *)span.data + PY_FUNCTION_ID_SIZE,
                                  (Py_ssize_t)(span.size - PY_FUNCTION_ID_SIZE), inside);
    if (made != NULL && PyDict_SetItem(core.code, id, made) != 0) Py_CLEAR(made);
    return made;
}

/* References and handles that follow the code in a tuple. */
static PyObject *inside_of(const mr_value *value) {
    if (mr_value_kind(value) != MR_KIND_TUPLE) return PyTuple_New(0);
    PyObject *all = py_decode_borrowed(value);
    PyObject *rest = all == NULL ? NULL : PyTuple_GetSlice(all, 1, PyTuple_GET_SIZE(all));
    Py_XDECREF(all);
    return rest;
}

/* Finds loaded code by the hash at its start; borrowed for ever, since loaded code stays. NULL without exception: not
 * loaded. */
static PyObject *find_code(mr_span span, PyObject **id) {
    *id = NULL;
    if (span.size <= PY_FUNCTION_ID_SIZE)
        return PyErr_Format(PyExc_ValueError, "malformed code of a function: %zu bytes, more than %d expected",
                            span.size, PY_FUNCTION_ID_SIZE);
    if (core.code == NULL && (core.code = PyDict_New()) == NULL) return NULL;
    *id = PyBytes_FromStringAndSize(span.data, PY_FUNCTION_ID_SIZE);
    return *id == NULL ? NULL : PyDict_GetItemWithError(core.code, *id);
}

PyObject *py_function_of(const mr_value *value) {
    mr_value first = *value;
    mr_span span;
    mr_status status = mr_value_kind(value) == MR_KIND_TUPLE ? mr_value_item(value, 0, &first) : MR_OK;
    if (status == MR_OK) status = mr_value_bytes(&first, &span);
    if (status != MR_OK) return py_core_raise(status);
    PyObject *id, *known = Py_XNewRef(find_code(span, &id));
    if (known == NULL && !PyErr_Occurred()) {
        PyObject *inside = inside_of(value);
        if (inside != NULL) known = load(id, span, inside);
        Py_XDECREF(inside);
    }
    Py_XDECREF(id);
    return known;
}

PyObject *py_function_of_code(mr_span code, void **kept) {
    if (*kept != NULL) return Py_NewRef((PyObject *)*kept);
    PyObject *id, *known = Py_XNewRef(find_code(code, &id));
    if (known == NULL && !PyErr_Occurred()) {
        PyObject *nothing = PyTuple_New(0);
        if (nothing != NULL) known = load(id, code, nothing);
        Py_XDECREF(nothing);
    }
    Py_XDECREF(id);
    *kept = known; /* core.code keeps the object */
    return known;
}

/* ---- Creation. */

static void py_function_clear_all(py_function *made) {
    Py_CLEAR(made->source);
    Py_CLEAR(made->name);
    Py_CLEAR(made->settings);
    Py_CLEAR(made->check);
    Py_CLEAR(made->texts);
    Py_CLEAR(made->dict);
    Py_CLEAR(made->origin);
    py_function_code_fini(&made->code);
}

static int py_function_traverse(PyObject *self, visitproc visit, void *arg) {
    py_function *made = (py_function *)self;
    Py_VISIT(made->source);
    Py_VISIT(made->check);
    Py_VISIT(made->settings);
    Py_VISIT(made->dict);
    Py_VISIT(made->origin);
    return 0;
}

static int py_function_clear(PyObject *self) {
    py_function_clear_all((py_function *)self);
    return 0;
}

static void py_function_dealloc(PyObject *self) {
    PyObject_GC_UnTrack(self);
    if (((py_function *)self)->weak != NULL) PyObject_ClearWeakRefs(self);
    py_function_clear_all((py_function *)self);
    PyObject_GC_Del(self);
}

/* The helper's result for the options: (num_cpus, num_gpus, resources, max_retries, num_returns, name or None,
 * placement group or None, bundle, results of a generator that may wait, max_calls, whether it captures, and whether it
 * is bound to a node). */
static bool read_options(py_function *made) {
    PyObject *read = py_core_call(PY_CORE_function_options, "(O)", made->settings);
    if (read == NULL) return false;
    made->texts = read;
    mr_task_options *options = &made->options;
    const char *group;
    Py_ssize_t size;
    if (!PyArg_ParseTuple(read, "ddziizz#iiipp", &options->num_cpus, &options->num_gpus, &options->resources,
                          &options->max_retries, &options->num_returns, &made->shown, &group, &size, &options->bundle,
                          &options->stream_ahead, &options->max_calls, &made->captures, &made->bound) ||
        !py_placement_read(group, size, &options->placement_group))
        return false;
    made->placed = group != NULL;
    return true;
}

static PyObject *make(PyTypeObject *type, PyObject *source, PyObject *name, PyObject *settings, PyObject *limits) {
    py_function *made = (py_function *)type->tp_alloc(type, 0);
    if (made == NULL) return NULL;
    made->source = Py_NewRef(source);
    made->name = Py_NewRef(name);
    made->settings = Py_NewRef(settings);
    if (!PyArg_ParseTuple(limits, "nnO", &made->signature.least, &made->signature.most, &made->check) ||
        PyUnicode_AsUTF8(name) == NULL) {
        made->check = NULL;
        Py_DECREF(made);
        return NULL;
    }
    made->signature.check = Py_NewRef(made->check); /* the function owns the check from here on */
    made->options.size = sizeof made->options;
    if (!read_options(made)) {
        Py_DECREF(made);
        return NULL;
    }
    return (PyObject *)made;
}

/* RemoteFunction(function, name, settings, (least, most, check)) */
static PyObject *py_function_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
    PyObject *source, *name, *settings, *limits;
    if (!PyArg_ParseTuple(args, "OUO!O!", &source, &name, &PyDict_Type, &settings, &PyTuple_Type, &limits)) return NULL;
    return make(type, source, name, settings, limits);
}

/* Whether options change the sent code. A generator is sent in another form for each number of returns, and for
 * "dynamic". */
static bool changes_code(PyObject *source, PyObject *options) {
    static const char *const names[] = {"retry_exceptions", "max_retries", "runtime_env"};
    for (size_t i = 0; options != NULL && i < sizeof names / sizeof *names; i++)
        if (PyDict_GetItemString(options, names[i]) != NULL) return true;
    PyObject *returns = options == NULL ? NULL : PyDict_GetItemString(options, "num_returns");
    bool yields = PyFunction_Check(source) &&
                  (((PyCodeObject *)PyFunction_GET_CODE(source))->co_flags & (CO_GENERATOR | CO_ASYNC_GENERATOR)) != 0;
    return returns != NULL && (yields || !PyLong_Check(returns));
}

/* Threads inside operations, as in _options.threads. */
static long threads_of(PyObject *settings) {
    PyObject *given = PyDict_GetItemString(settings, "num_cpus");
    double cpus = given == NULL || given == Py_None ? 1 : PyFloat_AsDouble(given);
    return cpus >= 2 ? (long)cpus : 1;
}

static PyObject *py_function_with_options(PyObject *self, PyObject *none, PyObject *options) {
    py_function *old = (py_function *)self;
    if (PyTuple_GET_SIZE(none) > 0)
        return PyErr_Format(PyExc_TypeError, "options() takes keyword arguments, such as num_cpus=2, not %R", none);
    PyObject *settings = PyDict_Copy(old->settings);
    if (settings == NULL || (options != NULL && PyDict_Update(settings, options) != 0)) {
        Py_XDECREF(settings);
        return NULL;
    }
    PyObject *limits = Py_BuildValue("nnO", old->signature.least, old->signature.most, old->check);
    PyObject *made = limits == NULL ? NULL : make(Py_TYPE(self), old->source, old->name, settings, limits);
    Py_XDECREF(limits);
    bool same =
        made != NULL && !changes_code(old->source, options) && threads_of(old->settings) == threads_of(settings);
    if (same && !old->captures && !((py_function *)made)->captures)
        ((py_function *)made)->origin = (py_function *)Py_NewRef((PyObject *)(old->origin != NULL ? old->origin : old));
    Py_DECREF(settings);
    return made;
}

/* ---- Calling. */

/* Makes the code of the function, or of its retry wrapper. */
static bool make_code(py_function *called) {
    if (called->code.bytes != NULL) return true;
    PyObject *sent = py_core_call(PY_CORE_wrap, "(OO)", called->source, called->settings);
    bool made = sent != NULL && py_function_code_make(&called->code, sent);
    Py_XDECREF(sent);
    return made;
}

/* Places the code: small code without references in the name of the task, other code in the first argument. */
static bool place_code(py_function *called, py_function *coded, py_encoder *encoder, mr_arg **args, size_t *count) {
    const py_function_code *code = &coded->code;
    bool by_name = PyBytes_GET_SIZE(code->bytes) <= INLINE_MAX && PyTuple_GET_SIZE(code->inside) == 0;
    if (!by_name) return py_function_code_argument(&coded->code, encoder, *args);
    called->options.code = (mr_span){PyBytes_AS_STRING(code->bytes), (size_t)PyBytes_GET_SIZE(code->bytes)};
    ++*args;
    --*count;
    return true;
}

/* Submits a task. Tasks of a captured placement group use that group, unless their options name another one. */
static mr_status submit(const py_function *called, const char *name, const mr_arg *args, size_t count, mr_ref *refs) {
    py_reply_resume();
    bool captured = !called->placed && py_placement_is_captured();
    if (!captured) return mr_task_submit(core.mr, name, &called->options, args, count, refs);
    mr_task_options inside = called->options;
    inside.placement_group = core.captured;
    return mr_task_submit(core.mr, name, &inside, args, count, refs);
}

/* The function to call instead of one that is bound to a node where it can never run; a new reference. None: it can
 * run. */
static PyObject *refused(const py_function *called) {
    return called->bound ? py_core_call(PY_CORE_refused, "(O)", called->settings) : Py_NewRef(Py_None);
}

static PyObject *py_function_remote(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names) {
    py_function *called = (py_function *)self, *coded = called->origin != NULL ? called->origin : called;
    if (py_core_context() == NULL) return NULL;
    PyObject *other = refused(called);
    if (other != Py_None) {
        PyObject *told = other == NULL ? NULL : py_function_remote(other, NULL, 0, NULL);
        Py_XDECREF(other);
        return told;
    }
    Py_DECREF(other);
    if (core.is_local)
        return py_submit_here(PY_CORE_run_function, &called->signature,
                              Py_BuildValue("(Oi)", called->source, called->options.num_returns), args, count, names);
    py_encoder encoder;
    py_encoder_init(&encoder);
    mr_arg *made;
    size_t made_count;
    PyObject *result = NULL;
    if (py_submit_arguments(&encoder, &called->signature, 1, args, count, names, &made, &made_count) &&
        make_code(coded) && place_code(called, coded, &encoder, &made, &made_count)) {
        int returns = called->options.num_returns;
        mr_ref one, *refs = returns <= 1 ? &one : py_encoder_room(&encoder, (size_t)returns * sizeof *refs);
        const char *name = called->shown != NULL ? called->shown : PyUnicode_AsUTF8(called->name);
        if (refs != NULL)
            result =
                py_submit_result(submit(called, name, made, made_count, returns == 0 ? NULL : refs), refs, returns);
    }
    py_encoder_fini(&encoder);
    return result;
}

PY_CORE_PUBLIC(py_function_remote)

static PyObject *py_function_call(PyObject *self, PyObject *args, PyObject *keywords) {
    const py_function *called = (py_function *)self;
    return PyErr_Format(PyExc_TypeError,
                        "Remote functions cannot be called directly. Instead of running '%U()', try '%U.remote()'.",
                        called->name, called->name);
}

static PyObject *py_function_repr(PyObject *self) {
    return PyUnicode_FromFormat("RemoteFunction(%U)", ((py_function *)self)->name);
}

/* Pickles the function object without its code, so that a recursive function is pickled once. */
static PyObject *py_function_reduce(PyObject *self, PyObject *none) {
    const py_function *reduced = (py_function *)self;
    PyObject *again = py_core_helper_get(PY_CORE_remake_function);
    return again == NULL ? NULL : Py_BuildValue("(O(OO))", again, reduced->source, reduced->settings);
}

static PyMethodDef py_function_methods[] = {
    {"remote", PY_CORE_FAST(py_function_remote_public), METH_FASTCALL | METH_KEYWORDS,
     "Runs the function in a worker; returns an ObjectRef at once."},
    {"options", PY_CORE_FAST(py_function_with_options), METH_VARARGS | METH_KEYWORDS,
     "The same function with other options."},
    {"_remote", PY_CORE_FAST(py_submit_with), METH_VARARGS | METH_KEYWORDS, NULL},
    {"bind", PY_CORE_FAST(py_submit_later), METH_VARARGS | METH_KEYWORDS,
     "A node of a graph that is run later (miniray.dag)."},
    {"__reduce__", py_function_reduce, METH_NOARGS, NULL},
    {NULL},
};

static PyMemberDef py_function_members[] = {
    {"_default_options", T_OBJECT, offsetof(py_function, settings), READONLY, "The options of the decorator."},
    {"_function", T_OBJECT, offsetof(py_function, source), READONLY, "The original function."},
    {NULL},
};

static PyGetSetDef py_function_getset[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
    {NULL},
};

PyTypeObject py_function_type = {
    PY_CORE_CLASS("miniray.RemoteFunction", py_function, Py_TPFLAGS_HAVE_GC,
                  "A function that runs in workers: `f.remote(…)` calls it."),
    .tp_new = py_function_new,
    .tp_dealloc = py_function_dealloc,
    .tp_traverse = py_function_traverse,
    .tp_clear = py_function_clear,
    .tp_repr = py_function_repr,
    .tp_call = py_function_call,
    .tp_methods = py_function_methods,
    .tp_members = py_function_members,
    .tp_getset = py_function_getset,
    .tp_dictoffset = offsetof(py_function, dict),
    .tp_weaklistoffset = offsetof(py_function, weak),
};
