/* batcher.c — see batcher.h. */
#include "ps/batcher.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/hash.h"
#include "base/invariants.h"
#include "base/mutation.h"
#include "ps/transfer.h"

typedef struct send_queue {
    char address[SLOT_MESSAGE_ADDRESS_MAX];
    bool own; /* the address is this process's own */
    slot_packet packet;
} send_queue;

struct batcher {
    batcher_host host;
    slot_message_head head;
    uint8_t head_bytes[SLOT_MESSAGE_HEAD_MAX]; /* the encoded head with which every packet begins */
    size_t said;                               /* bytes in head_bytes; 0: the head changed, encode it again */
    map_cache *cache;
    map_cache_page *page; /* the newest known cluster map */
    send_queue *queues;   /* owned; the first `used` are in use */
    size_t used, count;
    uint32_t *places;   /* hash table from address to queue index + 1 (0: empty), for more than FEW queues; owned */
    size_t place_count; /* a power of two */
    shared_bytes **own; /* packets to this process itself, owned */
    size_t own_count;
    /* owned buffer for copies of small packets, reused while no holder references it; NULL: none yet */
    shared_bytes *spare;
    transfers *transfers; /* owned */
    uint64_t asked;       /* the newest cluster map that was asked of the controller */
};

static void send_message(void *context, const char *address, const slot_message *message) {
    batcher_add(context, address, message);
}

batcher *batcher_create(const batcher_host *host, uint32_t who, const char *address) {
    MR_ASSERT(strlen(address) < SLOT_MESSAGE_ADDRESS_MAX);
    batcher *batcher = xcalloc(1, sizeof *batcher);
    batcher->host = *host;
    batcher->head.who = who;
    strcpy(batcher->head.address, address);
    batcher->cache = host->cache == NULL ? map_cache_create() : map_cache_ref(host->cache);
    batcher->page = map_cache_open(batcher->cache);
    batcher->transfers = transfers_create(host->piece, host->room, send_message, batcher);
    return batcher;
}

void batcher_destroy(batcher *batcher) {
    transfers_destroy(batcher->transfers);
    for (size_t i = 0; i < batcher->count; i++) slot_packet_fini(&batcher->queues[i].packet);
    for (size_t i = 0; i < batcher->own_count; i++) shared_bytes_unref(batcher->own[i]);
    free(batcher->own);
    shared_bytes_unref(batcher->spare);
    free(batcher->places);
    free(batcher->queues);
    map_cache_close(batcher->cache, batcher->page);
    map_cache_unref(batcher->cache);
    free(batcher);
}

void batcher_set_incarnation(batcher *batcher, uint64_t incarnation) {
    transfers_drop(batcher->transfers);
    batcher->head.incarnation = incarnation;
    batcher->said = 0;
}
const cluster_map *batcher_map(const batcher *batcher) { return map_cache_map(batcher->page); }

void batcher_adopt(batcher *batcher, span bytes) {
    if (map_cache_follow(batcher->cache, &batcher->page, bytes) != MR_OK) return;
    const cluster_map *map = batcher_map(batcher);
    batcher->head.number = map->number;
    batcher->head.generation = map->generation;
    batcher->said = 0;
    transfers_enter(batcher->transfers, map);
    batcher->host.on_map(batcher->host.context, map);
}

/* ---- Sending. */

enum { FEW = 16 }; /* up to this many queues are searched linearly */

static uint32_t *place_of(const batcher *batcher, const char *address) {
    MR_ASSERT(batcher->place_count > batcher->used); /* one place is empty, so the search ends */
    size_t at = hash_on(HASH_BEGIN, address, strlen(address));
    for (;; at++) {
        uint32_t *place = &batcher->places[at & (batcher->place_count - 1)];
        if (*place == 0 || strcmp(batcher->queues[*place - 1].address, address) == 0) return place;
    }
}

static void give_places(batcher *batcher) {
    if (batcher->place_count < 4 * batcher->used) {
        while (batcher->place_count < 4 * batcher->used)
            batcher->place_count = batcher->place_count == 0 ? 1 : 2 * batcher->place_count;
        free(batcher->places);
        batcher->places = xmalloc(batcher->place_count * sizeof *batcher->places);
    }
    memset(batcher->places, 0, batcher->place_count * sizeof *batcher->places);
    for (size_t i = 0; i < batcher->used; i++) *place_of(batcher, batcher->queues[i].address) = (uint32_t)i + 1;
}

static send_queue *find_send_queue(const batcher *batcher, const char *address) {
    if (batcher->used > FEW) {
        uint32_t place = *place_of(batcher, address);
        return place == 0 ? NULL : &batcher->queues[place - 1];
    }
    for (size_t i = 0; i < batcher->used; i++)
        if (strcmp(batcher->queues[i].address, address) == 0) return &batcher->queues[i];
    return NULL;
}

static void begin(batcher *batcher, send_queue *send_queue) {
    if (batcher->said == 0) batcher->said = slot_message_write_head(&batcher->head, batcher->head_bytes);
    slot_packet_begin_written(&send_queue->packet, span_of(batcher->head_bytes, batcher->said));
}

static send_queue *take_send_queue(batcher *batcher, const char *address) {
    MR_ASSERT(strlen(address) < SLOT_MESSAGE_ADDRESS_MAX && batcher->used <= batcher->count);
    size_t before = batcher->count;
    xgrow(&batcher->queues, &batcher->count, batcher->used + 1, sizeof *batcher->queues);
    for (size_t i = before; i < batcher->count; i++)
        batcher->queues[i] = (send_queue){.packet.points = batcher->host.send_pieces != NULL};
    send_queue *send_queue = &batcher->queues[batcher->used++];
    if (send_queue->address[0] == '\0' ||
        strcmp(send_queue->address, address) != 0) { /* otherwise the queue had this address in the last batch */
        strcpy(send_queue->address, address);
        send_queue->own = strcmp(address, batcher->head.address) == 0;
    }
    begin(batcher, send_queue);
    if (batcher->used == FEW + 1 || (batcher->used > FEW && 2 * batcher->used > batcher->place_count))
        give_places(batcher);
    else if (batcher->used > FEW)
        *place_of(batcher, address) = (uint32_t)batcher->used;
    return send_queue;
}

/* A batch stays small enough for the CPU cache and does not block a link; a larger message is sent alone. */
enum { BATCH_PARTS = 512, BATCH_BYTES = 240 * 1024 };

/* Packets to this process itself are kept until all others are sent. */
static void send_queued(batcher *batcher, send_queue *send_queue) {
    slot_packet *packet = &send_queue->packet;
    const shared_bytes_piece *pieces;
    bool small = packet->piece_count == 0 && packet->bytes.size <= BATCHER_SMALL;
    if (send_queue->own) {
        batcher->own = xrealloc(batcher->own, (batcher->own_count + 1) * sizeof(shared_bytes *));
        batcher->own[batcher->own_count++] = slot_packet_copy(packet);
    } else if (small || batcher->host.send_pieces == NULL) {
        batcher->host.send(batcher->host.send_context, send_queue->address, slot_packet_end(packet));
    } else {
        size_t count = slot_packet_pieces(packet, &pieces);
        batcher->host.send_pieces(batcher->host.send_context, send_queue->address, pieces, count);
    }
    slot_packet_release(packet);
}

void batcher_add(batcher *batcher, const char *address, const slot_message *message) {
    if (message != NULL && transfers_take(batcher->transfers, address, message)) return;
    send_queue *send_queue = find_send_queue(batcher, address);
    if (send_queue == NULL) send_queue = take_send_queue(batcher, address);
    if (message == NULL) return;
    if (send_queue->packet.count == BATCH_PARTS ||
        slot_packet_size(&send_queue->packet) + slot_message_payload_size(message) > BATCH_BYTES) {
        send_queued(batcher, send_queue);
        begin(batcher, send_queue);
    }
    slot_packet_add(&send_queue->packet, message);
}

bool batcher_ask(batcher *batcher, const char *address, uint32_t slot, slot_message_kind kind) {
    return transfers_ask(batcher->transfers, address, slot, kind);
}

uint64_t batcher_out(const batcher *batcher) { return transfers_out(batcher->transfers); }
uint64_t batcher_in(const batcher *batcher) { return transfers_in(batcher->transfers); }
bool batcher_refused(batcher *batcher) { return transfers_refused(batcher->transfers); }
void batcher_free_room(batcher *batcher) { transfers_free_room(batcher->transfers); }
void batcher_ask_all(batcher *batcher) { transfers_ask_all(batcher->transfers); }

void batcher_move(batcher *batcher, const shared_bytes *bytes, span to) {
    transfers_move(batcher->transfers, bytes, to);
}

void batcher_flush(batcher *batcher) {
    for (size_t i = 0; i < batcher->used; i++) send_queued(batcher, &batcher->queues[i]);
    batcher->used = 0;
    while (batcher->own_count != 0) {
        shared_bytes *first = batcher->own[0];
        memmove(batcher->own, batcher->own + 1, --batcher->own_count * sizeof(shared_bytes *));
        batcher_take_bytes(batcher, shared_bytes_bytes(first), first);
        shared_bytes_unref(first);
    }
}

/* ---- Receiving. */

/* Sends the changes since the peer's cluster map. */
static void send_map(batcher *batcher, const slot_message_head *to) {
    const cluster_map *map = batcher_map(batcher);
    MR_ASSERT(to->number < map->number);
    uint64_t base = to->generation == map->generation ? to->number : 0;
    size_t size;
    uint8_t *bytes = cluster_map_write(map, base, &size);
    batcher_add(batcher, to->address, &(slot_message){.kind = SLOT_MESSAGE_MAP, .payload = span_of(bytes, size)});
    free(bytes);
}

static bool admits_map(const batcher *batcher, const slot_message_head *from) {
    const batcher_host *host = &batcher->host;
    if (MUTATED("any-map")) return true;
    if (host->controller != NULL) return from->who == SLOT_MESSAGE_CONTROLLER;
    return host->admits_map != NULL && host->admits_map(host->context, from);
}

/* The sender knows a newer cluster map. A lost question is repeated by the next heartbeat to the controller. */
static void ask_for_map(batcher *batcher, const slot_message_head *from) {
    const char *controller = batcher->host.controller;
    if (controller != NULL && batcher->asked >= from->number) return;
    batcher->asked = from->number;
    if (controller != NULL || admits_map(batcher, from))
        batcher_add(batcher, controller != NULL ? controller : from->address, NULL);
}

/* The sender knows an older cluster map. */
static void show_number(batcher *batcher, const slot_message_head *to) {
    if (batcher->host.controller == NULL || to->who == SLOT_MESSAGE_CONTROLLER)
        send_map(batcher, to);
    else
        batcher_add(batcher, to->address, NULL);
}

enum { SPARE = 512 }; /* bytes; enough for a packet with a few small requests or their answers */

/* Adopts the cluster maps in a packet, before its other messages are read. */
static void read_maps(batcher *batcher, const slot_message_head *head, reader reader, uint32_t count) {
    slot_message message;
    if (!admits_map(batcher, head)) return;
    for (uint32_t i = 0; i < count && slot_message_read(&reader, &message) == MR_OK; i++)
        if (message.kind == SLOT_MESSAGE_MAP) batcher_adopt(batcher, message.payload);
}

static void take_piece(batcher *batcher, const slot_message_head *head, const slot_message *piece) {
    slot_message whole;
    if (!batcher->host.takes_pieces) return;
    shared_bytes *bytes = transfers_take_piece(batcher->transfers, head, piece, &whole);
    if (bytes != NULL) batcher->host.on_part(batcher->host.context, head, &whole, bytes);
    shared_bytes_unref(bytes);
}

/* Roles of one process have one address, so the answer names the sender of the pieces. */
static void take_taken(batcher *batcher, const slot_message *message) {
    if (message->rank == batcher->head.who) transfers_take_taken(batcher->transfers, message);
}

static void read_part(batcher *batcher, const slot_message_head *head, const slot_message *message,
                      shared_bytes *bytes) {
    switch (message->kind) {
    case SLOT_MESSAGE_MAP: break; /* adopted before */
    case SLOT_MESSAGE_PIECE: take_piece(batcher, head, message); break;
    case SLOT_MESSAGE_TAKEN_PIECE: take_taken(batcher, message); break;
    default: batcher->host.on_part(batcher->host.context, head, message, bytes);
    }
}

static void read_parts(batcher *batcher, const slot_message_head *head, reader reader, uint32_t count,
                       shared_bytes *bytes) {
    slot_message message;
    for (uint32_t i = 0; i < count && slot_message_read(&reader, &message) == MR_OK; i++)
        read_part(batcher, head, &message, bytes);
}

/* Returns a buffer for a small packet; a buffer that a holder still references is replaced by a new one. */
static shared_bytes *take_spare(batcher *batcher) {
    if (batcher->spare == NULL || batcher->spare->refs != 1) {
        shared_bytes_unref(batcher->spare);
        batcher->spare = shared_bytes_new(SPARE);
    }
    return shared_bytes_ref(batcher->spare);
}

void batcher_take(batcher *batcher, span bytes) {
    shared_bytes *shared = bytes.size > SPARE ? shared_bytes_copy(bytes) : take_spare(batcher);
    if (bytes.size <= SPARE && bytes.size != 0) memcpy(shared_bytes_room(shared), bytes.data, bytes.size);
    batcher_take_bytes(batcher, span_of(shared_bytes_room(shared), bytes.size), shared);
    shared_bytes_unref(shared);
}

void batcher_take_bytes(batcher *batcher, span bytes, shared_bytes *shared) {
    if (shared == NULL) {
        batcher_take(batcher, bytes);
        return;
    }
    reader reader = reader_of(bytes.data, bytes.size);
    slot_message_head head;
    uint32_t count;
    if (slot_message_read_head(&reader, &head, &count) == MR_OK) {
        if (head.maps) read_maps(batcher, &head, reader, count);
        if (batcher->host.on_head != NULL) batcher->host.on_head(batcher->host.context, &head);
        if (head.number < batcher->head.number) show_number(batcher, &head);
        if (head.number > batcher->head.number) ask_for_map(batcher, &head);
        if (head.generation == batcher->head.generation) read_parts(batcher, &head, reader, count, shared);
    }
    batcher_flush(batcher);
    CHECK_INVARIANTS(1, transfers_check(batcher->transfers));
}
