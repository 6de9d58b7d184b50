/* key_order.h — the keys of an ordered table that have a row, ascending: for ranges.
 *
 *   leaves    up to KEY_ORDER_LEAF keys each, ascending, in an array of leaves: 8 to 11 bytes a key
 *   noted     keys that got or lost a row since the last settle, in any order and perhaps repeated
 *
 * A note costs an append. key_order_settle sorts the noted keys and merges them into their leaves; the table says
 * which of them have a row now. So a range costs a search and its keys, and every new or erased key is paid for once,
 * by the range after it.
 *
 * The order is a cache: the table makes it from all keys at its first range, destroys it when there is no memory or
 * when too many keys are noted (KEY_ORDER_NOTED + one for each key), and then makes it again at the next range. Tables
 * without ranges have none.
 *
 *   1  The keys of all leaves, one after another, ascend strictly; no leaf is empty after a settle.
 *   2  `count` is the number of keys in all leaves.
 *
 * Ownership   the order owns its leaves and notes. Threads: none. Pure. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "miniray/status.h"

enum { KEY_ORDER_LEAF = 511, KEY_ORDER_NOTED = 1 << 16 };

typedef struct key_order key_order;

typedef bool key_order_has_fn(const void *context, uint64_t key); /* whether the key has a row */

/* Makes the order of these distinct keys, in any order; the array is sorted. MR_NOMEM. */
MR_MUST mr_status key_order_create(uint64_t *keys, size_t count, key_order **out);
void key_order_destroy(key_order *order); /* NULL: no-op */

/* Notes that the key got or lost a row. False: too many notes, or no memory; the order is to be destroyed. */
MR_MUST bool key_order_note(key_order *order, uint64_t key);

/* Merges the noted keys. MR_NOMEM: the order is to be destroyed. */
MR_MUST mr_status key_order_settle(key_order *order, key_order_has_fn *has, const void *context);

/* ---- Reading: the order is settled, and no key is noted meanwhile. */

typedef struct key_order_cursor {
    size_t leaf, at; /* the next key */
} key_order_cursor;

key_order_cursor key_order_seek(const key_order *order, uint64_t first); /* at the first key that is not below it */
bool key_order_next(const key_order *order, key_order_cursor *cursor, uint64_t *key); /* false: the end */

size_t key_order_bytes(const key_order *order); /* NULL: 0 */
