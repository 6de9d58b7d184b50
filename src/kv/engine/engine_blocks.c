/* engine_blocks.c — engine, blocks of dense tables: creation, pushes, queries. See engine.h. */

#include "base/alloc.h"
#include "base/binary_search.h"
#include "kv/engine/engine_internal.h"

/* ---- Lookup. */

size_t engine_block_place(const engine_table *table, uint64_t key) {
    return binary_search_first(&key, table->blocks, table->block_count, sizeof *table->blocks, binary_search_u64);
}

engine_block *engine_block_find(const engine_table *table, const payload_place *place) {
    uint64_t key = engine_block_key(place);
    size_t at = engine_block_place(table, key);
    return at < table->block_count && table->blocks[at].key == key ? &table->blocks[at] : NULL;
}

/* Options of a block. The size of the whole array is not stored; the shape ends with this block's last item, which is
 * enough for one block. */
dense_table_options engine_block_options(const engine *engine, const engine_table *table, const payload_place *place) {
    const table_schema *schema = &table->schema;
    dense_table_options options = {.dtype = schema->dtype,
                                   .dims = 1,
                                   .shape = {(int64_t)place->block * schema->block + place->items},
                                   .block = schema->block,
                                   .states = table->optim.ops->states,
                                   .versions = engine->keeps,
                                   .init = schema->init,
                                   .export = engine->host == NULL ? NULL : engine->host->export};
    options.init.table = (uint64_t)schema->id << 32 | place->array;
    return options;
}

bool engine_block_fits(const engine *engine, const engine_table *table, const payload_place *place) {
    const engine_block *block = engine_block_find(table, place);
    if (block != NULL) return dense_table_items(block->table) == place->items;
    dense_table_options options = engine_block_options(engine, table, place);
    dense_table_plan plan;
    return place->items <= table->schema.block && dense_table_cut(&options, &plan) == MR_OK;
}

engine_block *engine_block_insert(engine_table *table, engine_block block) {
    size_t at = engine_block_place(table, block.key);
    table->blocks = xrealloc(table->blocks, (table->block_count + 1) * sizeof *table->blocks);
    memmove(table->blocks + at + 1, table->blocks + at, (table->block_count++ - at) * sizeof *table->blocks);
    table->blocks[at] = block;
    return &table->blocks[at];
}

static engine_block *reach(const engine_push *push) {
    const payload_place *place = &push->section->place;
    engine_block *block = engine_block_find(push->table, place);
    if (block != NULL) return block;
    engine_block made = {.key = engine_block_key(place)};
    dense_table_options options = engine_block_options(push->engine, push->table, place);
    section_decoder_must(dense_table_create(&options, place->block, &made.table));
    return engine_block_insert(push->table, made);
}

/* ---- Pushes. The first change of an apply writes the second array, which becomes the next version; further changes of
 * the same apply change that array in place. */

typedef struct stretch {
    const uint8_t *from;
    uint8_t *to;
    const uint8_t *array; /* the array that contains `to` */
} stretch;

static stretch begin(const engine_push *push, engine_block *block) {
    dense_table *table = block->table;
    size_t item = engine_item(push->table), first = push->section->place.first * item;
    size_t end = first + push->section->count * item, all = dense_table_items(table) * item;
    const uint8_t *from = dense_table_values(table);
    bool again = block->touched == push->engine->applies;
    uint8_t *to = again ? dense_table_values(table) : dense_table_next(table);
    dense_table_change(table, to);
    if (!again && to != from) {
        memcpy(to, from, first);
        memcpy(to + end, from + end, all - end);
    }
    block->touched = push->engine->applies;
    if (!again) dense_table_turn(table);
    return (stretch){from + first, to + first, to};
}

static void update(const engine_push *push, engine_block *block, stretch stretch, const float *gradient) {
    engine_table *table = push->table;
    optim_arrays arrays = {
        .from = (const float *)(const void *)stretch.from, .to = (float *)(void *)stretch.to, .gradient = gradient};
    for (uint32_t k = 0; k < table->optim.ops->states; k++)
        arrays.state[k] = dense_table_state(block->table, k) + push->section->place.first;
    float rate = engine_rate(table, push->section, push->moment);
    optim_moment moment = optim_at(&table->optim, ++block->updates, rate, push->scale);
    moment.trust = engine_trust(table, push->section->place.array, &push->engine->norms);
    optim_apply(&table->optim, &moment, &arrays, push->section->count);
}

static void count_on(stretch stretch, const uint64_t *more, size_t count) {
    const uint64_t *from = (const uint64_t *)(const void *)stretch.from;
    uint64_t *to = (uint64_t *)(void *)stretch.to;
    for (size_t i = 0; i < count; i++) to[i] = from[i] + more[i];
}

bool engine_push_block(const engine_push *push) {
    const table_schema *schema = &push->table->schema;
    uint32_t count = push->section->count;
    const void *values = section_decoder_values(&push->engine->decoder, push->section, schema->dtype, count);
    if (values == NULL || !engine_block_fits(push->engine, push->table, &push->section->place)) return false;
    if (schema->refuse_nan && schema->dtype != MR_I64 && !engine_finite(values, count)) {
        push->table->left_out++;
        return true;
    }
    engine_block *block = reach(push);
    stretch stretch = begin(push, block);
    if (push->sets)
        memcpy(stretch.to, values, count * engine_item(push->table));
    else if (schema->dtype == MR_I64)
        count_on(stretch, values, count);
    else
        update(push, block, stretch, values);
    dense_table_changed(block->table, stretch.array);
    return true;
}

/* ---- Queries. */

static const void *shown_of(const engine *engine, const engine_block *block, bool kept) {
    bool before = kept && block->touched == engine->applies;
    return before ? dense_table_kept(block->table) : dense_table_values(block->table);
}

/* Place of the exported block, whose values are fp32 or int64. */
bool engine_look_for_block(const engine *engine, const engine_table *table, const payload_place *place, bool kept,
                           payload_afar *out) {
    const engine_block *block = engine_block_find(table, place);
    uint32_t word;
    if (block == NULL) return false;
    *out = (payload_afar){.process = engine->host == NULL ? 0 : engine->host->process};
    const void *values = shown_of(engine, block, kept);
    if (!dense_table_is_seen(block->table, values, place->first, &out->offset, &word, &out->value)) return false;
    out->word = word;
    return true;
}

void engine_show_block(const engine *engine, const engine_table *table, const payload_place *place, uint32_t count,
                       bool kept, mr_dtype dtype, void *out) {
    const engine_block *block = engine_block_find(table, place);
    if (block == NULL) {
        dense_table_options options = engine_block_options(engine, table, place);
        initializer_read(&options.init, dtype, 0, (size_t)place->block * table->schema.block + place->first, count,
                         out);
        return;
    }
    dense_table_read(block->table, shown_of(engine, block, kept), place->first, count, dtype, out);
}
