/* engine_vectors.c — engine, variable-length vectors: pushes and queries. See engine.h. */
#include "base/simd.h"
#include "kv/engine/engine_internal.h"
#include "kv/engine/round_sum_keys.h"

SIMD_CLONES static void add_scaled(float *restrict to, const float *restrict from, float scale, size_t count) {
    for (size_t i = 0; i < count; i++) to[i] += scale * from[i];
}

static void change(const engine_push *push, uint64_t key, uint32_t length, const uint8_t *from) {
    engine_table *table = push->table;
    uint32_t before;
    void *to;
    const void *old = vector_table_find(&table->table, key, &before);
    if (push->engine->keeps) section_decoder_must(undo_log_note(&table->log, key, old, before));
    section_decoder_must(vector_table_reach(&table->table, key, length, push->sets, &to));
    if (push->sets)
        memcpy(to, from, length * engine_item(table));
    else if (table->schema.dtype == MR_I64)
        round_sum_add_up(to, from, length, true);
    else
        add_scaled(to, (const float *)(const void *)from, push->scale, length);
}

bool engine_push_vectors(const engine_push *push) {
    const payload_section *section = push->section;
    mr_dtype dtype = push->table->schema.dtype;
    size_t items = 0, item = engine_item(push->table);
    for (uint32_t i = 0; i < section->count; i++) items += section->lengths[i];
    const uint8_t *values = section_decoder_values(&push->engine->decoder, section, dtype, items);
    if (values == NULL) return false;
    for (uint32_t i = 0; i < section->count; values += section->lengths[i++] * item) {
        if (push->table->schema.refuse_nan && dtype != MR_I64 &&
            !engine_finite((const float *)(const void *)values, section->lengths[i]))
            push->table->left_out++;
        else
            change(push, section->keys[i], section->lengths[i], values);
    }
    return true;
}

const void *engine_vector(const engine_table *table, uint64_t key, bool kept, size_t *from, uint32_t *length) {
    const undo_log_entry *entry = kept ? undo_log_find(&table->log, key, from) : NULL;
    if (entry == NULL) return vector_table_find(&table->table, key, length);
    *length = entry->length;
    return undo_log_values(&table->log, entry);
}
