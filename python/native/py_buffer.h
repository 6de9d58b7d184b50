/* py_buffer.h — buffers of received values for Python.
 *
 *   array ──► memory (a piece: pointer and size, shown by the buffer protocol) ──► holder (a received value, shared)
 *
 * So a value lives as long as any array that was read out of it without a copy.
 *
 * A large value lies in shared memory, of which this process sees copies of its own where it has written
 * (store/private_mapping.h), until its last holder is gone. What is given out to be written to is therefore given out
 * in place once, and as a copy of what was sealed as long as that one's holder lives. */
#pragma once
#include "python/native/py_internal.h"

/* A received value that is released when nothing refers to it any more. The value is moved: it is nil afterwards. NULL
 * with an exception, and the value is the caller's still. */
PyObject *py_buffer_holder(mr_value *value);

/* `size` bytes inside of what the holder holds, to be read. */
PyObject *py_buffer_piece(PyObject *holder, const void *data, size_t size);

/* Whether what it holds may be given out in place to be written to: no other holder of the same value has done so. From
 * the first time on it counts as given out, beginning with `data`. -1 with an exception. */
int py_buffer_is_first(PyObject *holder, const void *data);

/* As py_buffer_piece, to be written to, so that nobody sees it who has the value already or gets it again: they are in
 * place only where no other holder of the same value is there. */
PyObject *py_buffer_own(PyObject *holder, const void *data, size_t size);

/* Where the bytes of a piece, or of a copy, begin. */
void *py_buffer_start(PyObject *memory);

/* The same bytes in memory of their own, which may be written. */
PyObject *py_buffer_copy(const void *data, size_t size);

extern PyTypeObject py_buffer_holder_type, py_buffer_type;
