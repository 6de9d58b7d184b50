/* py_submit.c — see py_submit.h. */
#include "python/native/py_submit.h"

#include "python/native/py_ref.h"

/* Converts vectorcall arguments to (args, kwargs). New references. */
static bool as_tuple_and_dict(PyObject *const *args, Py_ssize_t count, PyObject *names, PyObject **positional,
                              PyObject **keywords) {
    *positional = PyTuple_New(count);
    *keywords = PyDict_New();
    if (*positional == NULL || *keywords == NULL) return false;
    for (Py_ssize_t i = 0; i < count; i++) PyTuple_SET_ITEM(*positional, i, Py_NewRef(args[i]));
    for (Py_ssize_t i = 0; names != NULL && i < PyTuple_GET_SIZE(names); i++)
        if (PyDict_SetItem(*keywords, PyTuple_GET_ITEM(names, i), args[count + i]) != 0) return false;
    return true;
}

/* Checks the arguments in Python: the slow path, for keywords and for errors. */
static bool check_in_full(const py_submit_signature *signature, PyObject *const *args, Py_ssize_t count,
                          PyObject *names) {
    PyObject *positional, *keywords, *done = NULL;
    if (as_tuple_and_dict(args, count, names, &positional, &keywords))
        done = PyObject_CallFunctionObjArgs(signature->check, positional, keywords, NULL);
    Py_XDECREF(positional);
    Py_XDECREF(keywords);
    Py_XDECREF(done);
    return done != NULL;
}

static bool check(const py_submit_signature *signature, PyObject *const *args, Py_ssize_t count, PyObject *names) {
    if (signature->check == NULL) return true;
    bool fits = names == NULL && count >= signature->least && (signature->most < 0 || count <= signature->most);
    return fits || check_in_full(signature, args, count, names);
}

/* Encodes one argument. Large arguments are put first, while other threads run; the submission, with the GIL, then
 * copies little. */
static bool argument(py_encoder *encoder, PyObject *object, mr_arg *out) {
    size_t before = encoder->bytes;
    if (!py_encoder_value(encoder, object, out)) return false;
    if (!py_encoder_is_much(encoder->bytes - before)) return true;
    return py_encoder_put_argument(encoder, object, out);
}

bool py_submit_arguments(py_encoder *encoder, const py_submit_signature *signature, size_t before,
                         PyObject *const *args, Py_ssize_t count, PyObject *names, mr_arg **out, size_t *out_count) {
    if (!check(signature, args, count, names)) return false;
    size_t keywords = names == NULL ? 0 : (size_t)PyTuple_GET_SIZE(names), all = (size_t)count + keywords;
    mr_arg *made = py_encoder_args(encoder, before + all + 1);
    if (made == NULL) return false;
    for (size_t i = 0; i < all; i++)
        if (!argument(encoder, args[i], &made[before + i])) return false;
    if (keywords > 0 && !py_encoder_keywords(encoder, names, &made[before + all])) return false;
    *out = made;
    *out_count = before + all + (keywords > 0);
    return true;
}

PyObject *py_submit_here(py_core_helper which, const py_submit_signature *signature, PyObject *first,
                         PyObject *const *args, Py_ssize_t count, PyObject *names) {
    PyObject *helper = py_core_helper_get(which), *positional = NULL, *keywords = NULL, *result = NULL;
    if (helper != NULL && first != NULL && check(signature, args, count, names) &&
        as_tuple_and_dict(args, count, names, &positional, &keywords)) {
        PyObject *rest = PyTuple_Pack(2, positional, keywords);
        PyObject *all = rest == NULL ? NULL : PySequence_Concat(first, rest);
        if (all != NULL) result = PyObject_Call(helper, all, NULL);
        Py_XDECREF(rest);
        Py_XDECREF(all);
    }
    Py_XDECREF(first);
    Py_XDECREF(positional);
    Py_XDECREF(keywords);
    return result;
}

/* Calls helper(self, *args, **keywords). */
static PyObject *call_with_self(py_core_helper which, PyObject *self, PyObject *args, PyObject *keywords) {
    PyObject *helper = py_core_helper_get(which), *first = PyTuple_Pack(1, self), *result = NULL;
    PyObject *all = first == NULL ? NULL : PySequence_Concat(first, args);
    if (helper != NULL && all != NULL) result = PyObject_Call(helper, all, keywords);
    Py_XDECREF(first);
    Py_XDECREF(all);
    return result;
}

PyObject *py_submit_with(PyObject *self, PyObject *args, PyObject *options) {
    return call_with_self(PY_CORE_remote_with, self, args, options);
}

PyObject *py_submit_later(PyObject *self, PyObject *args, PyObject *keywords) {
    return call_with_self(PY_CORE_bind, self, args, keywords);
}

PyObject *py_submit_result(mr_status status, const mr_ref *refs, int count) {
    if (status != MR_OK) return py_core_raise(status);
    if (count == MR_STREAM) return py_core_call(PY_CORE_generator_of, "(N)", py_ref_new(refs[0]));
    if (count == 0) Py_RETURN_NONE;
    if (count == 1) return py_ref_new(refs[0]);
    PyObject *list = PyList_New(count);
    for (int i = 0; i < count; i++) {
        PyObject *made = py_ref_new(refs[i]);
        if (made == NULL) Py_CLEAR(list);
        if (list != NULL) PyList_SET_ITEM(list, i, made);
    }
    return list;
}
