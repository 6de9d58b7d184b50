/* py_numpy.h — NumPy arrays by the C interface that NumPy exports, at a tenth of the cost of calls through Python.
 *
 * NumPy is not needed to build or to import the extension. The interface is a table of functions in a capsule and two
 * records whose first fields have been the same since NumPy 1.7. Before the first use, an array is made and read
 * through the interface and through the buffer protocol; if the results differ, the interface is not used, and callers
 * go through Python.
 *
 * Threads  all functions require the GIL. */
#pragma once
#include "python/native/py_internal.h"

/* The numpy.dtype of an mr_dtype, borrowed; NumPy is imported. NULL with an exception. */
PyObject *py_numpy_dtype(mr_dtype dtype);

/* A tuple of the lengths. NULL with an exception. */
PyObject *py_numpy_shape(const int64_t *lengths, int dims);

/* Memory of an object whose type is exactly numpy.ndarray, borrowed. False without an exception: the array is not
 * contiguous, its dtype is not supported, or NumPy's interface is not used. */
bool py_numpy_look(PyObject *array, mr_tensor *out);

/* Whether an object of exactly that type may be written to. */
bool py_numpy_is_writable(PyObject *array);

/* An array with a copy of the numbers. NULL with an exception; NULL without: the interface is not used. core.ndarray is
 * set. */
PyObject *py_numpy_copy(const mr_tensor *tensor);
