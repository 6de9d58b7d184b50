/* model_layout.h — layout of a shared model (shared_model.h): its tree, with a stand-in for each tensor, and the ranges
 * of the half they occupy; of a model elsewhere (model_copy.c), where each tensor is copied to.
 *
 * The layout is made from the value that would have been sent, so that only the tree is walked, whatever language the
 * value comes from. Pure: no store, no I/O. */
#pragma once
#include "miniray/value.h"

typedef struct model_layout_stretch { /* of the half */
    uint64_t from, end;
} model_layout_stretch;

typedef struct model_layout { /* a zeroed one is empty */
    /* in memory of the model layout; keys and leaves that are no tensors are borrowed from the described value */
    mr_arg weights;
    model_layout_stretch *stretches; /* by where they begin; owned: the begin of the block that has all of it */
    const void **sources;            /* of those that are to be copied; NULL: they are there */
    size_t count;                    /* tensors */
} model_layout;

/* `half` bytes from `base` on are the model. MR_INVALID: some of it lies elsewhere, there is no tensor in it, or one
 * has too many dimensions for a stand-in; the model layout is as it was. MR_NOMEM. */
MR_MUST mr_status model_layout_draw(model_layout *layout, const uint8_t *base, size_t half, const mr_arg *weights);
/* The same of tensors that lie anywhere: they get places one behind the other, *bytes in all. */
MR_MUST mr_status model_layout_pack(model_layout *layout, const mr_arg *weights, size_t *bytes);
void model_layout_fini(model_layout *layout);
