/* resources_fuzz.c — amounts of resources, as bytes from another process and as text from a user: they are refused, or
 * are sorted, named and bounded, and are the same after an encoding as bytes and as text. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "fuzz/fuzz.h"
#include "runtime/common/resources.h"

static void comes_back(const resources *got) {
    uint8_t bytes[RESOURCES_BYTES_MAX];
    char text[RESOURCES_TEXT_MAX];
    resources again, parsed = {0};
    MR_ASSERT(got->count <= RESOURCES_MAX);
    for (uint32_t i = 0; i < got->count; i++) {
        MR_ASSERT(got->items[i].milli > 0 && got->items[i].name[0] != '\0');
        MR_ASSERT(i == 0 || strcmp(got->items[i - 1].name, got->items[i].name) < 0);
    }
    writer writer = writer_of(bytes, sizeof bytes);
    resources_encode(got, &writer);
    MR_ASSERT(!writer.failed);
    reader reader = reader_of(bytes, writer_size(&writer));
    MR_ASSERT(resources_decode(&reader, &again) == MR_OK && resources_equal(got, &again));
    if (resources_milli(got, "CPU") != 0 || resources_milli(got, "GPU") != 0) return; /* options, not names for users */
    again.group = again.bundle = 0; /* the text has amounts, but no group */
    resources_text(&again, text, sizeof text);
    for (char *at = text, *to = text; (*to = *at) != '\0'; at++) to += *at != ' ';
    MR_ASSERT(resources_parse(&parsed, text) == MR_OK && resources_equal(&again, &parsed));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    reader reader = reader_of(data, size);
    resources got, parsed = {0};
    if (resources_decode(&reader, &got) == MR_OK) comes_back(&got);
    char *text = xmalloc(size + 1);
    if (size > 0) memcpy(text, data, size);
    text[size] = '\0';
    if (resources_parse(&parsed, text) == MR_OK) comes_back(&parsed);
    free(text);
    return 0;
}
