/* py_shared_model.h — Share: a block of shared memory for a model that is synced in place (miniray/model.h,
 * mr_shared_model).
 *
 * The object's buffer is the block; arrays made from it keep it alive. Python decides the layout
 * (miniray/_weights/_shared_model.py). */
#pragma once
#include "python/native/py_internal.h"

extern PyTypeObject py_shared_model_type;

PyObject *py_shared_model_open(PyObject *module, PyObject *bytes);

/* Exports these weights if all tensors are in the block: *weights becomes the description that a server gets instead,
 * valid while the block lives and until the next export. False: a tensor is not in the block, another sync is writing
 * the block, or the block is of a runtime that was shut down. */
bool py_shared_model_lend(PyObject *self, mr_arg *weights);
/* The same with a copy (mr_model_copy), wherever the tensors are. */
bool py_shared_model_lend_copy(mr_call *call, mr_arg *weights);
