/* round_sum_keys.h — keyed part of a round sum: summed or last assigned values by key. Used by round_sum.c.
 *
 * An index, ascending by key, points into one range of memory. Values of new keys are appended to the range; values of
 * known keys are added in place. A vector that becomes longer moves to the end. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct round_sum_key {
    uint64_t key;
    size_t at; /* begin of the values, in items */
    uint32_t length;
} round_sum_key;

typedef struct round_sum_keys { /* zero-initialized: empty */
    round_sum_key *index;       /* owned */
    size_t count, room;
    uint8_t *values; /* owned: fp32 or int64 */
    size_t items, items_room;
    size_t total;           /* items of all keys */
    round_sum_key *scratch; /* owned: keys that are new in this contribution */
    size_t scratch_room;
} round_sum_keys;

typedef struct round_sum_contribution { /* one section of a contribution */
    const uint64_t *keys;
    size_t count;
    const uint32_t *lengths; /* NULL: `dim` values of each key */
    uint32_t dim;
    const uint8_t *values;
    bool counters; /* int64, else fp32 */
    bool sets;     /* the values are assigned, with their length; else they are added */
} round_sum_contribution;

void round_sum_keys_fini(round_sum_keys *keys);
void round_sum_keys_add(round_sum_keys *keys, const round_sum_contribution *contribution);

/* to[i] += from[i]; counters modulo 2^64. */
void round_sum_add_up(void *to, const void *from, size_t count, bool counters);
