/* row_pool.h — pool of fixed-size rows in chunks that do not move.
 *
 * A row has a number, from 1 on; 0 is none. Freed rows are reused first. The first chunk grows up to the size of a
 * chunk, so that a small table uses little memory; then chunks of 2 to 4 MB are added, and the unused memory of a large
 * table is less than a chunk.
 *
 * A pointer to a row is valid until the next row_pool_take. */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "miniray/status.h"

#define ROW_POOL_MAX UINT32_C(0xffffff00) /* the table uses higher numbers for other purposes */
enum { ROW_POOL_CHUNK_BYTES = 4 << 20 };

typedef struct row_pool {
    uint8_t **chunks; /* owned, with its elements */
    size_t chunk_count, chunk_room;
    size_t stride;    /* bytes from one row to the next; a multiple of 4, at most ROW_POOL_CHUNK_BYTES */
    uint32_t shift;   /* a chunk has 1 << shift rows */
    uint32_t first;   /* rows of the first chunk's memory */
    uint32_t made;    /* all numbers below it were taken at some time */
    uint32_t spare;   /* first freed row; the first word of a freed row is the next one; 0: none */
    uint32_t count;   /* rows in use */
    uint64_t changes; /* number of takes and frees */
} row_pool;

void row_pool_init(row_pool *pool, size_t stride);
void row_pool_fini(row_pool *pool);

/* The content of the row is undefined. MR_NOMEM: nothing has changed. */
MR_MUST mr_status row_pool_take(row_pool *pool, uint32_t *out);
void row_pool_give(row_pool *pool, uint32_t number);
size_t row_pool_bytes(const row_pool *pool); /* taken from the system */

static inline void *row_pool_at(const row_pool *pool, uint32_t number) {
    return pool->chunks[number >> pool->shift] + (number & ((UINT32_C(1) << pool->shift) - 1)) * pool->stride;
}

/* Inlined, because most rows are a few times 16 bytes. */
static inline void row_pool_copy(void *restrict out, const void *restrict row, size_t size) {
    if (size % 16 != 0 || size > 512) {
        memcpy(out, row, size);
        return;
    }
    for (size_t at = 0; at < size; at += 16) memcpy((uint8_t *)out + at, (const uint8_t *)row + at, 16);
}
