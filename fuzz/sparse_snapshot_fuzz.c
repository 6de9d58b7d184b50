/* sparse_snapshot_fuzz.c — encoded rows of a sparse table: rows that are accepted are encoded to the same bytes, and a
 * refused input leaves the table empty. The first byte selects the table. */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "fuzz/fuzz.h"
#include "kv/table/sparse_table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1) return 0;
    const sparse_table_options options = {
        .dtype = MR_F32, .dim = 1 + data[0] % 4, .state = data[0] & 8, .admit = data[0] >> 4, .ages = true};
    sparse *table;
    MR_ASSERT(sparse_table_create(&options, &table) == MR_OK);
    span piece = span_of(data + 1, size - 1);
    if (sparse_table_unpack(table, piece) == MR_OK) {
        size_t least = SPARSE_TABLE_PIECE_HEAD + SPARSE_TABLE_PIECE_KEY + sparse_table_row_bytes(table);
        size_t room = piece.size > least ? piece.size : least;
        uint8_t *again = xmalloc(room);
        sparse_table_cursor cursor = {0};
        MR_ASSERT(sparse_table_pack(table, &cursor, again, room) == piece.size && cursor.done);
        MR_ASSERT(memcmp(again + SPARSE_TABLE_PIECE_HEAD, piece.data + SPARSE_TABLE_PIECE_HEAD,
                         piece.size - SPARSE_TABLE_PIECE_HEAD) == 0);
        free(again);
        MR_ASSERT(sparse_table_unpack(table, piece) ==
                  (sparse_table_look_at(table).rows + sparse_table_look_at(table).candidates > 0 ? MR_EXISTS : MR_OK));
    } else {
        MR_ASSERT(sparse_table_look_at(table).rows == 0 && sparse_table_look_at(table).candidates == 0);
    }
    sparse_table_destroy(table);
    return 0;
}
