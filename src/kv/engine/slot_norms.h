/* slot_norms.h — squared norms that slots exchange before they apply a round (ps/state_machine.h, norms).
 *
 *   of             squares[0]                                       squares[1]
 *   SLOT_NORMS_WHOLE  of the table's gradient: the whole sum        0
 *   1 + array      of the values of a dense array, where it is      of the update that its optimizer would make there
 *                  pushed to                                        (optim_measure)
 *
 * A slot has an item for each table or array part that it holds. Items are added in fp64 in the order of the slots. NaN
 * counts as infinite.
 *
 *   bytes            lengths
 *  SLOT_NORMS_ITEM × n  4 table, 4 of, 8 8 squares; ascending by table and `of`, all different
 *
 * The encoded norms of several phases are concatenated, so a list that is read ascends within each phase.
 *
 * Bounds   the lowest SLOT_NORMS_MAX items; further arrays have no norm.
 * Ownership   a slot_norms owns its list. Threads: none. */
#pragma once
#include "base/shared_bytes.h"

enum { SLOT_NORMS_ITEM = 24, SLOT_NORMS_WHOLE = 0, SLOT_NORMS_MAX = (1 << 20) / SLOT_NORMS_ITEM };

typedef struct slot_norms_item {
    uint32_t table, of;
    double squares[2];
} slot_norms_item;

_Static_assert(sizeof(slot_norms_item) == SLOT_NORMS_ITEM, "written as it lies");

typedef struct slot_norms { /* zero-initialized: empty */
    slot_norms_item *list;  /* owned, ascending */
    size_t count, room;
} slot_norms;

void slot_norms_fini(slot_norms *norms); /* leaves it empty */

void slot_norms_add(slot_norms *norms, uint32_t table, uint32_t of, double first, double second);
const slot_norms_item *slot_norms_find(const slot_norms *norms, uint32_t table, uint32_t of); /* NULL: not found */

shared_bytes *slot_norms_write(const slot_norms *norms); /* the caller owns the bytes */
/* Replaces the list. False: the bytes are malformed, and the list is empty. Of two items with equal keys the first
 * counts. */
bool slot_norms_read(slot_norms *norms, span bytes);

/* Sum of the items of all parts, in the order of the parts. A malformed part counts as empty. Implements `combine` of
 * state_machine.h; the context is unused. */
shared_bytes *slot_norms_combine(void *context, const span *parts, size_t count);
