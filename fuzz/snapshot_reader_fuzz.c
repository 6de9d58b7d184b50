/* snapshot_reader_fuzz.c — slot snapshot files as arbitrary bytes: the reader shows tables, rows, vectors, blocks and
 * shapes that lie in the file, or reports that the file is damaged. */
#include "kv/checkpoint/snapshot_reader.h"

#include "base/assert.h"
#include "fuzz/fuzz.h"

static bool within(span file, span part) {
    return part.size == 0 || (part.data >= file.data && part.size <= (size_t)(file.data + file.size - part.data));
}

static void look_at_arrays(const snapshot_reader *reader, const snapshot_table *table) {
    uint64_t shape[SAFETENSORS_DIMS_MAX];
    uint32_t dims;
    for (uint32_t i = 0; i < MR_PS_ARRAYS_MAX && snapshot_reader_array(reader, table, i) != NULL; i++)
        MR_ASSERT(!snapshot_reader_shape(reader, table, i, shape, &dims) || dims <= SAFETENSORS_DIMS_MAX);
}

static void look_at_table(span file, const snapshot_reader *reader, const snapshot_table *table) {
    uint64_t items = 0;
    size_t item = safetensors_item(snapshot_reader_dtype(&table->schema));
    MR_ASSERT(within(file, table->keys) && within(file, table->values));
    MR_ASSERT(within(file, table->touches) && within(file, table->lengths));
    for (uint32_t i = 0; i < table->blocks; i++) {
        snapshot_block block;
        MR_ASSERT(snapshot_reader_block(reader, table, i, &block) == MR_OK && within(file, block.values));
        MR_ASSERT(block.values.size == block.items * item && block.array < MR_PS_ARRAYS_MAX);
        items += block.items;
    }
    if (table->schema.kind == TABLE_SCHEMA_SPARSE)
        MR_ASSERT(table->values.size == table->rows * table->schema.dim * item);
    if (table->schema.kind == TABLE_SCHEMA_DENSE) MR_ASSERT(table->rows == items && table->bytes == items * item);
    look_at_arrays(reader, table);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    span file = span_of(data, size);
    snapshot_reader reader;
    if (snapshot_reader_open(file, &reader) != MR_OK) return 0;
    for (uint32_t i = 0; i < reader.tables; i++) {
        snapshot_table table;
        if (snapshot_reader_table(&reader, i, &table) == MR_OK) look_at_table(file, &reader, &table);
    }
    snapshot_reader_close(&reader);
    return 0;
}
