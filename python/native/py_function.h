/* py_function.h — RemoteFunction, the result of @remote on a function, and the code that its calls carry.
 *
 * Code is the hash of its pickle (16 bytes), and the pickle; with references or handles in the pickle, code is a tuple
 * of those bytes and the references and handles. Code is the first argument of every call; a worker that has loaded the
 * hash reads no further. Small code is sent inline; larger code is put once, and calls send its reference. So workers
 * need no further requests and no synchronization, and a redefined function has another hash. */
#pragma once
#include "python/native/py_encode.h"

enum { PY_FUNCTION_ID_SIZE = 16 };

extern PyTypeObject py_function_type;

typedef struct py_function_code {
    PyObject *bytes;     /* owned; NULL: not pickled yet */
    PyObject *inside;    /* owned: a tuple of the references and handles in it */
    PyObject *put;       /* owned: its ObjectRef, if it is large */
    uint64_t generation; /* generation of the context that has `put` */
} py_function_code;

/* Pickles the function or class at its first call. False with an exception. */
bool py_function_code_make(py_function_code *code, PyObject *source);
/* Makes an argument of made code. False with an exception. */
bool py_function_code_argument(py_function_code *code, py_encoder *encoder, mr_arg *out);
void py_function_code_fini(py_function_code *code);

/* In a worker: the function or class of an argument that py_function_code_argument made. New reference. */
PyObject *py_function_of(const mr_value *value);
PyObject *py_function_of_code(mr_span code, void **kept); /* the same for code sent with the name (mr_call_code) */
