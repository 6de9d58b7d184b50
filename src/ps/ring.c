/* ring.c — see ring.h. */
#include "ps/ring.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/search.h"
#include "ps/mix.h"

typedef struct point {
    uint64_t hash, server;
} point;

struct ring {
    size_t count, server_count;
    point points[];
};

static int by_hash(const void *a, const void *b) {
    const point *x = a, *y = b;
    if (x->hash != y->hash) return x->hash < y->hash ? -1 : 1;
    return (x->server > y->server) - (x->server < y->server);
}

static int by_id(const void *a, const void *b) {
    uint64_t x = ((const ring_server *)a)->id, y = ((const ring_server *)b)->id;
    return (x > y) - (x < y);
}

static mr_status check(const ring_server *servers, size_t count) {
    if (count > RING_SERVERS_MAX)
        return error_set(MR_TOO_LARGE, "a ring has at most %d servers, not %zu", RING_SERVERS_MAX, count);
    ring_server *sorted = xcalloc(count + 1, sizeof *sorted);
    mr_status status = MR_OK;
    for (size_t i = 0; i < count; i++) {
        sorted[i] = servers[i];
        if (servers[i].weight == 0 || servers[i].weight > RING_WEIGHT_MAX)
            status = error_set(MR_INVALID, "a server's weight is 1 to %d, not %u", RING_WEIGHT_MAX, servers[i].weight);
    }
    qsort(sorted, count, sizeof *sorted, by_id);
    for (size_t i = 1; i < count; i++)
        if (sorted[i].id == sorted[i - 1].id) status = error_set(MR_INVALID, "a server is in the ring twice");
    free(sorted);
    return status;
}

mr_status ring_create(const ring_server *servers, size_t count, ring **out) {
    MR_TRY(check(servers, count));
    size_t points = 0;
    for (size_t i = 0; i < count; i++) points += (size_t)RING_POINTS * servers[i].weight;
    ring *ring = xmalloc(sizeof *ring + points * sizeof(point));
    ring->count = points;
    ring->server_count = count;
    point *at = ring->points;
    for (size_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < RING_POINTS * servers[i].weight; k++)
            *at++ = (point){mix2(servers[i].id, k), servers[i].id};
    qsort(ring->points, points, sizeof(point), by_hash);
    *out = ring;
    return MR_OK;
}

void ring_destroy(ring *ring) { free(ring); }

static int by_place(const void *key, const void *item) {
    uint64_t hash = *(const uint64_t *)key, other = ((const point *)item)->hash;
    return (hash > other) - (hash < other);
}

/* The first point at or after this one; after the last comes the first. */
static size_t seek(const ring *ring, uint64_t hash) {
    size_t at = search_first(&hash, ring->points, ring->count, sizeof *ring->points, by_place);
    return at == ring->count ? 0 : at;
}

static bool has(const uint64_t *ids, size_t count, uint64_t id) {
    for (size_t i = 0; i < count; i++)
        if (ids[i] == id) return true;
    return false;
}

size_t ring_owners(const ring *ring, uint64_t slot, uint64_t *ids, size_t most) {
    size_t wanted = most < ring->server_count ? most : ring->server_count, count = 0;
    if (wanted == 0) return 0;
    for (size_t at = seek(ring, mix(slot)); count < wanted; at = at + 1 == ring->count ? 0 : at + 1)
        if (!has(ids, count, ring->points[at].server)) ids[count++] = ring->points[at].server;
    return count;
}
