/* shelf_table.c — engine, tables: creation, lookup, removal. See shelf.h. */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/search.h"
#include "kv/shelf/shelf_core.h"

static mr_status find_optimizer(const shelf *shelf, const char *name, const optim_ops **out) {
    size_t prefix = strlen(DEFINITION_OWN);
    if (strncmp(name, DEFINITION_OWN, prefix) != 0) return optim_find(name, out);
    for (size_t i = 0; shelf->host != NULL && i < shelf->host->optimizer_count; i++) {
        *out = shelf->host->optimizers[i];
        if (strcmp((*out)->name, name + prefix) == 0) return MR_OK;
    }
    return error_set(MR_INVALID, "this server has no optimizer '%s'", name);
}

static mr_status make_sparse(shelf_table *table) {
    const definition *d = &table->definition;
    const sparse_options options = {.dtype = d->dtype,
                                    .dim = d->dim,
                                    .state = d->dtype == MR_I64 ? 0 : optim_row_state(&table->optim, d->dim),
                                    .init = d->init,
                                    .admit = d->admit,
                                    .ages = d->age_max != 0 || d->rows_max != 0};
    return sparse_create(&options, &table->sparse);
}

mr_status shelf_table_create(const shelf *shelf, const definition *definition, shelf_table **out) {
    const optim_ops *ops;
    MR_TRY(find_optimizer(shelf, definition->optimizer, &ops));
    shelf_table *table = xcalloc(1, sizeof *table);
    table->definition = *definition;
    table->definition.init.table = definition->id;
    table->version = 1;
    mr_status status = optim_init(&table->optim, ops, &definition->settings);
    if (status == MR_OK && shelf_needs_norms(table) && !shelf->keeps)
        status = error_set(MR_INVALID, "table %u needs bsp for clip_norm or lamb", definition->id);
    if (status == MR_OK && definition->kind == DEFINITION_SPARSE) status = make_sparse(table);
    if (status != MR_OK) {
        free(table);
        return status;
    }
    vectors_init(&table->vectors, shelf_item(table));
    table->undo = (undo){.item = shelf_item(table), .sorted = true};
    *out = table;
    return MR_OK;
}

void shelf_table_destroy(shelf_table *table) {
    if (table == NULL) return;
    if (table->sparse != NULL) sparse_destroy(table->sparse);
    vectors_fini(&table->vectors);
    for (size_t i = 0; i < table->block_count; i++) {
        dense_destroy(table->blocks[i]->dense);
        free(table->blocks[i]);
    }
    free(table->blocks);
    undo_fini(&table->undo);
    free(table);
}

/* ---- By id. */

static int compare_table(const void *key, const void *item) {
    uint32_t id = *(const uint32_t *)key, other = (*(shelf_table *const *)item)->definition.id;
    return (id > other) - (id < other);
}

size_t shelf_place(const shelf *shelf, uint32_t id) {
    return search_first(&id, shelf->tables, shelf->count, sizeof *shelf->tables, compare_table);
}

static size_t dropped_place(const shelf *shelf, uint32_t id) {
    return search_first(&id, shelf->dropped, shelf->dropped_count, sizeof *shelf->dropped, search_u32);
}

shelf_table *shelf_table_find(const shelf *shelf, uint32_t id, bool kept) {
    size_t at = shelf_place(shelf, id);
    shelf_table *table = at < shelf->count && shelf->tables[at]->definition.id == id ? shelf->tables[at] : NULL;
    if (table == NULL) return NULL;
    bool there = kept ? table->made != shelf->applies : table->gone == 0;
    return there ? table : NULL;
}

bool shelf_was_dropped(const shelf *shelf, uint32_t id, bool kept) {
    size_t at = dropped_place(shelf, id);
    if (at >= shelf->dropped_count || shelf->dropped[at].id != id) return false;
    return !kept || shelf->dropped[at].when != shelf->applies;
}

void shelf_insert(shelf *shelf, shelf_table *table) {
    size_t at = shelf_place(shelf, table->definition.id);
    shelf->tables = xrealloc(shelf->tables, (shelf->count + 1) * sizeof *shelf->tables);
    memmove(shelf->tables + at + 1, shelf->tables + at, (shelf->count++ - at) * sizeof *shelf->tables);
    shelf->tables[at] = table;
}

void shelf_forget(shelf *shelf, uint32_t id) {
    size_t at = dropped_place(shelf, id);
    if (at < shelf->dropped_count && shelf->dropped[at].id == id) return;
    shelf->dropped = xrealloc(shelf->dropped, (shelf->dropped_count + 1) * sizeof *shelf->dropped);
    memmove(shelf->dropped + at + 1, shelf->dropped + at, (shelf->dropped_count++ - at) * sizeof *shelf->dropped);
    shelf->dropped[at] = (shelf_dropped){id, shelf->applies};
}

/* ---- What is known of one. */

float shelf_rate(shelf_table *table, uint64_t moment) {
    if (table->rate_of != moment || moment == 0) {
        table->rate = schedule_rate(&table->definition.schedule, moment == 0 ? 0 : moment - 1); /* steps from 0 */
        table->rate_of = moment;
    }
    return table->rate;
}

parcel_look shelf_table_look(const shelf_table *table) {
    parcel_look look = {.refused = table->refused, .left_out = table->left_out, .evicted = table->evicted};
    if (table->sparse != NULL) {
        sparse_look rows = sparse_look_at(table->sparse);
        look.keys = rows.rows;
        look.candidates = rows.candidates;
        look.bytes = rows.bytes;
    }
    look.keys += vectors_count(&table->vectors) + table->block_count;
    look.bytes += table->vectors.bytes;
    for (size_t i = 0; i < table->block_count; i++)
        look.bytes += dense_piece_size(table->blocks[i]->dense, dense_items(table->blocks[i]->dense));
    return look;
}
