/* reply.c — see reply.h. */
#include "python/native/reply.h"

#include "python/native/body.h"

typedef struct reply {
    PyObject_HEAD mr_call *call; /* NULL: answered */
} reply;

PyObject *reply_new(mr_call *call) {
    reply *made = PyObject_New(reply, &reply_type);
    if (made != NULL) made->call = call;
    return (PyObject *)made;
}

mr_call *reply_call(PyObject *self) { return ((reply *)self)->call; }

static mr_call *take(PyObject *self) {
    mr_call *call = ((reply *)self)->call;
    ((reply *)self)->call = NULL;
    if (call == NULL) PyErr_SetString(PyExc_RuntimeError, "this call was answered already");
    return call;
}

static PyObject *reply_done(PyObject *self, PyObject *value) {
    mr_call *call = take(self);
    if (call == NULL) return NULL;
    mr_finish(call, body_answer(call, Py_NewRef(value)));
    Py_RETURN_NONE;
}

static PyObject *reply_failed(PyObject *self, PyObject *error) {
    mr_call *call = take(self);
    if (call == NULL) return NULL;
    PyErr_SetObject((PyObject *)Py_TYPE(error), error);
    mr_finish(call, body_answer(call, NULL));
    Py_RETURN_NONE;
}

static PyObject *reply_cancelled(PyObject *self, PyObject *none) {
    mr_call *call = ((reply *)self)->call;
    return PyBool_FromLong(call != NULL && mr_call_cancelled(call));
}

static void reply_dealloc(PyObject *self) {
    mr_call *call = ((reply *)self)->call;
    if (call != NULL) mr_finish(call, mr_fail(call, "the actor dropped this call without an answer"));
    PyObject_Free(self);
}

static PyMethodDef reply_methods[] = {
    {"done", reply_done, METH_O, "Answers with a value."},
    {"failed", reply_failed, METH_O, "Answers with an exception."},
    {"cancelled", reply_cancelled, METH_NOARGS, "Whether nobody waits for the answer any more."},
    {NULL},
};

PyTypeObject reply_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "miniray._core.Reply",
    .tp_basicsize = sizeof(reply),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_dealloc = reply_dealloc,
    .tp_methods = reply_methods,
    .tp_doc = "A call of an actor that runs several at once.",
};
