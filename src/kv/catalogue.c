/* catalogue.c — see catalogue.h. */
#include "kv/catalogue.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/format.h"
#include "kv/table/dense.h"

enum { ARRAY_SIZE_MIN = 2 };

/* ---- One table. */

static mr_status copy_text(const char *what, const char *text, char *out, size_t room) {
    size_t size = strnlen(text, room);
    if (size == room) return error_set(MR_INVALID, "%s is longer than %zu bytes", what, room - 1);
    memcpy(out, text, size + 1);
    return MR_OK;
}

static mr_status take_array(catalogue_table *table, const mr_ps_array *array) {
    catalogue_array *out = &table->arrays[table->array_count];
    dense_options cut = {.dtype = table->definition.dtype, .dims = array->dims, .block = table->definition.block};
    dense_plan plan;
    if (array->name == NULL || array->name[0] == '\0')
        return error_set(MR_INVALID, "arrays[%u] has no name", table->array_count);
    MR_TRY(copy_text("the name of an array", array->name, out->name, sizeof out->name));
    for (uint32_t i = 0; i < table->array_count; i++)
        if (strcmp(table->arrays[i].name, out->name) == 0)
            return error_set(MR_INVALID, "two arrays have the name '%s'", out->name);
    if (array->dims < 0 || array->dims > MR_TENSOR_DIMS_MAX)
        return error_set(MR_INVALID, "array '%s' has %d dimensions; expected 0 to %d", out->name, array->dims,
                         MR_TENSOR_DIMS_MAX);
    memcpy(cut.shape, array->shape, (size_t)array->dims * sizeof *array->shape);
    MR_TRY(dense_cut(&cut, &plan));
    out->dims = array->dims;
    memcpy(out->shape, cut.shape, sizeof out->shape);
    table->array_count++;
    return MR_OK;
}

static mr_status take_arrays(catalogue_table *table, const mr_ps_table_options *options) {
    bool dense = options->kind == MR_PS_DENSE;
    if (!dense && options->array_count != 0)
        return error_set(MR_INVALID, "'%s' has arrays, but is not dense", table->name);
    if (dense && (options->array_count == 0 || options->array_count > MR_PS_ARRAYS_MAX))
        return error_set(MR_INVALID, "dense table '%s' has %u arrays; expected 1 to %d", table->name,
                         options->array_count, MR_PS_ARRAYS_MAX);
    if (dense && options->arrays == NULL)
        return error_set(MR_INVALID, "arrays is NULL, array_count is %u", options->array_count);
    table->arrays = xcalloc(options->array_count + 1, sizeof *table->arrays);
    for (uint32_t i = 0; i < options->array_count; i++) MR_TRY(take_array(table, &options->arrays[i]));
    return MR_OK;
}

/* One text for each. */
static mr_status check_consistency(catalogue_table *table) {
    consistency consistency;
    if (table->consistency[0] == '\0') return MR_OK;
    if (!consistency_parse(table->consistency, &consistency))
        return error_set(MR_INVALID, "unknown consistency '%s'; expected bsp, ssp:STEPS (0 to %d) or asp",
                         table->consistency, CONSISTENCY_BOUND_MAX);
    consistency_write(consistency, table->consistency);
    return MR_OK;
}

mr_status catalogue_table_consistency(const catalogue_table *table, const chart *chart, consistency *out) {
    *out = chart->consistency;
    bool named = table->consistency[0] != '\0';
    if (named && !consistency_parse(table->consistency, out))
        return error_set(MR_CORRUPT, "malformed consistency '%s'", table->consistency);
    bool rounds = out->kind == CONSISTENCY_BSP;
    if (chart->mixed || rounds == chart_has_rounds(chart)) return MR_OK;
    return error_set(MR_INVALID,
                     "consistency '%s' of table '%s' does not fit this deployment, which has %s; start its scheduler "
                     "with `mixed` to have both",
                     table->consistency, table->name, rounds ? "no rounds" : "tables with rounds only");
}

mr_status catalogue_table_init(catalogue_table *table, const char *name, const mr_ps_table_options *options) {
    static const char *const defaults[] = {"add", "constant", "zeros", "none", ""};
    size_t text = 0;
    *table = (catalogue_table){0};
    if (name == NULL || name[0] == '\0') return error_set(MR_INVALID, "mr_ps_table_create needs a name");
    MR_TRY(copy_text("the name of a table", name, table->name, sizeof table->name));
#define X(field)                                                                                                       \
    MR_TRY(copy_text(#field, options->field == NULL ? defaults[text] : options->field, table->field, MR_PS_TEXT_MAX)); \
    text++;
    CATALOGUE_TEXTS(X)
#undef X
    MR_TRY(definition_make(1, options, &table->definition));
    MR_TRY(check_consistency(table));
    mr_status status = take_arrays(table, options);
    if (status != MR_OK) catalogue_table_fini(table);
    return status;
}

uint64_t catalogue_table_items(const catalogue_table *table) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < table->array_count; i++) {
        uint64_t items = 1;
        for (int k = 0; k < table->arrays[i].dims; k++) items *= (uint64_t)table->arrays[i].shape[k];
        sum += items;
    }
    return sum;
}

void catalogue_table_copy(catalogue_table *to, const catalogue_table *from) {
    *to = *from;
    to->arrays = xcalloc(from->array_count + 1, sizeof *to->arrays);
    if (from->array_count != 0) memcpy(to->arrays, from->arrays, from->array_count * sizeof *to->arrays);
}

void catalogue_table_fini(catalogue_table *table) {
    free(table->arrays);
    *table = (catalogue_table){0};
}

static bool same_array(const catalogue_array *a, const catalogue_array *b) {
    return strcmp(a->name, b->name) == 0 && a->dims == b->dims &&
           memcmp(a->shape, b->shape, (size_t)a->dims * sizeof *a->shape) == 0;
}

const char *catalogue_table_differs(const catalogue_table *a, const catalogue_table *b) {
    const char *field = definition_differs(&a->definition, &b->definition);
    if (field != NULL) return field;
    if (strcmp(a->consistency, b->consistency) != 0) return "consistency";
    if (a->array_count != b->array_count) return "arrays";
    for (uint32_t i = 0; i < a->array_count; i++)
        if (!same_array(&a->arrays[i], &b->arrays[i])) return "arrays";
    return NULL;
}

/* ---- All of them. */

void catalogue_fini(catalogue *catalogue) {
    for (uint32_t i = 0; i < catalogue->count; i++) catalogue_table_fini(&catalogue->tables[i]);
    free(catalogue->tables);
    *catalogue = (struct catalogue){0};
}

const catalogue_table *catalogue_find(const catalogue *catalogue, const char *name) {
    for (uint32_t i = 0; i < catalogue->count; i++)
        if (strcmp(catalogue->tables[i].name, name) == 0) return &catalogue->tables[i];
    return NULL;
}

static void write_table(const catalogue_table *table, writer *writer) {
    uint8_t bytes[DEFINITION_SIZE];
    definition_encode(&table->definition, bytes);
    writer_text8(writer, table->name);
    writer_span32(writer, span_of(bytes, sizeof bytes));
#define X(text) writer_text8(writer, table->text);
    CATALOGUE_TEXTS(X)
#undef X
    writer_u32(writer, table->array_count);
    for (uint32_t i = 0; i < table->array_count; i++) {
        const catalogue_array *array = &table->arrays[i];
        writer_text8(writer, array->name);
        writer_u8(writer, (uint8_t)array->dims);
        for (int k = 0; k < array->dims; k++) writer_u64(writer, (uint64_t)array->shape[k]);
    }
}

void catalogue_encode(const catalogue *catalogue, writer *writer) {
    writer_u32(writer, CATALOGUE_MAGIC);
    writer_u32(writer, catalogue->next);
    writer_u32(writer, catalogue->count);
    for (uint32_t i = 0; i < catalogue->count; i++) write_table(&catalogue->tables[i], writer);
}

size_t catalogue_size(const catalogue *catalogue) {
    writer writer = writer_of(NULL, 0);
    catalogue_encode(catalogue, &writer);
    return writer_needs(&writer);
}

static catalogue_table *append(catalogue *catalogue) {
    catalogue->tables = xrealloc(catalogue->tables, (catalogue->count + 1) * sizeof *catalogue->tables);
    return &catalogue->tables[catalogue->count++];
}

mr_status catalogue_add(catalogue *catalogue, const catalogue_table *table) {
    MR_ASSERT(catalogue_find(catalogue, table->name) == NULL);
    writer more = writer_of(NULL, 0);
    write_table(table, &more);
    if (catalogue_size(catalogue) + writer_needs(&more) > CATALOGUE_BYTES_MAX)
        return error_set(MR_TOO_LARGE,
                         "cannot create table '%s': the schemas of all tables together are limited to %d bytes",
                         table->name, CATALOGUE_BYTES_MAX);
    catalogue_table *added = append(catalogue);
    catalogue_table_copy(added, table);
    added->definition.id = catalogue->next == 0 ? 1 : catalogue->next;
    catalogue->next = added->definition.id + 1;
    return MR_OK;
}

bool catalogue_remove(catalogue *catalogue, uint32_t id) {
    uint32_t at = 0;
    while (at < catalogue->count && catalogue->tables[at].definition.id != id) at++;
    if (at == catalogue->count) return false;
    catalogue_table_fini(&catalogue->tables[at]);
    catalogue->count--;
    memmove(&catalogue->tables[at], &catalogue->tables[at + 1], (catalogue->count - at) * sizeof *catalogue->tables);
    return true;
}

/* ---- Bytes. */

/* A shape that was never cut may be anything: it is checked as if it came from a user. */
static mr_status read_arrays(reader *reader, catalogue_table *table) {
    uint32_t count = reader_u32(reader);
    if (reader->failed || count > reader_left(reader) / ARRAY_SIZE_MIN || count > MR_PS_ARRAYS_MAX) return MR_CORRUPT;
    table->arrays = xcalloc(count + 1, sizeof *table->arrays);
    for (uint32_t i = 0; i < count; i++) {
        char name[MR_PS_NAME_MAX];
        if (!reader_text8(reader, name, sizeof name)) return MR_CORRUPT;
        mr_ps_array array = {.name = name, .dims = reader_u8(reader)};
        for (int k = 0; k < array.dims && k < MR_TENSOR_DIMS_MAX; k++) array.shape[k] = (int64_t)reader_u64(reader);
        if (reader->failed) return MR_CORRUPT;
        MR_TRY(take_array(table, &array));
    }
    return MR_OK;
}

static mr_status read_table(reader *reader, catalogue_table *table) {
    if (!reader_text8(reader, table->name, sizeof table->name) || table->name[0] == '\0') return MR_CORRUPT;
    MR_TRY(definition_decode(reader_span32(reader), &table->definition));
#define X(text) \
    if (!reader_text8(reader, table->text, sizeof table->text)) return MR_CORRUPT;
    CATALOGUE_TEXTS(X)
#undef X
    if (check_consistency(table) != MR_OK) return MR_CORRUPT;
    return read_arrays(reader, table);
}

static mr_status read_next(reader *reader, catalogue *catalogue) {
    catalogue_table table = {0};
    uint32_t last = catalogue->count == 0 ? 0 : catalogue->tables[catalogue->count - 1].definition.id;
    mr_status status = read_table(reader, &table);
    uint32_t id = table.definition.id;
    if (status == MR_OK && (id <= last || id >= catalogue->next || catalogue_find(catalogue, table.name) != NULL))
        status = MR_CORRUPT;
    if (status == MR_OK)
        *append(catalogue) = table;
    else
        catalogue_table_fini(&table);
    return status;
}

mr_status catalogue_decode(span bytes, catalogue *out) {
    catalogue catalogue = {0};
    reader reader = reader_of(bytes.data, bytes.size);
    mr_status status = MR_OK;
    uint32_t count = 0;
    if (bytes.size != 0) {
        uint32_t magic = reader_u32(&reader), found = format_of(magic, CATALOGUE_MAGIC, sizeof magic);
        if (magic != CATALOGUE_MAGIC && found != 0)
            return format_reject("the list of tables at the scheduler", found,
                                 format_of(CATALOGUE_MAGIC, CATALOGUE_MAGIC, sizeof magic), FORMAT_USE_SAME);
        if (magic != CATALOGUE_MAGIC) status = MR_CORRUPT;
        catalogue.next = reader_u32(&reader);
        count = reader_u32(&reader);
    }
    for (uint32_t i = 0; i < count && status == MR_OK && !reader.failed; i++) status = read_next(&reader, &catalogue);
    if (status != MR_OK || reader.failed || reader_left(&reader) != 0) {
        catalogue_fini(&catalogue);
        return error_set(MR_CORRUPT, "malformed table catalog of %zu bytes from the scheduler", bytes.size);
    }
    *out = catalogue;
    return MR_OK;
}
