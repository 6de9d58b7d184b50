/* checkpoint_export.c — mr_ps_checkpoint_export (miniray/ps.h): the slots of a checkpoint merged into one file, by
 * tables.
 *
 *   slots                                          one safetensors file
 *   TABLE/keys, /touches, /values of each slot ──► TABLE/keys, TABLE/values, by key          a sparse table
 *   TABLE/keys, /lengths, /values of each slot ──► TABLE/keys, TABLE/lengths, TABLE/values   vectors
 *   TABLE/ARRAY/BLOCK/values of each slot      ──► TABLE/ARRAY, in its shape                 a dense table
 *
 * A block without a push is in no slot; the export contains its initial values (initializer.h).
 *
 * Ownership   the files of all slots are in memory until the result is written; gathered rows and blocks point into
 *             them. Tested by tests/ps_checkpoint_test.c. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/binary_search.h"
#include "base/error.h"
#include "base/new_file.h"
#include "kv/checkpoint/checkpoint_list.h"
#include "kv/checkpoint/snapshot_reader.h"
#include "kv/table/dense_table.h"
#include "miniray/admin.h"

#define EXPORT_FORMAT "miniray checkpoint 1"

typedef struct row {
    uint64_t key;
    const uint8_t *values;
    uint32_t items;
} row;

typedef struct array {
    const char *name; /* in its file; NULL: the number has no array */
    bool shaped;
    uint64_t shape[SAFETENSORS_DIMS_MAX], items;
    uint32_t dims;
    snapshot_block *blocks; /* owned; their pointers point into `files` */
    size_t count;
} array;

typedef struct bound_table {
    const char *name; /* inside its file */
    table_schema schema;
    row *rows; /* owned */
    size_t count, room;
    array *arrays; /* owned, by number */
    uint32_t array_count;
    size_t array_room;
} bound_table;

typedef struct checkpoint_export {
    buffer *files;            /* owned, by slot */
    snapshot_reader *readers; /* owned, by slot; zero-initialized: not open */
    undo_log *undos;          /* owned, and what is in them: rows may point there */
    size_t undo_count, undo_room;
    uint32_t slots;
    bound_table *tables; /* owned */
    size_t count, room;
    size_t at;     /* index of the table that was found last */
    void **memory; /* owned: memory of new tensors */
    size_t memory_count;
    safetensors list;
    int64_t step;
} checkpoint_export;

static void checkpoint_export_fini(checkpoint_export *export) {
    for (size_t i = 0; i < export->count; i++) {
        bound_table *table = &export->tables[i];
        for (uint32_t k = 0; k < table->array_count; k++) free(table->arrays[k].blocks);
        free(table->arrays);
        free(table->rows);
    }
    for (size_t i = 0; i < export->undo_count; i++) undo_log_fini(&export->undos[i]);
    free(export->undos);
    for (uint32_t i = 0; i < export->slots; i++) {
        snapshot_reader_close(&export->readers[i]);
        buffer_fini(&export->files[i]);
    }
    for (size_t i = 0; i < export->memory_count; i++) free(export->memory[i]);
    free(export->memory);
    free(export->files);
    free(export->readers);
    free(export->tables);
    safetensors_fini(&export->list);
}

/* ---- Gathering. */

/* All files have their tables in the same order, so the one behind the last one is looked at first. */
static bound_table *reach_table(checkpoint_export *export, const snapshot_table *table) {
    for (size_t i = 1; i <= export->count; i++) {
        size_t at = (export->at + i) % export->count;
        if (strcmp(export->tables[at].name, table->name) == 0) return &export->tables[export->at = at];
    }
    xgrow(&export->tables, &export->room, export->count + 1, sizeof *export->tables);
    export->tables[export->count] = (bound_table){.name = table->name, .schema = table->schema};
    return &export->tables[export->at = export->count++];
}

static void add_row(bound_table *table, row row) {
    xgrow(&table->rows, &table->room, table->count + 1, sizeof *table->rows);
    table->rows[table->count++] = row;
}

/* Of a slot that is behind: keys that the last change removed. `seen`: entries of keys that are there. */
static void gather_removed(bound_table *to, const undo_log *undo, const bool *seen) {
    for (size_t i = 0; i < undo->count; i++) {
        const undo_log_entry *entry = &undo->entries[i];
        if (!seen[i] && entry->there) add_row(to, (row){entry->key, undo_log_values(undo, entry), entry->length});
    }
}

static void gather_rows(bound_table *to, const snapshot_table *from, const undo_log *undo) {
    size_t item = safetensors_item(snapshot_reader_dtype(&from->schema)), at = 0;
    bool vectors = from->schema.kind == TABLE_SCHEMA_VECTORS;
    bool *seen = xcalloc(undo->count + 1, sizeof *seen);
    for (size_t i = 0; i < from->keys.size / sizeof(uint64_t); i++) {
        row row = {.items = vectors ? snapshot_reader_number(from->lengths, i) : from->schema.dim};
        if (!vectors && snapshot_reader_number(from->touches, i) != 0) continue;
        memcpy(&row.key, from->keys.data + i * sizeof row.key, sizeof row.key);
        row.values = from->values.data + at;
        at += row.items * item;
        size_t first = 0;
        const undo_log_entry *old = undo_log_find(undo, row.key, &first);
        if (old != NULL) {
            seen[old - undo->entries] = true;
            row.values = undo_log_values(undo, old);
            row.items = old->length;
        }
        if (old == NULL || old->there) add_row(to, row);
    }
    gather_removed(to, undo, seen);
    free(seen);
}

static array *reach_array(bound_table *table, uint32_t number) {
    if (number >= table->array_count) {
        xgrow(&table->arrays, &table->array_room, (size_t)number + 1, sizeof *table->arrays);
        memset(table->arrays + table->array_count, 0,
               ((size_t)number + 1 - table->array_count) * sizeof *table->arrays);
        table->array_count = number + 1;
    }
    return &table->arrays[number];
}

/* Records all named arrays, with or without a push. */
static void gather_arrays(bound_table *to, const snapshot_reader *reader, const snapshot_table *from) {
    const char *name;
    for (uint32_t i = 0; i < MR_PS_ARRAYS_MAX && (name = snapshot_reader_array(reader, from, i)) != NULL; i++) {
        array *array = reach_array(to, i);
        array->name = name;
        array->shaped = snapshot_reader_shape(reader, from, i, array->shape, &array->dims);
    }
}

static mr_status gather_blocks(bound_table *to, const snapshot_reader *reader, const snapshot_table *from) {
    gather_arrays(to, reader, from);
    for (uint32_t i = 0; i < from->blocks; i++) {
        snapshot_block block;
        MR_TRY(snapshot_reader_block(reader, from, i, &block));
        if (block.array >= MR_PS_ARRAYS_MAX) return snapshot_reader_wrong(from->name);
        array *array = reach_array(to, block.array);
        array->name = block.name;
        array->blocks = xrealloc(array->blocks, (array->count + 1) * sizeof *array->blocks);
        array->blocks[array->count++] = block;
    }
    return MR_OK;
}

static mr_status gather(checkpoint_export *export, const snapshot_reader *reader) {
    if (safetensors_find(&reader->list, ".slot/shard") != NULL)
        return error_set(MR_CORRUPT, "cannot export a raw snapshot ('.slot/shard' is in its file)");
    if (reader->rounds) export->step = (int64_t)reader->version;
    for (uint32_t i = 0; i < reader->tables; i++) {
        snapshot_table table;
        bool made;
        MR_TRY(snapshot_reader_table(reader, i, &table));
        xgrow(&export->undos, &export->undo_room, export->undo_count + 1, sizeof *export->undos);
        undo_log *undo = &export->undos[export->undo_count++];
        MR_TRY(snapshot_reader_undo(reader, &table, undo, &made));
        if (made) continue;
        bound_table *to = reach_table(export, &table);
        if (table_schema_differs(&to->schema, &table.schema) != NULL || to->schema.id != table.schema.id)
            return error_set(MR_CORRUPT, "two slots have different schemas of table '%s'", table.name);
        if (table.schema.kind == TABLE_SCHEMA_DENSE)
            MR_TRY(gather_blocks(to, reader, &table));
        else
            gather_rows(to, &table, undo);
    }
    return MR_OK;
}

static mr_status read_slots(checkpoint_export *export, const checkpoint_list *list,
                            const checkpoint_store_manifest *manifest) {
    export->slots = manifest->slot_count;
    export->files = xcalloc(export->slots + 1, sizeof *export->files);
    export->readers = xcalloc(export->slots + 1, sizeof *export->readers);
    for (uint32_t i = 0; i < export->slots; i++) {
        char name[DISK_NAME_MAX];
        buffer *file = &export->files[i];
        buffer_init(file, CHECKPOINT_STORE_FILE_MAX);
        MR_TRY(checkpoint_list_read(list, manifest, i, name, file));
        MR_TRY(snapshot_reader_open(span_of(file->data, file->size), &export->readers[i]));
        MR_TRY(gather(export, &export->readers[i]));
    }
    return MR_OK;
}

/* ---- Merging. */

/* Memory of a tensor, owned by the export. NULL: no memory, and the error is set. */
static void *make_room(checkpoint_export *export, uint64_t size) {
    void *made = malloc(size + 1);
    if (made == NULL) {
        (void)error_set(MR_NOMEM, "out of memory for %" PRIu64 " bytes of a table", size);
        return NULL;
    }
    export->memory = xrealloc(export->memory, (export->memory_count + 1) * sizeof *export->memory);
    return export->memory[export->memory_count++] = made;
}

static mr_status add(checkpoint_export *export, const bound_table *table, const char *what, safetensors_dtype dtype,
                     const uint64_t *shape, uint32_t dims, const void *data) {
    char name[SAFETENSORS_NAME_MAX];
    if (snprintf(name, sizeof name, "%s/%s", table->name, what) >= (int)sizeof name)
        return error_set(MR_TOO_LARGE, "the tensor name '%s/%s' is too long", table->name, what);
    safetensors_add(&export->list, name, dtype, shape, dims, data);
    return MR_OK;
}

static mr_status bind_rows(checkpoint_export *export, bound_table *table) {
    safetensors_dtype dtype = snapshot_reader_dtype(&table->schema);
    size_t item = safetensors_item(dtype);
    uint64_t items = 0;
    if (table->count > 1) qsort(table->rows, table->count, sizeof *table->rows, binary_search_u64);
    for (size_t i = 0; i < table->count; i++) items += table->rows[i].items;
    uint64_t *keys = make_room(export, table->count * sizeof *keys);
    uint32_t *lengths = make_room(export, table->count * sizeof *lengths);
    uint8_t *values = make_room(export, items * item), *to = values;
    if (keys == NULL || lengths == NULL || values == NULL) return MR_NOMEM;
    for (size_t i = 0; i < table->count; i++) {
        const row *row = &table->rows[i];
        keys[i] = row->key;
        lengths[i] = row->items;
        memcpy(to, row->values, row->items * item);
        to += row->items * item;
    }
    const uint64_t count = table->count, shape[] = {count, table->schema.dim};
    MR_TRY(add(export, table, "keys", SAFETENSORS_U64, &count, 1, keys));
    if (table->schema.kind == TABLE_SCHEMA_SPARSE) return add(export, table, "values", dtype, shape, 2, values);
    MR_TRY(add(export, table, "lengths", SAFETENSORS_U32, &count, 1, lengths));
    return add(export, table, "values", dtype, &items, 1, values);
}

/* Computes the number of items of an array; MR_CORRUPT: a block is outside. */
static mr_status measure(const bound_table *table, array *array) {
    uint64_t block = table->schema.block, end = 0;
    array->items = 1;
    for (uint32_t i = 0; i < array->dims; i++)
        if (__builtin_mul_overflow(array->items, array->shape[i], &array->items)) array->shaped = false;
    for (size_t i = 0; i < array->count; i++) {
        uint64_t here = array->blocks[i].number * block + array->blocks[i].items;
        if (here > end) end = here;
    }
    if (!array->shaped) {
        array->dims = 1;
        array->shape[0] = array->items = end;
    }
    if (end > array->items || array->items > (uint64_t)DENSE_TABLE_ITEMS_MAX)
        return error_set(MR_CORRUPT, "a block of array '%s/%s' lies outside the array", table->name, array->name);
    return MR_OK;
}

static mr_status bind_array(checkpoint_export *export, const bound_table *table, uint32_t number) {
    array *array = &table->arrays[number];
    safetensors_dtype dtype = snapshot_reader_dtype(&table->schema);
    size_t item = safetensors_item(dtype);
    initializer init = table->schema.init;
    MR_TRY(measure(table, array));
    uint8_t *values = make_room(export, array->items * item);
    if (values == NULL) return MR_NOMEM;
    init.table = (uint64_t)table->schema.id << 32 | number;
    initializer_fill(&init, table->schema.dtype, 0, 0, array->items, values);
    for (size_t i = 0; i < array->count; i++) {
        const snapshot_block *block = &array->blocks[i];
        memcpy(values + (uint64_t)block->number * table->schema.block * item, block->values.data, block->values.size);
    }
    return add(export, table, array->name, dtype, array->shape, array->dims, values);
}

static int compare_names(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Checks that the names of all tensors are different: table `a` may have an array `b/c`, and table `a/b` an array
 * `c`. */
static mr_status check_names(const checkpoint_export *export) {
    const char **names = xcalloc(export->list.count + 1, sizeof *names), *twice = NULL;
    for (size_t i = 0; i < export->list.count; i++) names[i] = export->list.tensors[i].name;
    qsort(names, export->list.count, sizeof *names, compare_names);
    for (size_t i = 1; i < export->list.count && twice == NULL; i++)
        if (strcmp(names[i - 1], names[i]) == 0) twice = names[i];
    free(names);
    return twice == NULL ? MR_OK : error_set(MR_EXISTS, "two tensors have the name '%s'", twice);
}

static mr_status bind(checkpoint_export *export) {
    for (size_t i = 0; i < export->count; i++) {
        bound_table *table = &export->tables[i];
        if (table->schema.kind != TABLE_SCHEMA_DENSE) MR_TRY(bind_rows(export, table));
        for (uint32_t k = 0; k < table->array_count; k++)
            if (table->arrays[k].count != 0 || table->arrays[k].shaped) MR_TRY(bind_array(export, table, k));
    }
    return check_names(export);
}

/* ---- Writing. */

static void say(checkpoint_export *export, uint64_t number) {
    char text[24];
    safetensors_say(&export->list, "format", EXPORT_FORMAT);
    snprintf(text, sizeof text, "%" PRIu64, number);
    safetensors_say(&export->list, "checkpoint", text);
    snprintf(text, sizeof text, "%" PRId64, export->step);
    if (export->step >= 0) safetensors_say(&export->list, "step", text);
}

/* Writes the user's file, with any name and the user's mode; so not through net/disk.h. */
static mr_status write_file(const char *path, span bytes) {
    char *draft = xasprintf("%s.new", path);
    int fd = new_file_create(draft, 0666);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
    bool good = file != NULL && fwrite(bytes.data, 1, bytes.size, file) == bytes.size && fflush(file) == 0 &&
                fsync(fileno(file)) == 0;
    mr_status status = good ? MR_OK : error_errno("cannot write %s", draft);
    if (file != NULL && fclose(file) != 0 && status == MR_OK) status = error_errno("cannot write %s", draft);
    if (status == MR_OK && rename(draft, path) != 0) status = error_errno("cannot write %s", path);
    if (status != MR_OK) (void)remove(draft);
    free(draft);
    return status;
}

static mr_status write_all(checkpoint_export *export, uint64_t number, const char *path) {
    buffer file;
    struct stat there;
    char *within = stat(path, &there) == 0 && S_ISDIR(there.st_mode)
                       ? xasprintf("%s/checkpoint-%" PRIu64 ".safetensors", path, number)
                       : xstrdup(path);
    say(export, number);
    buffer_init(&file, SIZE_MAX / 2);
    mr_status status = safetensors_write(&export->list, &file);
    if (status == MR_OK) status = write_file(within, span_of(file.data, file.size));
    buffer_fini(&file);
    free(within);
    return status;
}

static mr_status export_from(const checkpoint_list *list, const char *folder, uint64_t number, const char *path) {
    checkpoint_export export = {.step = -1};
    const checkpoint_store_manifest *manifest =
        number == 0 && list->count > 0 ? &list->manifests[0] : checkpoint_list_find(list, number);
    if (manifest == NULL)
        return error_set(MR_NOT_FOUND, "no checkpoint %" PRIu64 " in %s: it has %u (miniray ps checkpoint list)",
                         number, folder, list->count);
    mr_status status = read_slots(&export, list, manifest);
    if (status == MR_OK) status = bind(&export);
    if (status == MR_OK) status = write_all(&export, manifest->number, path);
    checkpoint_export_fini(&export);
    return status;
}

mr_status mr_ps_checkpoint_export(const char *folder, uint64_t number, const char *path) {
    checkpoint_list list;
    if (folder == NULL || path == NULL || path[0] == '\0')
        return error_set(MR_INVALID, "mr_ps_checkpoint_export: folder or path is NULL or empty");
    MR_TRY(checkpoint_list_open(folder, &list));
    mr_status status = export_from(&list, folder, number, path);
    checkpoint_list_close(&list);
    return status;
}
