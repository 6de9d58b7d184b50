/* tally_keys.c — see tally_keys.h. */
#include "kv/shelf/tally_keys.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/vector.h"
#include "kv/shelf/opener.h"

void tally_keys_fini(tally_keys *keys) {
    free(keys->index);
    free(keys->values);
    free(keys->scratch);
    *keys = (tally_keys){0};
}

VECTOR_CLONES static void add_floats(float *restrict to, const float *restrict from, size_t count) {
    for (size_t i = 0; i < count; i++) to[i] += from[i];
}

VECTOR_CLONES static void add_counters(uint64_t *restrict to, const uint64_t *restrict from, size_t count) {
    for (size_t i = 0; i < count; i++) to[i] += from[i];
}

void tally_add_up(void *to, const void *from, size_t count, bool counters) {
    if (counters)
        add_counters(to, from, count);
    else
        add_floats(to, from, count);
}

static size_t item_of(const tally_gift *gift) { return gift->counters ? sizeof(int64_t) : sizeof(float); }

/* Values at the end. There is room for them. */
static size_t append(tally_keys *keys, const uint8_t *from, size_t length, size_t item) {
    size_t at = keys->items;
    if (length > 0) memcpy(keys->values + at * item, from, length * item);
    keys->items += length;
    return at;
}

enum { FEW = 64 };

/* Most rows are a few floats: too little for a call. */
static inline void add_few(float *restrict to, const float *restrict from, size_t count) {
    for (size_t i = 0; i < count; i++) to[i] += from[i];
}

static void meet(tally_keys *keys, tally_key *entry, const tally_gift *gift, const uint8_t *from, uint32_t length) {
    size_t item = item_of(gift);
    uint8_t *there = keys->values + entry->at * item;
    uint32_t before = entry->length;
    bool longer = length > before;
    if (longer) {
        entry->at = append(keys, from, length, item);
        if (!gift->sets) { /* what was there, and then what came */
            memcpy(keys->values + entry->at * item, there, before * item);
            tally_add_up(keys->values + entry->at * item, from, before, gift->counters);
        }
    } else if (gift->sets) {
        memcpy(there, from, length * item);
    } else if (!gift->counters && length <= FEW) {
        add_few((float *)(void *)there, (const float *)(const void *)from, length);
    } else {
        tally_add_up(there, from, length, gift->counters);
    }
    entry->length = longer || gift->sets ? length : before;
    keys->total = keys->total - before + entry->length;
}

/* New keys and those that are there, both ascending, as one list: from its end, so that nothing is in the way. */
static void merge(tally_keys *keys, size_t fresh) {
    opener_must(alloc_try_grow(&keys->index, &keys->room, keys->count + fresh, sizeof *keys->index));
    size_t left = keys->count, to = keys->count + fresh;
    keys->count = to;
    while (fresh > 0) {
        bool old = left > 0 && keys->index[left - 1].key > keys->scratch[fresh - 1].key;
        keys->index[--to] = old ? keys->index[--left] : keys->scratch[--fresh];
    }
}

void tally_keys_add(tally_keys *keys, const tally_gift *gift) {
    size_t item = item_of(gift), items = 0, fresh = 0, at = 0;
    const uint8_t *from = gift->values;
    for (size_t i = 0; gift->lengths != NULL && i < gift->count; i++) items += gift->lengths[i];
    if (gift->lengths == NULL) items = gift->count * gift->dim;
    opener_must(alloc_try_grow(&keys->values, &keys->items_room, keys->items + items + 1, item)); /* never NULL */
    opener_must(alloc_try_grow(&keys->scratch, &keys->scratch_room, gift->count, sizeof *keys->scratch));
    for (size_t i = 0; i < gift->count; i++) {
        uint64_t key = gift->keys[i];
        uint32_t length = gift->lengths == NULL ? gift->dim : gift->lengths[i];
        while (at < keys->count && keys->index[at].key < key) at++;
        if (at < keys->count && keys->index[at].key == key) {
            meet(keys, &keys->index[at], gift, from, length);
        } else {
            keys->scratch[fresh++] = (tally_key){key, append(keys, from, length, item), length};
            keys->total += length;
        }
        from += length * item;
    }
    merge(keys, fresh);
}
