/* batcher.h — batcher of slot messages per peer, which also spreads the newest cluster map.
 *
 * Whatever is said in one step to one peer goes as one batch. Every batch bears the number of the newest cluster map
 * that its sender knows. Whoever gets one from somebody who is behind sends what changed since; whoever gets one from
 * somebody who is ahead answers with a batch of its own, which asks for that. So what was decided spreads with whatever
 * is said, and nobody answers a request from a newer cluster map than its own before it has entered that one.
 *
 * What comes from another generation is not looked at, but for its cluster map: a newer one is entered, an older one
 * never.
 *
 * Bounds  a part of more than SLOT_MESSAGE_PAYLOAD_MAX bytes is not sent; the log says so. Peers in one step are as
 *         many as
 *             there are, and each is found at once.
 * Ownership  the cluster map lies in its atlas (map_cache.h); bytes that are sent are borrowed for the call. */
#pragma once
#include "base/shared_bytes.h"
#include "ps/map_cache.h"

enum { BATCHER_SMALL = 4096 }; /* bytes of a small batch */

typedef struct batcher batcher;

typedef struct batcher_host {
    void (*send)(void *send_context, const char *address, span bytes);
    /* Instead of that, for a transport that gathers: large payloads are pointed at where they lie. May be NULL. Small
     * batches that lie in one piece are sent by `send` all the same. */
    void (*send_pieces)(void *send_context, const char *address, const shared_bytes_piece *pieces, size_t count);
    void *send_context;
    void (*on_map)(void *context, const cluster_map *map);
    /* shared buffer: where payloads lie */
    void (*on_part)(void *context, const slot_message_head *from, const slot_message *message, shared_bytes *bytes);
    void (*on_head)(void *context, const slot_message_head *from); /* of every batch, before its parts; may be NULL */
    void *context;
    map_cache *cache; /* shared; NULL: one of its own */
} batcher_host;

batcher *batcher_create(const batcher_host *host, uint32_t who, const char *address); /* copies all */
void batcher_destroy(batcher *batcher);
void batcher_set_incarnation(batcher *batcher, uint64_t incarnation);

const cluster_map *batcher_map(const batcher *batcher); /* number 0: none yet; borrowed until it is driven again */
void batcher_adopt(batcher *batcher, span map);         /* no-op unless it is newer */

/* part NULL: at least a sign of life */
void batcher_add(batcher *batcher, const char *address, const slot_message *message);
void batcher_flush(batcher *batcher);            /* sends what was added */
void batcher_take(batcher *batcher, span bytes); /* a batch that came; flushes */
/* The same, where it lies: whatever keeps of it holds that. NULL: it is there for the call only, as of batcher_take. */
void batcher_take_bytes(batcher *batcher, span bytes, shared_bytes *shared);
