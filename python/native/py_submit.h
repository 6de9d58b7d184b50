/* py_submit.h — the arguments of a `.remote(…)`, as the runtime takes them.
 *
 * In a row: the caller's own arguments, the positional arguments, the values of the keywords, and if there are keywords
 * a custom value with their names. So each of them may be a future, and another language sees plain arguments. */
#pragma once
#include "python/native/py_encode.h"

typedef struct py_submit_signature { /* arguments of a function */
    Py_ssize_t least, most;          /* positional arguments, when there are no keywords; most < 0: any number */
    PyObject *check;                 /* borrowed: check(args, kwargs) raises TypeError; NULL: unchecked */
} py_submit_signature;

/* Room for `before` arguments is left at the start, for the caller to fill. False with an exception. */
bool py_submit_arguments(py_encoder *encoder, const py_submit_signature *signature, size_t before,
                         PyObject *const *args, Py_ssize_t count, PyObject *names, mr_arg **out, size_t *out_count);

/* In local mode: helper(*first, args, kwargs) runs the call. `first` is a tuple, moved; NULL: an exception is set. */
PyObject *py_submit_here(py_core_helper helper, const py_submit_signature *signature, PyObject *first,
                         PyObject *const *args, Py_ssize_t count, PyObject *names);

/* _remote(args, kwargs, **options) of functions and methods. */
PyObject *py_submit_with(PyObject *self, PyObject *args, PyObject *options);

/* bind(*args, **keywords) of functions and methods. */
PyObject *py_submit_later(PyObject *self, PyObject *args, PyObject *keywords);

/* The result of a submission: None, the reference, the list of several, or for MR_STREAM a generator of them. NULL with
 * an exception. */
PyObject *py_submit_result(mr_status status, const mr_ref *refs, int count);
