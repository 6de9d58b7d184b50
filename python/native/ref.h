/* ref.h — ObjectRef: a future, or an object that was put.
 *
 * Each holds one reference of the runtime's, which goes when it does; so a dropped future is released, and its task
 * runs on. Freed ones are kept for the next, since every call makes one. */
#pragma once
#include "python/native/core.h"

typedef struct ref {
    PyObject_HEAD mr_ref ref;
    uint64_t generation; /* of the context that gave it */
} ref;

extern PyTypeObject ref_type;

static inline bool ref_check(PyObject *object) { return Py_TYPE(object) == &ref_type; }

PyObject *ref_new(mr_ref ref);                /* the runtime's reference is moved into it, also on failure */
bool ref_encode(PyObject *self, mr_arg *out); /* false with an exception: of another context */
PyObject *ref_decode(const mr_value *value);  /* takes a reference of its own */
bool ref_usable(PyObject *self);              /* false with an exception: of a context that was shut down */
