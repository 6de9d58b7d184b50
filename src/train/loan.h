/* loan.h — shared model (share.h) as the model server reads and writes it during a sync.
 *
 *     loan_open ──► its tensors can be found, and their new values have a place ── loan_begin ──► may be read, written
 *          └── loan_close ◄──── loan_end ◄──── loan_check: what was read is what was lent ───────────────────┘
 *
 * Whoever sent it may be wrong: every tensor is checked against the memory that it claims. A zeroed loan is of a worker
 * that lent nothing. */
#pragma once
#include <stdbool.h>

#include "train/share.h"

typedef struct loan {
    mr_context *mr;         /* borrowed */
    struct shelved *region; /* held: the memory stays, even if the worker dies */
    share_place place;
    uint64_t offset; /* of its head in the arena */
    uint32_t ticket;
    size_t half;
    const uint8_t *from; /* the worker's model; NULL: nothing was lent */
    uint8_t *to;         /* its other half; NULL: it lies on a tray, and is only read */
    bool begun;
} loan;

bool loan_is_one(const mr_value *value);
/* *tree: the weights, with stand-ins for tensors; borrowed from the value. MR_INVALID: it makes no sense.
 * MR_ACTOR_DIED: the worker is gone, and the memory with it. */
MR_MUST mr_status loan_open(mr_context *mr, const mr_value *value, loan *out, mr_value *tree);
void loan_close(loan *loan); /* a tray can be lent again then */

/* A stand-in becomes the tensor that it stands for. MR_INVALID. */
MR_MUST mr_status loan_resolve(const loan *loan, mr_tensor *tensor);
static inline void *loan_target(const loan *loan, const mr_tensor *tensor) { /* of one that was resolved; not empty */
    return loan->to + ((const uint8_t *)tensor->data - loan->from);
}

/* Whether the worker gets the result where its model lies. */
static inline bool loan_is_in_place(const loan *loan) { return loan != NULL && loan->to != NULL; }

/* MR_BUSY: the worker lent it to another sync meanwhile. Of who died with it, it is begun again. */
MR_MUST mr_status loan_begin(loan *loan);
MR_MUST mr_status loan_check(const loan *loan); /* after all was read. MR_BUSY: likewise, and what was read is void */
void loan_end(loan *loan, bool written);        /* one that was not begun is left alone */
