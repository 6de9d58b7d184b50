/* stream.c — see stream.h. */
#include "python/native/stream.h"

#include "python/native/body.h"
#include "python/native/encode.h"
#include "python/native/interrupt.h"
#include "python/native/ref.h"
#include "python/native/wait.h"

/* ---- Taking. */

typedef struct taking {
    mr_ref stream, found;
} taking;

static mr_status take_next(mr_context *mr, void *what, int64_t timeout_us) {
    taking *taking = what;
    return mr_stream_next(mr, taking->stream, timeout_us, &taking->found);
}

PyObject *stream_next(PyObject *module, PyObject *args) {
    PyObject *object, *timeout;
    int64_t deadline_us;
    if (!PyArg_ParseTuple(args, "O!O", &ref_type, &object, &timeout) || !ref_usable(object) ||
        !wait_deadline(timeout, &deadline_us))
        return NULL;
    taking taking = {.stream = ((ref *)object)->ref};
    mr_status status = take_next(core.mr, &taking, 0);
    while (status == MR_TIMEOUT && wait_slice(take_next, &taking, deadline_us, &status)) continue;
    if (PyErr_Occurred()) return NULL;
    if (status == MR_OK) return ref_new(taking.found);
    if (status == MR_TIMEOUT) Py_RETURN_NONE;
    if (status != MR_END) return core_raise(status);
    PyErr_SetNone(PyExc_StopIteration);
    return NULL;
}

static bool peek(PyObject *object, mr_ref *out) {
    if (!ref_check(object)) {
        PyErr_Format(PyExc_TypeError, "a stream is an ObjectRef, not %s", Py_TYPE(object)->tp_name);
        return false;
    }
    if (!ref_usable(object)) return false;
    mr_status status = mr_stream_peek(core.mr, ((ref *)object)->ref, out);
    if (status == MR_OK) status = mr_retain(core.mr, *out);
    return status == MR_OK || core_raise(status) != NULL;
}

PyObject *stream_peek(PyObject *module, PyObject *object) {
    mr_ref found;
    return peek(object, &found) ? ref_new(found) : NULL;
}

PyObject *stream_ended(PyObject *module, PyObject *object) {
    mr_ref found;
    mr_value value;
    if (!peek(object, &found)) return NULL;
    mr_status status = mr_get(core.mr, found, 0, &value);
    if (status == MR_OK) mr_value_release(&value);
    mr_release(core.mr, found);
    return PyBool_FromLong(status == MR_END);
}

/* ---- Giving. */

mr_status stream_give(mr_call *call, PyObject *value, bool wait) {
    encoder encoder;
    mr_arg made;
    encoder_away away;
    mr_status status = MR_INVALID;
    encoder_init(&encoder);
    if (encoder_value(&encoder, value, &made) && encoder_release(&encoder, &value, &made, 1, &away)) {
        status = wait ? mr_yield(call, made) : mr_try_yield(call, made);
        if (!encoder_regain(&away)) status = MR_INVALID;
    }
    encoder_fini(&encoder);
    return status;
}

/* Until the end of the iterator, or until nobody wants more: then it is closed, as Python does with any generator. */
static mr_status give_all(mr_call *call, PyObject *iterator) {
    for (PyObject *item; (item = PyIter_Next(iterator)) != NULL;) {
        mr_status status = stream_give(call, item, true);
        Py_DECREF(item);
        if (PyErr_Occurred()) break;
        if (status == MR_OK) continue;
        interrupt_end(); /* it was told of its cancellation: what it does to close is not interrupted */
        return status;
    }
    return PyErr_Occurred() ? body_answer(call, NULL) : MR_OK;
}

mr_status stream_answer(mr_call *call, PyObject *result) {
    PyObject *iterator = result == NULL ? NULL : core_call(CORE_iterator, "(O)", result);
    mr_status status = iterator == NULL ? body_answer(call, NULL) : give_all(call, iterator);
    Py_XDECREF(iterator);
    Py_XDECREF(result);
    return status;
}
