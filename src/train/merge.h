/* merge.h — merging of the weights of workers into one: between received values and mr_aggregate.
 *
 *     merge_open ──► every worker's tensors are known to match ── merge_run ──► written to where the caller says
 *
 * Models that were lent are written where they lie, too. The result has the first worker's tree; a worker gets it with
 * the flavours (torch, NumPy) that it sent itself. */
#pragma once
#include <stdbool.h>

#include "miniray/model.h"
#include "train/weights.h"

typedef struct merge {
    const weights_source *sources; /* borrowed: what the workers sent */
    size_t workers;
    size_t lent;      /* how many of them get it where theirs lies */
    weights *lists;   /* owned: of each worker */
    weights previous; /* of momentum; none: no tensors */
    bool moves;       /* there is a previous model */
    size_t count;     /* tensors */
    size_t bytes;     /* of one model */
} merge;

/* ids: what the workers are called in errors. previous: NULL, or the model before, which has this version.
 * MR_INVALID: they do not match, and the text names tensor and worker. MR_NOMEM. */
MR_MUST mr_status merge_open(const weights_source *sources, const size_t *ids, size_t workers, const mr_value *previous,
                             uint64_t version, merge *out);
void merge_close(merge *merge);

/* What worker `worker` gets: the tree, with data (NULL: none) at these places, one for each tensor. *memory is the
 * caller's to free when he is done with *out. */
MR_MUST mr_status merge_arg(const merge *merge, size_t worker, void *const *places, void **memory, mr_arg *out);
bool merge_same(const merge *merge, size_t a, size_t b); /* whether both get the very same value */

/* Writes the result: there, and into the loans, which have begun. As mr_aggregate. */
MR_MUST mr_status merge_run(const merge *merge, const mr_sync_strategy *strategy, void *const *places);
