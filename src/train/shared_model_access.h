/* shared_model_access.h — shared model (shared_model.h) as the model server reads and writes it during a sync.
 *
 *   model_access_open ──► stand-ins can be resolved to tensors and their outputs
 *   model_access_begin ─► the model may be read and written
 *   model_access_check ─► the bytes that were read are the exported ones
 *   model_access_end, model_access_close
 *
 * Received values are not trusted: each tensor is checked against the bounds of the model. A zeroed access belongs to a
 * worker that exported nothing. */
#pragma once
#include <stdbool.h>

#include "train/shared_model.h"

typedef struct model_access {
    mr_context *mr;               /* borrowed */
    struct stored_object *region; /* held: the memory stays even if the worker dies */
    shared_model_place place;
    uint64_t offset; /* of the head in the arena */
    uint32_t ticket;
    size_t half;
    const uint8_t *from; /* the worker's model; NULL: nothing was exported */
    uint8_t *to;         /* the other half; NULL: a model copy, which is only read */
    bool begun;
} model_access;

/* *tree: the weights, with stand-ins for tensors; borrowed from the value. MR_INVALID: the value is malformed.
 * MR_ACTOR_DIED: the worker is gone, and the memory with it. */
MR_MUST mr_status model_access_open(mr_context *mr, const mr_value *value, model_access *out, mr_value *tree);
void model_access_close(model_access *access); /* marks a model copy as READ */

/* Replaces a stand-in by the tensor that it stands for. MR_INVALID: the tensor is out of bounds. */
MR_MUST mr_status model_access_resolve(const model_access *access, mr_tensor *tensor);
/* The address for the new content of a resolved tensor that is not empty. */
static inline void *model_access_target(const model_access *access, const mr_tensor *tensor) {
    return access->to + ((const uint8_t *)tensor->data - access->from);
}

/* Whether the result is written into the worker's shared model. */
static inline bool model_access_is_in_place(const model_access *access) { return access != NULL && access->to != NULL; }

/* MR_BUSY: the worker has exported the model to another sync. A write that a dead process has begun starts again. */
MR_MUST mr_status model_access_begin(model_access *access);
/* Call it after the last read. MR_BUSY: the model copy was revoked, and the bytes that were read are void. */
MR_MUST mr_status model_access_check(const model_access *access);
void model_access_end(model_access *access, bool written); /* no-op without model_access_begin */
