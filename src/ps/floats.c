/* floats.c — see floats.h. */
#include "ps/floats.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "ps/mix.h"

enum { BYTES = FLOATS_WIDTH * sizeof(double) };

static void *create(void *context, uint32_t slot, bool keeps) {
    floats *floats = xcalloc(1, sizeof *floats);
    for (size_t i = 0; i < FLOATS_WIDTH; i++) floats->values[i] = 1 + (double)slot / (double)(i + 3);
    floats->keeps = keeps;
    floats->measures = context != NULL && ((const floats_context *)context)->measures;
    floats->slot = slot;
    return floats;
}

static bool fits(span payload) { return payload.size == BYTES; }
static bool is_batch(span payload) { return payload.size != 0 && payload.size % BYTES == 0; }

static void apply(void *self, span payload, uint64_t moment) {
    floats *floats = self;
    double change[FLOATS_WIDTH];
    memcpy(floats->before, floats->values, BYTES);
    for (size_t at = 0; is_batch(payload) && at < payload.size; at += BYTES) {
        memcpy(change, payload.data + at, BYTES);
        for (size_t i = 0; i < FLOATS_WIDTH; i++) floats->values[i] = floats->values[i] * 0.9 + change[i];
    }
}

static void *sum_begin(void *context, uint32_t slot) { return xcalloc(FLOATS_WIDTH, sizeof(double)); }

static void sum_add(void *sum, span payload) {
    double *total = sum, part[FLOATS_WIDTH];
    if (!fits(payload)) return;
    memcpy(part, payload.data, BYTES);
    for (size_t i = 0; i < FLOATS_WIDTH; i++) total[i] += part[i];
}

static size_t sum_size(const void *sum) { return BYTES; }
static void sum_write(const void *sum, void *out) { memcpy(out, sum, BYTES); }

/* ---- Requests. */

static size_t places_pushed(span payload, uint8_t out[FLOATS_WIDTH]) {
    bool pushed[FLOATS_WIDTH] = {0};
    size_t count = 0;
    for (size_t at = 0; at < payload.size; at += sizeof(double)) {
        double change;
        memcpy(&change, payload.data + at, sizeof change);
        if (change != 0) pushed[at / sizeof change % FLOATS_WIDTH] = true;
    }
    for (uint8_t i = 0; i < FLOATS_WIDTH; i++)
        if (pushed[i]) out[count++] = i;
    return count;
}

size_t floats_places(span request, uint8_t out[FLOATS_WIDTH]) {
    if (is_batch(request)) return places_pushed(request, out);
    if (request.size > FLOATS_WIDTH) return SIZE_MAX;
    size_t count = request.size == 0 ? FLOATS_WIDTH : request.size;
    for (uint8_t i = 0; i < count; i++) {
        out[i] = request.size == 0 ? i : request.data[i];
        if (out[i] >= FLOATS_WIDTH) return SIZE_MAX;
    }
    return count;
}

static bale *show(void *self, span request, bool kept) {
    const floats *floats = self;
    const double *from = kept ? floats->before : floats->values;
    uint8_t places[FLOATS_WIDTH];
    size_t count = floats_places(request, places);
    if (count == SIZE_MAX) count = 0;
    bale *bale = bale_new(count * sizeof *from);
    for (size_t i = 0; i < count; i++) memcpy(bale_room(bale) + i * sizeof *from, &from[places[i]], sizeof *from);
    return bale;
}

/* ---- The whole. */

static size_t size(const void *self) { return ((const floats *)self)->keeps ? 2 * BYTES : BYTES; }
static void write(const void *self, void *out) { memcpy(out, self, size(self)); }

static bool read(void *self, span bytes) {
    if (bytes.size != size(self)) return false;
    memcpy(self, bytes.data, bytes.size);
    return true;
}

_Static_assert(offsetof(floats, before) == BYTES, "written as they lie");

/* ---- Norms. */

uint32_t floats_needs(uint32_t slot, uint64_t moment) {
    uint64_t bits = mix2(mix2(slot, moment), 77);
    return bits % 8 == 0 ? 0 : bits / 8 % 3 == 0 ? 2 : 1;
}

static double norm_at(span norms, size_t phase) {
    double norm = 0;
    if (norms.size >= (phase + 1) * sizeof norm) memcpy(&norm, norms.data + phase * sizeof norm, sizeof norm);
    return norm;
}

static bale *measure(void *self, span sum, span norms, uint64_t moment) {
    const floats *floats = self;
    double change[FLOATS_WIDTH], part = 0;
    size_t phase = norms.size / sizeof part;
    if (!floats->measures || !fits(sum) || phase >= floats_needs(floats->slot, moment)) return NULL;
    memcpy(change, sum.data, BYTES);
    for (size_t i = 0; i < FLOATS_WIDTH; i++) {
        double item = phase == 0 ? change[i] : floats->values[i] + norm_at(norms, 0) * change[i];
        part += item * item;
    }
    return bale_copy(span_of(&part, sizeof part));
}

static bale *combine(void *context, const span *parts, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        if (parts[i].size == sizeof sum) sum += norm_at(parts[i], 0);
    return bale_copy(span_of(&sum, sizeof sum));
}

static void apply_normed(void *self, span sum, span norms, uint64_t moment) {
    const floats *floats = self;
    double change[FLOATS_WIDTH];
    if (!fits(sum)) return;
    memcpy(change, sum.data, BYTES);
    for (size_t phase = 0; phase < floats_needs(floats->slot, moment); phase++)
        for (size_t i = 0; i < FLOATS_WIDTH; i++) change[i] /= 1 + norm_at(norms, phase);
    apply(self, span_of(change, BYTES), moment);
}

const values_ops floats_ops = {"floats", create, free, apply, sum_begin, sum_add, sum_size, sum_write,
                               free,     show,   size, write, read,      measure, combine,  apply_normed};
