/* shelf_state.c — engine as bytes and back, for new replicas and checkpoints. See shelf.h.
 *
 *   bytes    shelf
 *   -------  ------------------------------------------------------------------------------------------------
 *   8        SHELF_MAGIC
 *   4 4      1 if it keeps, number of dropped ids
 *   …        ids ascending, each 4 id, 4: 1 if the last apply dropped it
 *   4        number of tables
 *   …        tables by id, each a definition, then
 *   8        version
 *   1 1 1 1  1 if the last apply made, changed, dropped it; 0
 *   8 × 6    refused, left out, evicted; now, swept at, swept
 *   8        bytes of what is in it
 *   …        sparse: a piece (sparse.h) with all keys
 *            vectors: 4 count, then by key: 8 key, 4 length, the values
 *            dense: 4 count, then by array and number: 4 array, 4 number, 4 items, 4: 1 if the last apply changed it,
 *            8 updates, a piece (dense.h) with all items
 *   …        what was there before the last apply (undo.h), if it keeps
 *
 * Numbers of applies are not state: all that counts is which was the last. A change here needs a change of slot_file.c,
 * which takes it apart for checkpoints. */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "kv/shelf/shelf_core.h"

/* ---- Sizes. */

static size_t sparse_size(const sparse *sparse) {
    sparse_look look = sparse_look_at(sparse);
    return SPARSE_PIECE_HEAD + (look.rows + look.candidates) * SPARSE_PIECE_KEY + look.rows * sparse_row_bytes(sparse);
}

static size_t content_size(const shelf_table *table) {
    size_t size = 4;
    switch (table->definition.kind) {
    case DEFINITION_SPARSE: return sparse_size(table->sparse);
    case DEFINITION_VECTORS: return size + vectors_count(&table->vectors) * SHELF_VECTOR_HEAD + table->vectors.bytes;
    case DEFINITION_DENSE:
        for (size_t i = 0; i < table->block_count; i++) {
            const dense *dense = table->blocks[i]->dense;
            size += SHELF_BLOCK_HEAD + dense_piece_size(dense, dense_items(dense));
        }
        return size;
    }
    MR_UNREACHABLE();
}

size_t shelf_size(const void *self) {
    const shelf *shelf = self;
    size_t size = 8 + 4 + 4 + shelf->dropped_count * 8 + 4;
    for (size_t i = 0; i < shelf->count; i++)
        size +=
            SHELF_TABLE_HEAD + content_size(shelf->tables[i]) + (shelf->keeps ? undo_size(&shelf->tables[i]->undo) : 0);
    return size;
}

/* ---- Writing. */

static uint8_t *reserve(writer *writer, size_t size) { /* room that is written by others */
    MR_ASSERT(!writer->failed && size <= (size_t)(writer->end - writer->at));
    writer->at += size;
    return writer->at - size;
}

static void write_sparse(const sparse *sparse, writer *writer) {
    size_t size = sparse_size(sparse), least = sparse_piece_min(sparse);
    sparse_cursor cursor = {0};
    void *small = size < least ? xmalloc(least) : NULL; /* the smallest piece has room for a key that is not there */
    uint8_t *out = reserve(writer, size);
    size_t written = sparse_pack(sparse, &cursor, small != NULL ? small : out, size < least ? least : size);
    MR_ASSERT(written == size && cursor.done);
    if (small != NULL) memcpy(out, small, size);
    free(small);
}

static void write_vectors(const vectors *vectors, writer *writer) {
    size_t count = vectors_count(vectors);
    uint64_t *keys = xmalloc(count * sizeof *keys);
    vectors_keys(vectors, keys);
    writer_u32(writer, (uint32_t)count);
    for (size_t i = 0; i < count; i++) {
        uint32_t length;
        const void *values = vectors_find(vectors, keys[i], &length);
        writer_u64(writer, keys[i]);
        writer_u32(writer, length);
        writer_bytes(writer, values, length * vectors->item);
    }
    free(keys);
}

static void write_blocks(const shelf *shelf, const shelf_table *table, writer *writer) {
    writer_u32(writer, (uint32_t)table->block_count);
    for (size_t i = 0; i < table->block_count; i++) {
        const shelf_block *block = table->blocks[i];
        uint32_t items = dense_items(block->dense);
        writer_u32(writer, block->array);
        writer_u32(writer, block->number);
        writer_u32(writer, items);
        writer_u32(writer, shelf->keeps && block->touched == shelf->applies);
        writer_u64(writer, block->updates);
        dense_pack(block->dense, 0, items, reserve(writer, dense_piece_size(block->dense, items)));
    }
}

static void write_table(const shelf *shelf, const shelf_table *table, writer *writer) {
    definition_encode(&table->definition, reserve(writer, DEFINITION_SIZE));
    writer_u64(writer, table->version);
    writer_u8(writer, shelf->keeps && table->made == shelf->applies);
    writer_u8(writer, shelf->keeps && table->touched == shelf->applies);
    writer_u8(writer, table->gone != 0);
    writer_u8(writer, 0);
    const uint64_t numbers[] = {table->refused, table->left_out, table->evicted,
                                table->now,     table->swept_at, table->swept};
    writer_bytes(writer, numbers, sizeof numbers);
    writer_u64(writer, content_size(table));
    if (table->sparse != NULL) write_sparse(table->sparse, writer);
    if (table->definition.kind == DEFINITION_VECTORS) write_vectors(&table->vectors, writer);
    if (table->definition.kind == DEFINITION_DENSE) write_blocks(shelf, table, writer);
    if (shelf->keeps) undo_write(&table->undo, writer);
}

void shelf_write(const void *self, void *out) {
    const shelf *shelf = self;
    writer writer = writer_of(out, shelf_size(self));
    writer_u64(&writer, SHELF_MAGIC);
    writer_u32(&writer, shelf->keeps);
    writer_u32(&writer, (uint32_t)shelf->dropped_count);
    for (size_t i = 0; i < shelf->dropped_count; i++) {
        writer_u32(&writer, shelf->dropped[i].id);
        writer_u32(&writer, shelf->keeps && shelf->dropped[i].when == shelf->applies);
    }
    writer_u32(&writer, (uint32_t)shelf->count);
    for (size_t i = 0; i < shelf->count; i++) write_table(shelf, shelf->tables[i], &writer);
    MR_ASSERT(!writer.failed && writer.at == writer.end);
}

/* ---- Reading. What is read has one apply behind it, the last. */

enum { LAST = 1 };

static bool read_vectors(vectors *vectors, reader *reader) {
    uint32_t count = reader_u32(reader);
    uint64_t least = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t key = reader_u64(reader);
        uint32_t length = reader_u32(reader);
        const uint8_t *bytes = reader_bytes(reader, length * vectors->item);
        void *values;
        if (bytes == NULL || key < least || (i > 0 && least == 0)) return false;
        if (vectors_reach(vectors, key, length, true, &values) != MR_OK) return false;
        if (length > 0) memcpy(values, bytes, length * vectors->item);
        least = key + 1;
    }
    return true;
}

static bool read_block(const shelf *shelf, shelf_table *table, reader *reader) {
    shelf_block read = {.array = reader_u32(reader)};
    read.number = reader_u32(reader);
    const parcel_place place = {read.array, read.number, reader_u32(reader), 0};
    uint32_t touched = reader_u32(reader), first, count;
    read.updates = reader_u64(reader);
    read.touched = touched != 0 ? LAST : 0;
    size_t at = shelf_block_place(table, read.array, read.number);
    if (reader->failed || touched > 1 || at != table->block_count || !shelf_block_fits(shelf, table, &place))
        return false;
    const dense_options options = shelf_block_options(shelf, table, &place);
    size_t values = (1 + options.versions + options.states) * shelf_item(table); /* of one item */
    const uint8_t *piece = reader_bytes(reader, DENSE_PIECE_HEAD + place.items * values);
    if (piece == NULL || dense_create(&options, read.number, &read.dense) != MR_OK) return false;
    size_t size = dense_piece_size(read.dense, place.items);
    if (dense_unpack(read.dense, span_of(piece, size), &first, &count) != MR_OK || count != place.items) {
        dense_destroy(read.dense);
        return false;
    }
    shelf_block *block = xmalloc(sizeof *block);
    *block = read;
    shelf_block_insert(table, block);
    return true;
}

static bool read_content(const shelf *shelf, shelf_table *table, span bytes) {
    reader reader = reader_of(bytes.data, bytes.size);
    switch (table->definition.kind) {
    case DEFINITION_SPARSE: return sparse_unpack(table->sparse, bytes) == MR_OK;
    case DEFINITION_VECTORS: return read_vectors(&table->vectors, &reader) && reader_left(&reader) == 0;
    case DEFINITION_DENSE:
        for (uint32_t count = reader_u32(&reader); count > 0; count--)
            if (!read_block(shelf, table, &reader)) return false;
        return !reader.failed && reader_left(&reader) == 0;
    }
    return false;
}

static shelf_table *read_table(const shelf *shelf, reader *reader) {
    definition definition;
    shelf_table *table;
    const uint8_t *bytes = reader_bytes(reader, DEFINITION_SIZE);
    if (bytes == NULL || definition_decode(span_of(bytes, DEFINITION_SIZE), &definition) != MR_OK) return NULL;
    if (shelf_table_create(shelf, &definition, &table) != MR_OK) return NULL;
    table->version = reader_u64(reader);
    uint8_t made = reader_u8(reader), touched = reader_u8(reader), gone = reader_u8(reader), zero = reader_u8(reader);
    table->made = made != 0 ? LAST : 0;
    table->touched = touched != 0 ? LAST : 0;
    table->gone = gone != 0 ? LAST : 0;
    uint64_t *const numbers[] = {&table->refused, &table->left_out, &table->evicted,
                                 &table->now,     &table->swept_at, &table->swept};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) *numbers[i] = reader_u64(reader);
    uint64_t size = reader_u64(reader);
    const uint8_t *content = reader_bytes(reader, size);
    bool good = content != NULL && (made | touched | gone) <= 1 && zero == 0 && table->version > 0;
    good = good && read_content(shelf, table, span_of(content, size));
    if (good && shelf->keeps) good = undo_read(&table->undo, reader) == MR_OK;
    if (good) return table;
    shelf_table_destroy(table);
    return NULL;
}

static bool read_dropped(shelf *shelf, reader *reader) {
    uint32_t count = reader_u32(reader);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t id = reader_u32(reader), last = reader_u32(reader);
        if (reader->failed || last > 1) return false;
        shelf->applies = last;
        shelf_forget(shelf, id);
        if (shelf->dropped_count != i + 1 || shelf->dropped[i].id != id) return false; /* not ascending */
    }
    return true;
}

static bool read_all(shelf *shelf, reader *reader) {
    if (reader_u64(reader) != SHELF_MAGIC || reader_u32(reader) != shelf->keeps) return false;
    if (!read_dropped(shelf, reader)) return false;
    shelf->applies = LAST;
    uint32_t count = reader_u32(reader);
    for (uint32_t i = 0; i < count; i++) {
        shelf_table *table = read_table(shelf, reader);
        if (table == NULL) return false;
        bool ascends = shelf_place(shelf, table->definition.id) == shelf->count;
        shelf_insert(shelf, table);
        if (!ascends) return false;
    }
    return !reader->failed && reader_left(reader) == 0;
}

bool shelf_read(void *self, span bytes) {
    shelf *shelf = self;
    reader reader = reader_of(bytes.data, bytes.size);
    struct shelf *fresh = xcalloc(1, sizeof *fresh), other;
    fresh->host = shelf->host;
    fresh->keeps = shelf->keeps;
    bool good = read_all(fresh, &reader);
    if (good) { /* all is in the other's place now, and goes with it */
        other = *shelf;
        *shelf = *fresh;
        *fresh = other;
    }
    shelf_ops.destroy(fresh);
    return good;
}
