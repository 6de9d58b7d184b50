/* slot_look_fuzz.c — the file of a slot from anywhere: whoever looks at it is shown tables, rows, vectors, blocks and
 * shapes that lie in it, or is told that it is damaged. */
#include "kv/shelf/slot_look.h"

#include "base/assert.h"
#include "fuzz/fuzz.h"

static bool within(span file, span part) {
    return part.size == 0 || (part.data >= file.data && part.size <= (size_t)(file.data + file.size - part.data));
}

static void look_at_arrays(const slot_look *look, const slot_table *table) {
    uint64_t shape[SAFETENSORS_DIMS_MAX];
    uint32_t dims;
    for (uint32_t i = 0; i < MR_PS_ARRAYS_MAX && slot_look_array(look, table, i) != NULL; i++)
        MR_ASSERT(!slot_look_shape(look, table, i, shape, &dims) || dims <= SAFETENSORS_DIMS_MAX);
}

static void look_at_table(span file, const slot_look *look, const slot_table *table) {
    uint64_t items = 0;
    size_t item = safetensors_item(slot_look_dtype(&table->definition));
    MR_ASSERT(within(file, table->keys) && within(file, table->values));
    MR_ASSERT(within(file, table->touches) && within(file, table->lengths));
    for (uint32_t i = 0; i < table->blocks; i++) {
        slot_block block;
        MR_ASSERT(slot_look_block(look, table, i, &block) == MR_OK && within(file, block.values));
        MR_ASSERT(block.values.size == block.items * item && block.array < MR_PS_ARRAYS_MAX);
        items += block.items;
    }
    if (table->definition.kind == DEFINITION_SPARSE)
        MR_ASSERT(table->values.size == table->rows * table->definition.dim * item);
    if (table->definition.kind == DEFINITION_DENSE) MR_ASSERT(table->rows == items && table->bytes == items * item);
    look_at_arrays(look, table);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    span file = span_of(data, size);
    slot_look look;
    if (slot_look_open(file, &look) != MR_OK) return 0;
    for (uint32_t i = 0; i < look.tables; i++) {
        slot_table table;
        if (slot_look_table(&look, i, &table) == MR_OK) look_at_table(file, &look, &table);
    }
    slot_look_close(&look);
    return 0;
}
