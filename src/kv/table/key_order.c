/* key_order.c — see key_order.h. */
#include "kv/table/key_order.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/invariants.h"
#include "kv/table/key_sort.h"

enum {
    FILLED = KEY_ORDER_LEAF * 3 / 4, /* keys of a leaf after a split: there is room for more */
    FEW = 256,                       /* keys that a comparing sort handles best */
    DIGITS = 4,
    DIGIT_BITS = 16,
    DIGIT_VALUES = 1 << DIGIT_BITS
};

typedef struct leaf {
    uint64_t count;
    uint64_t keys[KEY_ORDER_LEAF];
} leaf;

typedef struct split { /* a new leaf behind leaf number `after` */
    size_t after;
    leaf *leaf;
} split;

struct key_order {
    leaf **leaves; /* owned, with its elements */
    size_t leaf_count, leaf_room;
    size_t count;
    uint64_t *noted; /* owned */
    size_t noted_count, noted_room;
};

#if defined MINIRAY_MUTATIONS || defined MINIRAY_CHECKS
static void key_order_check(const key_order *order) {
    size_t count = 0;
    uint64_t last = 0;
    for (size_t i = 0; i < order->leaf_count; i++) {
        const leaf *leaf = order->leaves[i];
        MR_ASSERT(leaf->count > 0 && leaf->count <= KEY_ORDER_LEAF); /* 1 */
        for (size_t k = 0; k < leaf->count; last = leaf->keys[k++])
            MR_ASSERT((i == 0 && k == 0) || leaf->keys[k] > last); /* 1 */
        count += leaf->count;
    }
    MR_ASSERT(order->count == count); /* 2 */
}
#endif

/* ---- Sorting. */

static unsigned digit_of(uint64_t key, unsigned digit) {
    return (unsigned)(key >> (digit * DIGIT_BITS)) & (DIGIT_VALUES - 1);
}

/* One pass of a radix sort, stable. False: all keys have the same digit. */
static bool sort_digit(const uint64_t *from, uint64_t *to, size_t count, unsigned digit, size_t *places) {
    memset(places, 0, DIGIT_VALUES * sizeof *places);
    for (size_t i = 0; i < count; i++) places[digit_of(from[i], digit)]++;
    if (places[digit_of(from[0], digit)] == count) return false;
    size_t at = 0;
    for (size_t value = 0; value < DIGIT_VALUES; value++) {
        size_t size = places[value];
        places[value] = at;
        at += size;
    }
    for (size_t i = 0; i < count; i++) to[places[digit_of(from[i], digit)]++] = from[i];
    return true;
}

static mr_status sort(uint64_t *keys, size_t count) {
    uint64_t *from = keys, *to, *memory;
    if (count <= FEW) {
        key_sort_keys(keys, count);
        return MR_OK;
    }
    MR_TRY(alloc_try(count * sizeof *memory + DIGIT_VALUES * sizeof(size_t), &memory));
    size_t *places = (size_t *)(void *)(memory + count);
    to = memory;
    for (unsigned digit = 0; digit < DIGITS; digit++) {
        if (!sort_digit(from, to, count, digit, places)) continue;
        uint64_t *sorted = to;
        to = from;
        from = sorted;
    }
    if (from != keys) memcpy(keys, from, count * sizeof *keys);
    free(memory);
    return MR_OK;
}

/* ---- Leaves. */

static mr_status add_leaf(key_order *order, const uint64_t *keys, size_t count) {
    leaf *leaf;
    MR_TRY(alloc_try_grow(&order->leaves, &order->leaf_room, order->leaf_count + 1, sizeof *order->leaves));
    MR_TRY(alloc_try(sizeof *leaf, &leaf));
    leaf->count = count;
    if (count != 0) memcpy(leaf->keys, keys, count * sizeof *keys);
    order->leaves[order->leaf_count++] = leaf;
    order->count += count;
    return MR_OK;
}

mr_status key_order_create(uint64_t *keys, size_t count, key_order **out) {
    MR_TRY(sort(keys, count));
    key_order *order = XNEW(key_order, .count = 0);
    mr_status status = MR_OK;
    for (size_t at = 0; status == MR_OK && at < count; at += FILLED)
        status = add_leaf(order, keys + at, count - at < FILLED ? count - at : FILLED);
    if (status == MR_OK)
        *out = order;
    else
        key_order_destroy(order);
    if (status == MR_OK) CHECK_INVARIANTS(order->count, key_order_check(order));
    return status;
}

void key_order_destroy(key_order *order) {
    if (order == NULL) return;
    for (size_t i = 0; i < order->leaf_count; i++) free(order->leaves[i]);
    free(order->leaves);
    free(order->noted);
    free(order);
}

bool key_order_note(key_order *order, uint64_t key) {
    if (order->noted_count == order->count + KEY_ORDER_NOTED) return false;
    if (order->noted_count == order->noted_room &&
        alloc_try_grow(&order->noted, &order->noted_room, order->noted_count + 1, sizeof key) != MR_OK)
        return false;
    order->noted[order->noted_count++] = key;
    return true;
}

/* Number of the last leaf that begins at or before the key, or 0. */
static size_t leaf_of(const key_order *order, uint64_t key) {
    size_t low = 0, high = order->leaf_count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (order->leaves[middle]->keys[0] <= key)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* ---- Merging. */

typedef struct merge {
    key_order *order;
    key_order_has_fn *has;
    const void *context;
    uint64_t *merged; /* owned: keys of one leaf after the merge */
    size_t merged_room;
    split *splits; /* owned, by `after` */
    size_t split_count, split_room;
    bool emptied; /* a leaf has no keys any more */
} merge;

/* The keys of the leaf, with those of the noted keys that have a row, and without those that have none. */
static size_t merge_keys(const merge *merge, const leaf *leaf, const uint64_t *noted, size_t count, uint64_t *out) {
    size_t made = 0, at = 0;
    for (size_t i = 0; i < count; i++) {
        size_t next = key_sort_reach(leaf->keys, leaf->count, sizeof *leaf->keys, at, noted[i]);
        memcpy(out + made, leaf->keys + at, (next - at) * sizeof *out);
        made += next - at;
        at = next + (next < leaf->count && leaf->keys[next] == noted[i]);
        if (merge->has(merge->context, noted[i])) out[made++] = noted[i];
    }
    memcpy(out + made, leaf->keys + at, (leaf->count - at) * sizeof *out);
    return made + leaf->count - at;
}

static mr_status add_split(merge *merge, size_t after, const uint64_t *keys, size_t count) {
    leaf *leaf;
    MR_TRY(alloc_try_grow(&merge->splits, &merge->split_room, merge->split_count + 1, sizeof *merge->splits));
    MR_TRY(alloc_try(sizeof *leaf, &leaf));
    leaf->count = count;
    memcpy(leaf->keys, keys, count * sizeof *keys);
    merge->splits[merge->split_count++] = (split){after, leaf};
    return MR_OK;
}

/* Changes one leaf, whose noted keys are these; what does not fit goes to new leaves. */
static mr_status change_leaf(merge *merge, size_t number, const uint64_t *noted, size_t count) {
    leaf *leaf = merge->order->leaves[number];
    MR_TRY(alloc_try_grow(&merge->merged, &merge->merged_room, leaf->count + count, sizeof *merge->merged));
    size_t made = merge_keys(merge, leaf, noted, count, merge->merged);
    size_t kept = made <= KEY_ORDER_LEAF ? made : FILLED;
    merge->order->count += made - leaf->count;
    merge->emptied |= made == 0;
    memcpy(leaf->keys, merge->merged, kept * sizeof *leaf->keys);
    leaf->count = kept;
    for (size_t at = kept; at < made; at += FILLED)
        MR_TRY(add_split(merge, number, merge->merged + at, made - at < FILLED ? made - at : FILLED));
    return MR_OK;
}

static mr_status change_leaves(merge *merge) {
    const key_order *order = merge->order;
    for (size_t at = 0, end; at < order->noted_count; at = end) {
        size_t number = leaf_of(order, order->noted[at]);
        end = order->noted_count;
        if (number + 1 < order->leaf_count)
            end = key_sort_reach(order->noted, order->noted_count, sizeof *order->noted, at,
                                 order->leaves[number + 1]->keys[0]);
        MR_TRY(change_leaf(merge, number, order->noted + at, end - at));
    }
    return MR_OK;
}

/* Puts the new leaves in their places, and removes the empty ones. */
static mr_status place_splits(merge *merge) {
    key_order *order = merge->order;
    size_t made = 0, next = 0;
    leaf **leaves;
    if (merge->split_count == 0 && !merge->emptied) return MR_OK;
    MR_TRY(alloc_try((order->leaf_count + merge->split_count + 1) * sizeof(leaf *), &leaves));
    for (size_t i = 0; i < order->leaf_count; i++) {
        if (order->leaves[i]->count != 0)
            leaves[made++] = order->leaves[i];
        else
            free(order->leaves[i]);
        while (next < merge->split_count && merge->splits[next].after == i) leaves[made++] = merge->splits[next++].leaf;
    }
    free(order->leaves);
    order->leaf_room = order->leaf_count + merge->split_count + 1;
    order->leaves = leaves;
    order->leaf_count = made;
    merge->split_count = 0;
    return MR_OK;
}

static size_t distinct(uint64_t *keys, size_t count) {
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (i == 0 || keys[i] != keys[i - 1]) keys[kept++] = keys[i];
    return kept;
}

mr_status key_order_settle(key_order *order, key_order_has_fn *has, const void *context) {
    merge merge = {.order = order, .has = has, .context = context};
    if (order->noted_count == 0) return MR_OK;
    MR_TRY(sort(order->noted, order->noted_count));
    order->noted_count = distinct(order->noted, order->noted_count);
    if (order->leaf_count == 0) MR_TRY(add_leaf(order, NULL, 0)); /* empty, with the keys that follow */
    mr_status status = change_leaves(&merge);
    if (status == MR_OK) status = place_splits(&merge);
    for (size_t i = 0; i < merge.split_count; i++) free(merge.splits[i].leaf); /* without memory for the leaves */
    free(merge.splits);
    free(merge.merged);
    order->noted_count = 0;
    if (status == MR_OK) CHECK_INVARIANTS(order->count, key_order_check(order));
    return status;
}

/* ---- Reading. */

key_order_cursor key_order_seek(const key_order *order, uint64_t first) {
    MR_ASSERT(order->noted_count == 0);
    if (order->leaf_count == 0) return (key_order_cursor){0};
    size_t number = leaf_of(order, first);
    const leaf *leaf = order->leaves[number];
    size_t at = key_sort_reach(leaf->keys, leaf->count, sizeof *leaf->keys, 0, first);
    return at < leaf->count ? (key_order_cursor){number, at} : (key_order_cursor){number + 1, 0};
}

bool key_order_next(const key_order *order, key_order_cursor *cursor, uint64_t *key) {
    if (cursor->leaf == order->leaf_count) return false;
    const leaf *leaf = order->leaves[cursor->leaf];
    *key = leaf->keys[cursor->at];
    if (++cursor->at == leaf->count) *cursor = (key_order_cursor){cursor->leaf + 1, 0};
    return true;
}

size_t key_order_bytes(const key_order *order) {
    if (order == NULL) return 0;
    return sizeof *order + order->leaf_room * sizeof *order->leaves + order->leaf_count * sizeof(leaf) +
           order->noted_room * sizeof *order->noted;
}
