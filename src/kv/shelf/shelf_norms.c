/* shelf_norms.c — engine, norms that a round needs from all slots: of gradients, of values and of updates. See shelf.h.
 *
 *   clip_norm                 the gradient of the whole table; all slots then scale theirs alike
 *   an optimizer that         of a dense array, whose blocks lie in several slots: its values and its update, which
 *   measures (lamb)           may be that of a gradient that was clipped; so these come in a second phase then
 *
 * Squares are those of the sum as it was pushed, section by section (norm.h); what refuse_nan leaves out is left out
 * here, too. Values and state are those before the round, also of a block that the same round assigns to. */
#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "kv/optim/norm.h"
#include "kv/shelf/shelf_core.h"

typedef struct survey {
    shelf *shelf;
    uint64_t moment;
    uint32_t members;
    const lengths *known;
    lengths found;
    shelf_table **fresh; /* owned, each too: tables that the round defines */
    size_t fresh_count;
} survey;

/* ---- Of one section. */

static double row_squares(const shelf_table *table, const float *values, size_t items) {
    return table->definition.refuse_nan && !shelf_finite(values, items) ? 0 : norm_squares(values, items);
}

/* Rows, vectors and stretches that are not finite may be left out, each for itself. */
static double section_squares(const shelf_table *table, const parcel_section *section, const float *values,
                              size_t items) {
    double squares = 0;
    if (!table->definition.refuse_nan || section->keys == NULL || shelf_finite(values, items))
        return row_squares(table, values, items);
    for (uint32_t i = 0; i < section->count; i++) {
        size_t length = section->lengths == NULL ? table->definition.dim : section->lengths[i];
        squares += row_squares(table, values, length);
        values += length;
    }
    return squares;
}

static void measure_with(survey *survey, shelf_table *table, dense *dense, uint64_t updates,
                         const parcel_section *section, const float *gradient) {
    shelf_scale scale = shelf_scale_of(table, survey->members, survey->known);
    optim_moment moment =
        optim_at(&table->optim, updates + 1, shelf_rate(table, survey->moment), scale.none ? 0 : scale.factor);
    size_t first = section->place.first;
    optim_arrays arrays = {.from = (const float *)dense_values(dense) + first, .gradient = gradient};
    for (uint32_t k = 0; k < table->optim.ops->states; k++) arrays.state[k] = dense_state(dense, k) + first;
    double squares[2];
    optim_measure(&table->optim, &moment, &arrays, section->count, squares);
    lengths_add(&survey->found, table->definition.id, 1 + section->place.array, squares[0], squares[1]);
}

/* A block that is not there yet is measured as it would begin. */
static void measure_block(survey *survey, shelf_table *table, const parcel_section *section, const float *gradient) {
    const parcel_place *place = &section->place;
    if (!shelf_block_fits(survey->shelf, table, place)) return;
    if (table->definition.refuse_nan && !shelf_finite(gradient, section->count)) return;
    const shelf_block *block = shelf_block_find(table, place);
    if (block != NULL) {
        measure_with(survey, table, block->dense, block->updates, section, gradient);
        return;
    }
    dense *dense;
    dense_options options = shelf_block_options(survey->shelf, table, place);
    options.versions = false;
    options.glass = NULL; /* nobody is told of it */
    opener_must(dense_create(&options, place->block, &dense));
    measure_with(survey, table, dense, 0, section, gradient);
    dense_destroy(dense);
}

static size_t items_of(const shelf_table *table, const parcel_section *section) {
    size_t items = 0;
    if (section->op == PARCEL_ADD_BLOCK) return section->count;
    if (section->op == PARCEL_ADD_ROWS) return (size_t)section->count * table->definition.dim;
    for (uint32_t i = 0; i < section->count; i++) items += section->lengths[i];
    return items;
}

static bool is_known(const survey *survey, const shelf_table *table, uint32_t of) {
    return lengths_find(survey->known, table->definition.id, of) != NULL;
}

static void measure_section(survey *survey, shelf_table *table, const parcel_section *folded) {
    static const parcel_op adds[] = {[DEFINITION_SPARSE] = PARCEL_ADD_ROWS,
                                     [DEFINITION_VECTORS] = PARCEL_ADD_VECTORS,
                                     [DEFINITION_DENSE] = PARCEL_ADD_BLOCK};
    const definition *definition = &table->definition;
    if (folded->op != adds[definition->kind] || !shelf_needs_norms(table)) return;
    const parcel_section *section = opener_unfold(&survey->shelf->opener, folded);
    if (section == NULL) return;
    size_t items = items_of(table, section);
    const float *values = opener_values(&survey->shelf->opener, section, definition->dtype, items);
    if (values == NULL) return;
    bool clips = definition->clip_norm != 0, whole = is_known(survey, table, LENGTHS_WHOLE);
    if (clips && !whole)
        lengths_add(&survey->found, definition->id, LENGTHS_WHOLE, section_squares(table, section, values, items), 0);
    bool measures = definition->kind == DEFINITION_DENSE && optim_measures(&table->optim) && (whole || !clips);
    if (measures && !is_known(survey, table, 1 + section->place.array)) measure_block(survey, table, section, values);
}

/* ---- Of a sum. */

static shelf_table *find(const survey *survey, uint32_t id) {
    shelf_table *table = shelf_table_find(survey->shelf, id, false);
    for (size_t i = 0; table == NULL && i < survey->fresh_count; i++)
        if (survey->fresh[i]->definition.id == id) table = survey->fresh[i];
    return table;
}

/* A table that is defined by the round itself, if it will be. */
static void meet(survey *survey, span bytes) {
    definition definition;
    shelf_table *table;
    if (definition_decode(bytes, &definition) != MR_OK) return;
    if (find(survey, definition.id) != NULL || shelf_was_dropped(survey->shelf, definition.id, false)) return;
    mr_status status = shelf_table_create(survey->shelf, &definition, &table);
    if (status == MR_INVALID) return;
    opener_must(status);
    survey->fresh = xrealloc(survey->fresh, (survey->fresh_count + 1) * sizeof(shelf_table *));
    survey->fresh[survey->fresh_count++] = table;
}

static void look_through(survey *survey, span bytes) {
    parcel_reader reader = parcel_open(bytes);
    for (parcel_section section; parcel_next(&reader, &section);) {
        shelf_table *table = parcel_is_push(section.op) ? find(survey, section.table) : NULL;
        if (section.op == PARCEL_DEFINE)
            meet(survey, section.values);
        else if (section.op == PARCEL_ROUND)
            survey->members = section.count == 0 ? 1 : section.count;
        else if (table != NULL)
            measure_section(survey, table, &section);
    }
}

/* Whether it is worth to look: most rounds are of tables that need nothing. */
static bool may_need(const shelf *shelf, span bytes) {
    for (size_t i = 0; i < shelf->count; i++)
        if (shelf_needs_norms(shelf->tables[i])) return true;
    parcel_reader reader = parcel_open(bytes);
    for (parcel_section section; parcel_next(&reader, &section);)
        if (section.op == PARCEL_DEFINE) return true;
    return false;
}

bale *shelf_measure(void *self, span sum, span norms, uint64_t moment) {
    shelf *shelf = self;
    lengths known = {0};
    survey survey = {.shelf = shelf, .moment = moment, .members = 1, .known = &known};
    span bytes;
    parcel_tray tray;
    opener_must(parcel_align(sum, &tray, &bytes));
    (void)lengths_read(&known, norms); /* what makes no sense is not known */
    if (bytes.size != 0 && may_need(shelf, bytes) && parcel_check(bytes) == MR_OK) look_through(&survey, bytes);
    bale *bale = survey.found.count == 0 ? NULL : lengths_write(&survey.found);
    for (size_t i = 0; i < survey.fresh_count; i++) shelf_table_destroy(survey.fresh[i]);
    free(survey.fresh);
    lengths_fini(&survey.found);
    lengths_fini(&known);
    parcel_clear(&tray);
    return bale;
}

bale *shelf_combine(void *context, const span *parts, size_t count) { return lengths_combine(parts, count); }

/* ---- What comes of it. */

bool shelf_needs_norms(const shelf_table *table) {
    const definition *definition = &table->definition;
    return definition->clip_norm != 0 ||
           (definition->kind == DEFINITION_DENSE && definition->dtype != MR_I64 && optim_measures(&table->optim));
}

shelf_scale shelf_scale_of(const shelf_table *table, uint32_t members, const lengths *known) {
    double mean = table->definition.average ? (double)(float)(1 / (double)members) : 1;
    double limit = (double)table->definition.clip_norm;
    const lengths_item *whole = limit == 0 ? NULL : lengths_find(known, table->definition.id, LENGTHS_WHOLE);
    if (whole == NULL) return (shelf_scale){.factor = (float)mean};
    double squares = whole->squares[0] * (mean * mean);
    if (!isfinite(squares)) return (shelf_scale){.none = true};
    return (shelf_scale){.factor = (float)mean * norm_clip(squares, limit)};
}

float shelf_trust(const shelf_table *table, uint32_t array, const lengths *known) {
    const lengths_item *item = lengths_find(known, table->definition.id, 1 + array);
    return item == NULL ? 1 : norm_trust(item->squares[0], item->squares[1]);
}
