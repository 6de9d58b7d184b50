/* shared_model_access.h — shared model (shared_model.h) as the model server reads and writes it during a sync.
 *
 *   model_access_open ──► its tensors can be found, and their new values have a place
 *   model_access_begin ─► the model may be read and written
 *   model_access_check ─► the bytes that were read are those that were lent
 *   model_access_end, model_access_close
 *
 * The sender may be wrong: every tensor is checked against the memory that it claims. A zeroed access belongs to a
 * worker that lent nothing. */
#pragma once
#include <stdbool.h>

#include "train/shared_model.h"

typedef struct model_access {
    mr_context *mr;               /* borrowed */
    struct stored_object *region; /* held: the memory stays, even if the worker dies */
    shared_model_place place;
    uint64_t offset; /* of its head in the arena */
    uint32_t ticket;
    size_t half;
    const uint8_t *from; /* the worker's model; NULL: nothing was lent */
    uint8_t *to;         /* its other half; NULL: a model copy, which is only read */
    bool begun;
} model_access;

/* *tree: the weights, with stand-ins for tensors; borrowed from the value. MR_INVALID: the value is malformed.
 * MR_ACTOR_DIED: the worker is gone, and the memory with it. */
MR_MUST mr_status model_access_open(mr_context *mr, const mr_value *value, model_access *out, mr_value *tree);
void model_access_close(model_access *access); /* a model copy can be lent again then */

/* A stand-in becomes the tensor that it stands for. MR_INVALID. */
MR_MUST mr_status model_access_resolve(const model_access *access, mr_tensor *tensor);
/* of one that was resolved; not empty */
static inline void *model_access_target(const model_access *access, const mr_tensor *tensor) {
    return access->to + ((const uint8_t *)tensor->data - access->from);
}

/* Whether the worker gets the result where its model lies. */
static inline bool model_access_is_in_place(const model_access *access) { return access != NULL && access->to != NULL; }

/* MR_BUSY: the worker lent it to another sync meanwhile. A write by a dead process is begun again. */
MR_MUST mr_status model_access_begin(model_access *access);
/* after all was read. MR_BUSY: likewise, and the bytes that were read are void */
MR_MUST mr_status model_access_check(const model_access *access);
void model_access_end(model_access *access, bool written); /* one that was not begun is left alone */
