/* py_torch.h — torch tensors, read and made without a call of Python for each.
 *
 * torch is not needed to build or to import the extension. A tensor is read by its attributes. Tensors are made through
 * DLPack, the standard by which array libraries share memory; before its first use, a test tensor is made and checked,
 * and if the check fails, callers use miniray/_serialize/torch.py.
 *
 * Weights are the result of a worker's get_weights while it is encoded: the encoder reads tensors in place, with or
 * without gradients, also torch's parameters and the dicts of its modules. Other objects are first converted by a
 * function.
 *
 * Threads  all functions require the GIL; any thread may free the memory of tensors that were made. */
#pragma once
#include "python/native/py_internal.h"

typedef struct py_torch_library py_torch_library; /* objects looked up in torch once */

/* Whether the object's type is exactly torch.Tensor, or also torch's Parameter if `or_parameter`. */
bool py_torch_check(PyObject *object, bool or_parameter);

/* The memory of a tensor, borrowed until the tensor's memory is replaced. `trained`: accepts tensors that require
 * gradients. 1: done; 0: the tensor is not contiguous in the memory of this machine, or its dtype is not supported; -1:
 * an exception. */
int py_torch_look(PyObject *tensor, bool trained, mr_tensor *out);

/* A tensor with a copy of the numbers. NULL with an exception; NULL without: not possible here. */
PyObject *py_torch_copy(const mr_tensor *tensor);
/* The same in place; the tensor keeps a reference to `owner`, which has the memory. */
PyObject *py_torch_of(const mr_tensor *tensor, PyObject *owner);

typedef struct py_torch_weights {
    PyObject_HEAD PyObject *tree, *otherwise; /* owned */
    PyObject *shares;                         /* owned: a tuple; NULL: not exported */
} py_torch_weights;

extern PyTypeObject py_torch_weights_type;

/* weights(tree, otherwise[, shares]): an object that is encoded as `tree`, or, if that is not possible, as
 * otherwise(tree). With a tuple of blocks of shared memory (py_shared_model.h) the weights may be exported: in place if
 * one block has all of them, else as a copy. */
PyObject *py_torch_weights_new(PyObject *module, PyObject *args);

/* are_usual(tree): whether the tree has only tensors and arrays, in lists, tuples and dicts of exactly these types */
PyObject *py_torch_are_usual(PyObject *module, PyObject *tree);

/* are_own(tree): whether the tree is a list of only torch tensors and writable arrays */
PyObject *py_torch_are_own(PyObject *module, PyObject *tree);
