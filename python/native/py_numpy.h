/* py_numpy.h — NumPy's arrays by the C interface that NumPy exports, which costs a tenth of the way through Python.
 *
 * NumPy is never needed to build or to import this: its interface is a table of functions in a capsule and two records
 * whose first fields have been the same since NumPy 1.7. Before its first use, an array is made and read through the
 * interface and through the buffer protocol; if the two disagree, nothing here is used, and callers go through Python.
 *
 * Threads  everything with the GIL. */
#pragma once
#include "python/native/py_internal.h"

/* numpy.dtype of those numbers, borrowed; NumPy is imported. NULL with an exception. */
PyObject *py_numpy_dtype(mr_dtype dtype);

/* A tuple of the lengths. NULL with an exception. */
PyObject *py_numpy_shape(const int64_t *lengths, int dims);

/* The memory of an object of exactly the type numpy.ndarray, borrowed. False, without an exception: it is not
 * contiguous, or its dtype is not supported, or NumPy's interface is not used. */
bool py_numpy_look(PyObject *array, mr_tensor *out);

/* Whether an object of exactly that type may be written to. */
bool py_numpy_is_writable(PyObject *array);

/* An array with the same numbers in memory of its own. NULL with an exception; NULL without: the interface is not used.
 * core.ndarray is set. */
PyObject *py_numpy_copy(const mr_tensor *tensor);
