/* shelf_blocks.c — engine, blocks of dense tables: creation, pushes, queries. See shelf.h. */

#include "base/alloc.h"
#include "base/search.h"
#include "kv/shelf/shelf_core.h"

/* ---- Finding. */

static int compare(const void *key, const void *item) {
    const shelf_block *wanted = key, *block = *(shelf_block *const *)item;
    if (wanted->array != block->array) return wanted->array < block->array ? -1 : 1;
    return (wanted->number > block->number) - (wanted->number < block->number);
}

size_t shelf_block_place(const shelf_table *table, uint32_t array, uint32_t number) {
    const shelf_block wanted = {.array = array, .number = number};
    return search_first(&wanted, table->blocks, table->block_count, sizeof *table->blocks, compare);
}

shelf_block *shelf_block_find(const shelf_table *table, const parcel_place *place) {
    size_t at = shelf_block_place(table, place->array, place->block);
    shelf_block *block = at < table->block_count ? table->blocks[at] : NULL;
    return block != NULL && block->array == place->array && block->number == place->block ? block : NULL;
}

/* A block knows nothing of the array behind it: for what it is the last one will do. */
dense_options shelf_block_options(const shelf *shelf, const shelf_table *table, const parcel_place *place) {
    const definition *definition = &table->definition;
    dense_options options = {.dtype = definition->dtype,
                             .dims = 1,
                             .shape = {(int64_t)place->block * definition->block + place->items},
                             .block = definition->block,
                             .states = table->optim.ops->states,
                             .versions = shelf->keeps,
                             .init = definition->init,
                             .glass = shelf->host == NULL ? NULL : shelf->host->glass};
    options.init.table = (uint64_t)definition->id << 32 | place->array;
    return options;
}

bool shelf_block_fits(const shelf *shelf, const shelf_table *table, const parcel_place *place) {
    const shelf_block *block = shelf_block_find(table, place);
    if (block != NULL) return dense_items(block->dense) == place->items;
    dense_options options = shelf_block_options(shelf, table, place);
    dense_plan plan;
    return place->items <= table->definition.block && dense_cut(&options, &plan) == MR_OK;
}

void shelf_block_insert(shelf_table *table, shelf_block *block) {
    size_t at = shelf_block_place(table, block->array, block->number);
    table->blocks = xrealloc(table->blocks, (table->block_count + 1) * sizeof *table->blocks);
    memmove(table->blocks + at + 1, table->blocks + at, (table->block_count++ - at) * sizeof *table->blocks);
    table->blocks[at] = block;
}

static shelf_block *reach(const shelf_push *push) {
    const parcel_place *place = &push->section->place;
    shelf_block *block = shelf_block_find(push->table, place);
    if (block != NULL) return block;
    block = xcalloc(1, sizeof *block);
    *block = (shelf_block){.array = place->array, .number = place->block};
    dense_options options = shelf_block_options(push->shelf, push->table, place);
    opener_must(dense_create(&options, place->block, &block->dense));
    shelf_block_insert(push->table, block);
    return block;
}

/* ---- Pushes. The first change of an apply writes the other array, and with it the next version; what follows in the
 * same apply changes that. */

typedef struct stretch {
    const uint8_t *from;
    uint8_t *to;
    const uint8_t *array; /* that `to` is in */
} stretch;

static stretch begin(const shelf_push *push, shelf_block *block) {
    dense *dense = block->dense;
    size_t item = shelf_item(push->table), first = push->section->place.first * item;
    size_t end = first + push->section->count * item, all = dense_items(dense) * item;
    const uint8_t *from = dense_values(dense);
    uint8_t *to = dense_next(dense);
    bool again = block->touched == push->shelf->applies;
    if (again) to = dense_present(dense);
    dense_change(dense, to);
    if (!again && to != from) {
        memcpy(to, from, first);
        memcpy(to + end, from + end, all - end);
    }
    block->touched = push->shelf->applies;
    if (!again) dense_turn(dense);
    return (stretch){from + first, to + first, to};
}

static void update(const shelf_push *push, shelf_block *block, stretch stretch, const float *gradient) {
    shelf_table *table = push->table;
    optim_arrays arrays = {
        .from = (const float *)(const void *)stretch.from, .to = (float *)(void *)stretch.to, .gradient = gradient};
    for (uint32_t k = 0; k < table->optim.ops->states; k++)
        arrays.state[k] = dense_state(block->dense, k) + push->section->place.first;
    optim_moment moment = optim_at(&table->optim, ++block->updates, shelf_rate(table, push->moment), push->scale);
    moment.trust = shelf_trust(table, block->array, &push->shelf->lengths);
    optim_apply(&table->optim, &moment, &arrays, push->section->count);
}

static void count_on(stretch stretch, const uint64_t *more, size_t count) {
    const uint64_t *from = (const uint64_t *)(const void *)stretch.from;
    uint64_t *to = (uint64_t *)(void *)stretch.to;
    for (size_t i = 0; i < count; i++) to[i] = from[i] + more[i];
}

bool shelf_push_block(const shelf_push *push) {
    const definition *definition = &push->table->definition;
    uint32_t count = push->section->count;
    const void *values = opener_values(&push->shelf->opener, push->section, definition->dtype, count);
    if (values == NULL || !shelf_block_fits(push->shelf, push->table, &push->section->place)) return false;
    if (definition->refuse_nan && definition->dtype != MR_I64 && !shelf_finite(values, count)) {
        push->table->left_out++;
        return true;
    }
    shelf_block *block = reach(push);
    stretch stretch = begin(push, block);
    if (push->sets)
        memcpy(stretch.to, values, count * shelf_item(push->table));
    else if (definition->dtype == MR_I64)
        count_on(stretch, values, count);
    else
        update(push, block, stretch, values);
    dense_changed(block->dense, stretch.array);
    return true;
}

/* ---- Queries. */

static const void *shown_of(const shelf *shelf, const shelf_block *block, bool kept) {
    bool before = kept && block->touched == shelf->applies;
    return before ? dense_kept(block->dense) : dense_values(block->dense);
}

/* Narrow ones are not what lies there. */
bool shelf_look_for_block(const shelf *shelf, const shelf_table *table, const parcel_place *place, bool kept,
                          parcel_afar *out) {
    const shelf_block *block = shelf_block_find(table, place);
    mr_dtype dtype = table->definition.dtype;
    uint32_t word;
    if (block == NULL || (dtype != MR_F32 && dtype != MR_I64)) return false;
    *out = (parcel_afar){.process = shelf->host == NULL ? 0 : shelf->host->process};
    const void *values = shown_of(shelf, block, kept);
    if (!dense_is_seen(block->dense, values, place->first, &out->offset, &word, &out->value)) return false;
    out->word = word;
    return true;
}

void shelf_show_block(const shelf *shelf, const shelf_table *table, const parcel_place *place, uint32_t count,
                      bool kept, void *out) {
    const shelf_block *block = shelf_block_find(table, place);
    if (block == NULL) {
        dense_options options = shelf_block_options(shelf, table, place);
        initializer_read(&options.init, options.dtype, 0, (size_t)place->block * table->definition.block + place->first,
                         count, out);
        return;
    }
    dense_read(block->dense, shown_of(shelf, block, kept), place->first, count, out);
}
