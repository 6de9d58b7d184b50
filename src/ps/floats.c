/* floats.c — see floats.h. */
#include "ps/floats.h"

#include <stdlib.h>

#include "base/alloc.h"

enum { BYTES = FLOATS_WIDTH * sizeof(double) };

static void *create(void *context, uint32_t slot) {
    double *values = xcalloc(FLOATS_WIDTH, sizeof *values);
    for (size_t i = 0; i < FLOATS_WIDTH; i++) values[i] = 1 + (double)slot / (double)(i + 3);
    return values;
}

static bool fits(span payload) { return payload.size == BYTES; }

static void apply(void *self, span payload) {
    double *values = self, change[FLOATS_WIDTH];
    if (!fits(payload)) return;
    memcpy(change, payload.data, BYTES);
    for (size_t i = 0; i < FLOATS_WIDTH; i++) values[i] = values[i] * 0.9 + change[i];
}

static void *sum_begin(uint32_t slot) { return xcalloc(FLOATS_WIDTH, sizeof(double)); }

static void sum_add(void *sum, span payload) {
    double *total = sum, part[FLOATS_WIDTH];
    if (!fits(payload)) return;
    memcpy(part, payload.data, BYTES);
    for (size_t i = 0; i < FLOATS_WIDTH; i++) total[i] += part[i];
}

static size_t size(const void *self) { return BYTES; }
static void write(const void *self, void *out) { memcpy(out, self, BYTES); }

static bool read(void *self, span bytes) {
    if (!fits(bytes)) return false;
    memcpy(self, bytes.data, BYTES);
    return true;
}

const values_ops floats_ops = {"floats", create, free, apply, sum_begin, sum_add, size, write, free, size, write, read};
