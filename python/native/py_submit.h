/* py_submit.h — arguments of a `.remote(…)` in the runtime's form.
 *
 * The order is: the caller's own arguments, the positional arguments, the values of the keywords, and if there are
 * keywords a custom value with their names. So each of them may be a future, and another language sees plain
 * arguments. */
#pragma once
#include "python/native/py_encode.h"

typedef struct py_submit_signature { /* checks of a function's arguments */
    Py_ssize_t least, most;          /* number of positional arguments, without keywords; most < 0: any number */
    PyObject *check;                 /* borrowed: check(args, kwargs) raises TypeError; NULL: unchecked */
} py_submit_signature;

/* Encodes the arguments, and leaves room for `before` arguments at the start. False with an exception. */
bool py_submit_arguments(py_encoder *encoder, const py_submit_signature *signature, size_t before,
                         PyObject *const *args, Py_ssize_t count, PyObject *names, mr_arg **out, size_t *out_count);

/* In local mode: helper(*first, args, kwargs) runs the call. `first` is a tuple, moved; NULL: an exception is set. */
PyObject *py_submit_here(py_core_helper helper, const py_submit_signature *signature, PyObject *first,
                         PyObject *const *args, Py_ssize_t count, PyObject *names);

/* _remote(args, kwargs, **options) of functions and methods. */
PyObject *py_submit_with(PyObject *self, PyObject *args, PyObject *options);

/* bind(*args, **keywords) of functions and methods. */
PyObject *py_submit_later(PyObject *self, PyObject *args, PyObject *keywords);

/* The result of a submission: None, the reference, a list of several, or for MR_STREAM a generator. NULL with an
 * exception. */
PyObject *py_submit_result(mr_status status, const mr_ref *refs, int count);
