/* round_sum_keys.c — see round_sum_keys.h. */
#include "kv/engine/round_sum_keys.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/simd.h"
#include "kv/engine/section_decoder.h"

void round_sum_keys_fini(round_sum_keys *keys) {
    free(keys->index);
    free(keys->values);
    free(keys->scratch);
    *keys = (round_sum_keys){0};
}

SIMD_CLONES static void add_floats(float *restrict to, const float *restrict from, size_t count) {
    for (size_t i = 0; i < count; i++) to[i] += from[i];
}

SIMD_CLONES static void add_counters(uint64_t *restrict to, const uint64_t *restrict from, size_t count) {
    for (size_t i = 0; i < count; i++) to[i] += from[i];
}

void round_sum_add_up(void *to, const void *from, size_t count, bool counters) {
    if (counters)
        add_counters(to, from, count);
    else
        add_floats(to, from, count);
}

static size_t item_of(const round_sum_contribution *added) { return added->counters ? sizeof(int64_t) : sizeof(float); }

/* Appends values; there is room for them. Returns their place. */
static size_t append(round_sum_keys *keys, const uint8_t *from, size_t length, size_t item) {
    size_t at = keys->items;
    if (length > 0) memcpy(keys->values + at * item, from, length * item);
    keys->items += length;
    return at;
}

enum { FEW = 64 };

/* Inlined, because most rows are a few floats. */
static inline void add_few(float *restrict to, const float *restrict from, size_t count) {
    for (size_t i = 0; i < count; i++) to[i] += from[i];
}

static void meet(round_sum_keys *keys, round_sum_key *entry, const round_sum_contribution *added, const uint8_t *from,
                 uint32_t length) {
    size_t item = item_of(added);
    uint8_t *there = keys->values + entry->at * item;
    uint32_t before = entry->length;
    bool longer = length > before;
    if (longer) {
        entry->at = append(keys, from, length, item);
        if (!added->sets) { /* old values first, then the new ones */
            memcpy(keys->values + entry->at * item, there, before * item);
            round_sum_add_up(keys->values + entry->at * item, from, before, added->counters);
        }
    } else if (added->sets) {
        memcpy(there, from, length * item);
    } else if (!added->counters && length <= FEW) {
        add_few((float *)(void *)there, (const float *)(const void *)from, length);
    } else {
        round_sum_add_up(there, from, length, added->counters);
    }
    entry->length = longer || added->sets ? length : before;
    keys->total = keys->total - before + entry->length;
}

/* Merges new and present keys, both ascending, from the end of the index, so that no entry is overwritten. */
static void merge(round_sum_keys *keys, size_t fresh) {
    section_decoder_must(alloc_try_grow(&keys->index, &keys->room, keys->count + fresh, sizeof *keys->index));
    size_t left = keys->count, to = keys->count + fresh;
    keys->count = to;
    while (fresh > 0) {
        bool old = left > 0 && keys->index[left - 1].key > keys->scratch[fresh - 1].key;
        keys->index[--to] = old ? keys->index[--left] : keys->scratch[--fresh];
    }
}

void round_sum_keys_add(round_sum_keys *keys, const round_sum_contribution *added) {
    size_t item = item_of(added), items = 0, fresh = 0, at = 0;
    const uint8_t *from = added->values;
    for (size_t i = 0; added->lengths != NULL && i < added->count; i++) items += added->lengths[i];
    if (added->lengths == NULL) items = added->count * added->dim;
    /* at least one item: never NULL */
    section_decoder_must(alloc_try_grow(&keys->values, &keys->items_room, keys->items + items + 1, item));
    section_decoder_must(alloc_try_grow(&keys->scratch, &keys->scratch_room, added->count, sizeof *keys->scratch));
    for (size_t i = 0; i < added->count; i++) {
        uint64_t key = added->keys[i];
        uint32_t length = added->lengths == NULL ? added->dim : added->lengths[i];
        while (at < keys->count && keys->index[at].key < key) at++;
        if (at < keys->count && keys->index[at].key == key) {
            meet(keys, &keys->index[at], added, from, length);
        } else {
            keys->scratch[fresh++] = (round_sum_key){key, append(keys, from, length, item), length};
            keys->total += length;
        }
        from += length * item;
    }
    merge(keys, fresh);
}
