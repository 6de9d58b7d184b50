/* py_buffer.h — buffers of received values for Python.
 *
 *   array ──► memory (a piece: pointer and size, shown by the buffer protocol) ──► holder (a received value, shared)
 *
 * So a value lives as long as any array that was read out of it without a copy.
 *
 * A large value lies in shared memory, of which this process has private copies of the pages that it has written
 * (store/private_mapping.h), until its last holder is gone. So a writable view is given out in place once, and further
 * ones are copies of the sealed value as long as the first one's holder lives. */
#pragma once
#include "python/native/py_internal.h"

/* A received value that is released with its last reference. The value is moved: it is nil afterwards. NULL with an
 * exception, and the caller still owns the value. */
PyObject *py_buffer_holder(mr_value *value);

/* `size` bytes inside the holder's value, read-only. */
PyObject *py_buffer_piece(PyObject *holder, const void *data, size_t size);

/* Whether the value may be given out in place, writable: no other holder of the same value has done so. From the first
 * time on it counts as given out, beginning with `data`. -1 with an exception. */
int py_buffer_is_first(PyObject *holder, const void *data);

/* As py_buffer_piece, but writable, and invisible to other and later holders of the value: in place only where there is
 * no other holder of the same value. */
PyObject *py_buffer_own(PyObject *holder, const void *data, size_t size);

/* The first byte of a piece, or of a copy. */
void *py_buffer_start(PyObject *memory);

/* The same bytes in memory of their own, writable. */
PyObject *py_buffer_copy(const void *data, size_t size);

extern PyTypeObject py_buffer_holder_type, py_buffer_type;
