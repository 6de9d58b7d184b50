/* merge.c — see merge.h. */
#include "train/merge.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "train/model.h"

mr_status merge_open(const weights_source *sources, const size_t *ids, size_t workers, const mr_value *previous,
                     uint64_t version, merge *out) {
    merge made = {.sources = sources, .workers = workers};
    void *memory;
    MR_TRY(alloc_try((workers + 1) * sizeof *made.lists, &memory));
    made.lists = memory;
    mr_status status = MR_OK;
    for (size_t w = 0; w < workers && status == MR_OK; w++) {
        if (w == 0 || !weights_repeat(&sources[0], &made.lists[0], &sources[w], &made.lists[w]))
            status = weights_match(&sources[0], &sources[w], "worker", ids[w], &made.lists[w]);
        made.lent += loan_is_in_place(sources[w].loan);
    }
    if (status == MR_OK && previous != NULL) {
        weights_source before = {.root = *previous};
        status = weights_match(&sources[0], &before, "version", version, &made.previous);
        made.moves = true;
    }
    if (status != MR_OK) {
        merge_close(&made);
        return status;
    }
    made.count = made.lists[0].count;
    for (size_t i = 0; i < made.count; i++) made.bytes += made.lists[0].tensors[i].bytes;
    *out = made;
    return MR_OK;
}

void merge_close(merge *merge) {
    for (size_t w = 0; w < merge->workers; w++) weights_close(&merge->lists[w]);
    weights_close(&merge->previous);
    free(merge->lists);
    *merge = (struct merge){0};
}

mr_status merge_arg(const merge *merge, size_t worker, void *const *places, void **memory, mr_arg *out) {
    return weights_arg(&merge->sources[0].root, &merge->lists[worker], places, memory, out);
}

bool merge_same(const merge *merge, size_t a, size_t b) {
    for (size_t i = 0; i < merge->count; i++)
        if (merge->lists[a].tensors[i].tensor_kind != merge->lists[b].tensors[i].tensor_kind) return false;
    return true;
}

/* Of each tensor: the place that the caller names, then those in the loans. */
static void lay_out(const merge *merge, void *const *places, void **outputs) {
    for (size_t i = 0; i < merge->count; i++) {
        *outputs++ = places[i];
        for (size_t w = 0; w < merge->workers; w++)
            if (loan_is_in_place(merge->sources[w].loan))
                *outputs++ = loan_target(merge->sources[w].loan, &merge->lists[w].tensors[i]);
    }
}

mr_status merge_run(const merge *merge, const mr_sync_strategy *strategy, void *const *places) {
    void *memory;
    size_t each = merge->lent + 1;
    MR_TRY(alloc_try(merge->workers * sizeof(mr_tensor *) + merge->count * each * sizeof(void *), &memory));
    void **outputs = memory;
    const mr_tensor **models = (void *)(outputs + merge->count * each);
    for (size_t w = 0; w < merge->workers; w++) models[w] = merge->lists[w].tensors;
    lay_out(merge, places, outputs);
    static const mr_tensor none; /* of a model without tensors: where there is one before, it is empty, too */
    const mr_tensor *previous = !merge->moves ? NULL : merge->count == 0 ? &none : merge->previous.tensors;
    mr_status status = model_aggregate(strategy, models, merge->workers, merge->count, previous, outputs, each);
    free(memory);
    return status;
}
