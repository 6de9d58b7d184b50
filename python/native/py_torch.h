/* py_torch.h — torch's tensors, looked at and made without a function of Python for each.
 *
 * torch is never needed to build or to import this. A tensor is looked at by its attributes. They are made through
 * DLPack, the record that libraries of arrays hand memory to each other by; before it is used the first time, a tensor
 * is made and looked at, and where that is not what was asked for, callers go the other way
 * (miniray/_serialize/torch.py).
 *
 * Weights are what a worker's get_weights gave, on its way into a value: the encoder takes tensors where they lie,
 * whether or not they are trained, also torch's parameters and the dicts of its modules. What it cannot take so is
 * given to a function first.
 *
 * Threads  everything with the GIL; the memory of tensors that are made is freed by whichever thread. */
#pragma once
#include "python/native/py_internal.h"

typedef struct py_torch_library py_torch_library; /* what is looked up in torch once */

/* Whether it is a tensor of exactly the type torch.Tensor, or of torch's parameters if those count. */
bool py_torch_check(PyObject *object, bool or_parameter);

/* What lies in one, borrowed while nobody gives it other memory. `trained`: also if gradients are taken of it.
 * 1: done; 0: it does not lie in a row in the memory of this machine, or has none of our numbers; -1: an exception. */
int py_torch_look(PyObject *tensor, bool trained, mr_tensor *out);

/* A tensor with the same numbers in memory of its own. NULL with an exception; without: it is to be made elsewhere. */
PyObject *py_torch_copy(const mr_tensor *tensor);
/* The same where they lie; the keeper, which a reference is taken of, keeps them there. */
PyObject *py_torch_of(const mr_tensor *tensor, PyObject *owner);

typedef struct py_torch_weights {
    PyObject_HEAD PyObject *tree, *otherwise; /* owned */
    PyObject *shares;                         /* owned: a tuple; NULL: it is not to be lent */
} py_torch_weights;

extern PyTypeObject py_torch_weights_type;

/* weights(tree, otherwise[, shares]): an object that is encoded as the tree is or, where that cannot be, as
 * otherwise(tree). With a tuple of blocks of shared memory (py_shared_model.h) it may be lent: where it lies, if all of
 * it lies in one of them, else as a copy */
PyObject *py_torch_weights_new(PyObject *module, PyObject *args);

/* are_usual(tree): whether it is nothing but tensors and arrays, in lists, tuples and dicts of exactly these types */
PyObject *py_torch_are_usual(PyObject *module, PyObject *tree);

/* are_own(tree): whether it is a list of nothing but tensors of torch, and arrays that may be written */
PyObject *py_torch_are_own(PyObject *module, PyObject *tree);
