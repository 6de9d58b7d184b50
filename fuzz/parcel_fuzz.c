/* parcel_fuzz.c — a parcel, and the definitions in it: every length that it claims is checked before it is believed,
 * and a definition that is read is written with the same bytes. */
#include <stdlib.h>

#include "base/assert.h"
#include "fuzz/fuzz.h"
#include "kv/parcel.h"
#include "kv/shelf/definition.h"

/* Touches all that a section points at. */
static uint64_t touch(const parcel_section *section) {
    uint64_t sum = 0;
    for (uint32_t i = 0; section->keys != NULL && i < section->count; i++) sum += section->keys[i];
    for (uint32_t i = 0; section->lengths != NULL && i < section->count; i++) sum += section->lengths[i];
    for (size_t i = 0; i < section->values.size; i++) sum += section->values.data[i];
    return sum;
}

static void define(span bytes) {
    definition read, again;
    uint8_t written[DEFINITION_SIZE];
    if (definition_decode(bytes, &read) != MR_OK) return;
    definition_encode(&read, written);
    MR_ASSERT(bytes.size == sizeof written && memcmp(written, bytes.data, sizeof written) == 0);
    MR_ASSERT(definition_decode(span_of(written, sizeof written), &again) == MR_OK);
    MR_ASSERT(definition_differs(&read, &again) == NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    span bytes;
    parcel_tray tray;
    if (parcel_align(span_of(data, size), &tray, &bytes) != MR_OK) return 0;
    parcel_reader reader = parcel_open(bytes);
    parcel_section section;
    volatile uint64_t sum = 0; /* so that what was read has to be read */
    while (parcel_next(&reader, &section)) {
        sum += touch(&section);
        if (section.op == PARCEL_DEFINE) define(section.values);
    }
    (void)sum;
    MR_ASSERT(!reader.failed || parcel_check(bytes) == MR_CORRUPT);
    parcel_clear(&tray);
    return 0;
}
