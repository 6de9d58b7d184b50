/* sums.c — see sums.h. */
#include "kv/sums.h"

#include <stdlib.h>

#include "base/alloc.h"

typedef struct sums {
    float *values; /* owned */
    size_t count;
    bool keeps;
    bale *before; /* of one that keeps, owned: as the state was; NULL: nothing was before */
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

static void *create(void *context, uint32_t slot, bool keeps) {
    sums *sums = xcalloc(1, sizeof *sums);
    sums->keeps = keeps;
    sums->values = xcalloc(1, sizeof *sums->values);
    sums->count = 1;
    return sums;
}

static void destroy(void *self) {
    sums *sums = self;
    bale_unref(sums->before);
    free(sums->values);
    free(sums);
}

static bale *copy(const sums *sums) { return bale_copy(span_of(sums->values, sums->count * sizeof *sums->values)); }

static void sum_add(void *self, span payload) {
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

static void apply(void *self, span payload, uint64_t moment) {
    sums *sums = self;
    if (sums->keeps) {
        bale_unref(sums->before);
        sums->before = copy(sums);
    }
    sum_add(sums, payload);
}

static void *sum_begin(void *context, uint32_t slot) { return xcalloc(1, sizeof(sums)); } /* of no length */

static size_t sum_size(const void *self) { return ((const sums *)self)->count * sizeof(float); }

static void sum_write(const void *self, void *out) {
    const sums *sums = self;
    if (sums->count != 0) memcpy(out, sums->values, sums->count * sizeof *sums->values);
}

/* Everything, whatever is asked for. */
static bale *show(void *self, span request, bool kept) {
    const sums *sums = self;
    if (!kept) return copy(sums);
    return sums->before == NULL ? bale_new(0) : bale_ref(sums->before);
}

/* ---- The whole. */

static span before_of(const sums *sums) { return sums->before == NULL ? (span){0} : bale_bytes(sums->before); }

static size_t size(const void *self) {
    const sums *sums = self;
    return sum_size(sums) + (sums->keeps ? 4 + before_of(sums).size : 0);
}

static void write(const void *self, void *out) {
    const sums *sums = self;
    writer writer = writer_of(out, size(sums));
    if (sums->keeps) writer_span32(&writer, before_of(sums));
    sum_write(sums, writer.at);
}

static bool read(void *self, span bytes) {
    sums *sums = self;
    reader reader = reader_of(bytes.data, bytes.size);
    span before = sums->keeps ? reader_span32(&reader) : (span){0};
    size_t left = reader.failed ? 0 : reader_left(&reader);
    span values = span_of(reader_bytes(&reader, left), left);
    if (!fits(values) || (before.size != 0 && !fits(before))) return false;
    bale_unref(sums->before);
    sums->before = before.size == 0 ? NULL : bale_copy(before);
    sums->values = xrealloc(sums->values, values.size);
    sums->count = values.size / sizeof(float);
    memcpy(sums->values, values.data, values.size);
    return true;
}

const values_ops sums_ops = {"sums",    create,  destroy, apply, sum_begin, sum_add, sum_size,
                             sum_write, destroy, show,    size,  write,     read};
