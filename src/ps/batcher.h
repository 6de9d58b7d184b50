/* batcher.h — batcher of slot messages per peer, which also follows the newest cluster map.
 *
 * All slot messages of one step for one peer go as one packet. Every packet bears the number of the newest cluster map
 * that its sender knows, so the number of a decided cluster map spreads with every message. The map itself comes from
 * the controller alone: every process could otherwise decide for all.
 *
 *   a packet arrives at …      its sender's map is newer              its sender's map is older
 *   ------------------------   ------------------------------------   ------------------------------------------
 *   any process                one packet to the controller asks      a packet to the sender shows the number
 *                              for the changes                        (to the controller: the map, see admits_map)
 *   the controller             a packet to the sender asks            the changes since that map, to the sender
 *
 * A packet of another generation is ignored except for its cluster map: a newer map is adopted, an older one never.
 *
 * A large message goes in pieces, over many steps (transfer.h). The receiver's host takes it as a whole, from the head
 * of the packet with its last piece.
 *
 * Bounds     an answer to a rank has at most SLOT_MESSAGE_PAYLOAD_MAX bytes (state_machine.h). The number of peers in
 *            one step is not bounded, and each peer is found in constant time.
 * Ownership  the cluster map belongs to the map cache (map_cache.h); bytes that are sent are borrowed for the call. */
#pragma once
#include "base/shared_bytes.h"
#include "ps/map_cache.h"

enum { BATCHER_SMALL = 4096 }; /* bytes up to which a packet is small */

typedef struct batcher batcher;

typedef struct batcher_host {
    void (*send)(void *send_context, const char *address, span bytes);
    /* Replaces `send` for a transport that gathers; large payloads are referenced, not copied. May be NULL. Small
     * packets in one piece still go through `send`. */
    void (*send_pieces)(void *send_context, const char *address, const shared_bytes_piece *pieces, size_t count);
    void *send_context;
    void (*on_map)(void *context, const cluster_map *map);
    /* `bytes`: the shared buffer that holds the payload */
    void (*on_part)(void *context, const slot_message_head *from, const slot_message *message, shared_bytes *bytes);
    /* called for every packet, before its messages; may be NULL */
    void (*on_head)(void *context, const slot_message_head *from);
    void *context;
    /* Address of the controller, borrowed: the one from which cluster maps come; NULL: this is the controller. */
    const char *controller;
    /* Of the controller: whether it adopts a cluster map of this sender; NULL: never. */
    bool (*admits_map)(void *context, const slot_message_head *from);
    map_cache *cache;  /* shared; NULL: a private one */
    bool takes_pieces; /* the host receives large messages; other roles of its process ignore their pieces */
    size_t piece;      /* bytes of the pieces that are sent (transfer.h); 0: the default */
    uint64_t room;     /* bytes of incomplete large messages that are received; 0: no bound */
} batcher_host;

batcher *batcher_create(const batcher_host *host, uint32_t who, const char *address); /* copies its arguments */
void batcher_destroy(batcher *batcher);
void batcher_set_incarnation(batcher *batcher, uint64_t incarnation);

const cluster_map *batcher_map(const batcher *batcher); /* number 0: none yet; borrowed until the next call */
void batcher_adopt(batcher *batcher, span map);         /* no-op unless the map is newer */

/* `message` NULL: ensures that a packet is sent, as a heartbeat. */
void batcher_add(batcher *batcher, const char *address, const slot_message *message);
/* Whether a large message of this kind about the slot is on its way to the peer. If so, asks what has arrived. */
bool batcher_ask(batcher *batcher, const char *address, uint32_t slot, slot_message_kind kind);
/* Bytes of all large messages that are on their way; batcher_ask_all asks what has arrived of each. */
uint64_t batcher_out(const batcher *batcher);
uint64_t batcher_in(const batcher *batcher); /* as transfers_in */
bool batcher_refused(batcher *batcher);      /* as transfers_refused */
void batcher_free_room(batcher *batcher);    /* as transfers_free_room */
void batcher_ask_all(batcher *batcher);
/* The content of a shared buffer, the tail of messages, is now at `to`, unchanged; empty: the messages are lost. */
void batcher_move(batcher *batcher, const shared_bytes *bytes, span to);
void batcher_flush(batcher *batcher);            /* sends all added messages */
void batcher_take(batcher *batcher, span bytes); /* takes a received packet; flushes */
/* As batcher_take, for bytes in a shared buffer: code that keeps some of the bytes references the buffer. `shared`
 * NULL: the bytes are valid during the call only. */
void batcher_take_bytes(batcher *batcher, span bytes, shared_bytes *shared);
