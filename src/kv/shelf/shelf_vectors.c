/* shelf_vectors.c — engine, variable-length vectors: pushes and queries. See shelf.h. */
#include "base/vector.h"
#include "kv/shelf/shelf_core.h"
#include "kv/shelf/tally_keys.h"

VECTOR_CLONES static void add_scaled(float *restrict to, const float *restrict from, float scale, size_t count) {
    for (size_t i = 0; i < count; i++) to[i] += scale * from[i];
}

static void change(const shelf_push *push, uint64_t key, uint32_t length, const uint8_t *from) {
    shelf_table *table = push->table;
    uint32_t before;
    void *to;
    const void *old = vectors_find(&table->vectors, key, &before);
    if (push->shelf->keeps) opener_must(undo_note(&table->undo, key, old, before));
    opener_must(vectors_reach(&table->vectors, key, length, push->sets, &to));
    if (push->sets)
        memcpy(to, from, length * shelf_item(table));
    else if (table->definition.dtype == MR_I64)
        tally_add_up(to, from, length, true);
    else
        add_scaled(to, (const float *)(const void *)from, push->scale, length);
}

bool shelf_push_vectors(const shelf_push *push) {
    const parcel_section *section = push->section;
    mr_dtype dtype = push->table->definition.dtype;
    size_t items = 0, item = shelf_item(push->table);
    for (uint32_t i = 0; i < section->count; i++) items += section->lengths[i];
    const uint8_t *values = opener_values(&push->shelf->opener, section, dtype, items);
    if (values == NULL) return false;
    for (uint32_t i = 0; i < section->count; values += section->lengths[i++] * item) {
        if (push->table->definition.refuse_nan && dtype != MR_I64 &&
            !shelf_finite((const float *)(const void *)values, section->lengths[i]))
            push->table->left_out++;
        else
            change(push, section->keys[i], section->lengths[i], values);
    }
    return true;
}

const void *shelf_vector(const shelf_table *table, uint64_t key, bool kept, size_t *from, uint32_t *length) {
    const undo_entry *entry = kept ? undo_find(&table->undo, key, from) : NULL;
    if (entry == NULL) return vectors_find(&table->vectors, key, length);
    *length = entry->length;
    return undo_values(&table->undo, entry);
}
