/* vector_table.c — see vector_table.h. */
#include "kv/table/vector_table.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "kv/table/key_sort.h"

typedef struct vector {
    uint32_t length, room;
    max_align_t values[];
} vector;

void vector_table_init(vector_table *table, size_t item) { *table = (struct vector_table){.item = item}; }

void vector_table_fini(vector_table *table) {
    map_for_each (slot, &table->by_key) free(slot.value);
    map_fini(&table->by_key);
    vector_table_init(table, table->item);
}

size_t vector_table_count(const vector_table *table) { return table->by_key.count; }

const void *vector_table_find(const vector_table *table, uint64_t key, uint32_t *length) {
    const vector *vector = map_get(&table->by_key, key);
    *length = vector == NULL ? 0 : vector->length;
    return vector == NULL ? NULL : vector->values;
}

static mr_status grow(vector_table *table, uint64_t key, uint32_t length, vector **vector) {
    bool is_new = *vector == NULL;
    if (is_new) MR_TRY(map_reserve(&table->by_key, 1));
    MR_TRY(alloc_try_resize(vector, sizeof **vector + length * table->item));
    if (is_new) (*vector)->length = 0;
    (*vector)->room = length;
    (void)map_put(&table->by_key, key, *vector);
    return MR_OK;
}

mr_status vector_table_reach(vector_table *table, uint64_t key, uint32_t length, bool exact, void **values) {
    vector *vector = map_get(&table->by_key, key);
    if (vector == NULL || vector->room < length) MR_TRY(grow(table, key, length, &vector));
    uint32_t now = vector->length;
    if (length > now) memset((uint8_t *)vector->values + now * table->item, 0, (length - now) * table->item);
    if (length > now || exact) {
        vector->length = length;
        table->bytes = table->bytes - now * table->item + length * table->item;
    }
    *values = vector->values;
    return MR_OK;
}

void vector_table_erase(vector_table *table, uint64_t key) {
    vector *vector = map_remove(&table->by_key, key);
    if (vector != NULL) table->bytes -= vector->length * table->item;
    free(vector);
}

void vector_table_keys(const vector_table *table, uint64_t *keys) {
    size_t count = 0;
    map_for_each (slot, &table->by_key) keys[count++] = slot.key;
    key_sort_keys(keys, count);
}
