/* py_decode.h — received values as Python objects.
 *
 * Numbers, texts and containers become Python's own. Small arrays are copied; larger ones stay where they lie and keep
 * the value alive (py_buffer.h), NumPy's read-only. Pickles are loaded, with their buffers in the same way. */
#pragma once
#include "python/native/py_internal.h"

/* The value is moved: released, or kept by objects that refer to it. NULL with an exception. */
PyObject *py_decode_owned(mr_value *value);

/* An argument of a call; objects that refer to it keep it beyond the call. */
PyObject *py_decode_argument(mr_call *call, size_t index);

/* The value is borrowed: everything is copied. */
PyObject *py_decode_borrowed(const mr_value *value);
