/* py_buffer.h — buffers of received values for Python.
 *
 *   array ──► memory (a piece: pointer and size, shown by the buffer protocol) ──► holder (a received value, shared)
 *
 * A value lives as long as any array that was read from it without a copy.
 *
 * A large value is in shared memory. The pages that this process has written are private copies
 * (store/private_mapping.h), kept until the value's last holder is freed. So only the first writable view is in place;
 * further ones are copies of the sealed value while the first one's holder lives. */
#pragma once
#include "python/native/py_internal.h"

/* A received value that is released with its last reference. The value is moved and is nil afterwards. NULL with an
 * exception; the caller then still owns the value. */
PyObject *py_buffer_holder(mr_value *value);

/* `size` bytes inside the holder's value, read-only. */
PyObject *py_buffer_piece(PyObject *holder, const void *data, size_t size);

/* Whether the value may be given out in place and writable, that is, no other holder of the same value has done so. The
 * first call marks the value as given out, beginning with `data`. -1 with an exception. */
int py_buffer_is_first(PyObject *holder, const void *data);

/* Like py_buffer_piece, but writable, and its changes are invisible to other holders of the same value: in place if
 * there is no other holder, else a copy. */
PyObject *py_buffer_own(PyObject *holder, const void *data, size_t size);

/* Address of the first byte of a piece or a copy. */
void *py_buffer_start(PyObject *memory);

/* A writable copy of the bytes. */
PyObject *py_buffer_copy(const void *data, size_t size);

extern PyTypeObject py_buffer_holder_type, py_buffer_type;
