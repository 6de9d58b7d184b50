/* py_stream.c — see py_stream.h. */
#include "python/native/py_stream.h"

#include "python/native/py_encode.h"
#include "python/native/py_execute.h"
#include "python/native/py_interrupt.h"
#include "python/native/py_ref.h"
#include "python/native/py_wait.h"

/* ---- Reading. */

typedef struct taking {
    mr_ref stream, found;
} taking;

static mr_status take_next(mr_context *mr, void *what, int64_t timeout_us) {
    taking *taking = what;
    return mr_stream_next(mr, taking->stream, timeout_us, &taking->found);
}

PyObject *py_stream_next(PyObject *module, PyObject *args) {
    PyObject *object, *timeout;
    int64_t timeout_us;
    if (!PyArg_ParseTuple(args, "O!O", &py_ref_type, &object, &timeout) || !py_ref_usable(object) ||
        !py_wait_timeout(timeout, &timeout_us))
        return NULL;
    taking taking = {.stream = ((py_ref *)object)->ref};
    mr_status status = take_next(core.mr, &taking, 0);
    if (status == MR_TIMEOUT && !py_wait_for(take_next, &taking, timeout_us, &status)) return NULL;
    if (status == MR_OK) return py_ref_new(taking.found);
    if (status == MR_TIMEOUT) Py_RETURN_NONE;
    if (status != MR_END) return py_core_raise(status);
    PyErr_SetNone(PyExc_StopIteration);
    return NULL;
}

static bool peek(PyObject *object, mr_ref *out) {
    if (!py_ref_check(object))
        return PyErr_Format(PyExc_TypeError, "a stream is an ObjectRef, not %s", Py_TYPE(object)->tp_name) != NULL;
    if (!py_ref_usable(object)) return false;
    mr_status status = mr_stream_peek(core.mr, ((py_ref *)object)->ref, out);
    if (status == MR_OK) status = mr_retain(core.mr, *out);
    return status == MR_OK || py_core_raise(status) != NULL;
}

PyObject *py_stream_peek(PyObject *module, PyObject *object) {
    mr_ref found;
    return peek(object, &found) ? py_ref_new(found) : NULL;
}

PyObject *py_stream_ended(PyObject *module, PyObject *object) {
    mr_ref found;
    mr_value value;
    if (!peek(object, &found)) return NULL;
    mr_status status = mr_get(core.mr, found, 0, &value);
    if (status == MR_OK) mr_value_release(&value);
    mr_release(core.mr, found);
    return PyBool_FromLong(status == MR_END);
}

/* ---- Writing. */

mr_status py_stream_give(mr_call *call, PyObject *value, bool wait) {
    py_encoder encoder;
    mr_arg made;
    py_encoder_away away;
    mr_status status = MR_INVALID;
    py_encoder_init(&encoder);
    if (py_encoder_value(&encoder, value, &made) && py_encoder_release(&encoder, &value, &made, 1, &away)) {
        status = wait ? mr_yield(call, made) : mr_try_yield(call, made);
        if (!py_encoder_regain(&away)) status = MR_INVALID;
    }
    py_encoder_fini(&encoder);
    return status;
}

/* Yields until the iterator ends, or until the reader wants no more: then the iterator is closed, as any Python
 * generator. */
static mr_status give_all(mr_call *call, PyObject *iterator) {
    for (PyObject *item; (item = PyIter_Next(iterator)) != NULL;) {
        mr_status status = py_stream_give(call, item, true);
        Py_DECREF(item);
        if (PyErr_Occurred()) break;
        if (status == MR_OK) continue;
        py_interrupt_end(); /* the cancellation was delivered; the close is not interrupted */
        return status;
    }
    return PyErr_Occurred() ? py_execute_answer(call, NULL) : MR_OK;
}

mr_status py_stream_answer(mr_call *call, PyObject *result) {
    PyObject *iterator = result == NULL ? NULL : py_core_call(PY_CORE_iterator, "(O)", result);
    mr_status status = iterator == NULL ? py_execute_answer(call, NULL) : give_all(call, iterator);
    Py_XDECREF(iterator);
    Py_XDECREF(result);
    return status;
}
