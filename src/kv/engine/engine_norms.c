/* engine_norms.c — engine, norms that a round needs from all slots: of gradients, of values and of updates. See
 * engine.h.
 *
 *   clip_norm                 the gradient of the whole table; all slots then scale their parts by the same factor
 *   an optimizer that         of a dense array, whose blocks lie in several slots: its values and its update, which
 *   measures (lamb)           may be that of a clipped gradient; so these come in a second phase then
 *
 * Squares are of the pushed sum, section by section (l2_norm.h), without the values that refuse_nan leaves out. Values
 * and optimizer state are those before the round, also of a block that the round assigns to. */
#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "kv/engine/engine_internal.h"
#include "kv/optim/l2_norm.h"

typedef struct survey {
    engine *engine;
    uint64_t moment;
    uint32_t members;
    const slot_norms *known;
    slot_norms found;
    engine_table **fresh; /* owned, with its elements: tables that the round defines */
    size_t fresh_count;
} survey;

/* ---- One section. */

static double row_squares(const engine_table *table, const float *values, size_t items) {
    return table->schema.refuse_nan && !engine_finite(values, items) ? 0 : l2_norm_squares(values, items);
}

/* Squares of a section. With refuse_nan each row, vector or stretch that is not finite is left out. */
static double section_squares(const engine_table *table, const payload_section *section, const float *values,
                              size_t items) {
    double squares = 0;
    if (!table->schema.refuse_nan || section->keys == NULL || engine_finite(values, items))
        return row_squares(table, values, items);
    for (uint32_t i = 0; i < section->count; i++) {
        size_t length = section->lengths == NULL ? table->schema.dim : section->lengths[i];
        squares += row_squares(table, values, length);
        values += length;
    }
    return squares;
}

static void measure_with(survey *survey, engine_table *table, dense_table *dense_table, uint64_t updates,
                         const payload_section *section, const float *gradient) {
    engine_scale scale = engine_scale_of(table, survey->members, survey->known);
    float rate = engine_rate(table, section, survey->moment);
    optim_moment moment = optim_at(&table->optim, updates + 1, rate, scale.none ? 0 : scale.factor);
    size_t first = section->place.first;
    optim_arrays arrays = {.from = (const float *)dense_table_values(dense_table) + first, .gradient = gradient};
    for (uint32_t k = 0; k < table->optim.ops->states; k++) arrays.state[k] = dense_table_state(dense_table, k) + first;
    double squares[2];
    optim_measure(&table->optim, &moment, &arrays, section->count, squares);
    slot_norms_add(&survey->found, table->schema.id, 1 + section->place.array, squares[0], squares[1]);
}

/* Measures the update of a block; a missing block has its initial values. */
static void measure_block(survey *survey, engine_table *table, const payload_section *section, const float *gradient) {
    const payload_place *place = &section->place;
    if (!engine_block_fits(survey->engine, table, place)) return;
    if (table->schema.refuse_nan && !engine_finite(gradient, section->count)) return;
    const engine_block *block = engine_block_find(table, place);
    if (block != NULL) {
        measure_with(survey, table, block->table, block->updates, section, gradient);
        return;
    }
    dense_table *dense_table;
    dense_table_options options = engine_block_options(survey->engine, table, place);
    options.versions = false;
    options.export = NULL; /* not exported */
    section_decoder_must(dense_table_create(&options, place->block, &dense_table));
    measure_with(survey, table, dense_table, 0, section, gradient);
    dense_table_destroy(dense_table);
}

static size_t items_of(const engine_table *table, const payload_section *section) {
    size_t items = 0;
    if (section->op == PAYLOAD_ADD_BLOCK) return section->count;
    if (section->op == PAYLOAD_ADD_ROWS) return (size_t)section->count * table->schema.dim;
    for (uint32_t i = 0; i < section->count; i++) items += section->lengths[i];
    return items;
}

static bool is_known(const survey *survey, const engine_table *table, uint32_t of) {
    return slot_norms_find(survey->known, table->schema.id, of) != NULL;
}

static void measure_section(survey *survey, engine_table *table, const payload_section *folded) {
    const table_schema *schema = &table->schema;
    if (folded->op != engine_add_op(table) || !engine_needs_norms(table)) return;
    const payload_section *section = section_decoder_unfold(&survey->engine->decoder, folded);
    if (section == NULL) return;
    size_t items = items_of(table, section);
    const float *values = section_decoder_values(&survey->engine->decoder, section, schema->dtype, items);
    if (values == NULL) return;
    bool clips = schema->clip_norm != 0, whole = is_known(survey, table, SLOT_NORMS_WHOLE);
    if (clips && !whole)
        slot_norms_add(&survey->found, schema->id, SLOT_NORMS_WHOLE, section_squares(table, section, values, items), 0);
    bool measures = schema->kind == TABLE_SCHEMA_DENSE && optim_measures(&table->optim) && (whole || !clips);
    if (measures && !is_known(survey, table, 1 + section->place.array)) measure_block(survey, table, section, values);
}

/* ---- The whole sum. */

static engine_table *find(const survey *survey, uint32_t id) {
    engine_table *table = engine_table_find(survey->engine, id, false);
    for (size_t i = 0; table == NULL && i < survey->fresh_count; i++)
        if (survey->fresh[i]->schema.id == id) table = survey->fresh[i];
    return table;
}

/* Creates a table that the round itself defines, if its schema is valid. */
static void meet(survey *survey, span bytes) {
    table_schema schema;
    if (table_schema_decode(bytes, &schema) != MR_OK) return;
    if (find(survey, schema.id) != NULL || engine_was_dropped(survey->engine, schema.id, false)) return;
    engine_table *table = engine_table_try(survey->engine, &schema);
    if (table == NULL) return;
    survey->fresh = xrealloc(survey->fresh, (survey->fresh_count + 1) * sizeof(engine_table *));
    survey->fresh[survey->fresh_count++] = table;
}

static void look_through(survey *survey, span bytes) {
    payload_reader reader = payload_open(bytes);
    for (payload_section section; payload_next(&reader, &section);) {
        engine_table *table = payload_is_push(section.op) ? find(survey, section.table) : NULL;
        if (section.op == PAYLOAD_DEFINE)
            meet(survey, section.values);
        else if (section.op == PAYLOAD_ROUND)
            survey->members = section.count == 0 ? 1 : section.count;
        else if (table != NULL)
            measure_section(survey, table, &section);
    }
}

/* Whether the round may need norms; most rounds need none. */
static bool may_need(const engine *engine, span bytes) {
    for (size_t i = 0; i < engine->count; i++)
        if (engine_needs_norms(engine->tables[i])) return true;
    payload_reader reader = payload_open(bytes);
    for (payload_section section; payload_next(&reader, &section);)
        if (section.op == PAYLOAD_DEFINE) return true;
    return false;
}

shared_bytes *engine_measure(void *self, span sum, span norms, uint64_t moment) {
    engine *engine = self;
    slot_norms known = {0};
    survey survey = {.engine = engine, .moment = moment, .members = 1, .known = &known};
    span bytes;
    payload_scratch scratch;
    section_decoder_must(payload_align(sum, &scratch, &bytes));
    (void)slot_norms_read(&known, norms); /* malformed norms count as unknown */
    if (bytes.size != 0 && may_need(engine, bytes) && payload_check(bytes) == MR_OK) look_through(&survey, bytes);
    shared_bytes *shared = survey.found.count == 0 ? NULL : slot_norms_write(&survey.found);
    for (size_t i = 0; i < survey.fresh_count; i++) engine_table_destroy(survey.fresh[i]);
    free(survey.fresh);
    slot_norms_fini(&survey.found);
    slot_norms_fini(&known);
    payload_clear(&scratch);
    return shared;
}

/* ---- Use of the norms. */

bool engine_needs_norms(const engine_table *table) {
    const table_schema *schema = &table->schema;
    return schema->clip_norm != 0 ||
           (schema->kind == TABLE_SCHEMA_DENSE && schema->dtype != MR_I64 && optim_measures(&table->optim));
}

engine_scale engine_scale_of(const engine_table *table, uint32_t members, const slot_norms *known) {
    double mean = table->schema.average ? (double)(float)(1 / (double)members) : 1;
    double limit = (double)table->schema.clip_norm;
    const slot_norms_item *whole = limit == 0 ? NULL : slot_norms_find(known, table->schema.id, SLOT_NORMS_WHOLE);
    if (whole == NULL) return (engine_scale){.factor = (float)mean};
    double squares = whole->squares[0] * (mean * mean);
    if (!isfinite(squares)) return (engine_scale){.none = true};
    return (engine_scale){.factor = (float)mean * l2_norm_clip(squares, limit)};
}

float engine_trust(const engine_table *table, uint32_t array, const slot_norms *known) {
    const slot_norms_item *item = slot_norms_find(known, table->schema.id, 1 + array);
    return item == NULL ? 1 : l2_norm_trust(item->squares[0], item->squares[1]);
}
