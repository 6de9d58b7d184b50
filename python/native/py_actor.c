/* py_actor.c — see py_actor.h. */
#include "python/native/py_actor.h"

#include <string.h>

#include "python/native/py_encode.h"
#include "python/native/py_ref.h"
#include "python/native/py_reply.h"
#include "python/native/py_submit.h"

enum { SPARE_MAX = 64, KNOWN_MAX = 4096, OF_ENTRY = -1 };

typedef struct py_actor {
    PyObject_HEAD mr_actor id;
    uint64_t generation;
    bool holds;            /* this handle owns a reference of the runtime */
    PyObject *class_name;  /* owned: str; NULL if `methods` is NULL */
    PyObject *methods;     /* owned: a dict, or None; NULL: not requested from the node yet */
    struct method *recent; /* owned: memory of the last freed method (method_dealloc); NULL: none */
    PyObject *weak;
} py_actor;

_Static_assert(offsetof(py_actor, id) == offsetof(py_ref, ref) && sizeof(mr_actor) == sizeof(mr_ref),
               "py_ref_hash and py_ref_compare read ids of actors, too");

typedef struct plan { /* parameters of a method call: from its options, or else from its entry in actor.methods */
    py_submit_signature signature;
    int num_returns;
    int retries;      /* mr_call_options.max_retries */
    long pending_max; /* limit of calls of this process that wait at the actor; 0: no limit */
} plan;

typedef struct method {
    PyObject_HEAD py_actor *actor; /* owned */
    PyObject *name;                /* owned: str */
    PyObject *entry;               /* owned: the method's entry in actor.methods; None: unknown */
    int num_returns;               /* OF_ENTRY: number in the entry */
    int ahead;                     /* unread results that a generator may produce; 0: default */
    int retries;                   /* mr_call_options.max_retries; 0: value of the entry */
    PyObject *again;               /* owned: retry argument, before all others (retries.py); NULL: none */
    bool planned;                  /* the plan is valid, since the method has been called */
    plan plan;
} method;

typedef struct spares {
    method *list[SPARE_MAX];
    size_t count;
} spares;

static spares spare;
static PyObject *known; /* owned: {id: (class name, methods)}, a cache of recent actors */

/* ---- Methods. */

static PyObject *method_new(py_actor *of, PyObject *name, PyObject *entry, int num_returns) {
    method *made;
    if (spare.count > 0) {
        made = spare.list[--spare.count];
        PyObject_Init((PyObject *)made, &py_actor_method_type);
    } else {
        made = PyObject_New(method, &py_actor_method_type);
    }
    if (made == NULL) return NULL;
    made->actor = (py_actor *)Py_NewRef((PyObject *)of);
    made->name = Py_NewRef(name);
    made->entry = Py_NewRef(entry);
    made->num_returns = num_returns;
    made->ahead = made->retries = 0;
    made->again = NULL;
    made->planned = false;
    return (PyObject *)made;
}

/* Frees the memory of a method that refers to no actor. */
static void method_free(method *method) {
    Py_DECREF(method->name);
    Py_DECREF(method->entry);
    Py_XDECREF(method->again);
    if (spare.count < SPARE_MAX)
        spare.list[spare.count++] = method;
    else
        PyObject_Free(method);
}

/* The actor caches one method without options, since successive accesses usually ask for the same method. */
static void method_dealloc(PyObject *self) {
    method *method = (struct method *)self;
    py_actor *of = method->actor;
    bool plain = method->num_returns == OF_ENTRY && method->ahead == 0 && method->retries == 0 &&
                 method->again == NULL && method->entry != Py_None;
    if (plain && of->recent == NULL)
        of->recent = method;
    else
        method_free(method);
    Py_DECREF((PyObject *)of);
}

/* Takes the cached method out of the actor. */
static PyObject *method_again(py_actor *of) {
    method *method = of->recent;
    of->recent = NULL;
    PyObject_Init((PyObject *)method, &py_actor_method_type);
    method->actor = (py_actor *)Py_NewRef((PyObject *)of);
    return (PyObject *)method;
}

/* Name of the actor's class, as far as it is known; borrowed. */
static const char *shown_name(const py_actor *handle) {
    const char *name = handle->class_name == NULL ? NULL : PyUnicode_AsUTF8(handle->class_name);
    return name != NULL ? name : "actor";
}

static bool make_plan(method *method) {
    plan *plan = &method->plan;
    *plan = (struct plan){.signature.most = -1, .num_returns = 1};
    if (method->entry != Py_None) {
        PyObject *const *item = ((PyTupleObject *)method->entry)->ob_item;
        if (!PyTuple_CheckExact(method->entry) || PyTuple_GET_SIZE(method->entry) != 6)
            return PyErr_Format(PyExc_TypeError,
                                "the entry of method %U must be a tuple of 6: (least, most, check, num_returns, "
                                "max_pending_calls, retries)",
                                method->name) != NULL;
        plan->signature.least = PyLong_AsSsize_t(item[0]);
        plan->signature.most = PyLong_AsSsize_t(item[1]);
        plan->signature.check = item[2];
        plan->num_returns = (int)PyLong_AsLong(item[3]);
        plan->pending_max = PyLong_AsLong(item[4]);
        plan->retries = (int)PyLong_AsLong(item[5]);
        if (plan->signature.least == -1 && PyErr_Occurred()) return false;
    }
    if (method->num_returns != OF_ENTRY) plan->num_returns = method->num_returns;
    if (method->retries != 0) plan->retries = method->retries;
    method->planned = true;
    return true;
}

static PyObject *send(const method *method, PyObject *const *args, Py_ssize_t count, PyObject *names) {
    const plan *plan = &method->plan;
    const int num_returns = plan->num_returns;
    const size_t before = method->again != NULL;
    py_encoder encoder;
    py_encoder_init(&encoder);
    mr_arg *made;
    size_t made_count;
    PyObject *result = NULL;
    const char *name = PyUnicode_AsUTF8(method->name);
    if (name != NULL &&
        py_submit_arguments(&encoder, &plan->signature, before, args, count, names, &made, &made_count) &&
        (before == 0 || py_encoder_value(&encoder, method->again, &made[0]))) {
        mr_ref one, *refs = num_returns <= 1 ? &one : py_encoder_room(&encoder, (size_t)num_returns * sizeof *refs);
        mr_call_options options = MR_OPTIONS(mr_call_options, .num_returns = num_returns, .stream_ahead = method->ahead,
                                             .max_retries = plan->retries);
        bool plain = num_returns == 1 && plan->retries == 0;
        py_reply_resume();
        if (refs != NULL)
            result = py_submit_result(mr_actor_submit(core.mr, method->actor->id, name, plain ? NULL : &options, made,
                                                      made_count, num_returns == 0 ? NULL : refs),
                                      refs, num_returns);
    }
    py_encoder_fini(&encoder);
    if (result != NULL) py_ref_made_by(result, method->actor->id);
    return result;
}

/* Submits a call of an actor that has max_pending_calls. */
static PyObject *send_if_few_wait(const method *method, PyObject *const *args, Py_ssize_t count, PyObject *names) {
    PyObject *admitted = py_core_call(PY_CORE_admit, "(Ol)", method->actor, method->plan.pending_max);
    PyObject *result = admitted == NULL ? NULL : send(method, args, count, names);
    PyObject *noted = result == NULL ? NULL : py_core_call(PY_CORE_began, "(OO)", method->actor, result);
    if (noted == NULL) Py_CLEAR(result);
    Py_XDECREF(noted);
    Py_XDECREF(admitted);
    return result;
}

static PyObject *method_remote(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names) {
    method *method = (struct method *)self;
    if (!py_actor_usable((PyObject *)method->actor) || (!method->planned && !make_plan(method))) return NULL;
    if (core.is_local)
        return py_submit_here(PY_CORE_run_method, &method->plan.signature,
                              Py_BuildValue("(OOiO)", method->actor, method->name, method->plan.num_returns,
                                            method->again == NULL ? Py_None : method->again),
                              args, count, names);
    return method->plan.pending_max > 0 ? send_if_few_wait(method, args, count, names)
                                        : send(method, args, count, names);
}

PY_CORE_PUBLIC(method_remote)

/* Returns "name@mark"; a mark that `name` already has is replaced. */
static PyObject *marked_name(PyObject *name, PyObject *mark) {
    Py_ssize_t size = PyUnicode_GET_LENGTH(name), end = PyUnicode_FindChar(name, '@', 0, size, 1);
    PyObject *bare = PyUnicode_Substring(name, 0, end < 0 ? size : end);
    PyObject *made = bare == NULL || mark == Py_None ? Py_XNewRef(bare) : PyUnicode_FromFormat("%U@%U", bare, mark);
    Py_XDECREF(bare);
    return made;
}

static PyObject *method_with_options(PyObject *self, PyObject *none, PyObject *options) {
    const method *method = (struct method *)self;
    if (PyTuple_GET_SIZE(none) > 0)
        return PyErr_Format(PyExc_TypeError, "options() takes keyword arguments, such as num_returns=2, not %R", none);
    PyObject *given = options == NULL ? PyDict_New() : Py_NewRef(options);
    PyObject *read = py_core_call(PY_CORE_method_options, "(NO)", given, method->entry);
    if (read == NULL) return NULL;
    int num_returns = 0, ahead = 0, retries = 0;
    PyObject *mark, *again;
    struct method *made = NULL;
    if (PyArg_ParseTuple(read, "iiOiO", &num_returns, &ahead, &mark, &retries, &again)) {
        PyObject *name = marked_name(method->name, mark);
        if (name != NULL) made = (struct method *)method_new(method->actor, name, method->entry, num_returns);
        Py_XDECREF(name);
    }
    if (made != NULL) {
        made->ahead = ahead;
        made->retries = retries;
        if (again != Py_None) made->again = Py_NewRef(again);
    }
    Py_DECREF(read);
    return (PyObject *)made;
}

static PyObject *method_call(PyObject *self, PyObject *args, PyObject *keywords) {
    const method *method = (struct method *)self;
    return PyErr_Format(PyExc_TypeError,
                        "Actor methods cannot be called directly. Instead of running 'object.%U()', try "
                        "'object.%U.remote()'.",
                        method->name, method->name);
}

static PyObject *method_repr(PyObject *self) {
    const method *method = (struct method *)self;
    return PyUnicode_FromFormat("ActorMethod(%s.%U)", shown_name(method->actor), method->name);
}

static PyObject *method_reduce(PyObject *self, PyObject *none) {
    return PyErr_Format(PyExc_TypeError, "%R cannot be passed to another process: pass the actor", self);
}

static PyObject *method_entry(PyObject *self, void *none) { return Py_NewRef(((struct method *)self)->entry); }

static PyGetSetDef method_getset[] = {
    {"_entry", method_entry, NULL, "The method's entry of methods.py, or None.", NULL},
    {NULL},
};

static PyMethodDef method_methods[] = {
    {"remote", PY_CORE_FAST(method_remote_public), METH_FASTCALL | METH_KEYWORDS,
     "Calls the method in the actor's process; returns an ObjectRef at once."},
    {"options", PY_CORE_FAST(method_with_options), METH_VARARGS | METH_KEYWORDS, "The same method with other options."},
    {"_remote", PY_CORE_FAST(py_submit_with), METH_VARARGS | METH_KEYWORDS, NULL},
    {"bind", PY_CORE_FAST(py_submit_later), METH_VARARGS | METH_KEYWORDS,
     "A node of a graph that is run later (miniray.dag)."},
    {"__reduce__", method_reduce, METH_NOARGS, NULL},
    {NULL},
};

PyTypeObject py_actor_method_type = {
    PY_CORE_TYPE("miniray.ActorMethod", method, "A method of an actor."),
    .tp_dealloc = method_dealloc,
    .tp_repr = method_repr,
    .tp_call = method_call,
    .tp_methods = method_methods,
    .tp_getset = method_getset,
};

/* ---- Description of an actor. */

static PyObject *known_key(mr_actor id) { return PyBytes_FromStringAndSize((const char *)id.word, sizeof id.word); }

static void remember(mr_actor id, PyObject *class_name, PyObject *methods) {
    if (known == NULL) known = PyDict_New();
    if (known != NULL && PyDict_GET_SIZE(known) >= KNOWN_MAX) PyDict_Clear(known);
    PyObject *key = known_key(id), *value = PyTuple_Pack(2, class_name, methods);
    if (known == NULL || key == NULL || value == NULL || PyDict_SetItem(known, key, value) != 0) PyErr_Clear();
    Py_XDECREF(key);
    Py_XDECREF(value);
}

static PyObject *recall(mr_actor id) {
    PyObject *key = known == NULL ? NULL : known_key(id);
    PyObject *value = key == NULL ? NULL : Py_XNewRef(PyDict_GetItemWithError(known, key));
    Py_XDECREF(key);
    if (value == NULL) PyErr_Clear();
    return value;
}

/* Asks the node for (class name, methods). NULL with an exception; None: the node does not know the actor (yet). */
static PyObject *ask(mr_actor id) {
    mr_actor_info *facts = PyMem_Malloc(sizeof *facts);
    if (facts == NULL) return PyErr_NoMemory();
    mr_context *mr = core.mr;
    mr_status status;
    PyObject *told = NULL;
    PY_CORE_WAIT(status = mr_actor_info_get(mr, id, facts));
    if (status == MR_NOT_FOUND)
        told = Py_NewRef(Py_None);
    else if (status != MR_OK)
        py_core_raise(status);
    else
        told = py_core_call(PY_CORE_load, "(y#s)", (const char *)facts->about, (Py_ssize_t)facts->about_size,
                            facts->class_name);
    PyMem_Free(facts);
    return told;
}

/* Fills in the description. False with an exception. The description of an actor that the node does not know (yet)
 * stays empty. */
static bool learn(py_actor *handle) {
    if (handle->methods != NULL || !py_actor_usable((PyObject *)handle)) return handle->methods != NULL;
    PyObject *told = recall(handle->id);
    bool fresh = told == NULL;
    if (fresh) told = ask(handle->id);
    if (told == NULL) return false;
    if (handle->methods == NULL && PyTuple_Check(told) && PyTuple_GET_SIZE(told) == 2) {
        handle->class_name = Py_NewRef(PyTuple_GET_ITEM(told, 0));
        handle->methods = Py_NewRef(PyTuple_GET_ITEM(told, 1));
        if (fresh) remember(handle->id, handle->class_name, handle->methods);
    }
    Py_DECREF(told);
    return true;
}

/* ---- Handles. */

PyObject *py_actor_new(mr_actor id, PyObject *class_name, PyObject *methods) {
    py_actor *made = PyObject_New(py_actor, &py_actor_type);
    if (made == NULL) {
        mr_actor_release(core.mr, id);
        return NULL;
    }
    *made = (py_actor){.ob_base = made->ob_base,
                       .id = id,
                       .generation = core.generation,
                       .holds = true,
                       .class_name = Py_XNewRef(class_name),
                       .methods = Py_XNewRef(methods)};
    if (methods != NULL) remember(id, class_name, methods);
    return (PyObject *)made;
}

PyObject *py_actor_found(mr_actor id) { return py_actor_new(id, NULL, NULL); }

PyObject *py_actor_borrowed(mr_actor id) {
    bool holds = mr_actor_retain(core.mr, id) == MR_OK;
    PyObject *made = py_actor_found(id);
    if (made != NULL) ((py_actor *)made)->holds = holds;
    return made;
}

static void py_actor_dealloc(PyObject *self) {
    py_actor *handle = (py_actor *)self;
    if (handle->holds && core.mr != NULL && handle->generation == core.generation)
        mr_actor_release(core.mr, handle->id);
    if (handle->weak != NULL) PyObject_ClearWeakRefs(self);
    if (handle->recent != NULL) method_free(handle->recent);
    Py_XDECREF(handle->class_name);
    Py_XDECREF(handle->methods);
    PyObject_Free(self);
}

mr_actor py_actor_id(PyObject *self) { return ((py_actor *)self)->id; }

bool py_actor_usable(PyObject *self) {
    if (core.mr != NULL && ((py_actor *)self)->generation == core.generation) return true;
    PyErr_SetString(PyExc_RuntimeError,
                    "this actor handle belongs to a runtime that was shut down: create the actor again after "
                    "`miniray.init()`");
    return false;
}

bool py_actor_encode(PyObject *self, mr_arg *out) {
    if (!py_actor_usable(self)) return false;
    *out = mr_handle(((py_actor *)self)->id);
    return true;
}

PyObject *py_actor_decode(const mr_value *value) {
    mr_actor id;
    mr_status status = mr_value_actor(value, &id);
    return status == MR_OK ? py_actor_borrowed(id) : py_core_raise(status);
}

/* Whether the name belongs to Python (__reduce__) or to inspecting programs (_repr_html_): such names are no
 * methods. */
static bool is_own_name(PyObject *name) {
    Py_ssize_t size = PyUnicode_GET_LENGTH(name);
    return size > 2 && PyUnicode_READ_CHAR(name, 0) == '_' && PyUnicode_READ_CHAR(name, size - 1) == '_';
}

bool py_actor_has(PyObject *self, PyObject *name) {
    PyObject *methods = ((py_actor *)self)->methods;
    return methods != NULL && PyDict_Check(methods) && PyDict_GetItem(methods, name) != NULL;
}

/* Raises AttributeError, with the method that has a similar name. */
static PyObject *no_method(const py_actor *handle, PyObject *name) {
    bool known = handle->methods != NULL && PyDict_Check(handle->methods);
    Py_XDECREF(py_core_call(PY_CORE_no_attribute, "(sON)", shown_name(handle), name,
                            known ? PyDict_Keys(handle->methods) : PyList_New(0)));
    return NULL;
}

static PyObject *py_actor_getattr(PyObject *self, PyObject *name) {
    py_actor *handle = (py_actor *)self;
    PyObject *methods = handle->methods;
    if (handle->recent != NULL && handle->recent->name == name) return method_again(handle); /* fast path */
    if (methods != NULL && methods != Py_None) {
        PyObject *entry = PyDict_GetItemWithError(methods, name);
        if (entry != NULL) return method_new(handle, name, entry, OF_ENTRY);
        if (PyErr_Occurred()) return NULL;
    }
    PyObject *own = PyObject_GenericGetAttr(self, name);
    if (own != NULL || !PyErr_ExceptionMatches(PyExc_AttributeError)) return own;
    PyErr_Clear();
    if (methods == NULL && !learn(handle)) return NULL;
    if (handle->methods == NULL || handle->methods == Py_None) {
        if (!is_own_name(name)) return method_new(handle, name, Py_None, OF_ENTRY);
    } else if (methods == NULL) {
        return py_actor_getattr(self, name);
    }
    return no_method(handle, name);
}

static PyObject *py_actor_repr(PyObject *self) {
    if (!learn((py_actor *)self)) PyErr_Clear(); /* repr must not fail after the runtime has ended */
    PyObject *hex = py_ref_id_text(((py_actor *)self)->id.word);
    PyObject *text = hex == NULL ? NULL : PyUnicode_FromFormat("Actor(%s, %U)", shown_name((py_actor *)self), hex);
    Py_XDECREF(hex);
    return text;
}

static PyObject *py_actor_dir(PyObject *self, PyObject *none) {
    if (!learn((py_actor *)self)) return NULL;
    PyObject *methods = ((py_actor *)self)->methods;
    return methods == NULL || methods == Py_None ? PyList_New(0) : PyDict_Keys(methods);
}

static PyObject *py_actor_id_hex(PyObject *self, void *none) { return py_ref_id_text(((py_actor *)self)->id.word); }

static PyObject *py_actor_id_object(PyObject *self, void *none) {
    return py_core_call(PY_CORE_actor_id_of, "(O)", self);
}

static PyMethodDef py_actor_methods[] = {
    {"__reduce__", py_ref_reduce, METH_NOARGS, NULL},
    {"__dir__", py_actor_dir, METH_NOARGS, NULL},
    {"__class_getitem__", Py_GenericAlias, METH_O | METH_CLASS, "ActorHandle[Counter], for annotations."},
    {NULL},
};

static PyGetSetDef py_actor_getset[] = {
    {"__actor_id__", py_actor_id_hex, NULL, "The actor's id in hex.", NULL},
    {"_actor_id", py_actor_id_object, NULL, "The actor's ActorID.", NULL},
    {"_ray_actor_id", py_actor_id_object, NULL, "The actor's ActorID; deprecated.", NULL},
    {NULL},
};

PyTypeObject py_actor_type = {
    PY_CORE_TYPE("miniray.ActorHandle", py_actor, "An actor: `handle.method.remote(…)` calls it."),
    .tp_dealloc = py_actor_dealloc,
    .tp_weaklistoffset = offsetof(py_actor, weak),
    .tp_repr = py_actor_repr,
    .tp_hash = py_ref_hash,
    .tp_richcompare = py_ref_compare,
    .tp_getattro = py_actor_getattr,
    .tp_methods = py_actor_methods,
    .tp_getset = py_actor_getset,
};
