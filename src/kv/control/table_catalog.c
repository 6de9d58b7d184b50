/* table_catalog.c — see table_catalog.h. */
#include "kv/control/table_catalog.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/format.h"
#include "kv/table/dense_table.h"

enum { ARRAY_SIZE_MIN = 2 };

/* ---- One table. */

static mr_status copy_text(const char *what, const char *text, char *out, size_t room) {
    size_t size = strnlen(text, room);
    if (size == room) return error_set(MR_INVALID, "%s is longer than %zu bytes", what, room - 1);
    memcpy(out, text, size + 1);
    return MR_OK;
}

static mr_status take_array(table_catalog_table *table, const mr_ps_array *array) {
    table_catalog_array *out = &table->arrays[table->array_count];
    dense_table_options cut = {.dtype = table->schema.dtype, .dims = array->dims, .block = table->schema.block};
    dense_table_plan plan;
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
    MR_TRY(dense_table_cut(&cut, &plan));
    out->dims = array->dims;
    memcpy(out->shape, cut.shape, sizeof out->shape);
    table->array_count++;
    return MR_OK;
}

static mr_status take_arrays(table_catalog_table *table, const mr_ps_table_options *options) {
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

/* Writes a consistency in its canonical form. */
static mr_status check_consistency(table_catalog_table *table) {
    consistency consistency;
    if (table->consistency[0] == '\0') return MR_OK;
    if (!consistency_parse(table->consistency, &consistency))
        return error_set(MR_INVALID, "unknown consistency '%s'; expected bsp, ssp:STEPS (0 to %d) or asp",
                         table->consistency, CONSISTENCY_BOUND_MAX);
    consistency_write(consistency, table->consistency);
    return MR_OK;
}

mr_status table_catalog_table_consistency(const table_catalog_table *table, const cluster_map *map, consistency *out) {
    *out = map->consistency;
    bool named = table->consistency[0] != '\0';
    if (named && !consistency_parse(table->consistency, out))
        return error_set(MR_CORRUPT, "malformed consistency '%s'", table->consistency);
    bool rounds = out->kind == CONSISTENCY_BSP;
    if (map->mixed || rounds == cluster_map_has_rounds(map)) return MR_OK;
    return error_set(MR_INVALID,
                     "consistency '%s' of table '%s' does not fit this deployment, which has %s; start its scheduler "
                     "with `mixed` to have both",
                     table->consistency, table->name, rounds ? "no rounds" : "tables with rounds only");
}

mr_status table_catalog_table_init(table_catalog_table *table, const char *name, const mr_ps_table_options *options) {
    static const char *const defaults[] = {"add", "constant", "zeros", "none", ""};
    size_t text = 0;
    *table = (table_catalog_table){0};
    if (name == NULL || name[0] == '\0') return error_set(MR_INVALID, "mr_ps_table_create needs a name");
    MR_TRY(copy_text("the name of a table", name, table->name, sizeof table->name));
#define X(field)                                                                                                       \
    MR_TRY(copy_text(#field, options->field == NULL ? defaults[text] : options->field, table->field, MR_PS_TEXT_MAX)); \
    text++;
    TABLE_CATALOG_TEXTS(X)
#undef X
    MR_TRY(table_schema_make(1, options, &table->schema));
    MR_TRY(check_consistency(table));
    mr_status status = take_arrays(table, options);
    if (status != MR_OK) table_catalog_table_fini(table);
    return status;
}

uint64_t table_catalog_table_items(const table_catalog_table *table) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < table->array_count; i++) {
        uint64_t items = 1;
        for (int k = 0; k < table->arrays[i].dims; k++) items *= (uint64_t)table->arrays[i].shape[k];
        sum += items;
    }
    return sum;
}

void table_catalog_table_copy(table_catalog_table *to, const table_catalog_table *from) {
    *to = *from;
    to->arrays = xcalloc(from->array_count + 1, sizeof *to->arrays);
    if (from->array_count != 0) memcpy(to->arrays, from->arrays, from->array_count * sizeof *to->arrays);
}

void table_catalog_table_fini(table_catalog_table *table) {
    free(table->arrays);
    *table = (table_catalog_table){0};
}

static bool same_array(const table_catalog_array *a, const table_catalog_array *b) {
    return strcmp(a->name, b->name) == 0 && a->dims == b->dims &&
           memcmp(a->shape, b->shape, (size_t)a->dims * sizeof *a->shape) == 0;
}

const char *table_catalog_table_differs(const table_catalog_table *a, const table_catalog_table *b) {
    const char *field = table_schema_differs(&a->schema, &b->schema);
    if (field != NULL) return field;
    if (strcmp(a->consistency, b->consistency) != 0) return "consistency";
    if (a->array_count != b->array_count) return "arrays";
    for (uint32_t i = 0; i < a->array_count; i++)
        if (!same_array(&a->arrays[i], &b->arrays[i])) return "arrays";
    return NULL;
}

/* ---- Catalog. */

void table_catalog_fini(table_catalog *catalog) {
    for (uint32_t i = 0; i < catalog->count; i++) table_catalog_table_fini(&catalog->tables[i]);
    free(catalog->tables);
    *catalog = (struct table_catalog){0};
}

const table_catalog_table *table_catalog_find(const table_catalog *catalog, const char *name) {
    for (uint32_t i = 0; i < catalog->count; i++)
        if (strcmp(catalog->tables[i].name, name) == 0) return &catalog->tables[i];
    return NULL;
}

static void write_table(const table_catalog_table *table, writer *writer) {
    uint8_t bytes[TABLE_SCHEMA_SIZE];
    table_schema_encode(&table->schema, bytes);
    writer_text8(writer, table->name);
    writer_span32(writer, span_of(bytes, sizeof bytes));
#define X(text) writer_text8(writer, table->text);
    TABLE_CATALOG_TEXTS(X)
#undef X
    writer_u32(writer, table->array_count);
    for (uint32_t i = 0; i < table->array_count; i++) {
        const table_catalog_array *array = &table->arrays[i];
        writer_text8(writer, array->name);
        writer_u8(writer, (uint8_t)array->dims);
        for (int k = 0; k < array->dims; k++) writer_u64(writer, (uint64_t)array->shape[k]);
    }
}

void table_catalog_encode(const table_catalog *catalog, writer *writer) {
    writer_u32(writer, TABLE_CATALOG_MAGIC);
    writer_u32(writer, catalog->next);
    writer_u32(writer, catalog->count);
    for (uint32_t i = 0; i < catalog->count; i++) write_table(&catalog->tables[i], writer);
}

size_t table_catalog_size(const table_catalog *catalog) {
    writer writer = writer_of(NULL, 0);
    table_catalog_encode(catalog, &writer);
    return writer_needs(&writer);
}

static table_catalog_table *append(table_catalog *catalog) {
    catalog->tables = xrealloc(catalog->tables, (catalog->count + 1) * sizeof *catalog->tables);
    return &catalog->tables[catalog->count++];
}

mr_status table_catalog_add(table_catalog *catalog, const table_catalog_table *table) {
    MR_ASSERT(table_catalog_find(catalog, table->name) == NULL);
    writer more = writer_of(NULL, 0);
    write_table(table, &more);
    if (table_catalog_size(catalog) + writer_needs(&more) > TABLE_CATALOG_BYTES_MAX)
        return error_set(MR_TOO_LARGE,
                         "cannot create table '%s': the schemas of all tables together are limited to %d bytes",
                         table->name, TABLE_CATALOG_BYTES_MAX);
    table_catalog_table *added = append(catalog);
    table_catalog_table_copy(added, table);
    added->schema.id = catalog->next == 0 ? 1 : catalog->next;
    catalog->next = added->schema.id + 1;
    return MR_OK;
}

bool table_catalog_remove(table_catalog *catalog, uint32_t id) {
    uint32_t at = 0;
    while (at < catalog->count && catalog->tables[at].schema.id != id) at++;
    if (at == catalog->count) return false;
    table_catalog_table_fini(&catalog->tables[at]);
    catalog->count--;
    memmove(&catalog->tables[at], &catalog->tables[at + 1], (catalog->count - at) * sizeof *catalog->tables);
    return true;
}

/* ---- Encoding. */

/* A decoded shape may be invalid: it is checked like a user's. */
static mr_status read_arrays(reader *reader, table_catalog_table *table) {
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

static mr_status read_table(reader *reader, table_catalog_table *table) {
    if (!reader_text8(reader, table->name, sizeof table->name) || table->name[0] == '\0') return MR_CORRUPT;
    MR_TRY(table_schema_decode(reader_span32(reader), &table->schema));
#define X(text) \
    if (!reader_text8(reader, table->text, sizeof table->text)) return MR_CORRUPT;
    TABLE_CATALOG_TEXTS(X)
#undef X
    if (check_consistency(table) != MR_OK) return MR_CORRUPT;
    return read_arrays(reader, table);
}

static mr_status read_next(reader *reader, table_catalog *catalog) {
    table_catalog_table table = {0};
    uint32_t last = catalog->count == 0 ? 0 : catalog->tables[catalog->count - 1].schema.id;
    mr_status status = read_table(reader, &table);
    uint32_t id = table.schema.id;
    if (status == MR_OK && (id <= last || id >= catalog->next || table_catalog_find(catalog, table.name) != NULL))
        status = MR_CORRUPT;
    if (status == MR_OK)
        *append(catalog) = table;
    else
        table_catalog_table_fini(&table);
    return status;
}

mr_status table_catalog_decode(span bytes, table_catalog *out) {
    table_catalog catalog = {0};
    reader reader = reader_of(bytes.data, bytes.size);
    mr_status status = MR_OK;
    uint32_t count = 0;
    if (bytes.size != 0) {
        uint32_t magic = reader_u32(&reader), found = format_of(magic, TABLE_CATALOG_MAGIC, sizeof magic);
        if (magic != TABLE_CATALOG_MAGIC && found != 0)
            return format_reject("the list of tables at the scheduler", found,
                                 format_of(TABLE_CATALOG_MAGIC, TABLE_CATALOG_MAGIC, sizeof magic), FORMAT_USE_SAME);
        if (magic != TABLE_CATALOG_MAGIC) status = MR_CORRUPT;
        catalog.next = reader_u32(&reader);
        count = reader_u32(&reader);
    }
    for (uint32_t i = 0; i < count && status == MR_OK && !reader.failed; i++) status = read_next(&reader, &catalog);
    if (status != MR_OK || reader.failed || reader_left(&reader) != 0) {
        table_catalog_fini(&catalog);
        return error_set(MR_CORRUPT, "malformed table catalog of %zu bytes from the scheduler", bytes.size);
    }
    *out = catalog;
    return MR_OK;
}
