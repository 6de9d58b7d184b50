/* py_decode.h — conversion of received values to Python objects.
 *
 * Numbers, texts and containers become Python's own types. Small arrays are copied; larger ones stay in place and keep
 * the value alive (py_buffer.h); NumPy arrays in place may be read-only. Pickles are loaded, and their buffers are
 * treated like arrays. */
#pragma once
#include "python/native/py_internal.h"

/* The value is moved: released, or kept by objects that refer to it. NULL with an exception. */
PyObject *py_decode_owned(mr_value *value);

/* Decodes an argument of a call; objects that refer to the argument keep it beyond the call. */
PyObject *py_decode_argument(mr_call *call, size_t index);

/* Decodes a borrowed value; everything is copied. */
PyObject *py_decode_borrowed(const mr_value *value);
