/* py_reply.c — see py_reply.h. */
#include "python/native/py_reply.h"

#include "python/native/py_execute.h"
#include "python/native/py_stream.h"

typedef struct py_reply {
    PyObject_HEAD mr_call *call; /* NULL: answered */
    uint64_t number;             /* number of the call, as in core.calls */
} py_reply;

PyObject *py_reply_new(mr_call *call) {
    py_reply *made = PyObject_New(py_reply, &py_reply_type);
    if (made == NULL) return NULL;
    made->call = call;
    made->number = core.calls;
    return (PyObject *)made;
}

mr_call *py_reply_call(PyObject *self) { return ((py_reply *)self)->call; }

/* ---- The running call: a context variable, of which each coroutine and thread has its own. */

static bool begin(PyObject *self) {
    if (core.calling == NULL) core.calling = PyContextVar_New("miniray.call", NULL);
    PyObject *before = core.calling == NULL ? NULL : PyContextVar_Set(core.calling, self);
    Py_XDECREF(before);
    return before != NULL;
}

static PyObject *py_reply_run(PyObject *self, PyObject *instance) {
    mr_call *call = ((py_reply *)self)->call;
    if (!begin(self)) return NULL;
    if (call == NULL || mr_call_cancelled(call)) Py_RETURN_NONE;
    return py_execute_call(call, instance);
}

/* The reply of the running call; NULL: none in this coroutine or thread. */
static PyObject *running(void) {
    PyObject *found = NULL;
    if (core.calling != NULL && PyContextVar_Get(core.calling, NULL, &found) != 0) PyErr_Clear();
    return found;
}

uint64_t py_reply_number(void) {
    PyObject *found = running();
    uint64_t number = found == NULL ? core.calls : ((py_reply *)found)->number;
    Py_XDECREF(found);
    return number;
}

bool py_reply_is_cancelled(void) {
    PyObject *found = running();
    mr_call *call = found == NULL ? core.call : py_reply_call(found);
    bool cancelled = call != NULL && mr_call_cancelled(call);
    Py_XDECREF(found);
    return cancelled;
}

void py_reply_resume(void) {
    if (core.calling == NULL) return; /* no host in this process */
    PyObject *found = running();
    mr_resume(core.mr, found == NULL ? NULL : py_reply_call(found));
    Py_XDECREF(found);
}

/* ---- Answers. */

static mr_call *take(PyObject *self) {
    mr_call *call = ((py_reply *)self)->call;
    ((py_reply *)self)->call = NULL;
    if (call == NULL) PyErr_SetString(PyExc_RuntimeError, "this call has already been answered");
    return call;
}

static PyObject *py_reply_done(PyObject *self, PyObject *value) {
    mr_call *call = take(self);
    if (call == NULL) return NULL;
    mr_finish(call, py_execute_answer(call, Py_NewRef(value)));
    Py_RETURN_NONE;
}

static PyObject *py_reply_failed(PyObject *self, PyObject *error) {
    mr_call *call = take(self);
    if (call == NULL) return NULL;
    PyErr_SetObject((PyObject *)Py_TYPE(error), error);
    mr_finish(call, py_execute_answer(call, NULL));
    Py_RETURN_NONE;
}

static PyObject *py_reply_cancelled(PyObject *self, PyObject *none) {
    mr_call *call = ((py_reply *)self)->call;
    return PyBool_FromLong(call != NULL && mr_call_cancelled(call));
}

static PyObject *py_reply_streams(PyObject *self, PyObject *none) {
    mr_call *call = ((py_reply *)self)->call;
    return PyBool_FromLong(call != NULL && mr_call_streams(call));
}

static PyObject *give(PyObject *self, PyObject *value, bool wait) {
    mr_call *call = ((py_reply *)self)->call;
    mr_status status = call == NULL ? MR_CANCELLED : py_stream_give(call, value, wait);
    if (PyErr_Occurred()) return NULL;
    if (status == MR_OK) Py_RETURN_TRUE;
    if (status == MR_CANCELLED || status == MR_BUSY) Py_RETURN_FALSE;
    return py_core_raise(status);
}

static PyObject *py_reply_give(PyObject *self, PyObject *value) { return give(self, value, true); }
static PyObject *py_reply_give_now(PyObject *self, PyObject *value) { return give(self, value, false); }

static void py_reply_dealloc(PyObject *self) {
    mr_call *call = ((py_reply *)self)->call;
    if (call != NULL && core.mr != NULL) /* a forked child does not answer */
        mr_finish(call, mr_fail(call, "the actor dropped this call without an answer"));
    PyObject_Free(self);
}

static PyMethodDef py_reply_methods[] = {
    {"run", py_reply_run, METH_O,
     "run(instance): what its method returns; None if nobody waits for it any more. What this coroutine or thread "
     "starts from now on is started by this call."},
    {"done", py_reply_done, METH_O, "Answers with a value."},
    {"failed", py_reply_failed, METH_O, "Answers with an exception."},
    {"streams", py_reply_streams, METH_NOARGS, "Whether the caller takes values one by one."},
    {"give", py_reply_give, METH_O, "One of them; waits for its turn. False: nobody takes any more."},
    {"give_now", py_reply_give_now, METH_O,
     "The same without waiting. False: it is not its turn, or nobody takes any more."},
    {"cancelled", py_reply_cancelled, METH_NOARGS, "Whether nobody waits for the answer any more."},
    {NULL},
};

PyTypeObject py_reply_type = {
    PY_CORE_TYPE("miniray._core.Reply", py_reply, "A call of an actor that runs several at once."),
    .tp_dealloc = py_reply_dealloc,
    .tp_methods = py_reply_methods,
};
