/* table_catalog.c — see table_catalog.h. */
#include "kv/control/table_catalog.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/binary_search.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/nearest_name.h"

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

static int compare_arrays(const void *a, const void *b) {
    return strcmp((*(table_catalog_array *const *)a)->name, (*(table_catalog_array *const *)b)->name);
}

/* Checks that the names of the arrays are different. */
static mr_status check_names(const table_catalog_table *table) {
    const table_catalog_array **sorted = xcalloc((size_t)table->array_count + 1, sizeof *sorted), *twice = NULL;
    for (uint32_t i = 0; i < table->array_count; i++) sorted[i] = &table->arrays[i];
    qsort(sorted, table->array_count, sizeof *sorted, compare_arrays);
    for (uint32_t i = 1; i < table->array_count && twice == NULL; i++)
        if (strcmp(sorted[i - 1]->name, sorted[i]->name) == 0) twice = sorted[i];
    free(sorted);
    if (twice != NULL)
        return error_set(MR_INVALID, "two arrays of table '%s' have the name '%s'", table->name, twice->name);
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
    table->arrays = xcalloc((size_t)options->array_count + 1, sizeof *table->arrays);
    for (uint32_t i = 0; i < options->array_count; i++) MR_TRY(take_array(table, &options->arrays[i]));
    return check_names(table);
}

/* Writes a consistency in its canonical form. */
static mr_status check_consistency(table_catalog_table *table) {
    consistency consistency;
    if (table->consistency[0] == '\0') return MR_OK;
    if (!consistency_parse(table->consistency, &consistency)) {
        char hint[NEAREST_NAME_HINT_MAX];
        return error_set(MR_INVALID, "unknown consistency '%s'; expected bsp, ssp:STEPS (0 to %d) or asp%s",
                         table->consistency, CONSISTENCY_BOUND_MAX,
                         nearest_name_among(table->consistency, "bsp, ssp, asp", hint));
    }
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
                     "consistency '%s' of table '%s' does not fit this deployment, which has %s; start it with "
                     "mixed_consistency (--mixed-consistency) to have both",
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

mr_status table_catalog_array_cut(const table_catalog_array *array, const table_schema *schema, dense_table_plan *out) {
    dense_table_options cut = {
        .dtype = schema->dtype, .dims = array->dims, .block = schema->block, .init = schema->init};
    memcpy(cut.shape, array->shape, sizeof cut.shape);
    return dense_table_cut(&cut, out);
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
    to->arrays = xcalloc((size_t)from->array_count + 1, sizeof *to->arrays);
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

/* ---- One table as bytes. */

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

uint8_t *table_catalog_table_encode(const table_catalog_table *table, size_t *size) {
    writer measure = writer_of(NULL, 0);
    write_table(table, &measure);
    *size = writer_needs(&measure);
    uint8_t *bytes = xmalloc(*size);
    writer writer = writer_of(bytes, *size);
    write_table(table, &writer);
    MR_ASSERT(!writer.failed && *size <= TABLE_CATALOG_TABLE_MAX);
    return bytes;
}

/* A decoded shape may be invalid: it is checked like a user's. */
static mr_status read_arrays(reader *reader, table_catalog_table *table) {
    uint32_t count = reader_u32(reader);
    if (reader->failed || count > reader_left(reader) / ARRAY_SIZE_MIN || count > MR_PS_ARRAYS_MAX) return MR_CORRUPT;
    table->arrays = xcalloc((size_t)count + 1, sizeof *table->arrays);
    for (uint32_t i = 0; i < count; i++) {
        char name[MR_PS_NAME_MAX];
        if (!reader_text8(reader, name, sizeof name)) return MR_CORRUPT;
        mr_ps_array array = {.name = name, .dims = reader_u8(reader)};
        for (int k = 0; k < array.dims && k < MR_TENSOR_DIMS_MAX; k++) array.shape[k] = (int64_t)reader_u64(reader);
        if (reader->failed) return MR_CORRUPT;
        MR_TRY(take_array(table, &array));
    }
    return check_names(table);
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

mr_status table_catalog_table_decode(span bytes, table_catalog_table *out) {
    table_catalog_table table = {0};
    reader reader = reader_of(bytes.data, bytes.size);
    if (bytes.size <= TABLE_CATALOG_TABLE_MAX && read_table(&reader, &table) == MR_OK && reader_left(&reader) == 0) {
        *out = table;
        return MR_OK;
    }
    table_catalog_table_fini(&table);
    return error_set(MR_CORRUPT, "a malformed table of %zu bytes", bytes.size);
}

/* ---- Catalog. */

static void destroy_entry(table_catalog_entry *entry) {
    free(entry->bytes);
    free(entry);
}

void table_catalog_fini(table_catalog *catalog) {
    for (size_t i = 0; i < catalog->count; i++) destroy_entry(catalog->entries[i]);
    free(catalog->entries);
    map_fini(&catalog->by_name);
    *catalog = (struct table_catalog){0};
}

static uint64_t hash_of(const char *name) { return hash_on(HASH_BEGIN, name, strlen(name)); }

const table_catalog_entry *table_catalog_find(const table_catalog *catalog, const char *name) {
    const table_catalog_entry *entry = map_get(&catalog->by_name, hash_of(name));
    while (entry != NULL && strcmp(entry->table.name, name) != 0) entry = entry->next_same;
    return entry;
}

static int compare_entry(const void *key, const void *item) {
    uint32_t id = *(const uint32_t *)key, other = (*(table_catalog_entry *const *)item)->table.schema.id;
    return (id > other) - (id < other);
}

size_t table_catalog_place(const table_catalog *catalog, uint32_t id) {
    return binary_search_first(&id, catalog->entries, catalog->count, sizeof(void *), compare_entry);
}

const table_catalog_entry *table_catalog_by_id(const table_catalog *catalog, uint32_t id) {
    size_t at = table_catalog_place(catalog, id);
    bool found = at < catalog->count && catalog->entries[at]->table.schema.id == id;
    return found ? catalog->entries[at] : NULL;
}

uint32_t table_catalog_next(const table_catalog *catalog) { return catalog->next == 0 ? 1 : catalog->next; }

mr_status table_catalog_check_room(const table_catalog *catalog, const char *name, size_t size) {
    if (catalog->count >= TABLE_CATALOG_TABLES_MAX || table_catalog_next(catalog) == UINT32_MAX)
        return error_set(MR_TOO_LARGE,
                         "cannot create table '%s': there are %zu tables, which is the limit; drop one first", name,
                         catalog->count);
    if (size > TABLE_CATALOG_BYTES_MAX - catalog->bytes)
        return error_set(
            MR_TOO_LARGE,
            "cannot create table '%s' of %zu bytes: the schemas of all tables have %zu bytes, and the limit is "
            "%zu; drop a table first",
            name, size, catalog->bytes, TABLE_CATALOG_BYTES_MAX);
    return MR_OK;
}

/* Adds a decoded table, whose arrays it frees, and its bytes, which are copied. */
static mr_status put_decoded(table_catalog *catalog, table_catalog_table *table, span bytes) {
    uint32_t id = table->schema.id;
    if (id < table_catalog_next(catalog) || id == UINT32_MAX || table_catalog_find(catalog, table->name) != NULL)
        return error_set(MR_CORRUPT, "table '%s' has id %u, which is in use, or its name is", table->name, id);
    MR_TRY(table_catalog_check_room(catalog, table->name, bytes.size));
    table_catalog_entry *entry = XNEW(table_catalog_entry, .table = *table, .items = table_catalog_table_items(table),
                                      .bytes = xcopy(bytes.data, bytes.size), .size = bytes.size);
    free(table->arrays);
    table->arrays = entry->table.arrays = NULL;
    xgrow(&catalog->entries, &catalog->room, catalog->count + 1, sizeof(void *));
    catalog->entries[catalog->count++] = entry;
    entry->next_same = map_put(&catalog->by_name, hash_of(entry->table.name), entry);
    catalog->bytes += bytes.size;
    catalog->next = id + 1;
    return MR_OK;
}

mr_status table_catalog_put(table_catalog *catalog, span bytes) {
    table_catalog_table table;
    MR_TRY(table_catalog_table_decode(bytes, &table));
    mr_status status = put_decoded(catalog, &table, bytes);
    table_catalog_table_fini(&table);
    return status;
}

static void unlink_name(table_catalog *catalog, table_catalog_entry *entry) {
    uint64_t hash = hash_of(entry->table.name);
    table_catalog_entry *first = map_get(&catalog->by_name, hash), **at = &first;
    while (*at != entry) at = &(*at)->next_same;
    *at = entry->next_same;
    if (first == NULL)
        (void)map_remove(&catalog->by_name, hash);
    else
        (void)map_put(&catalog->by_name, hash, first);
}

bool table_catalog_remove(table_catalog *catalog, uint32_t id) {
    size_t at = table_catalog_place(catalog, id);
    if (at == catalog->count || catalog->entries[at]->table.schema.id != id) return false;
    table_catalog_entry *entry = catalog->entries[at];
    unlink_name(catalog, entry);
    catalog->bytes -= entry->size;
    catalog->count--;
    memmove(&catalog->entries[at], &catalog->entries[at + 1], (catalog->count - at) * sizeof(void *));
    destroy_entry(entry);
    return true;
}

/* ---- Release 0.2.0. */

static mr_status import_next(reader *reader, table_catalog *catalog) {
    table_catalog_table table = {0};
    const uint8_t *begin = reader->at;
    mr_status status = read_table(reader, &table);
    if (status == MR_OK) status = put_decoded(catalog, &table, span_of(begin, (size_t)(reader->at - begin)));
    table_catalog_table_fini(&table);
    return status;
}

static mr_status import_all(reader *reader, table_catalog *catalog) {
    uint32_t next = reader_u32(reader), count = reader_u32(reader);
    for (uint32_t i = 0; i < count && !reader->failed; i++) MR_TRY(import_next(reader, catalog));
    if (reader->failed || reader_left(reader) != 0 || table_catalog_next(catalog) > next || next == UINT32_MAX)
        return MR_CORRUPT;
    catalog->next = next;
    return MR_OK;
}

mr_status table_catalog_import(span value, table_catalog *out) {
    table_catalog catalog = {0};
    reader reader = reader_of(value.data, value.size);
    mr_status status = reader_u32(&reader) == TABLE_CATALOG_MAGIC_BEFORE ? MR_OK : MR_CORRUPT;
    if (status == MR_OK) status = import_all(&reader, &catalog);
    if (status == MR_OK) {
        *out = catalog;
        return MR_OK;
    }
    table_catalog_fini(&catalog);
    return error_set(MR_CORRUPT, "malformed list of tables, of %zu bytes", value.size);
}
