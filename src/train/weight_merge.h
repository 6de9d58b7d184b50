/* weight_merge.h — merging of the weights of workers into one model: matches received values for mr_aggregate.
 *
 *  weight_merge_open ──► the tensors of all workers match ── weight_merge_run ──► result in the caller's memory
 *
 * The result is also written into shared models. It has the first worker's tree; each worker gets it with the tensor
 * kinds (torch, NumPy) of its own weights. */
#pragma once
#include <stdbool.h>

#include "miniray/model.h"
#include "train/weight_tree.h"

typedef struct weight_merge {
    const weight_tree_source *sources; /* borrowed: weights that the workers sent */
    size_t workers;
    size_t exported;      /* number of workers that get the result in place */
    weight_tree *lists;   /* owned: the tensors of each worker */
    weight_tree previous; /* for momentum; without tensors if there is no previous model */
    bool moves;           /* there is a previous model */
    size_t count;         /* tensors */
    size_t bytes;         /* of one model */
} weight_merge;

/* ids: numbers of the workers, for errors. previous: the model of version `version`, or NULL. MR_INVALID: the weights
 * do not match; the error names tensor and worker. MR_NOMEM. */
MR_MUST mr_status weight_merge_open(const weight_tree_source *sources, const size_t *ids, size_t workers,
                                    const mr_value *previous, uint64_t version, weight_merge *out);
void weight_merge_close(weight_merge *merge);

/* The result as an argument for a worker: the tree, with the tensors' data at these places (NULL: no data yet). The
 * caller frees *memory after the last use of *out. */
MR_MUST mr_status weight_merge_arg(const weight_merge *merge, size_t worker, void *const *places, void **memory,
                                   mr_arg *out);
bool weight_merge_same(const weight_merge *merge, size_t a, size_t b); /* whether both workers get the same value */

/* Writes the result to these places and into the shared models (model_access_begin). Errors as in mr_aggregate. */
MR_MUST mr_status weight_merge_run(const weight_merge *merge, const mr_sync_strategy *strategy, void *const *places);
