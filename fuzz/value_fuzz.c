/* value_fuzz.c — the payload of a value, for value_open. Its out-of-line buffers lie in a constant region.
 *
 * A value that opens is read to the last byte, then written twice, with different buffers out of line: all read the
 * same. Written values have one form: written again, a value has the same bytes. Then the bytes change while the value
 * is open: all reads stay inside the payload. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "fuzz/fuzz.h"
#include "tests/support/exact_value.h"

enum { REGION_SIZE = 1024, OUT_OF_LINE_MIN = 16 };

/* Copies to memory of exactly this size, aligned as a payload must be. */
static uint8_t *copy_of(const uint8_t *data, size_t size) {
    void *copy = NULL;
    MR_ASSERT(posix_memalign(&copy, VALUE_ALIGN, size ? size : 1) == 0);
    if (size != 0) memcpy(copy, data, size);
    return copy;
}

static void write_again(const mr_value *root, uint64_t digest, size_t out_of_line_min) {
    exact_value first, second;
    value_doc doc;
    mr_value value;
    mr_arg arg = mr_value_arg(root);
    MR_ASSERT(pack(&arg, out_of_line_min, &first) == MR_OK);
    MR_ASSERT(exact_value_open(&first, &doc, &value) == MR_OK);
    MR_ASSERT(value_digest(&value) == digest);
    arg = mr_value_arg(&value);
    MR_ASSERT(pack(&arg, out_of_line_min, &second) == MR_OK);
    MR_ASSERT(second.payload_size == first.payload_size && second.body_size == first.body_size);
    MR_ASSERT(memcmp(second.payload, first.payload, first.payload_size) == 0);
    MR_ASSERT(first.body_size == 0 || memcmp(second.body, first.body, first.body_size) == 0);
    value_close(&doc);
    exact_value_fini(&first);
    exact_value_fini(&second);
}

/* Reads everything in the value, whose bytes may have changed since it was opened. */
static void wander(const mr_value *value, int depth) {
    mr_span bytes;
    mr_tensor tensor;
    mr_custom custom;
    uint8_t sum = 0;
    if (mr_value_bytes(value, &bytes) == MR_OK || mr_value_str(value, &bytes) == MR_OK)
        for (size_t i = 0; i < bytes.size; i++) sum ^= ((const uint8_t *)bytes.data)[i];
    if (mr_value_tensor(value, &tensor) == MR_OK)
        for (size_t i = 0; i < tensor.bytes; i++) sum ^= ((const uint8_t *)tensor.data)[i];
    if (mr_value_custom(value, &custom) == MR_OK) {
        for (size_t i = 0; i < custom.data.size; i++) sum ^= ((const uint8_t *)custom.data.data)[i];
        if (mr_value_buffer(value, 0, &bytes) == MR_OK && bytes.size != 0) sum ^= *(const uint8_t *)bytes.data;
    }
    __asm__ volatile("" : : "r"(sum)); /* keeps the compiler from removing the reads */
    if (depth > 4) return;
    size_t steps = 0;
    mr_iter iter = mr_value_iter(value);
    for (mr_value item; steps++ < 8 && mr_iter_next(&iter, &item);) wander(&item, depth + 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static _Alignas(VALUE_BUFFER_ALIGN) const uint8_t region[REGION_SIZE] = "the buffers of all parcels lie here";
    uint8_t *payload = copy_of(data, size);
    value_doc doc;
    mr_value root;
    mr_status status = value_open(&doc, span_of(payload, size), span_of(region, sizeof region), &root);
    if (status != MR_OK) {
        MR_ASSERT(status == MR_CORRUPT || status == MR_TOO_LARGE);
        MR_ASSERT(mr_last_error()[0] != '\0');
        free(payload);
        return 0;
    }
    uint64_t digest = value_digest(&root);
    write_again(&root, digest, OUT_OF_LINE_MIN);
    write_again(&root, digest, SIZE_MAX);
    for (size_t i = sizeof(value_payload_header); i < size; i++)
        payload[i] = (uint8_t)(payload[i] * 5 + data[size - i]);
    wander(&root, 0);
    value_close(&doc);
    free(payload);
    return 0;
}
