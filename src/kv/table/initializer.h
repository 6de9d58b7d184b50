/* initializer.h — initial values of rows and arrays before the first push.
 *
 * A value is a function of the seed, the table, the key and its place in the row only: every replica gives the same
 * bits, before and after the row was made.
 *
 *   zeros      0
 *   constant   a
 *   uniform    a + (b − a)·u, u one of the 2^24 numbers k·2^-24 in [0, 1); in fp32
 *   normal     a + b·(float)x, x = u·√(−2·ln(s)/s) with s = u² + v² (Marsaglia's polar method), in fp64
 *
 * The random numbers are counter-based: word n of a row is mix(mix2(mix2(seed, table), key) + n). A uniform value i
 * takes the upper 24 bits of word i; the attempts of a normal one take the words 256·i, 256·i + 1, …, whose halves, as
 * signed numbers times 2^-31, are u and v, until 0 < s < 1. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "miniray/status.h"
#include "miniray/value.h"

typedef enum initializer_kind {
    INITIALIZER_ZEROS,
    INITIALIZER_CONSTANT,
    INITIALIZER_UNIFORM,
    INITIALIZER_NORMAL,
} initializer_kind;

typedef struct initializer { /* zero-initialized: zeros */
    initializer_kind kind;
    float a, b;
    uint64_t seed, table;
} initializer;

/* Checks an initializer for this dtype; counters (MR_I64) begin with zeros or a whole number. MR_INVALID; the error
 * names the field. */
MR_MUST mr_status initializer_check(const initializer *init, mr_dtype dtype);

/* Writes the `count` initial values from place `first` of the row of `key` as a table stores them: as int64_t (MR_I64)
 * or float. */
void initializer_fill(const initializer *init, mr_dtype dtype, uint64_t key, size_t first, size_t count, void *out);

/* Same values in this dtype, as in the answer to a pull. */
void initializer_read(const initializer *init, mr_dtype dtype, uint64_t key, size_t first, size_t count, void *out);
