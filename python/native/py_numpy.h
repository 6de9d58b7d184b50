/* py_numpy.h — NumPy's arrays by the C interface that NumPy exports, which costs a tenth of the way through Python.
 *
 * NumPy is never needed to build or to import this: its interface is a table of functions in a capsule and two records
 * whose first fields have been the same since NumPy 1.7. Before it is used the first time, an array is made and looked
 * at by it and by the buffer protocol; where the two do not agree, nothing here is used, and callers go the other way.
 *
 * Threads  everything with the GIL. */
#pragma once
#include "python/native/py_internal.h"

/* numpy.dtype of those numbers, borrowed; NumPy is imported. NULL with an exception. */
PyObject *py_numpy_dtype(mr_dtype dtype);

/* What lies in an object of exactly the type numpy.ndarray, borrowed. False, without an exception: its numbers do
 * not lie in a row, or are none of ours, or NumPy's interface is not to be used. */
bool py_numpy_look(PyObject *array, mr_tensor *out);

/* Whether an object of exactly that type may be written to. */
bool py_numpy_is_writable(PyObject *array);

/* An array with the same numbers in memory of its own. NULL with an exception; without: the interface is not to be
 * used. core.ndarray is there. */
PyObject *py_numpy_copy(const mr_tensor *tensor);
