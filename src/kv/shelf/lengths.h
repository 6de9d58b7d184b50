/* lengths.h — squared norms that slots exchange before a round is applied (ps/values.h, norms).
 *
 *   of             squares[0]                                       squares[1]
 *   LENGTHS_WHOLE  of the table's gradient: all that is added       0
 *   1 + array      of the values of a dense array, where it is      of the update that its optimizer would make there
 *                  pushed to                                        (optim_measure)
 *
 * A slot has an item for what lies in it; items of slots are added up, one slot after the other, in fp64. NaN counts as
 * infinite: it is all the same, whatever its bits were.
 *
 *   bytes            lengths
 *   LENGTHS_ITEM × n  4 table, 4 of, 8 8 squares; ascending by table and `of`, all different
 *
 * The norms of several phases lie one behind the other, so what is read ascends in stretches.
 *
 * Bounds      LENGTHS_MAX items, the lowest: an array beyond that has no length.
 * Ownership   it owns its list. Threads: none. */
#pragma once
#include "base/bale.h"

enum { LENGTHS_ITEM = 24, LENGTHS_WHOLE = 0, LENGTHS_MAX = (1 << 20) / LENGTHS_ITEM };

typedef struct lengths_item {
    uint32_t table, of;
    double squares[2];
} lengths_item;

_Static_assert(sizeof(lengths_item) == LENGTHS_ITEM, "written as it lies");

typedef struct lengths { /* zeroed: empty */
    lengths_item *list;  /* owned, ascending */
    size_t count, room;
} lengths;

void lengths_fini(lengths *lengths); /* empty */

void lengths_add(lengths *lengths, uint32_t table, uint32_t of, double first, double second);
const lengths_item *lengths_find(const lengths *lengths, uint32_t table, uint32_t of); /* NULL: there is none */

bale *lengths_write(const lengths *lengths); /* moved to the caller */
/* What is there is replaced. False: these are none, and it is empty. Of two for one thing the first one counts. */
bool lengths_read(lengths *lengths, span bytes);

/* The items of all parts, added up in the order of the parts. A part that makes no sense has none. */
bale *lengths_combine(const span *parts, size_t count);
