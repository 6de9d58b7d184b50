/* engine_snapshot.c — encoding and decoding of an engine, for new replicas and checkpoints. See engine.h.
 *
 *   bytes    engine
 *   -------  ------------------------------------------------------------------------------------------------
 *   8        ENGINE_MAGIC
 *   4 4      ENGINE_KEEPS if `keeps`, and ENGINE_BEHIND if `behind`; number of dropped ids
 *   …        ids ascending, each 4 id, 4: 1 if the last apply dropped it
 *   4        number of tables
 *   …        tables by id, each a schema, then
 *   8        version
 *   1 1 1 1  1 if the last apply made, changed, dropped it; 0
 *   8 × 6    refused, left out, evicted; now, swept at, swept
 *   8        bytes of the content
 *   …        sparse: a piece (sparse_table.h) with all keys
 *            vectors: 4 count, then by key: 8 key, 4 length, the values
 *            dense: 4 count, then by array and number: 4 array, 4 number, 4 items, 4: 1 if the last apply changed it,
 *            8 updates, a piece (dense_table.h) with all items
 *   …        the values before the last apply (undo_log.h), if `keeps`
 *
 * The absolute numbers of applies are not part of the state; only what the last apply did is. A change here needs a
 * change of snapshot_file.c, which splits the snapshot for checkpoints. */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "kv/engine/engine_internal.h"

/* ---- Sizes. */

static size_t sparse_size(const sparse *sparse) {
    sparse_table_look look = sparse_table_look_at(sparse);
    return SPARSE_TABLE_PIECE_HEAD + (look.rows + look.candidates) * SPARSE_TABLE_PIECE_KEY +
           look.rows * sparse_table_row_bytes(sparse);
}

static size_t content_size(const engine_table *table) {
    size_t size = 4;
    switch (table->schema.kind) {
    case TABLE_SCHEMA_SPARSE: return sparse_size(table->sparse);
    case TABLE_SCHEMA_VECTORS:
        return size + vector_table_count(&table->table) * ENGINE_VECTOR_HEAD + table->table.bytes;
    case TABLE_SCHEMA_DENSE:
        for (size_t i = 0; i < table->block_count; i++) {
            const dense_table *dense_table = table->blocks[i].table;
            size += ENGINE_BLOCK_HEAD + dense_table_piece_size(dense_table, dense_table_items(dense_table));
        }
        return size;
    }
    MR_UNREACHABLE();
}

size_t engine_size(const void *self) {
    const engine *engine = self;
    size_t size = 8 + 4 + 4 + engine->dropped_count * 8 + 4;
    for (size_t i = 0; i < engine->count; i++)
        size += ENGINE_TABLE_HEAD + content_size(engine->tables[i]) +
                (engine->keeps ? undo_log_size(&engine->tables[i]->log) : 0);
    return size;
}

/* ---- Writing. */

static uint8_t *reserve(writer *writer, size_t size) { /* room that the caller fills */
    MR_ASSERT(!writer->failed && size <= (size_t)(writer->end - writer->at));
    writer->at += size;
    return writer->at - size;
}

static void write_sparse(const sparse *sparse, writer *writer) {
    size_t size = sparse_size(sparse);
    sparse_table_cursor cursor = {0};
    size_t written = sparse_table_pack(sparse, &cursor, reserve(writer, size), size);
    MR_ASSERT(written == size && cursor.done);
}

static void write_vectors(const vector_table *table, writer *writer) {
    size_t count = vector_table_count(table);
    uint64_t *keys = xmalloc(count * sizeof *keys);
    vector_table_keys(table, keys);
    writer_u32(writer, (uint32_t)count);
    for (size_t i = 0; i < count; i++) {
        uint32_t length;
        const void *values = vector_table_find(table, keys[i], &length);
        writer_u64(writer, keys[i]);
        writer_u32(writer, length);
        writer_bytes(writer, values, length * table->item);
    }
    free(keys);
}

static void write_blocks(const engine *engine, const engine_table *table, writer *writer) {
    writer_u32(writer, (uint32_t)table->block_count);
    for (size_t i = 0; i < table->block_count; i++) {
        const engine_block *block = &table->blocks[i];
        uint32_t items = dense_table_items(block->table);
        writer_u32(writer, (uint32_t)(block->key >> 32));
        writer_u32(writer, (uint32_t)block->key);
        writer_u32(writer, items);
        writer_u32(writer, engine->keeps && block->touched == engine->applies);
        writer_u64(writer, block->updates);
        dense_table_pack(block->table, 0, items, reserve(writer, dense_table_piece_size(block->table, items)));
    }
}

static void write_table(const engine *engine, const engine_table *table, writer *writer) {
    table_schema_encode(&table->schema, reserve(writer, TABLE_SCHEMA_SIZE));
    writer_u64(writer, table->version);
    writer_u8(writer, engine->keeps && table->made == engine->applies);
    writer_u8(writer, engine->keeps && table->touched == engine->applies);
    writer_u8(writer, table->gone != 0);
    writer_u8(writer, 0);
    const uint64_t numbers[] = {table->refused, table->left_out, table->evicted,
                                table->now,     table->swept_at, table->swept};
    writer_bytes(writer, numbers, sizeof numbers);
    writer_u64(writer, content_size(table));
    if (table->sparse != NULL) write_sparse(table->sparse, writer);
    if (table->schema.kind == TABLE_SCHEMA_VECTORS) write_vectors(&table->table, writer);
    if (table->schema.kind == TABLE_SCHEMA_DENSE) write_blocks(engine, table, writer);
    if (engine->keeps) undo_log_write(&table->log, writer);
}

static void write_all(const engine *engine, bool behind, void *out) {
    writer writer = writer_of(out, engine_size(engine));
    writer_u64(&writer, ENGINE_MAGIC);
    writer_u32(&writer, (engine->keeps ? ENGINE_KEEPS : 0) | (behind ? ENGINE_BEHIND : 0));
    writer_u32(&writer, (uint32_t)engine->dropped_count);
    for (size_t i = 0; i < engine->dropped_count; i++) {
        writer_u32(&writer, engine->dropped[i].id);
        writer_u32(&writer, engine->keeps && engine->dropped[i].when == engine->applies);
    }
    writer_u32(&writer, (uint32_t)engine->count);
    for (size_t i = 0; i < engine->count; i++) write_table(engine, engine->tables[i], &writer);
    MR_ASSERT(!writer.failed && writer.at == writer.end);
}

void engine_write(const void *self, void *out) { write_all(self, ((const engine *)self)->behind, out); }

void engine_write_kept(const void *self, void *out) {
    MR_ASSERT(((const engine *)self)->keeps);
    write_all(self, true, out);
}

/* ---- Reading. A decoded engine has made one apply. */

enum { LAST = 1 };

static bool read_vectors(vector_table *table, reader *reader) {
    uint32_t count = reader_u32(reader);
    uint64_t least = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t key = reader_u64(reader);
        uint32_t length = reader_u32(reader);
        const uint8_t *bytes = reader_bytes(reader, length * table->item);
        void *values;
        if (bytes == NULL || key < least || (i > 0 && least == 0)) return false;
        if (vector_table_reach(table, key, length, true, &values) != MR_OK) return false;
        if (length > 0) memcpy(values, bytes, length * table->item);
        least = key + 1;
    }
    return true;
}

static bool read_block(const engine *engine, engine_table *table, reader *reader) {
    payload_place place = {.array = reader_u32(reader)};
    place.block = reader_u32(reader);
    place.items = reader_u32(reader);
    uint32_t touched = reader_u32(reader), first, count;
    engine_block read = {
        .key = engine_block_key(&place), .updates = reader_u64(reader), .touched = touched != 0 ? LAST : 0};
    if (reader->failed || touched > 1 || engine_block_place(table, read.key) != table->block_count ||
        !engine_block_fits(engine, table, &place))
        return false;
    const dense_table_options options = engine_block_options(engine, table, &place);
    size_t values = (1 + options.versions + options.states) * engine_item(table); /* bytes of one item */
    const uint8_t *piece = reader_bytes(reader, DENSE_TABLE_PIECE_HEAD + place.items * values);
    if (piece == NULL || dense_table_create(&options, place.block, &read.table) != MR_OK) return false;
    size_t size = dense_table_piece_size(read.table, place.items);
    if (dense_table_unpack(read.table, span_of(piece, size), &first, &count) != MR_OK || count != place.items) {
        dense_table_destroy(read.table);
        return false;
    }
    (void)engine_block_insert(table, read);
    return true;
}

static bool read_content(const engine *engine, engine_table *table, span bytes) {
    reader reader = reader_of(bytes.data, bytes.size);
    switch (table->schema.kind) {
    case TABLE_SCHEMA_SPARSE: return sparse_table_unpack(table->sparse, bytes) == MR_OK;
    case TABLE_SCHEMA_VECTORS: return read_vectors(&table->table, &reader) && reader_left(&reader) == 0;
    case TABLE_SCHEMA_DENSE:
        for (uint32_t count = reader_u32(&reader); count > 0; count--)
            if (!read_block(engine, table, &reader)) return false;
        return !reader.failed && reader_left(&reader) == 0;
    }
    return false;
}

static engine_table *read_table(const engine *engine, reader *reader) {
    table_schema schema;
    engine_table *table;
    const uint8_t *bytes = reader_bytes(reader, TABLE_SCHEMA_SIZE);
    if (bytes == NULL || table_schema_decode(span_of(bytes, TABLE_SCHEMA_SIZE), &schema) != MR_OK) return NULL;
    if (engine_table_create(engine, &schema, &table) != MR_OK) return NULL;
    table->version = reader_u64(reader);
    table->made = reader_flag(reader) ? LAST : 0;
    table->touched = reader_flag(reader) ? LAST : 0;
    table->gone = reader_flag(reader) ? LAST : 0;
    uint8_t zero = reader_u8(reader);
    uint64_t *const numbers[] = {&table->refused, &table->left_out, &table->evicted,
                                 &table->now,     &table->swept_at, &table->swept};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) *numbers[i] = reader_u64(reader);
    uint64_t size = reader_u64(reader);
    const uint8_t *content = reader_bytes(reader, size);
    bool good =
        content != NULL && zero == 0 && table->version > 0 && read_content(engine, table, span_of(content, size));
    if (good && engine->keeps) good = undo_log_read(&table->log, reader) == MR_OK;
    if (good) return table;
    engine_table_destroy(table);
    return NULL;
}

static bool read_dropped(engine *engine, reader *reader) {
    uint32_t count = reader_u32(reader);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t id = reader_u32(reader), last = reader_u32(reader);
        if (reader->failed || last > 1) return false;
        engine->applies = last;
        engine_forget(engine, id);
        if (engine->dropped_count != i + 1 || engine->dropped[i].id != id) return false; /* not ascending */
    }
    return true;
}

static bool read_all(engine *engine, reader *reader) {
    if (reader_u64(reader) != ENGINE_MAGIC) return false;
    uint32_t flags = reader_u32(reader);
    engine->behind = engine->keeps && (flags & ENGINE_BEHIND) != 0;
    if (flags != ((engine->keeps ? ENGINE_KEEPS : 0) | (engine->behind ? ENGINE_BEHIND : 0u))) return false;
    if (!read_dropped(engine, reader)) return false;
    engine->applies = LAST;
    uint32_t count = reader_u32(reader);
    for (uint32_t i = 0; i < count; i++) {
        engine_table *table = read_table(engine, reader);
        if (table == NULL) return false;
        bool ascends = engine_place(engine, table->schema.id) == engine->count;
        engine_insert(engine, table);
        if (!ascends) return false;
    }
    return !reader->failed && reader_left(reader) == 0;
}

bool engine_read(void *self, span bytes) {
    engine *engine = self;
    reader reader = reader_of(bytes.data, bytes.size);
    struct engine *fresh = XNEW(struct engine, .host = engine->host, .keeps = engine->keeps);
    bool good = read_all(fresh, &reader);
    if (good) { /* swaps the contents; the former ones are freed with `fresh` */
        struct engine other = *engine;
        *engine = *fresh;
        *fresh = other;
    }
    engine_ops.destroy(fresh);
    return good;
}
