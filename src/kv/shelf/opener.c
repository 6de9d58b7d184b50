/* opener.c — see opener.h. */
#include "kv/shelf/opener.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/half.h"
#include "base/vector.h"
#include "kv/codec/codec.h"

void opener_fini(opener *opener) {
    for (size_t i = 0; i < PRESS_IDS; i++)
        if (opener->presses[i] != NULL) press_close(opener->presses[i]);
    free(opener->body);
    free(opener->values);
    free(opener->keys);
    *opener = (struct opener){0};
}

void opener_must(mr_status status) {
    if (status == MR_OK) return;
    fprintf(stderr, "miniray: this server cannot apply a push and ends; the other replicas go on: %s\n",
            mr_last_error());
    abort();
}

static void *room(void **memory, size_t *room, size_t size) {
    if (size > *room) {
        free(*memory);
        *memory = NULL;
        *room = 0;
        opener_must(alloc_try_aligned(PARCEL_ALIGN, size, memory));
        *room = size;
    }
    return *memory;
}

static const parcel_section *unpress(opener *opener, const parcel_section *section) {
    parcel_section *out = &opener->unfolded;
    size_t size;
    if ((section->flags & PARCEL_PRESSED) == 0) return section;
    if (press_size(section->body, PARCEL_BYTES_MAX, &size) != MR_OK) return NULL;
    press_id id = section->body.data[0];
    if (opener->presses[id] == NULL) opener_must(press_open(id, &opener->presses[id]));
    void *body = room(&opener->body, &opener->body_room, size + PARCEL_ALIGN);
    mr_status status = press_unpack(opener->presses[id], section->body, body, size);
    if (status == MR_NOMEM) opener_must(status); /* other copies can: leaving it out would make this one another */
    bool good = status == MR_OK && parcel_unfold(section, span_of(body, size), out) && parcel_ascends(out);
    return good ? out : NULL;
}

static const parcel_section *list_keys(opener *opener, const parcel_section *section) {
    if (section == NULL || (section->flags & PARCEL_RUN) == 0) return section;
    uint64_t *keys = room(&opener->keys, &opener->keys_room, section->count * sizeof *keys);
    for (uint32_t i = 0; i < section->count; i++) keys[i] = section->first + i;
    opener->unfolded = *section;
    opener->unfolded.flags &= (uint8_t)~PARCEL_RUN;
    opener->unfolded.keys = keys;
    return &opener->unfolded;
}

const parcel_section *opener_unfold_any(opener *opener, const parcel_section *section) {
    return list_keys(opener, unpress(opener, section));
}

VECTOR_CLONES static void widen(mr_dtype dtype, const uint16_t *restrict from, size_t count, float *restrict to) {
    if (dtype == MR_F16)
        for (size_t i = 0; i < count; i++) to[i] = half_from_fp16(from[i]);
    else
        for (size_t i = 0; i < count; i++) to[i] = half_from_bf16(from[i]);
}

void opener_widen(mr_dtype dtype, const void *from, size_t count, float *to) { widen(dtype, from, count, to); }

const void *opener_values(opener *opener, const parcel_section *section, mr_dtype dtype, size_t items) {
    bool coded = (section->flags & PARCEL_CODED) != 0;
    if (section->dtype != dtype && (section->dtype != MR_F32 || dtype == MR_I64)) return NULL;
    if (items > PARCEL_BYTES_MAX / sizeof(float)) return NULL;
    if ((section->flags & PARCEL_AFAR) != 0)
        return section->dtype == dtype ? afar_values(opener->sight, section, items * mr_dtype_size(dtype)) : NULL;
    if (!coded && section->values.size != items * mr_dtype_size(section->dtype)) return NULL;
    if (!coded && (section->dtype == MR_F32 || section->dtype == MR_I64)) return section->values.data;
    if (section->dtype == MR_I64) return NULL;
    float *values = room(&opener->values, &opener->values_room, items * sizeof *values + 1);
    if (coded) return codec_decode(section->values, values, items) == MR_OK ? values : NULL;
    widen(section->dtype, (const uint16_t *)(const void *)section->values.data, items, values);
    return values;
}

size_t opener_dim(const parcel_section *section) {
    size_t items = section->values.size / mr_dtype_size(section->dtype);
    if ((section->flags & PARCEL_CODED) != 0) {
        uint32_t count = 0;
        if (section->values.size < CODEC_HEAD) return 0;
        memcpy(&count, section->values.data + 4, sizeof count);
        items = count;
    }
    return section->count == 0 || items % section->count != 0 ? 0 : items / section->count;
}
