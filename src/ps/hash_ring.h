/* hash_ring.h — consistent hash ring of servers, with virtual nodes and weights.
 *
 * Every server places HASH_RING_POINTS × weight points on a circle of 64 bits; a slot belongs to the first point at or
 * after its own hash, and its further replicas to the next servers clockwise that do not have it yet. The position of
 * a point depends only on the server and the point's number; so a server that joins takes slots from all others, one
 * that leaves passes its slots to all others, one whose weight changes adds or removes its last points, and no slot
 * moves between two servers that were there before and after.
 *
 * The ring gives targets only, and changes no chain (cluster_map.h).
 *
 * Invariants  points are sorted by hash, then by server; so the order in which servers were added does not matter.
 * Ownership   the ring copies its arguments.
 * Threads     none: pure data. No clock, no I/O. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "miniray/status.h"

enum { HASH_RING_POINTS = 512, HASH_RING_WEIGHT_MAX = 64, HASH_RING_SERVERS_MAX = 4096 };

typedef struct hash_ring_server {
    uint64_t id;
    uint32_t weight; /* 1 … HASH_RING_WEIGHT_MAX; a server with twice the weight gets twice the slots */
} hash_ring_server;

typedef struct hash_ring hash_ring;

/* MR_INVALID: a duplicate id, or a weight out of range; MR_TOO_LARGE: too many servers. */
MR_MUST mr_status hash_ring_create(const hash_ring_server *servers, size_t count, hash_ring **out);
void hash_ring_destroy(hash_ring *ring); /* NULL: no-op */

/* The first `most` distinct servers for a slot, or all if there are fewer. Returns their number. */
size_t hash_ring_owners(const hash_ring *ring, uint64_t slot, uint64_t *ids, size_t most);
