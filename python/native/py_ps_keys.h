/* py_ps_keys.h — conversion of the keys of a Python request to ascending, distinct keys.
 *
 *   given:   7 3 7 9          order: 1 0 2 3 (stable)          keys: 3 7 9          place: 1 0 1 2
 *
 * Pushes to a repeated key are added up in the order given, or, if they assign, the last one counts; a pulled value
 * goes to every place where its key was given. Keys that ascend already cost one check.
 *
 * Threads  none: pure data. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "miniray/value.h"

typedef struct py_ps_keys {
    uint64_t *keys;  /* owned: ascending, distinct keys; NULL: the given ones are ascending */
    uint32_t *order; /* owned: given places sorted by key, stably */
    uint32_t *place; /* owned: for each given key, its index in `keys` */
    size_t given, count;
} py_ps_keys;

enum { PY_PS_KEYS_MAX = INT32_MAX };

/* False: no memory, and nothing to free. `given` is borrowed for the call. */
bool py_ps_keys_init(py_ps_keys *self, const uint64_t *given, size_t count);
void py_ps_keys_fini(py_ps_keys *self); /* on a zeroed object: no-op */

/* Converts rows of `dim` values of the given keys to rows of `keys`: added up, or the last one. F32, F16, BF16 and
 * I64. */
void py_ps_keys_gather(const py_ps_keys *self, mr_dtype dtype, size_t dim, bool last, const void *from, void *to);
void py_ps_keys_scatter(const py_ps_keys *self, size_t row_bytes, const void *from, void *to); /* the inverse */

/* The same for vectors, without repeated keys. `offsets`: offsets of the given vectors in bytes, and their end. */
void py_ps_keys_gather_vectors(const py_ps_keys *self, const uint64_t *offsets, const void *from, void *to);
void py_ps_keys_scatter_vectors(const py_ps_keys *self, const uint64_t *offsets, const void *from, void *to);
