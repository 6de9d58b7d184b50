/* payload_fuzz.c — payloads, and the table schemas in them: the reader checks every length before it uses it, and a
 * schema that decodes is encoded to the same bytes; one of an earlier release is shorter. */
#include <stdlib.h>

#include "base/assert.h"
#include "fuzz/fuzz.h"
#include "kv/payload/payload.h"
#include "kv/payload/table_schema.h"

/* Reads all bytes that a section points to. */
static uint64_t touch(const payload_section *section) {
    uint64_t sum = 0;
    for (uint32_t i = 0; section->keys != NULL && i < section->count; i++) sum += section->keys[i];
    for (uint32_t i = 0; section->lengths != NULL && i < section->count; i++) sum += section->lengths[i];
    for (size_t i = 0; i < section->values.size; i++) sum += section->values.data[i];
    return sum;
}

static void define(span bytes) {
    table_schema read, again;
    uint8_t written[TABLE_SCHEMA_SIZE];
    if (table_schema_decode(bytes, &read) != MR_OK) return;
    table_schema_encode(&read, written);
    MR_ASSERT(bytes.size <= sizeof written && memcmp(written, bytes.data, bytes.size) == 0);
    MR_ASSERT(table_schema_decode(span_of(written, sizeof written), &again) == MR_OK);
    MR_ASSERT(table_schema_differs(&read, &again) == NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    span bytes;
    payload_scratch scratch;
    if (payload_align(span_of(data, size), &scratch, &bytes) != MR_OK) return 0;
    payload_reader reader = payload_open(bytes);
    payload_section section;
    volatile uint64_t sum = 0; /* keeps the compiler from removing the reads */
    while (payload_next(&reader, &section)) {
        sum += touch(&section);
        if (section.op == PAYLOAD_DEFINE) define(section.values);
    }
    (void)sum;
    MR_ASSERT(!reader.failed || payload_check(bytes) == MR_CORRUPT);
    payload_clear(&scratch);
    return 0;
}
