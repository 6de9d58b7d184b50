/* dense_table_fuzz.c — encoded items of a dense block: items that are accepted are encoded to the same bytes. The first
 * byte selects the block. */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "fuzz/fuzz.h"
#include "kv/table/dense_table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1) return 0;
    const dense_table_options options = {.dtype = (data[0] & 1) != 0 ? MR_I64 : MR_F32,
                                         .dims = 1,
                                         .shape = {1 + data[0] / 8},
                                         .states = (data[0] & 1) != 0 ? 0 : data[0] >> 1 & 1,
                                         .versions = (data[0] & 4) != 0};
    dense_table *table;
    uint32_t first, count;
    MR_ASSERT(dense_table_create(&options, 0, &table) == MR_OK);
    span piece = span_of(data + 1, size - 1);
    if (dense_table_unpack(table, piece, &first, &count) == MR_OK) {
        uint8_t *again = xmalloc(piece.size);
        MR_ASSERT(dense_table_piece_size(table, count) == piece.size);
        dense_table_pack(table, first, count, again);
        MR_ASSERT(memcmp(again, piece.data, piece.size) == 0);
        free(again);
    }
    dense_table_destroy(table);
    return 0;
}
