/* weight_merge.c — see weight_merge.h. */
#include "train/weight_merge.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "train/aggregate_api.h"

mr_status weight_merge_open(const weight_tree_source *sources, const size_t *ids, size_t workers,
                            const mr_value *previous, uint64_t version, weight_merge *out) {
    weight_merge made = {.sources = sources, .workers = workers};
    MR_TRY(alloc_try((workers + 1) * sizeof *made.lists, &made.lists));
    mr_status status = MR_OK;
    for (size_t w = 0; w < workers && status == MR_OK; w++) {
        if (w == 0 || !weight_tree_repeat(&sources[0], &made.lists[0], &sources[w], &made.lists[w]))
            status = weight_tree_match(&sources[0], &sources[w], "worker", ids[w], &made.lists[w]);
        made.exported += model_access_is_in_place(sources[w].access);
    }
    if (status == MR_OK && previous != NULL) {
        weight_tree_source before = {.root = *previous};
        status = weight_tree_match(&sources[0], &before, "version", version, &made.previous);
        made.moves = true;
    }
    if (status != MR_OK) {
        weight_merge_close(&made);
        return status;
    }
    made.count = made.lists[0].count;
    for (size_t i = 0; i < made.count; i++) made.bytes += made.lists[0].tensors[i].bytes;
    *out = made;
    return MR_OK;
}

void weight_merge_close(weight_merge *merge) {
    for (size_t w = 0; w < merge->workers; w++) weight_tree_close(&merge->lists[w]);
    weight_tree_close(&merge->previous);
    free(merge->lists);
    *merge = (struct weight_merge){0};
}

mr_status weight_merge_arg(const weight_merge *merge, size_t worker, void *const *places, void **memory, mr_arg *out) {
    return weight_tree_arg(&merge->sources[0].root, &merge->lists[worker], places, memory, out);
}

bool weight_merge_same(const weight_merge *merge, size_t a, size_t b) {
    for (size_t i = 0; i < merge->count; i++)
        if (merge->lists[a].tensors[i].tensor_kind != merge->lists[b].tensors[i].tensor_kind) return false;
    return true;
}

/* The outputs of each tensor: the caller's place, then those in the shared models. */
static void lay_out(const weight_merge *merge, void *const *places, void **outputs) {
    for (size_t i = 0; i < merge->count; i++) {
        *outputs++ = places[i];
        for (size_t w = 0; w < merge->workers; w++)
            if (model_access_is_in_place(merge->sources[w].access))
                *outputs++ = model_access_target(merge->sources[w].access, &merge->lists[w].tensors[i]);
    }
}

mr_status weight_merge_run(const weight_merge *merge, const mr_sync_strategy *strategy, void *const *places) {
    void **outputs;
    size_t each = merge->exported + 1;
    MR_TRY(alloc_try(merge->workers * sizeof(mr_tensor *) + merge->count * each * sizeof *outputs, &outputs));
    const mr_tensor **models = (void *)(outputs + merge->count * each);
    for (size_t w = 0; w < merge->workers; w++) models[w] = merge->lists[w].tensors;
    lay_out(merge, places, outputs);
    static const mr_tensor none; /* for a model without tensors, whose previous model has none either */
    const mr_tensor *previous = !merge->moves ? NULL : merge->count == 0 ? &none : merge->previous.tensors;
    mr_status status = model_aggregate(strategy, models, merge->workers, merge->count, previous, outputs, each);
    free(outputs);
    return status;
}
