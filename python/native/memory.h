/* memory.h — received memory as Python sees it.
 *
 *   array ──► memory (a piece: pointer and size, shown by the buffer protocol) ──► holder (a received value, shared)
 *
 * So a value lives as long as any array that was read out of it without a copy. */
#pragma once
#include "python/native/core.h"

/* A received value that is released when nothing refers to it any more. The value is moved: it is nil afterwards. NULL
 * with an exception, and the value is the caller's still. */
PyObject *memory_holder(mr_value *value);

/* `size` bytes inside of what the holder holds. What is written to one that is `writable` only this process sees. */
PyObject *memory_piece(PyObject *holder, const void *data, size_t size, bool writable);

/* The same bytes in memory of their own, which may be written. */
PyObject *memory_copy(const void *data, size_t size);

extern PyTypeObject memory_holder_type, memory_type;
