/* py_function.h — RemoteFunction, the result of @remote on a function, and the code that its calls carry.
 *
 * Code is sixteen bytes, the hash of its pickle, and the pickle; with references or handles in the pickle, code is a
 * tuple of that and those. It is the first argument of every call: a worker that knows the hash reads no further. Small
 * code travels inline; larger code is put once, and its reference travels. So workers need no further requests and no
 * synchronization, and a function that was defined again is another one. */
#pragma once
#include "python/native/py_encode.h"

enum { PY_FUNCTION_ID_SIZE = 16 };

extern PyTypeObject py_function_type;

typedef struct py_function_code {
    PyObject *bytes;     /* owned; NULL: not pickled yet */
    PyObject *inside;    /* owned: a tuple of the references and handles in it */
    PyObject *put;       /* owned: its ObjectRef, if it is large */
    uint64_t generation; /* of the context that has it */
} py_function_code;

/* Pickles the function or class, at the first call. False with an exception. */
bool py_function_code_make(py_function_code *code, PyObject *source);
/* of one that was made; likewise */
bool py_function_code_argument(py_function_code *code, py_encoder *encoder, mr_arg *out);
void py_function_code_fini(py_function_code *code);

/* In a worker: the function or class of an argument that py_function_code_argument made. New reference. */
PyObject *py_function_of(const mr_value *value);
PyObject *py_function_of_code(mr_span code, void **kept); /* the same for code that came with the name (mr_call_code) */
