/* weight_merge.h — merging of the weights of workers into one: between received values and mr_aggregate.
 *
 *  weight_merge_open ──► every worker's tensors are known to match ── weight_merge_run ──► in the caller's memory
 *
 * Shared models are written in place, too. The result has the first worker's tree; a worker gets the result with the
 * flavours (torch, NumPy) that the worker sent itself. */
#pragma once
#include <stdbool.h>

#include "miniray/model.h"
#include "train/weight_tree.h"

typedef struct weight_merge {
    const weight_tree_source *sources; /* borrowed: weights that the workers sent */
    size_t workers;
    size_t exported;      /* how many of them get the result in place */
    weight_tree *lists;   /* owned: of each worker */
    weight_tree previous; /* of momentum; none: no tensors */
    bool moves;           /* there is a previous model */
    size_t count;         /* tensors */
    size_t bytes;         /* of one model */
} weight_merge;

/* ids: numbers of the workers in errors. previous: NULL, or the model before, which has this version.
 * MR_INVALID: they do not match, and the text names tensor and worker. MR_NOMEM. */
MR_MUST mr_status weight_merge_open(const weight_tree_source *sources, const size_t *ids, size_t workers,
                                    const mr_value *previous, uint64_t version, weight_merge *out);
void weight_merge_close(weight_merge *merge);

/* The argument for worker `worker`: the tree, with data (NULL: none) at these places, one for each tensor. The caller
 * frees *memory after the last use of *out. */
MR_MUST mr_status weight_merge_arg(const weight_merge *merge, size_t worker, void *const *places, void **memory,
                                   mr_arg *out);
bool weight_merge_same(const weight_merge *merge, size_t a, size_t b); /* whether both get the very same value */

/* Writes the result to these places and into the shared models, which have begun. As mr_aggregate. */
MR_MUST mr_status weight_merge_run(const weight_merge *merge, const mr_sync_strategy *strategy, void *const *places);
