/* py_ref.h — ObjectRef: a future, or an object that was put.
 *
 * Each ObjectRef holds one reference of the runtime, released with it; a dropped future is released, and its task runs
 * on. Freed ObjectRefs are reused, since every call makes one. */
#pragma once
#include "python/native/py_internal.h"

typedef struct py_ref {
    PyObject_HEAD mr_ref ref;
    uint64_t generation; /* generation of the context that made the reference */
    mr_actor actor;      /* actor whose call makes the object, if this process made the call; else zero */
} py_ref;

enum { PY_REF_HEX_SIZE = 32 };

extern PyTypeObject py_ref_type;

static inline bool py_ref_check(PyObject *object) { return Py_TYPE(object) == &py_ref_type; }

PyObject *py_ref_id_text(const uint64_t word[2]);      /* the id in hexadecimal, as printed */
PyObject *py_ref_new(mr_ref ref);                      /* the runtime's reference is moved into it, also on failure */
bool py_ref_encode(PyObject *self, mr_arg *out);       /* false with an exception: reference of another context */
PyObject *py_ref_decode(const mr_value *value);        /* takes its own reference */
void py_ref_made_by(PyObject *result, mr_actor actor); /* sets `actor` of a reference, or of those in a list */
void py_ref_name_actor(PyObject *self); /* adds the actor, if known, to a current exception that an actor died */
bool py_ref_usable(PyObject *self);     /* false with an exception: the context was shut down */

/* Methods of ObjectRef and ActorHandle, which both begin with an id of two words. */
Py_hash_t py_ref_hash(PyObject *self);
PyObject *py_ref_compare(PyObject *left, PyObject *right, int how);
PyObject *py_ref_reduce(PyObject *self, PyObject *none);
