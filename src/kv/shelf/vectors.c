/* vectors.c — see vectors.h. */
#include "kv/shelf/vectors.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "kv/shelf/order.h"

typedef struct vector {
    uint32_t length, room;
    max_align_t values[];
} vector;

void vectors_init(vectors *vectors, size_t item) { *vectors = (struct vectors){.item = item}; }

void vectors_fini(vectors *vectors) {
    map_for_each (slot, &vectors->by_key) free(slot.value);
    map_fini(&vectors->by_key);
    vectors_init(vectors, vectors->item);
}

size_t vectors_count(const vectors *vectors) { return vectors->by_key.count; }

const void *vectors_find(const vectors *vectors, uint64_t key, uint32_t *length) {
    const vector *vector = map_get(&vectors->by_key, key);
    *length = vector == NULL ? 0 : vector->length;
    return vector == NULL ? NULL : vector->values;
}

static mr_status grow(vectors *vectors, uint64_t key, uint32_t length, vector **vector) {
    bool is_new = *vector == NULL;
    void *memory = *vector;
    if (is_new) MR_TRY(map_reserve(&vectors->by_key, 1));
    MR_TRY(alloc_try_resize(&memory, sizeof **vector + length * vectors->item));
    *vector = memory;
    if (is_new) (*vector)->length = 0;
    (*vector)->room = length;
    (void)map_put(&vectors->by_key, key, *vector);
    return MR_OK;
}

mr_status vectors_reach(vectors *vectors, uint64_t key, uint32_t length, bool exact, void **values) {
    vector *vector = map_get(&vectors->by_key, key);
    if (vector == NULL || vector->room < length) MR_TRY(grow(vectors, key, length, &vector));
    uint32_t now = vector->length;
    if (length > now) memset((uint8_t *)vector->values + now * vectors->item, 0, (length - now) * vectors->item);
    if (length > now || exact) {
        vector->length = length;
        vectors->bytes = vectors->bytes - now * vectors->item + length * vectors->item;
    }
    *values = vector->values;
    return MR_OK;
}

void vectors_erase(vectors *vectors, uint64_t key) {
    vector *vector = map_remove(&vectors->by_key, key);
    if (vector != NULL) vectors->bytes -= vector->length * vectors->item;
    free(vector);
}

void vectors_keys(const vectors *vectors, uint64_t *keys) {
    size_t count = 0;
    map_for_each (slot, &vectors->by_key) keys[count++] = slot.key;
    order_keys(keys, count);
}
