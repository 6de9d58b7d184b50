/* float_machine.c — see float_machine.h. */
#include "sim/ps/float_machine.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "ps/stable_hash.h"

enum { BYTES = FLOAT_MACHINE_WIDTH * sizeof(double) };

static void *create(void *context, uint32_t slot, bool keeps) {
    float_machine *machine = xcalloc(1, sizeof *machine);
    for (size_t i = 0; i < FLOAT_MACHINE_WIDTH; i++) machine->values[i] = 1 + (double)slot / (double)(i + 3);
    machine->keeps = keeps;
    machine->measures = context != NULL && ((const float_machine_context *)context)->measures;
    machine->slot = slot;
    return machine;
}

static bool fits(span payload) { return payload.size == BYTES; }
static bool is_batch(span payload) { return payload.size != 0 && payload.size % BYTES == 0; }

static void apply(void *self, span payload, uint64_t moment) {
    float_machine *machine = self;
    double change[FLOAT_MACHINE_WIDTH];
    memcpy(machine->before, machine->values, BYTES);
    for (size_t at = 0; is_batch(payload) && at < payload.size; at += BYTES) {
        memcpy(change, payload.data + at, BYTES);
        for (size_t i = 0; i < FLOAT_MACHINE_WIDTH; i++) machine->values[i] = machine->values[i] * 0.9 + change[i];
    }
}

static void *sum_begin(const void *self) { return xcalloc(FLOAT_MACHINE_WIDTH, sizeof(double)); }

static void sum_add(void *sum, span payload) {
    double *total = sum, part[FLOAT_MACHINE_WIDTH];
    if (!fits(payload)) return;
    memcpy(part, payload.data, BYTES);
    for (size_t i = 0; i < FLOAT_MACHINE_WIDTH; i++) total[i] += part[i];
}

static size_t sum_size(const void *sum) { return BYTES; }
static void sum_write(const void *sum, void *out) { memcpy(out, sum, BYTES); }

/* ---- Requests. */

static size_t places_pushed(span payload, uint8_t out[FLOAT_MACHINE_WIDTH]) {
    bool pushed[FLOAT_MACHINE_WIDTH] = {0};
    size_t count = 0;
    for (size_t at = 0; at < payload.size; at += sizeof(double)) {
        double change;
        memcpy(&change, payload.data + at, sizeof change);
        if (change != 0) pushed[at / sizeof change % FLOAT_MACHINE_WIDTH] = true;
    }
    for (uint8_t i = 0; i < FLOAT_MACHINE_WIDTH; i++)
        if (pushed[i]) out[count++] = i;
    return count;
}

/* The places that a query asks for; SIZE_MAX: malformed query. */
static size_t places_of(span request, uint8_t out[FLOAT_MACHINE_WIDTH]) {
    if (is_batch(request)) return places_pushed(request, out);
    if (request.size > FLOAT_MACHINE_WIDTH) return SIZE_MAX;
    size_t count = request.size == 0 ? FLOAT_MACHINE_WIDTH : request.size;
    for (uint8_t i = 0; i < count; i++) {
        out[i] = request.size == 0 ? i : request.data[i];
        if (out[i] >= FLOAT_MACHINE_WIDTH) return SIZE_MAX;
    }
    return count;
}

static shared_bytes *show(void *self, span request, bool kept) {
    const float_machine *machine = self;
    const double *from = kept ? machine->before : machine->values;
    uint8_t places[FLOAT_MACHINE_WIDTH];
    size_t count = places_of(request, places);
    if (count == SIZE_MAX) count = 0;
    shared_bytes *bytes = shared_bytes_new(count * sizeof *from);
    for (size_t i = 0; i < count; i++)
        memcpy(shared_bytes_room(bytes) + i * sizeof *from, &from[places[i]], sizeof *from);
    return bytes;
}

/* ---- The whole state. */

static size_t size(const void *self) { return ((const float_machine *)self)->keeps ? 2 * BYTES : BYTES; }
static void write(const void *self, void *out) { memcpy(out, self, size(self)); }

static void write_kept(const void *self, void *out) {
    const float_machine *machine = self;
    memcpy(out, machine->before, BYTES);
    memcpy((uint8_t *)out + BYTES, machine->before, BYTES);
}

static bool read(void *self, span bytes) {
    if (bytes.size != size(self)) return false;
    memcpy(self, bytes.data, bytes.size);
    return true;
}

_Static_assert(offsetof(float_machine, before) == BYTES, "written as they lie");

/* ---- Norms. */

uint32_t float_machine_needs(uint32_t slot, uint64_t moment) {
    uint64_t bits = stable_hash2(stable_hash2(slot, moment), 77);
    return bits % 8 == 0 ? 0 : bits / 8 % 3 == 0 ? 2 : 1;
}

static double norm_at(span norms, size_t phase) {
    double norm = 0;
    if (norms.size >= (phase + 1) * sizeof norm) memcpy(&norm, norms.data + phase * sizeof norm, sizeof norm);
    return norm;
}

static shared_bytes *measure(void *self, span sum, span norms, uint64_t moment) {
    const float_machine *machine = self;
    double change[FLOAT_MACHINE_WIDTH], part = 0;
    size_t phase = norms.size / sizeof part;
    if (!machine->measures || !fits(sum) || phase >= float_machine_needs(machine->slot, moment)) return NULL;
    memcpy(change, sum.data, BYTES);
    for (size_t i = 0; i < FLOAT_MACHINE_WIDTH; i++) {
        double item = phase == 0 ? change[i] : machine->values[i] + norm_at(norms, 0) * change[i];
        part += item * item;
    }
    return shared_bytes_copy(span_of(&part, sizeof part));
}

static shared_bytes *combine(void *context, const span *parts, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        if (parts[i].size == sizeof sum) sum += norm_at(parts[i], 0);
    return shared_bytes_copy(span_of(&sum, sizeof sum));
}

static void apply_normed(void *self, span sum, span norms, uint64_t moment) {
    const float_machine *machine = self;
    double change[FLOAT_MACHINE_WIDTH];
    if (!fits(sum)) return;
    memcpy(change, sum.data, BYTES);
    for (size_t phase = 0; phase < float_machine_needs(machine->slot, moment); phase++)
        for (size_t i = 0; i < FLOAT_MACHINE_WIDTH; i++) change[i] /= 1 + norm_at(norms, phase);
    apply(self, span_of(change, BYTES), moment);
}

const state_machine_ops float_machine_ops = {"floats",   create,    free,    apply,   sum_begin,   sum_add,
                                             sum_size,   sum_write, free,    show,    size,        write,
                                             write_kept, read,      measure, combine, apply_normed};
