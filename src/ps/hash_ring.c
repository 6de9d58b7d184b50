/* hash_ring.c — see hash_ring.h. */
#include "ps/hash_ring.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/binary_search.h"
#include "base/error.h"
#include "ps/stable_hash.h"

typedef struct point {
    uint64_t hash, server;
} point;

struct hash_ring {
    size_t count, server_count;
    point points[];
};

static bool is_before(const point *a, const point *b) {
    return a->hash != b->hash ? a->hash < b->hash : a->server < b->server;
}

static mr_status check(const hash_ring_server *servers, size_t count) {
    if (count > HASH_RING_SERVERS_MAX)
        return error_set(MR_TOO_LARGE, "%zu servers: the limit is %d", count, HASH_RING_SERVERS_MAX);
    hash_ring_server *sorted = xcalloc(count + 1, sizeof *sorted);
    mr_status status = MR_OK;
    for (size_t i = 0; i < count; i++) {
        sorted[i] = servers[i];
        if (servers[i].weight == 0 || servers[i].weight > HASH_RING_WEIGHT_MAX)
            status = error_set(MR_INVALID, "a server of weight %u: expected 1 to %d", servers[i].weight,
                               HASH_RING_WEIGHT_MAX);
    }
    qsort(sorted, count, sizeof *sorted, binary_search_u64);
    for (size_t i = 1; i < count; i++)
        if (sorted[i].id == sorted[i - 1].id)
            status = error_set(MR_INVALID, "one of %zu servers is listed twice", count);
    free(sorted);
    return status;
}

/* Approximate index of a hash among `count` evenly spread ones. */
static size_t place_of(uint64_t hash, size_t count) { return (size_t)((hash >> 32) * count >> 32); }

/* Sorts by a bucket pass and an insertion sort; evenly spread hashes are already close to their places. */
static void sort(const point *from, point *to, size_t count) {
    size_t *ends = xcalloc(count + 1, sizeof *ends);
    for (size_t i = 0; i < count; i++) ends[place_of(from[i].hash, count)]++;
    for (size_t i = 1; i < count; i++) ends[i] += ends[i - 1];
    for (size_t i = 0; i < count; i++) to[--ends[place_of(from[i].hash, count)]] = from[i];
    free(ends);
    for (size_t i = 1; i < count; i++) {
        point moving = to[i];
        size_t at = i;
        for (; at > 0 && is_before(&moving, &to[at - 1]); at--) to[at] = to[at - 1];
        to[at] = moving;
    }
}

mr_status hash_ring_create(const hash_ring_server *servers, size_t count, hash_ring **out) {
    MR_TRY(check(servers, count));
    size_t points = 0;
    for (size_t i = 0; i < count; i++) points += (size_t)HASH_RING_POINTS * servers[i].weight;
    hash_ring *ring = xmalloc(sizeof *ring + points * sizeof(point));
    ring->count = points;
    ring->server_count = count;
    point *drawn = xmalloc((points + 1) * sizeof *drawn), *at = drawn;
    for (size_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < HASH_RING_POINTS * servers[i].weight; k++)
            *at++ = (point){stable_hash2(servers[i].id, k), servers[i].id};
    MR_ASSERT((size_t)(at - drawn) == points);
    sort(drawn, ring->points, points);
    free(drawn);
    *out = ring;
    return MR_OK;
}

void hash_ring_destroy(hash_ring *ring) { free(ring); }

/* The first point at or after this hash; after the last point the search wraps to the first. */
static size_t seek(const hash_ring *ring, uint64_t hash) {
    size_t at = binary_search_first(&hash, ring->points, ring->count, sizeof *ring->points, binary_search_u64);
    return at == ring->count ? 0 : at;
}

static bool has(const uint64_t *ids, size_t count, uint64_t id) {
    for (size_t i = 0; i < count; i++)
        if (ids[i] == id) return true;
    return false;
}

size_t hash_ring_owners(const hash_ring *ring, uint64_t slot, uint64_t *ids, size_t most) {
    size_t wanted = most < ring->server_count ? most : ring->server_count, count = 0;
    if (wanted == 0) return 0;
    MR_ASSERT(ring->count >= ring->server_count);
    for (size_t at = seek(ring, stable_hash(slot)); count < wanted; at = at + 1 == ring->count ? 0 : at + 1)
        if (!has(ids, count, ring->points[at].server)) ids[count++] = ring->points[at].server;
    return count;
}
