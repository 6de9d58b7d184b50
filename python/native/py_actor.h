/* py_actor.h — ActorHandle and ActorMethod.
 *
 *     handle.add.remote(1)      handle: id and class; handle.add: an ActorMethod, made at each access, from a free list
 *
 * A received handle asks the node once for the description of its class, which the actor's creator stored (methods.py).
 * A class of another language has no description: any name that is not Python's own is then a method, and the actor
 * reports a wrong name. */
#pragma once
#include "python/native/py_internal.h"

extern PyTypeObject py_actor_type, py_actor_method_type;

/* A new ActorHandle. The runtime's handle is moved into it, also on failure, and is released with it; an actor without
 * handles ends. `methods`: {name: (least, most, check, num_returns, max_pending_calls, retries)} or None: any; NULL:
 * the node is asked later. */
PyObject *py_actor_new(mr_actor id, PyObject *class_name, PyObject *methods);
PyObject *py_actor_found(mr_actor id);    /* the same for an actor whose class is not known yet */
PyObject *py_actor_borrowed(mr_actor id); /* the same, with a runtime handle of its own if this process has one */
mr_actor py_actor_id(PyObject *self);
bool py_actor_usable(PyObject *self);              /* false with an exception: the context was shut down */
bool py_actor_has(PyObject *self, PyObject *name); /* the class is known to have that method; no exception */
bool py_actor_encode(PyObject *self, mr_arg *out); /* false with an exception */
PyObject *py_actor_decode(const mr_value *value);
