/* model_checkpoint_fuzz.c — the model's file of a checkpoint as arbitrary bytes: it is read or rejected, and every byte
 * of a model that was read can be read. */
#include "train/model_checkpoint.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "fuzz/fuzz.h"

static uint64_t sum_of(const weight_tree *tensors) {
    uint64_t sum = 0;
    for (size_t i = 0; i < tensors->count; i++)
        for (size_t at = 0; at < tensors->tensors[i].bytes; at++)
            sum += ((const uint8_t *)tensors->tensors[i].data)[at];
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    model_checkpoint_file file = {.model = mr_nil()};
    buffer_init(&file.file, SIZE_MAX / 2);
    MR_ASSERT(buffer_append(&file.file, data, size) == MR_OK);
    if (model_checkpoint_decode(&file) == MR_OK) {
        volatile uint64_t sum = sum_of(&file.tensors);
        for (size_t i = 0; i < file.facts.weight_count; i++) sum += file.facts.weights[i] > 0;
        (void)sum;
    }
    model_checkpoint_close(&file);
    return 0;
}
