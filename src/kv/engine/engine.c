/* engine.c — storage engine: pushes applied to the tables of a slot. See engine.h. */
#include "kv/engine/engine.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "kv/engine/engine_internal.h"
#include "kv/engine/round_sum.h"

static void *create(void *context, uint32_t slot, bool keeps) { return XNEW(engine, .host = context, .keeps = keeps); }

static void destroy(void *self) {
    engine *engine = self;
    for (size_t i = 0; i < engine->count; i++) engine_table_destroy(engine->tables[i]);
    free(engine->tables);
    free(engine->dropped);
    section_decoder_fini(&engine->decoder);
    slot_norms_fini(&engine->norms);
    payload_fini(&engine->answer);
    if (engine->cache != NULL) key_list_cache_fini(engine->cache);
    free(engine->cache);
    free(engine);
}

/* ---- Creating and dropping tables. */

/* Creates a table. An existing table stays, and counts a differing schema as refused; an invalid schema is ignored. */
static void define(engine *engine, span bytes) {
    table_schema schema;
    if (table_schema_decode(bytes, &schema) != MR_OK || engine_was_dropped(engine, schema.id, false)) return;
    engine_table *table = engine_table_find(engine, schema.id, false);
    if (table != NULL) {
        table->refused += table_schema_differs(&table->schema, &schema) != NULL;
    } else if ((table = engine_table_try(engine, &schema)) != NULL) {
        table->made = engine->applies;
        engine_insert(engine, table);
    }
}

static void take_out(engine *engine, size_t at) {
    engine_table_destroy(engine->tables[at]);
    memmove(engine->tables + at, engine->tables + at + 1, (--engine->count - at) * sizeof *engine->tables);
}

/* If the previous version is kept, a table that an earlier apply created stays until the next apply. */
static void drop(engine *engine, uint32_t id) {
    size_t at = engine_place(engine, id);
    bool there = at < engine->count && engine->tables[at]->schema.id == id;
    engine_forget(engine, id);
    if (!there || engine->tables[at]->gone != 0) return;
    if (engine->keeps && engine->tables[at]->made != engine->applies)
        engine->tables[at]->gone = engine->applies;
    else
        take_out(engine, at);
}

/* ---- Sections. */

static bool change(const engine_push *push) {
    const payload_section *section = push->section;
    table_schema_kind kind = push->table->schema.kind;
    if (section->op == PAYLOAD_ERASE) {
        if (kind != TABLE_SCHEMA_DENSE) engine_erase(push->engine, push->table, section->keys, section->count);
        return kind != TABLE_SCHEMA_DENSE;
    }
    if (payload_add_of(section->op) != engine_add_op(push->table)) return false;
    switch (kind) {
    case TABLE_SCHEMA_SPARSE: return engine_push_rows(push);
    case TABLE_SCHEMA_VECTORS: return engine_push_vectors(push);
    case TABLE_SCHEMA_DENSE: return engine_push_block(push);
    }
    return false;
}

/* Time of a push. With rows_max alone it counts pushes, so that eviction follows their order within a step; else it is
 * the moment, in steps. */
static uint64_t time_of(const engine_table *table, uint64_t moment) {
    const table_schema *schema = &table->schema;
    if (schema->rows_max != 0 && schema->age_max == 0) return table->now + 1;
    return moment > table->now ? moment : table->now;
}

static const payload_section *unfold(engine *engine, const engine_table *table, const payload_section *section) {
    return engine_packs_as(&table->schema, section) ? section_decoder_unfold(&engine->decoder, section) : NULL;
}

static void push_section(engine *engine, const payload_section *section, uint64_t moment, uint32_t members) {
    engine_table *table = engine_table_find(engine, section->table, false);
    if (table == NULL) return;
    uint64_t before = table->now;
    table->now = time_of(table, moment);
    engine_scale scale = engine_scale_of(table, members, &engine->norms);
    engine_push push = {.engine = engine,
                        .table = table,
                        .section = unfold(engine, table, section),
                        .moment = moment,
                        .scale = scale.factor,
                        .sets = payload_is_set(section->op)};
    bool left_out = scale.none && payload_is_push(section->op) && !push.sets;
    if (left_out) {
        table->left_out++;
    } else if (push.section == NULL || !change(&push)) {
        table->now = before;
        table->refused++;
        return;
    }
    if (table->touched != engine->applies) table->version++;
    table->touched = engine->applies;
}

/* `members`: those of the round, set by its first section. */
static void apply_section(engine *engine, const payload_section *section, uint64_t moment, uint32_t *members) {
    if (section->op == PAYLOAD_DEFINE)
        define(engine, section->values);
    else if (section->op == PAYLOAD_DROP)
        drop(engine, section->table);
    else if (section->op == PAYLOAD_ROUND)
        *members = section->count == 0 ? 1 : section->count;
    else if (payload_is_push(section->op) || section->op == PAYLOAD_ERASE)
        push_section(engine, section, moment, *members);
}

/* ---- Remote values of a push. */

/* Prepares the remote values of a push. `now`: the push is applied next, and may be read in place; else the bytes are
 * copied, since the replicas of a slot need the same ones. */
static bool settle(void *context, span payload, bool now, shared_bytes **own) {
    engine_host *host = context;
    if (host == NULL) return false;
    if (!now) return remote_values_fetch(host->map_view, payload, own) == MR_OK;
    host->lit = remote_values_is_there(host->map_view, payload);
    return host->lit;
}

static void light(engine *engine) {
    bool lit = engine->host != NULL && engine->host->lit;
    engine->decoder.map_view = lit ? engine->host->map_view : NULL;
    if (lit) engine->host->lit = false;
}

/* ---- One apply. */

/* Begins an apply: drops the kept previous version. */
static void begin(engine *engine) {
    engine->applies++;
    for (size_t i = 0; engine->keeps && i < engine->count;) {
        undo_log_clear(&engine->tables[i]->log);
        if (engine->tables[i]->gone != 0)
            take_out(engine, i);
        else
            i++;
    }
}

static void end(engine *engine) {
    for (size_t i = 0; i < engine->count; i++) {
        engine_table *table = engine->tables[i];
        if (table->touched != engine->applies) continue;
        if (table->sparse != NULL && table->gone == 0) engine_evict(engine, table);
        undo_log_end(&table->log);
    }
}

static void apply_payload(engine *engine, span bytes, uint64_t moment) {
    payload_section section;
    size_t count;
    uint32_t members = 1;
    if (bytes.size == 0 || payload_check_last(bytes, &count, &section) != MR_OK) return;
    if (count == 1) {
        apply_section(engine, &section, moment, &members);
    } else {
        payload_reader reader = payload_open(bytes);
        while (payload_next(&reader, &section)) apply_section(engine, &section, moment, &members);
    }
    end(engine);
}

static void apply(void *self, span payload, uint64_t moment) {
    engine *engine = self;
    span bytes;
    payload_scratch scratch;
    if (engine->behind) {
        engine->behind = false;
        return;
    }
    begin(engine);
    light(engine);
    section_decoder_must(payload_align(payload, &scratch, &bytes));
    apply_payload(engine, bytes, moment);
    engine->decoder.map_view = NULL;
    payload_clear(&scratch);
}

/* Same, with the known norms of all slots. */
static void apply_normed(void *self, span sum, span norms, uint64_t moment) {
    engine *engine = self;
    (void)slot_norms_read(&engine->norms, norms); /* malformed norms count as unknown */
    apply(self, sum, moment);
    slot_norms_fini(&engine->norms);
}

/* ---- Statistics. */

size_t engine_look_at(const void *self, uint32_t from, engine_look *out, size_t room) {
    const engine *engine = self;
    size_t count = 0;
    for (size_t i = engine_place(engine, from); i < engine->count && count < room; i++) {
        const engine_table *table = engine->tables[i];
        if (table->gone == 0) out[count++] = (engine_look){table->schema.id, engine_table_look(table)};
    }
    return count;
}

const state_machine_ops engine_ops = {"shelf",           create,        destroy,        apply,
                                      round_sum_begin,   round_sum_add, round_sum_size, round_sum_write,
                                      round_sum_end,     engine_answer, engine_size,    engine_write,
                                      engine_write_kept, engine_read,   engine_measure, slot_norms_combine,
                                      apply_normed,      settle};
