/* engine_tables.c — engine, tables: creation, lookup, removal. See engine.h. */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/binary_search.h"
#include "base/error.h"
#include "kv/engine/engine_internal.h"

static mr_status find_optimizer(const engine *engine, const char *name, const optim_ops **out) {
    size_t prefix = strlen(TABLE_SCHEMA_OWN);
    if (strncmp(name, TABLE_SCHEMA_OWN, prefix) != 0) return optim_find(name, out);
    for (size_t i = 0; engine->host != NULL && i < engine->host->optimizer_count; i++) {
        *out = engine->host->optimizers[i];
        if (strcmp((*out)->name, name + prefix) == 0) return MR_OK;
    }
    return error_set(MR_INVALID, "this server has no optimizer '%s'", name);
}

static mr_status make_sparse(engine_table *table) {
    const table_schema *d = &table->schema;
    const sparse_table_options options = {.dtype = d->dtype,
                                          .dim = d->dim,
                                          .state = d->dtype == MR_I64 ? 0 : optim_row_state(&table->optim, d->dim),
                                          .init = d->init,
                                          .admit = d->admit,
                                          .ages = d->age_max != 0 || d->rows_max != 0};
    return sparse_table_create(&options, &table->sparse);
}

mr_status engine_table_create(const engine *engine, const table_schema *schema, engine_table **out) {
    const optim_ops *ops;
    MR_TRY(find_optimizer(engine, schema->optimizer, &ops));
    engine_table table = {.schema = *schema, .version = 1};
    table.schema.init.table = schema->id;
    MR_TRY(optim_init(&table.optim, ops, &schema->settings));
    if (engine_needs_norms(&table) && !engine->keeps)
        return error_set(MR_INVALID, "table %u needs bsp for clip_norm or lamb", schema->id);
    if (schema->kind == TABLE_SCHEMA_SPARSE) MR_TRY(make_sparse(&table));
    vector_table_init(&table.table, engine_item(&table));
    table.log = (undo_log){.item = engine_item(&table), .sorted = true};
    *out = xcopy(&table, sizeof table);
    return MR_OK;
}

engine_table *engine_table_try(const engine *engine, const table_schema *schema) {
    engine_table *table = NULL;
    mr_status status = engine_table_create(engine, schema, &table);
    if (status != MR_INVALID) section_decoder_must(status);
    return table;
}

void engine_table_destroy(engine_table *table) {
    if (table == NULL) return;
    if (table->sparse != NULL) sparse_table_destroy(table->sparse);
    vector_table_fini(&table->table);
    for (size_t i = 0; i < table->block_count; i++) dense_table_destroy(table->blocks[i].table);
    free(table->blocks);
    undo_log_fini(&table->log);
    free(table);
}

/* ---- Lookup. */

static int compare_table(const void *key, const void *item) {
    uint32_t id = *(const uint32_t *)key, other = (*(engine_table *const *)item)->schema.id;
    return (id > other) - (id < other);
}

size_t engine_place(const engine *engine, uint32_t id) {
    return binary_search_first(&id, engine->tables, engine->count, sizeof *engine->tables, compare_table);
}

static size_t dropped_place(const engine *engine, uint32_t id) {
    return binary_search_first(&id, engine->dropped, engine->dropped_count, sizeof *engine->dropped, binary_search_u32);
}

engine_table *engine_table_find(const engine *engine, uint32_t id, bool kept) {
    size_t at = engine_place(engine, id);
    engine_table *table = at < engine->count && engine->tables[at]->schema.id == id ? engine->tables[at] : NULL;
    if (table == NULL) return NULL;
    bool there = kept ? table->made != engine->applies : table->gone == 0;
    return there ? table : NULL;
}

bool engine_was_dropped(const engine *engine, uint32_t id, bool kept) {
    size_t at = dropped_place(engine, id);
    if (at >= engine->dropped_count || engine->dropped[at].id != id) return false;
    return !kept || engine->dropped[at].when != engine->applies;
}

void engine_insert(engine *engine, engine_table *table) {
    size_t at = engine_place(engine, table->schema.id);
    engine->tables = xrealloc(engine->tables, (engine->count + 1) * sizeof *engine->tables);
    memmove(engine->tables + at + 1, engine->tables + at, (engine->count++ - at) * sizeof *engine->tables);
    engine->tables[at] = table;
}

void engine_forget(engine *engine, uint32_t id) {
    size_t at = dropped_place(engine, id);
    if (at < engine->dropped_count && engine->dropped[at].id == id) return;
    engine->dropped = xrealloc(engine->dropped, (engine->dropped_count + 1) * sizeof *engine->dropped);
    memmove(engine->dropped + at + 1, engine->dropped + at, (engine->dropped_count++ - at) * sizeof *engine->dropped);
    engine->dropped[at] = (engine_dropped){id, engine->applies};
}

/* ---- Properties of a table. */

float engine_rate(engine_table *table, const payload_section *section, uint64_t moment) {
    if (section->rated) return section->rate;
    if (table->rate_of != moment || moment == 0) {
        /* the schedule counts steps from 0 */
        table->rate = lr_schedule_rate(&table->schema.schedule, moment == 0 ? 0 : moment - 1);
        table->rate_of = moment;
    }
    return table->rate;
}

payload_look engine_table_look(const engine_table *table) {
    payload_look look = {.refused = table->refused, .left_out = table->left_out, .evicted = table->evicted};
    if (table->sparse != NULL) {
        sparse_table_look rows = sparse_table_look_at(table->sparse);
        look.keys = rows.rows;
        look.candidates = rows.candidates;
        look.bytes = rows.bytes;
    }
    look.keys += vector_table_count(&table->table) + table->block_count;
    look.bytes += table->table.bytes;
    for (size_t i = 0; i < table->block_count; i++)
        look.bytes += dense_table_piece_size(table->blocks[i].table, dense_table_items(table->blocks[i].table));
    return look;
}
