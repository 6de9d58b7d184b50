/* row_pool.c — see row_pool.h. Number 0 has an unused place, so that a number is an index. */
#include "kv/table/row_pool.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "kv/table/huge_pages.h"

enum { FIRST = 8 };

void row_pool_init(row_pool *pool, size_t stride) {
    MR_ASSERT(stride > 0 && stride % sizeof(uint32_t) == 0 && stride <= ROW_POOL_CHUNK_BYTES);
    *pool = (struct row_pool){.stride = stride, .made = 1};
    while (stride << (pool->shift + 1) <= ROW_POOL_CHUNK_BYTES) pool->shift++;
}

void row_pool_fini(row_pool *pool) {
    for (size_t i = 0; i < pool->chunk_count; i++) free(pool->chunks[i]);
    free(pool->chunks);
    row_pool_init(pool, pool->stride);
}

static uint32_t chunk_rows(const row_pool *pool) { return UINT32_C(1) << pool->shift; }

static mr_status take_memory(const row_pool *pool, uint32_t count, uint8_t **out) {
    size_t size = (size_t)count * pool->stride;
    MR_TRY(alloc_try_aligned(size >= HUGE_PAGES_HUGE_PAGE ? HUGE_PAGES_HUGE_PAGE : HUGE_PAGES_LINE, size, out));
    huge_pages_prefer_huge(*out, size);
    return MR_OK;
}

static mr_status grow_first(row_pool *pool) {
    uint32_t count = pool->first * 2 < chunk_rows(pool) ? pool->first * 2 : chunk_rows(pool);
    uint8_t *memory;
    MR_TRY(take_memory(pool, count, &memory));
    memcpy(memory, pool->chunks[0], (size_t)pool->made * pool->stride);
    free(pool->chunks[0]);
    pool->chunks[0] = memory;
    pool->first = count;
    return MR_OK;
}

static mr_status add_chunk(row_pool *pool) {
    MR_TRY(alloc_try_grow(&pool->chunks, &pool->chunk_room, pool->chunk_count + 1, sizeof *pool->chunks));
    uint32_t count = pool->chunk_count > 0 || chunk_rows(pool) < FIRST ? chunk_rows(pool) : FIRST;
    MR_TRY(take_memory(pool, count, &pool->chunks[pool->chunk_count]));
    if (pool->chunk_count++ == 0) pool->first = count;
    return MR_OK;
}

/* Makes room for the row number `made`. */
static mr_status make_room(row_pool *pool) {
    if (pool->made >= ROW_POOL_MAX) return error_set(MR_NOMEM, "a table has %u rows, which is the limit", ROW_POOL_MAX);
    if (pool->chunk_count > 1 || pool->first == chunk_rows(pool))
        return pool->made >> pool->shift < pool->chunk_count ? MR_OK : add_chunk(pool);
    if (pool->chunk_count == 0) MR_TRY(add_chunk(pool));
    return pool->made < pool->first ? MR_OK : pool->first < chunk_rows(pool) ? grow_first(pool) : add_chunk(pool);
}

mr_status row_pool_take(row_pool *pool, uint32_t *out) {
    uint32_t number = pool->spare;
    if (number != 0) {
        memcpy(&pool->spare, row_pool_at(pool, number), sizeof pool->spare);
    } else {
        MR_TRY(make_room(pool));
        number = pool->made++;
    }
    pool->count++;
    pool->changes++;
    *out = number;
    return MR_OK;
}

void row_pool_give(row_pool *pool, uint32_t number) {
    MR_ASSERT(number > 0 && number < pool->made && pool->count > 0);
    memcpy(row_pool_at(pool, number), &pool->spare, sizeof pool->spare);
    pool->spare = number;
    pool->count--;
    pool->changes++;
}

size_t row_pool_bytes(const row_pool *pool) {
    size_t whole = pool->chunk_count > 0 ? pool->chunk_count - 1 : 0;
    return ((whole << pool->shift) + pool->first) * pool->stride + pool->chunk_room * sizeof *pool->chunks;
}
