/* function.h — RemoteFunction: what @remote makes of a function, and the code that travels with its calls.
 *
 * Code is sixteen bytes, the hash of its pickle, and the pickle. It is the first argument of every call: a worker that
 * has seen the hash looks no further. Small code travels inline; larger code is put once, and its reference travels. So
 * there is nothing to ask for, nothing to keep in step, and a function that was defined again is another one. */
#pragma once
#include "python/native/encode.h"

enum { FUNCTION_ID_SIZE = 16 };

extern PyTypeObject function_type;

typedef struct function_code {
    PyObject *bytes;     /* owned; NULL: not pickled yet */
    PyObject *put;       /* owned: its ObjectRef, if it is large */
    uint64_t generation; /* of the context that has it */
} function_code;

/* `source` is pickled at the first use. False with an exception. */
bool function_code_argument(function_code *code, PyObject *source, mr_arg *out);
void function_code_fini(function_code *code);

/* In a worker: the function or class of an argument that function_code_argument made. New reference. */
PyObject *function_of(const mr_value *value);
