/* sparse_snapshot.c — encoding of a sparse table in pieces. See sparse_table.h. */
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "kv/table/sparse_internal.h"

typedef struct head {
    uint32_t magic, count, row_bytes, admit;
    uint64_t first, last;
} head;

_Static_assert(sizeof(head) == SPARSE_TABLE_PIECE_HEAD, "a head has no gaps");

static size_t key_size(const sparse *table, const key_index_entry *entry) {
    return SPARSE_TABLE_PIECE_KEY + (sparse_is_row(entry->row) ? sparse_table_row_bytes(table) : 0);
}

static uint8_t *write_key(const sparse *table, const key_index_entry *entry, uint8_t *at) {
    bool has_row = sparse_is_row(entry->row);
    uint32_t touches = has_row ? 0 : entry->row - SPARSE_CANDIDATE;
    memcpy(at, &entry->hash, 8);
    memcpy(at + 8, &entry->seen, 4);
    memcpy(at + 12, &touches, 4);
    if (has_row)
        memcpy(at + SPARSE_TABLE_PIECE_KEY, row_pool_at(&table->pool, entry->row), sparse_table_row_bytes(table));
    return at + key_size(table, entry);
}

size_t sparse_table_pack(const sparse *table, sparse_table_cursor *cursor, void *out, size_t room) {
    MR_ASSERT(!cursor->done && room >= SPARSE_TABLE_PIECE_HEAD);
    head head = {SPARSE_TABLE_MAGIC, 0,         (uint32_t)sparse_table_row_bytes(table), table->options.admit,
                 cursor->from,       UINT64_MAX};
    uint8_t *at = (uint8_t *)out + sizeof head, *end = (uint8_t *)out + room;
    key_index_entry entry;
    bool more = key_index_next(&table->index, cursor->from, &entry);
    for (; more && key_size(table, &entry) <= (size_t)(end - at) && head.count < UINT32_MAX; head.count++) {
        at = write_key(table, &entry, at);
        more = sparse_following(table, entry.hash, &entry);
    }
    MR_ASSERT(!more || head.count > 0);
    if (more) head.last = entry.hash - 1; /* at least one key was written, whose hash is lower */
    *cursor = (sparse_table_cursor){head.last + 1, !more};
    memcpy(out, &head, sizeof head);
    return (size_t)(at - (uint8_t *)out);
}

/* ---- Reading a piece. It is read twice: first checked completely, then stored. */

typedef struct key {
    uint64_t hash;
    uint32_t seen, touches;
    const uint8_t *row; /* NULL: a candidate */
} key;

static key read_key(reader *reader, size_t row_bytes) {
    key key = {.hash = reader_u64(reader)};
    key.seen = reader_u32(reader);
    key.touches = reader_u32(reader);
    if (key.touches == 0) key.row = reader_bytes(reader, row_bytes);
    return key;
}

static mr_status check_head(const sparse *table, const head *head) {
    if (head->magic != SPARSE_TABLE_MAGIC || head->first > head->last)
        return error_set(MR_CORRUPT, "malformed chunk of a sparse table: magic %08x", head->magic);
    if (head->row_bytes != sparse_table_row_bytes(table) || head->admit != table->options.admit)
        return error_set(MR_INVALID, "a chunk has rows of %u bytes and admit %u; the table has %zu and %u",
                         head->row_bytes, head->admit, sparse_table_row_bytes(table), table->options.admit);
    key_index_entry there;
    if (key_index_next(&table->index, head->first, &there) && there.hash <= head->last)
        return error_set(MR_EXISTS, "the table already has keys of this chunk (%u keys)", head->count);
    return MR_OK;
}

static mr_status check_keys(const sparse *table, const head *head, reader reader) {
    uint64_t least = head->first;
    uint32_t rows = 0;
    for (uint32_t i = 0; i < head->count; i++) {
        key key = read_key(&reader, head->row_bytes);
        if (reader.failed || key.hash < least || key.hash > head->last || key.touches >= table->options.admit ||
            (i > 0 && least == 0))
            return error_set(MR_CORRUPT, "malformed chunk of a sparse table: key %u", i);
        least = key.hash + 1; /* 0: the hash was the largest one */
        rows += key.row != NULL;
    }
    if (reader_left(&reader) > 0) return error_set(MR_CORRUPT, "%zu bytes follow a chunk", reader_left(&reader));
    uint32_t limit = table->options.rows_max;
    if (limit != 0 && (rows > limit || table->pool.count > limit - rows))
        return error_set(MR_NOMEM, "%u more rows, where %u of %u are in use", rows, table->pool.count, limit);
    return MR_OK;
}

static mr_status take_key(sparse *table, const key *key) {
    uint32_t number = SPARSE_CANDIDATE + key->touches;
    if (key->row != NULL) {
        MR_TRY(row_pool_take(&table->pool, &number));
        memcpy(row_pool_at(&table->pool, number), key->row, sparse_table_row_bytes(table));
        sparse_note(table, sparse_key(key->hash));
    }
    mr_status status = key_index_add(&table->index, (key_index_entry){key->hash, number, key->seen});
    if (status != MR_OK && key->row != NULL) row_pool_give(&table->pool, number);
    return status;
}

/* Removes all keys in the interval of the piece. */
static void clear(sparse *table, const head *head) {
    for (key_index_entry e; key_index_next(&table->index, head->first, &e) && e.hash <= head->last;) {
        uint64_t key = sparse_key(e.hash);
        (void)sparse_table_erase(table, &key, 1);
    }
}

mr_status sparse_table_unpack(sparse *table, span piece) {
    head head;
    if (piece.size < sizeof head) return error_set(MR_CORRUPT, "malformed chunk of %zu bytes", piece.size);
    memcpy(&head, piece.data, sizeof head);
    reader reader = reader_of(piece.data + sizeof head, piece.size - sizeof head);
    MR_TRY(check_head(table, &head));
    MR_TRY(check_keys(table, &head, reader));
    MR_TRY(key_index_reserve(&table->index, head.count));
    for (uint32_t i = 0; i < head.count; i++) {
        key key = read_key(&reader, head.row_bytes);
        mr_status status = take_key(table, &key);
        if (status == MR_OK) continue;
        clear(table, &head);
        return status;
    }
    return MR_OK;
}
