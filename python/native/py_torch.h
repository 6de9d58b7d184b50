/* py_torch.h — torch's tensors, read and made without a call of Python for each.
 *
 * torch is never needed to build or to import this. A tensor is read by its attributes. Tensors are made through
 * DLPack, the standard by which array libraries share memory; before its first use, a test tensor is made and checked,
 * and if the check fails, callers use miniray/_serialize/torch.py.
 *
 * Weights are the result of a worker's get_weights, on its way into a value: the encoder reads tensors in place,
 * whether or not they are trained, also torch's parameters and the dicts of its modules. Other objects are given to a
 * function first.
 *
 * Threads  everything with the GIL; any thread frees the memory of tensors that were made. */
#pragma once
#include "python/native/py_internal.h"

typedef struct py_torch_library py_torch_library; /* objects looked up in torch once */

/* Whether it is a tensor of exactly the type torch.Tensor, or of torch's parameters if they are allowed. */
bool py_torch_check(PyObject *object, bool or_parameter);

/* The memory of a tensor, borrowed until its memory is replaced. `trained`: also if it requires gradients. 1: done; 0:
 * it is not contiguous in the memory of this machine, or its dtype is not supported; -1: an exception. */
int py_torch_look(PyObject *tensor, bool trained, mr_tensor *out);

/* A tensor with the same numbers in memory of its own. NULL with an exception; NULL without: not possible here. */
PyObject *py_torch_copy(const mr_tensor *tensor);
/* The same in place; a reference to the keeper keeps the memory. */
PyObject *py_torch_of(const mr_tensor *tensor, PyObject *owner);

typedef struct py_torch_weights {
    PyObject_HEAD PyObject *tree, *otherwise; /* owned */
    PyObject *shares;                         /* owned: a tuple; NULL: not exported */
} py_torch_weights;

extern PyTypeObject py_torch_weights_type;

/* weights(tree, otherwise[, shares]): an object that is encoded as the tree is or, where that cannot be, as
 * otherwise(tree). With a tuple of blocks of shared memory (py_shared_model.h) it may be exported: in place, if all of
 * it lies in one of them, else as a copy */
PyObject *py_torch_weights_new(PyObject *module, PyObject *args);

/* are_usual(tree): whether it has only tensors and arrays, in lists, tuples and dicts of exactly these types */
PyObject *py_torch_are_usual(PyObject *module, PyObject *tree);

/* are_own(tree): whether it is a list of only tensors of torch, and writable arrays */
PyObject *py_torch_are_own(PyObject *module, PyObject *tree);
