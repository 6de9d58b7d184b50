/* share.h — Share: a block of shared memory for a model that is synced in place (miniray/model.h, mr_share).
 *
 * Its buffer is the block; arrays that were made of it keep it. What lies where is Python's affair (ps/_share.py). */
#pragma once
#include "python/native/core.h"

extern PyTypeObject share_type;

PyObject *share_open(PyObject *module, PyObject *bytes);
