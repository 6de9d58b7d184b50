/* snapshot_file.c — see snapshot_file.h. */
#include "kv/checkpoint/snapshot_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/format.h"
#include "kv/checkpoint/snapshot_reader.h"
#include "kv/table/sparse_internal.h"
#include "ps/cluster_map.h"

enum { TABLE_BYTES = ENGINE_TABLE_HEAD - TABLE_SCHEMA_SIZE - 8 };

static size_t item_of(const table_schema *schema) { return safetensors_item(snapshot_reader_dtype(schema)); }

/* ---- Splitting. */

typedef struct maker {
    safetensors list;
    void **memory; /* owned: heads of blocks, and columns */
    size_t count;
    const table_catalog *catalog;
} maker;

static void *make_room(maker *maker, size_t size) {
    maker->memory = xrealloc(maker->memory, (maker->count + 1) * sizeof(void *));
    return maker->memory[maker->count++] = xmalloc(size + 1);
}

static void maker_fini(maker *maker) {
    for (size_t i = 0; i < maker->count; i++) free(maker->memory[i]);
    free(maker->memory);
    safetensors_fini(&maker->list);
}

typedef char name_text[SAFETENSORS_NAME_MAX];

static void add_of(maker *maker, const char *table, const char *what, safetensors_dtype dtype, const uint64_t *shape,
                   uint32_t dims, const void *data) {
    name_text name;
    snprintf(name, sizeof name, "%s/%s", table, what);
    safetensors_add(&maker->list, name, dtype, shape, dims, data);
}

static void add_bytes(maker *maker, const char *table, const char *what, const void *bytes, size_t size) {
    add_of(maker, table, what, SAFETENSORS_U8, (uint64_t[]){size}, 1, bytes);
}

/* The table with its arrays, as listed; without a name if it is not. The caller frees it. */
static table_catalog_table find_table(const table_catalog *catalog, uint32_t id) {
    table_catalog_table table = {0};
    const table_catalog_entry *entry = table_catalog_by_id(catalog, id);
    if (entry != NULL && table_catalog_table_decode(span_of(entry->bytes, entry->size), &table) != MR_OK)
        return (table_catalog_table){0};
    return table;
}

/* ---- Columns of rows and vectors, which lie entry by entry in a snapshot. */

typedef struct column {
    const uint8_t *at; /* first entry */
    uint32_t count;
    size_t row, from, size; /* of rows: bytes of a row; place of the column in it, and its bytes */
    size_t item;            /* of vectors: bytes of a value */
} column;

typedef struct column_writer { /* gathers small values before they are put */
    const byte_sink *out;
    mr_status status; /* first failure */
    size_t used;
    uint8_t bytes[16 * 1024];
} column_writer;

static void column_flush(column_writer *writer) {
    if (writer->status == MR_OK && writer->used != 0)
        writer->status = byte_sink_put(writer->out, span_of(writer->bytes, writer->used));
    writer->used = 0;
}

static void column_put(column_writer *writer, const void *bytes, size_t size) {
    if (size > sizeof writer->bytes - writer->used) column_flush(writer);
    if (size > sizeof writer->bytes) {
        if (writer->status == MR_OK) writer->status = byte_sink_put(writer->out, span_of(bytes, size));
        return;
    }
    if (size != 0) memcpy(writer->bytes + writer->used, bytes, size);
    writer->used += size;
}

static mr_status column_end(column_writer *writer) {
    column_flush(writer);
    return writer->status;
}

typedef struct row_head { /* of a key in a piece (sparse_table.h) */
    uint64_t hash;
    uint32_t seen, touches;
} row_head;
_Static_assert(sizeof(row_head) == SPARSE_TABLE_PIECE_KEY, "a head has no gaps");

/* Reads the head of a key, and steps to the next key. Returns the row; NULL: the key has none. */
static const uint8_t *next_row(const column *column, const uint8_t **at, row_head *head) {
    memcpy(head, *at, sizeof *head);
    const uint8_t *row = head->touches == 0 ? *at + sizeof *head : NULL;
    *at += sizeof *head + (row != NULL ? column->row : 0);
    return row;
}

typedef enum row_part { ROW_KEY, ROW_NUMBER, ROW_VALUES } row_part;

static mr_status put_rows(const void *data, row_part part, const byte_sink *out) {
    const column *column = data;
    column_writer writer = {.out = out};
    const uint8_t *at = column->at;
    row_head head;
    for (uint32_t i = 0; i < column->count; i++) {
        const uint8_t *row = next_row(column, &at, &head);
        if (part == ROW_KEY) column_put(&writer, &(uint64_t){sparse_key(head.hash)}, sizeof(uint64_t));
        if (part == ROW_NUMBER) column_put(&writer, (const uint8_t *)&head + column->from, column->size);
        if (part == ROW_VALUES && row != NULL) column_put(&writer, row + column->from, column->size);
    }
    return column_end(&writer);
}

static mr_status put_row_keys(const void *data, const byte_sink *out) { return put_rows(data, ROW_KEY, out); }
static mr_status put_row_numbers(const void *data, const byte_sink *out) { return put_rows(data, ROW_NUMBER, out); }
static mr_status put_row_values(const void *data, const byte_sink *out) { return put_rows(data, ROW_VALUES, out); }

typedef enum vector_part { VECTOR_KEY, VECTOR_LENGTH, VECTOR_VALUES } vector_part;

static mr_status put_vectors(const void *data, vector_part part, const byte_sink *out) {
    const column *column = data;
    column_writer writer = {.out = out};
    const uint8_t *at = column->at;
    for (uint32_t i = 0; i < column->count; i++) {
        uint32_t length;
        memcpy(&length, at + sizeof(uint64_t), sizeof length);
        if (part == VECTOR_KEY) column_put(&writer, at, sizeof(uint64_t));
        if (part == VECTOR_LENGTH) column_put(&writer, &length, sizeof length);
        at += ENGINE_VECTOR_HEAD;
        if (part == VECTOR_VALUES) column_put(&writer, at, length * column->item);
        at += length * column->item;
    }
    return column_end(&writer);
}

static mr_status put_vector_keys(const void *data, const byte_sink *out) { return put_vectors(data, VECTOR_KEY, out); }
static mr_status put_vector_lengths(const void *data, const byte_sink *out) {
    return put_vectors(data, VECTOR_LENGTH, out);
}
static mr_status put_vector_values(const void *data, const byte_sink *out) {
    return put_vectors(data, VECTOR_VALUES, out);
}

static void add_column(maker *maker, const char *table, const char *what, safetensors_dtype dtype,
                       const uint64_t *shape, uint32_t dims, column column, safetensors_put_fn *put) {
    name_text name;
    struct column *kept = make_room(maker, sizeof *kept);
    *kept = column;
    snprintf(name, sizeof name, "%s/%s", table, what);
    safetensors_add_put(&maker->list, name, dtype, shape, dims, kept, put);
}

static bool split_sparse(maker *maker, const char *table, const table_schema *schema, span bytes) {
    reader reader = reader_of(bytes.data, bytes.size);
    uint32_t head[4] = {0};
    const uint8_t *piece = reader_bytes(&reader, SPARSE_TABLE_PIECE_HEAD);
    if (piece == NULL) return false;
    memcpy(head, piece, sizeof head);
    size_t row = head[2], values = schema->dim * item_of(schema), rows = 0;
    if (row < values || head[1] > reader_left(&reader) / SPARSE_TABLE_PIECE_KEY) return false;
    column all = {.at = reader.at, .count = head[1], .row = row}, seen = all, touches = all, shown = all, state = all;
    for (uint32_t i = 0; i < head[1]; i++) {
        (void)reader_bytes(&reader, offsetof(row_head, touches));
        if (reader_u32(&reader) != 0) continue;
        (void)reader_bytes(&reader, row);
        rows++;
    }
    if (reader.failed || reader_left(&reader) != 0) return false;
    seen.from = offsetof(row_head, seen);
    touches.from = offsetof(row_head, touches);
    seen.size = touches.size = sizeof(uint32_t);
    shown.size = state.from = values;
    state.size = row - values;
    add_bytes(maker, table, "piece", piece, SPARSE_TABLE_PIECE_HEAD);
    add_column(maker, table, "keys", SAFETENSORS_U64, (uint64_t[]){head[1]}, 1, all, put_row_keys);
    add_column(maker, table, "seen", SAFETENSORS_U32, (uint64_t[]){head[1]}, 1, seen, put_row_numbers);
    add_column(maker, table, "touches", SAFETENSORS_U32, (uint64_t[]){head[1]}, 1, touches, put_row_numbers);
    add_column(maker, table, "values", snapshot_reader_dtype(schema), (uint64_t[]){rows, schema->dim}, 2, shown,
               put_row_values);
    add_column(maker, table, "state", SAFETENSORS_U8, (uint64_t[]){rows, row - values}, 2, state, put_row_values);
    return true;
}

static bool split_vectors(maker *maker, const char *table, const table_schema *schema, span bytes) {
    reader reader = reader_of(bytes.data, bytes.size);
    uint32_t count = reader_u32(&reader);
    size_t item = item_of(schema), total = 0;
    if (reader.failed || count > reader_left(&reader) / ENGINE_VECTOR_HEAD) return false;
    const column all = {.at = reader.at, .count = count, .item = item};
    for (uint32_t i = 0; i < count; i++) {
        (void)reader_u64(&reader);
        uint32_t length = reader_u32(&reader);
        if (reader_bytes(&reader, length * item) == NULL) return false;
        total += length;
    }
    add_column(maker, table, "keys", SAFETENSORS_U64, (uint64_t[]){count}, 1, all, put_vector_keys);
    add_column(maker, table, "lengths", SAFETENSORS_U32, (uint64_t[]){count}, 1, all, put_vector_lengths);
    add_column(maker, table, "values", snapshot_reader_dtype(schema), (uint64_t[]){total}, 1, all, put_vector_values);
    return reader_left(&reader) == 0;
}

/* ---- Blocks. */

/* Name of an array of a block: first the values, then the previous version if kept, then the optimizer state. */
static const char *part_name(uint32_t part, bool keeps, char room[20]) {
    if (part <= (uint32_t)keeps) return part == 0 ? "values" : "before";
    snprintf(room, 20, "state-%u", part - 1 - keeps);
    return room;
}

static safetensors_dtype part_dtype(const table_schema *schema, uint32_t part, bool keeps) {
    return part > (uint32_t)keeps ? SAFETENSORS_F32 : snapshot_reader_dtype(schema);
}

static const char *array_name(const table_catalog_table *table, uint32_t array, char room[20]) {
    if (array < table->array_count) return table->arrays[array].name;
    snprintf(room, 20, "array-%u", array);
    return room;
}

static void say_array(maker *maker, uint32_t index, uint32_t array, const char *name) {
    name_text key;
    snprintf(key, sizeof key, "table.%u.array.%u", index, array);
    safetensors_say(&maker->list, key, name);
}

/* Adds known names and shapes of arrays, for readers of the file. */
static void say_arrays(maker *maker, uint32_t index, const table_catalog_table *table) {
    for (uint32_t i = 0; i < table->array_count; i++) {
        const table_catalog_array *array = &table->arrays[i];
        name_text key;
        char shape[MR_TENSOR_DIMS_MAX * 24] = "";
        size_t size = 0;
        for (int k = 0; k < array->dims; k++)
            size +=
                (size_t)snprintf(shape + size, sizeof shape - size, k == 0 ? "%" PRId64 : "x%" PRId64, array->shape[k]);
        say_array(maker, index, i, array->name);
        snprintf(key, sizeof key, "table.%u.shape.%u", index, i);
        safetensors_say(&maker->list, key, shape);
    }
}

typedef struct source { /* a table in the snapshot; borrowed */
    const uint8_t *defined, *head;
    span content;
    table_schema schema;
    table_catalog_table listed; /* owned; without a name if it is not listed */
} source;

/* Blocks are in the order of their arrays. */
static bool split_blocks(maker *maker, uint32_t index, const char *table, bool keeps, const source *source) {
    const table_schema *schema = &source->schema;
    uint32_t named = source->listed.array_count; /* arrays that have their name in the file */
    reader reader = reader_of(source->content.data, source->content.size);
    uint32_t count = reader_u32(&reader);
    size_t item = item_of(schema);
    if (reader.failed || count > reader_left(&reader) / SNAPSHOT_READER_BLOCK) return false;
    uint8_t *heads = make_room(maker, (size_t)count * SNAPSHOT_READER_BLOCK);
    for (uint32_t i = 0; i < count; i++) {
        const uint8_t *head = reader_bytes(&reader, SNAPSHOT_READER_BLOCK);
        uint32_t place[3], arrays;
        char unnamed[20], state[20];
        if (head == NULL) return false;
        memcpy(heads + (size_t)i * SNAPSHOT_READER_BLOCK, head, SNAPSHOT_READER_BLOCK);
        memcpy(place, head, sizeof place);
        memcpy(&arrays, head + ENGINE_BLOCK_HEAD + 4, sizeof arrays);
        /* checked explicitly: empty arrays need no bytes */
        if (arrays == 0 || arrays > 1 + (uint32_t)keeps + OPTIM_STATES_MAX) return false;
        const char *array = array_name(&source->listed, place[0], unnamed);
        if (place[0] >= named) say_array(maker, index, place[0], array);
        if (place[0] >= named) named = place[0] + 1;
        for (uint32_t part = 0; part < arrays; part++) {
            const uint8_t *from = reader_bytes(&reader, place[2] * item);
            if (from == NULL) return false;
            name_text name;
            snprintf(name, sizeof name, "%s/%s/%u/%s", table, array, place[1], part_name(part, keeps, state));
            safetensors_dtype dtype = part_dtype(schema, part, keeps);
            if (safetensors_item(dtype) != item) return false; /* optimizer state of counters: there is none */
            safetensors_add(&maker->list, name, dtype, (uint64_t[]){place[2]}, 1, from);
        }
    }
    add_of(maker, table, "blocks", SAFETENSORS_U8, (uint64_t[]){count, SNAPSHOT_READER_BLOCK}, 2, heads);
    return reader_left(&reader) == 0;
}

/* The bytes of an undo log's entries. */
static const uint8_t *read_undo(reader *reader, size_t item, size_t *size) {
    const uint8_t *from = reader->at;
    for (uint32_t count = reader_u32(reader); count > 0 && !reader->failed; count--) {
        (void)reader_u64(reader);
        uint32_t length = reader_u32(reader);
        (void)reader_u32(reader);
        (void)reader_bytes(reader, length * item);
    }
    *size = (size_t)(reader->at - from);
    return reader->failed ? NULL : from;
}

static bool split_source(maker *maker, uint32_t index, bool keeps, const source *source, reader *reader) {
    const table_schema *schema = &source->schema;
    char unnamed[20];
    name_text key;
    snprintf(unnamed, sizeof unnamed, "table-%u", schema->id);
    const char *table = source->listed.name[0] != '\0' ? source->listed.name : unnamed;
    snprintf(key, sizeof key, "table.%u", index);
    safetensors_say(&maker->list, key, table);
    add_bytes(maker, table, "definition", source->defined, TABLE_SCHEMA_SIZE);
    add_bytes(maker, table, "head", source->head, TABLE_BYTES);
    if (schema->kind == TABLE_SCHEMA_DENSE) say_arrays(maker, index, &source->listed);
    size_t undo_bytes;
    const uint8_t *undo = keeps ? read_undo(reader, item_of(schema), &undo_bytes) : NULL;
    if (keeps && undo == NULL) return false;
    if (keeps) add_bytes(maker, table, "undo", undo, undo_bytes);
    switch (schema->kind) {
    case TABLE_SCHEMA_SPARSE: return split_sparse(maker, table, schema, source->content);
    case TABLE_SCHEMA_VECTORS: return split_vectors(maker, table, schema, source->content);
    case TABLE_SCHEMA_DENSE: return split_blocks(maker, index, table, keeps, source);
    }
    return false;
}

static bool split_table(maker *maker, uint32_t index, bool keeps, reader *reader) {
    source source = {.defined = reader_bytes(reader, TABLE_SCHEMA_SIZE)};
    source.head = reader_bytes(reader, TABLE_BYTES);
    uint64_t size = reader_u64(reader);
    source.content = span_of(reader_bytes(reader, size), size);
    if (source.content.data == NULL ||
        table_schema_decode(span_of(source.defined, TABLE_SCHEMA_SIZE), &source.schema) != MR_OK)
        return false;
    uint8_t again[TABLE_SCHEMA_SIZE];
    table_schema_encode(&source.schema, again);
    if (memcmp(again, source.defined, sizeof again) != 0) return false;
    source.listed = find_table(maker->catalog, source.schema.id);
    bool good = split_source(maker, index, keeps, &source, reader);
    table_catalog_table_fini(&source.listed);
    return good;
}

static bool split_values(maker *maker, span values) {
    reader reader = reader_of(values.data, values.size);
    if (reader_u64(&reader) != ENGINE_MAGIC) {
        add_bytes(maker, ".slot", "values", values.data, values.size);
        return true;
    }
    uint32_t flags = reader_u32(&reader), dropped = reader_u32(&reader);
    (void)reader_bytes(&reader, (size_t)dropped * 8);
    uint32_t count = reader_u32(&reader);
    char text[16];
    if (flags > (ENGINE_KEEPS | ENGINE_BEHIND) || reader.failed) return false;
    add_bytes(maker, ".shelf", "head", values.data, (size_t)(reader.at - values.data));
    for (uint32_t i = 0; i < count; i++)
        if (!split_table(maker, i, (flags & ENGINE_KEEPS) != 0, &reader)) return false;
    snprintf(text, sizeof text, "%u", count);
    safetensors_say(&maker->list, "tables", text);
    return reader_left(&reader) == 0;
}

static bool split(maker *maker, span shard) {
    reader reader = reader_of(shard.data, shard.size);
    uint32_t ranks = reader_u32(&reader), size = reader_u32(&reader);
    const uint8_t *head = reader_bytes(&reader, size);
    uint32_t values_size = reader_u32(&reader); /* modulo 2^32 (ps/replica_snapshot.c) */
    span values = span_of(reader.at, reader_left(&reader));
    size_t clock = (size_t)ranks * 8;
    if (reader.failed || values_size != (uint32_t)values.size || ranks > CLUSTER_MAP_RANKS_MAX || size < 16 + clock)
        return false;
    safetensors_add(&maker->list, ".slot/version", SAFETENSORS_U64, NULL, 0, head);
    safetensors_add(&maker->list, ".slot/checkpoint", SAFETENSORS_U64, NULL, 0, head + 8);
    safetensors_add(&maker->list, ".slot/clock", SAFETENSORS_U64, (uint64_t[]){ranks}, 1, head + 16);
    add_bytes(maker, ".slot", "rounds", head + 16 + clock, size - 16 - clock);
    return split_values(maker, values);
}

static void say_slot(maker *maker, uint32_t slot) {
    char text[16];
    snprintf(text, sizeof text, "%u", slot);
    safetensors_say(&maker->list, "format", SNAPSHOT_FILE_FORMAT);
    safetensors_say(&maker->list, "slot", text);
}

static int compare_names(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* Tables or arrays may have names that make the same name of a tensor. */
static bool has_unique_names(const safetensors *list) {
    const char **names = xcalloc(list->count + 1, sizeof *names);
    bool unique = true;
    for (size_t i = 0; i < list->count; i++) names[i] = list->tensors[i].name;
    qsort(names, list->count, sizeof *names, compare_names);
    for (size_t i = 1; i < list->count && unique; i++) unique = strcmp(names[i - 1], names[i]) != 0;
    free(names);
    return unique;
}

/* Whether the file decodes to the same bytes. */
static bool reads_back(const buffer *file, span shard) {
    buffer again;
    buffer_init(&again, shard.size + 1);
    bool same = snapshot_file_decode(span_of(file->data, file->size), &again) == MR_OK && again.size == shard.size &&
                memcmp(again.data, shard.data, shard.size) == 0;
    buffer_fini(&again);
    return same;
}

/* A small file is made in memory, and checked before it is put: MR_CORRUPT. */
static mr_status put_checked(const safetensors *list, span shard, const byte_sink *out) {
    buffer file;
    buffer_init(&file, SIZE_MAX);
    mr_status status = safetensors_write(list, &file);
    if (status == MR_OK && !reads_back(&file, shard)) status = MR_CORRUPT;
    if (status == MR_OK) status = byte_sink_put(out, span_of(file.data, file.size));
    buffer_fini(&file);
    return status;
}

mr_status snapshot_file_encode(uint32_t slot, span shard, const table_catalog *catalog, size_t checked,
                               const byte_sink *out) {
    maker maker = {.catalog = catalog};
    mr_status status = MR_CORRUPT;
    say_slot(&maker, slot);
    if (split(&maker, shard) && has_unique_names(&maker.list))
        status = shard.size <= checked ? put_checked(&maker.list, shard, out) : safetensors_stream(&maker.list, out);
    maker_fini(&maker);
    if (status != MR_CORRUPT && status != MR_TOO_LARGE) return status;
    maker = (struct maker){.catalog = catalog};
    say_slot(&maker, slot);
    add_bytes(&maker, ".slot", "shard", shard.data, shard.size);
    status = safetensors_stream(&maker.list, out);
    maker_fini(&maker);
    return status;
}

/* ---- Joining. */

typedef struct joiner {
    snapshot_reader reader;
    buffer *out;
    mr_status status; /* first failure */
} joiner;

static void put(joiner *joiner, const void *bytes, size_t size) {
    if (joiner->status == MR_OK && size != 0) joiner->status = buffer_append(joiner->out, bytes, size);
}

static void join_sparse(joiner *joiner, const snapshot_table *table) {
    const snapshot_reader *reader = &joiner->reader;
    size_t count = table->keys.size / 8, width = table->schema.dim * item_of(&table->schema), rows = table->rows;
    span piece =
        snapshot_reader_find(reader, &joiner->status, SAFETENSORS_U8, SPARSE_TABLE_PIECE_HEAD, "%s/piece", table->name);
    span seen = snapshot_reader_find(reader, &joiner->status, SAFETENSORS_U32, count, "%s/seen", table->name);
    span state = snapshot_reader_find(reader, &joiner->status, SAFETENSORS_U8, UINT64_MAX, "%s/state", table->name);
    size_t more = rows == 0 ? 0 : state.size / rows;
    if (joiner->status == MR_OK && state.size != rows * more) joiner->status = snapshot_reader_wrong(table->name);
    put(joiner, piece.data, piece.size);
    for (size_t i = 0, at = 0; i < count && joiner->status == MR_OK; i++) {
        uint64_t key;
        memcpy(&key, table->keys.data + i * 8, sizeof key);
        put(joiner, &(uint64_t){sparse_hash(key)}, 8);
        put(joiner, seen.data + i * 4, 4);
        put(joiner, table->touches.data + i * 4, 4);
        if (snapshot_reader_number(table->touches, i) != 0) continue;
        put(joiner, table->values.data + at * width, width);
        put(joiner, state.data + at++ * more, more);
    }
}

static void join_vectors(joiner *joiner, const snapshot_table *table) {
    put(joiner, &(uint32_t){(uint32_t)table->rows}, 4);
    for (size_t i = 0, at = 0; i < table->rows; i++) {
        size_t size = snapshot_reader_number(table->lengths, i) * item_of(&table->schema);
        put(joiner, table->keys.data + i * 8, 8);
        put(joiner, table->lengths.data + i * 4, 4);
        put(joiner, table->values.data + at, size);
        at += size;
    }
}

static void join_blocks(joiner *joiner, const snapshot_table *table) {
    bool keeps = joiner->reader.rounds;
    put(joiner, &table->blocks, 4);
    for (uint32_t i = 0; i < table->blocks && joiner->status == MR_OK; i++) {
        const uint8_t *head = table->heads + (size_t)i * SNAPSHOT_READER_BLOCK;
        snapshot_block block;
        uint32_t arrays;
        joiner->status = snapshot_reader_block(&joiner->reader, table, i, &block);
        memcpy(&arrays, head + ENGINE_BLOCK_HEAD + 4, sizeof arrays);
        put(joiner, head, SNAPSHOT_READER_BLOCK);
        for (uint32_t part = 0; part < arrays && joiner->status == MR_OK; part++) {
            char state[20];
            span data = snapshot_reader_find(&joiner->reader, &joiner->status, part_dtype(&table->schema, part, keeps),
                                             block.items, "%s/%s/%u/%s", table->name, block.name, block.number,
                                             part_name(part, keeps, state));
            put(joiner, data.data, data.size);
        }
    }
}

/* Appends the content of a table, preceded by its size. */
static void join_content(joiner *joiner, const snapshot_table *table) {
    size_t at = joiner->out->size;
    uint64_t size = 0;
    put(joiner, &size, sizeof size);
    if (table->schema.kind == TABLE_SCHEMA_SPARSE) join_sparse(joiner, table);
    if (table->schema.kind == TABLE_SCHEMA_VECTORS) join_vectors(joiner, table);
    if (table->schema.kind == TABLE_SCHEMA_DENSE) join_blocks(joiner, table);
    if (joiner->status != MR_OK) return;
    size = joiner->out->size - at - sizeof size;
    memcpy(joiner->out->data + at, &size, sizeof size);
}

static void join_table(joiner *joiner, uint32_t index) {
    const snapshot_reader *reader = &joiner->reader;
    snapshot_table table;
    joiner->status = snapshot_reader_table(reader, index, &table);
    if (joiner->status != MR_OK) return;
    span head = snapshot_reader_find(reader, &joiner->status, SAFETENSORS_U8, TABLE_BYTES, "%s/head", table.name);
    uint8_t encoded[TABLE_SCHEMA_SIZE]; /* the file may be of a release with fewer hyperparameters */
    table_schema_encode(&table.schema, encoded);
    put(joiner, encoded, sizeof encoded);
    put(joiner, head.data, head.size);
    join_content(joiner, &table);
    if (!reader->rounds) return;
    span undo = snapshot_reader_find(reader, &joiner->status, SAFETENSORS_U8, UINT64_MAX, "%s/undo", table.name);
    put(joiner, undo.data, undo.size);
}

static void join_values(joiner *joiner) {
    const char *name = joiner->reader.has_tables ? ".shelf/head" : ".slot/values";
    span values = snapshot_reader_find(&joiner->reader, &joiner->status, SAFETENSORS_U8, UINT64_MAX, "%s", name);
    size_t at = joiner->out->size;
    uint32_t size = 0;
    put(joiner, &size, sizeof size);
    put(joiner, values.data, values.size);
    for (uint32_t i = 0; i < joiner->reader.tables && joiner->status == MR_OK; i++) join_table(joiner, i);
    if (joiner->status != MR_OK) return;
    size = (uint32_t)(joiner->out->size - at - sizeof size);
    memcpy(joiner->out->data + at, &size, sizeof size);
}

static span slot_data(joiner *joiner, safetensors_dtype dtype, uint64_t items, const char *what) {
    return snapshot_reader_find(&joiner->reader, &joiner->status, dtype, items, ".slot/%s", what);
}

static void join(joiner *joiner) {
    if (safetensors_find(&joiner->reader.list, ".slot/shard") != NULL) {
        span shard = slot_data(joiner, SAFETENSORS_U8, UINT64_MAX, "shard");
        put(joiner, shard.data, shard.size);
        return;
    }
    span marked = slot_data(joiner, SAFETENSORS_U64, 1, "checkpoint");
    span clock = slot_data(joiner, SAFETENSORS_U64, UINT64_MAX, "clock");
    span rounds = slot_data(joiner, SAFETENSORS_U8, UINT64_MAX, "rounds");
    if (joiner->status == MR_OK && clock.size > CLUSTER_MAP_RANKS_MAX * 8)
        joiner->status = snapshot_reader_wrong(".slot/clock");
    put(joiner, &(uint32_t){(uint32_t)(clock.size / 8)}, 4);
    put(joiner, &(uint32_t){(uint32_t)(16 + clock.size + rounds.size)}, 4);
    put(joiner, &joiner->reader.version, 8);
    put(joiner, marked.data, marked.size);
    put(joiner, clock.data, clock.size);
    put(joiner, rounds.data, rounds.size);
    join_values(joiner);
}

mr_status snapshot_file_check(const safetensors *list) {
    const char *format = safetensors_text_of(list, "format");
    uint32_t known = format_of_text(SNAPSHOT_FILE_FORMAT, SNAPSHOT_FILE_NAME),
             found = format_of_text(format, SNAPSHOT_FILE_NAME);
    if (found == known || found == known - 1) return MR_OK;
    if (found != 0) return format_reject("the snapshot file of a slot", found, known, FORMAT_USE_WRITER);
    return error_set(MR_CORRUPT, "not a snapshot file: its format is '%s'", format == NULL ? "" : format);
}

mr_status snapshot_file_decode(span file, buffer *out) {
    joiner joiner = {.out = out};
    buffer_clear(out);
    MR_TRY(snapshot_reader_open(file, &joiner.reader));
    join(&joiner);
    snapshot_reader_close(&joiner.reader);
    return joiner.status;
}
