/* sums.c — see sums.h. */
#include "kv/sums.h"

#include <stdlib.h>

#include "base/alloc.h"

typedef struct sums {
    float *values; /* owned */
    size_t count;
} sums;

static bool fits(span payload) { return payload.size != 0 && payload.size % sizeof(float) == 0; }

/* `from` need not be aligned. */
static void add(float *to, const uint8_t *from, size_t count) {
    enum { PIECE = 256 };
    float piece[PIECE];
    for (size_t at = 0; at < count; at += PIECE) {
        size_t size = count - at < PIECE ? count - at : PIECE;
        memcpy(piece, from + at * sizeof(float), size * sizeof(float));
        for (size_t i = 0; i < size; i++) to[at + i] += piece[i];
    }
}

static void *create(void *context, uint32_t slot) {
    sums *sums = xcalloc(1, sizeof *sums);
    sums->values = xcalloc(1, sizeof *sums->values);
    sums->count = 1;
    return sums;
}

static void destroy(void *self) {
    sums *sums = self;
    free(sums->values);
    free(sums);
}

static void apply(void *self, span payload) {
    sums *sums = self;
    size_t count = payload.size / sizeof(float);
    if (!fits(payload)) return;
    if (count > sums->count) {
        sums->values = xrealloc(sums->values, count * sizeof *sums->values);
        memset(sums->values + sums->count, 0, (count - sums->count) * sizeof *sums->values);
        sums->count = count;
    }
    add(sums->values, payload.data, count);
}

static void *sum_begin(uint32_t slot) { return xcalloc(1, sizeof(sums)); } /* of no length */

static size_t size(const void *self) { return ((const sums *)self)->count * sizeof(float); }

static void write(const void *self, void *out) {
    const sums *sums = self;
    if (sums->count != 0) memcpy(out, sums->values, sums->count * sizeof *sums->values);
}

static bool read(void *self, span bytes) {
    sums *sums = self;
    if (!fits(bytes)) return false;
    sums->values = xrealloc(sums->values, bytes.size);
    sums->count = bytes.size / sizeof(float);
    memcpy(sums->values, bytes.data, bytes.size);
    return true;
}

const values_ops sums_ops = {"sums", create, destroy, apply, sum_begin, apply, size, write, destroy, size, write, read};
