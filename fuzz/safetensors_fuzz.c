/* safetensors_fuzz.c — safetensors files as arbitrary bytes: a file that is read is written and read again with the
 * same tensors and texts. */
#include "base/safetensors.h"

#include "base/assert.h"
#include "fuzz/fuzz.h"

static void compare(const safetensors *list, const safetensors *again) {
    MR_ASSERT(list->count == again->count && list->text_count == again->text_count);
    for (size_t i = 0; i < list->count; i++) {
        const safetensor *a = &list->tensors[i], *b = safetensors_find(again, a->name);
        MR_ASSERT(b != NULL && a->dtype == b->dtype && a->dims == b->dims && a->data.size == b->data.size);
        MR_ASSERT(a->data.size == 0 || memcmp(a->data.data, b->data.data, a->data.size) == 0);
    }
    for (size_t i = 0; i < list->text_count; i++)
        MR_ASSERT(strcmp(list->texts[i].value, safetensors_text_of(again, list->texts[i].key)) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    safetensors list, again;
    buffer file;
    if (safetensors_read(span_of(data, size), &list) != MR_OK) return 0;
    buffer_init(&file, 64 << 20);
    MR_ASSERT(safetensors_write(&list, &file) == MR_OK);
    MR_ASSERT(safetensors_read(span_of(file.data, file.size), &again) == MR_OK);
    compare(&list, &again);
    safetensors_fini(&again);
    safetensors_fini(&list);
    buffer_fini(&file);
    return 0;
}
