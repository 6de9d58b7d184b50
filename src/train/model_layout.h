/* model_layout.h — layout of a shared model (shared_model.h): its tree, with a stand-in for each tensor, and the ranges
 * of the half that the tensors occupy; for a model in other memory (model_copy.c), the ranges that they are copied to.
 *
 * The layout is computed from the value that would otherwise be sent, for values from any language. Pure: no store, no
 * I/O. */
#pragma once
#include "miniray/value.h"

typedef struct model_layout_stretch { /* range of bytes of the half */
    uint64_t from, end;
} model_layout_stretch;

typedef struct model_layout { /* a zeroed one is empty */
    /* in memory of the layout; keys, and leaves that are not tensors, are borrowed from the described value */
    mr_arg weights;
    model_layout_stretch *stretches; /* in ascending order; owned: the start of the block with all arrays */
    const void **sources;            /* data to be copied; NULL: the tensors are in the half */
    size_t count;                    /* tensors */
} model_layout;

/* The layout of weights in the half, `half` bytes from `base` on. MR_INVALID: a tensor is not in the half or has too
 * many dimensions for a stand-in, or there is no tensor; *layout is unchanged. MR_NOMEM. */
MR_MUST mr_status model_layout_draw(model_layout *layout, const uint8_t *base, size_t half, const mr_arg *weights);
/* The same for tensors in any memory: they get offsets one after another. *bytes is the size of all. */
MR_MUST mr_status model_layout_pack(model_layout *layout, const mr_arg *weights, size_t *bytes);
void model_layout_fini(model_layout *layout);
