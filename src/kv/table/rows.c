/* rows.c — see rows.h. Number 0 has a place, too, which nobody uses: so a number is an index. */
#include "kv/table/rows.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "kv/table/memory.h"

enum { FIRST = 8 };

void rows_init(rows *rows, size_t stride) {
    MR_ASSERT(stride > 0 && stride % sizeof(uint32_t) == 0 && stride <= ROWS_CHUNK_BYTES);
    *rows = (struct rows){.stride = stride, .made = 1};
    while (stride << (rows->shift + 1) <= ROWS_CHUNK_BYTES) rows->shift++;
}

void rows_fini(rows *rows) {
    for (size_t i = 0; i < rows->chunk_count; i++) free(rows->chunks[i]);
    free(rows->chunks);
    rows_init(rows, rows->stride);
}

static uint32_t chunk_rows(const rows *rows) { return UINT32_C(1) << rows->shift; }

static mr_status take_memory(const rows *rows, uint32_t count, uint8_t **out) {
    size_t size = (size_t)count * rows->stride;
    void *memory;
    MR_TRY(alloc_try_aligned(size >= MEMORY_HUGE_PAGE ? MEMORY_HUGE_PAGE : MEMORY_LINE, size, &memory));
    memory_prefer_huge(memory, size);
    *out = memory;
    return MR_OK;
}

static mr_status grow_first(rows *rows) {
    uint32_t count = rows->first * 2 < chunk_rows(rows) ? rows->first * 2 : chunk_rows(rows);
    uint8_t *memory;
    MR_TRY(take_memory(rows, count, &memory));
    memcpy(memory, rows->chunks[0], (size_t)rows->made * rows->stride);
    free(rows->chunks[0]);
    rows->chunks[0] = memory;
    rows->first = count;
    return MR_OK;
}

static mr_status add_chunk(rows *rows) {
    MR_TRY(alloc_try_grow(&rows->chunks, &rows->chunk_room, rows->chunk_count + 1, sizeof *rows->chunks));
    uint32_t count = rows->chunk_count > 0 || chunk_rows(rows) < FIRST ? chunk_rows(rows) : FIRST;
    MR_TRY(take_memory(rows, count, &rows->chunks[rows->chunk_count]));
    if (rows->chunk_count++ == 0) rows->first = count;
    return MR_OK;
}

/* Room for the number `made`. */
static mr_status make_room(rows *rows) {
    if (rows->made >= ROWS_MAX) return error_set(MR_NOMEM, "a table has %u rows, which is the limit", ROWS_MAX);
    if (rows->chunk_count > 1 || rows->first == chunk_rows(rows))
        return rows->made >> rows->shift < rows->chunk_count ? MR_OK : add_chunk(rows);
    if (rows->chunk_count == 0) MR_TRY(add_chunk(rows));
    return rows->made < rows->first ? MR_OK : rows->first < chunk_rows(rows) ? grow_first(rows) : add_chunk(rows);
}

mr_status rows_take(rows *rows, uint32_t *out) {
    uint32_t number = rows->spare;
    if (number != 0) {
        memcpy(&rows->spare, rows_at(rows, number), sizeof rows->spare);
    } else {
        MR_TRY(make_room(rows));
        number = rows->made++;
    }
    rows->count++;
    rows->changes++;
    *out = number;
    return MR_OK;
}

void rows_give(rows *rows, uint32_t number) {
    MR_ASSERT(number > 0 && number < rows->made && rows->count > 0);
    memcpy(rows_at(rows, number), &rows->spare, sizeof rows->spare);
    rows->spare = number;
    rows->count--;
    rows->changes++;
}

size_t rows_bytes(const rows *rows) {
    size_t whole = rows->chunk_count > 0 ? rows->chunk_count - 1 : 0;
    return ((whole << rows->shift) + rows->first) * rows->stride + rows->chunk_room * sizeof *rows->chunks;
}
