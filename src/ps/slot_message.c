/* slot_message.c — see slot_message.h. */
#include "ps/slot_message.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/format.h"

enum { BATCH_MAX = SLOT_MESSAGE_PAYLOAD_MAX + 256 * 1024, SLOT_MESSAGE_SIZE = 65, ALIGNMENT = 8 };

/* The first bytes of a slot message in a packet. Written and read field by field: copying bytes in larger units than
 * they were written in is slow. */
typedef struct __attribute__((packed, may_alias)) front {
    uint8_t kind, status, entry, priority;
    uint32_t slot, rank;
    uint64_t epoch, lsn, commit, name, prev;
    uint8_t terms; /* size of the terms, which follow */
} front;

_Static_assert(sizeof(front) == 53 && sizeof(front) + 1 + ALIGNMENT - 1 + 4 == SLOT_MESSAGE_SIZE, "as part.h has it");

/* The first bytes of a packet, likewise; the sender's address follows. */
typedef struct __attribute__((packed, may_alias)) opening {
    uint32_t magic, parts;
    uint64_t generation, number, incarnation;
    uint32_t who;
} opening;

_Static_assert(sizeof(opening) == 36, "as part.h has it");

typedef struct slot_message_piece { /* a payload that is referenced after `behind` bytes of the packet's own */
    size_t behind;
    span payload;
    shared_bytes *bytes; /* shared */
} slot_message_piece;

const char *slot_message_kind_name(uint8_t kind) {
    static const char *const names[] = {
#define X(name, number) [number] = #name,
        SLOT_MESSAGE_KINDS(X)
#undef X
    };
    return kind < SLOT_MESSAGE_KIND_COUNT && names[kind] != NULL ? names[kind] : "?";
}

static uint8_t *room(slot_packet *packet, size_t size) {
    if (packet->bytes.limit == 0) buffer_init(&packet->bytes, BATCH_MAX);
    if (packet->bytes.capacity - packet->bytes.size < size) {
        mr_status status = buffer_reserve(&packet->bytes, size);
        MR_ASSERT(status == MR_OK);
    }
    return packet->bytes.data + packet->bytes.size;
}

static uint8_t *put(uint8_t *at, const void *bytes, size_t size) {
    if (size != 0) memcpy(at, bytes, size);
    return at + size;
}

void slot_packet_release(slot_packet *packet) {
    for (size_t i = 0; i < packet->piece_count; i++) shared_bytes_unref(packet->pieces[i].bytes);
    packet->piece_count = packet->pointed = 0;
}

size_t slot_message_write_head(const slot_message_head *head, uint8_t out[SLOT_MESSAGE_HEAD_MAX]) {
    const opening opening = {SLOT_MESSAGE_MAGIC, 0 /* set by write_count */, head->generation,
                             head->number,       head->incarnation,          head->who};
    writer writer = writer_of(out, SLOT_MESSAGE_HEAD_MAX);
    writer_bytes(&writer, &opening, sizeof opening);
    writer_text8(&writer, head->address);
    MR_ASSERT(!writer.failed);
    return writer_size(&writer);
}

void slot_packet_begin_written(slot_packet *packet, span head) {
    MR_ASSERT(head.size >= sizeof(opening) && head.size <= SLOT_MESSAGE_HEAD_MAX);
    buffer_clear(&packet->bytes);
    slot_packet_release(packet);
    packet->count = 0;
    packet->maps = false;
    (void)put(room(packet, head.size), head.data, head.size);
    packet->bytes.size = head.size;
}

/* Writes zeros before a large payload to align it; the first byte is the number of zeros that follow. */
static uint8_t *align(uint8_t *to, size_t at, size_t payload) {
    size_t zeros =
        payload < SLOT_MESSAGE_POINTED ? 0 : (ALIGNMENT - (at + 1 + sizeof(uint32_t)) % ALIGNMENT) % ALIGNMENT;
    *to = (uint8_t)zeros;
    return put(to + 1, (const uint8_t[ALIGNMENT]){0}, zeros);
}

static void point(slot_packet *packet, span payload, shared_bytes *bytes) {
    xgrow(&packet->pieces, &packet->piece_room, packet->piece_count + 1, sizeof *packet->pieces);
    packet->pieces[packet->piece_count++] = (slot_message_piece){packet->bytes.size, payload, shared_bytes_ref(bytes)};
    packet->pointed += payload.size;
}

static bool can_point(const slot_packet *packet, span bytes, const shared_bytes *shared) {
    return packet->points && shared != NULL && bytes.size >= SLOT_MESSAGE_POINTED;
}

static void add_tail(slot_packet *packet, const shared_bytes_piece *tail) {
    if (tail->bytes.size == 0) return;
    if (can_point(packet, tail->bytes, tail->shared)) {
        point(packet, tail->bytes, tail->shared);
        return;
    }
    (void)put(room(packet, tail->bytes.size), tail->bytes.data, tail->bytes.size);
    packet->bytes.size += tail->bytes.size;
}

static front front_of(const slot_message *message) {
    MR_ASSERT(message->terms.size <= SLOT_MESSAGE_TERMS_MAX);
    MR_ASSERT(message->kind < SLOT_MESSAGE_KIND_COUNT && message->status < SLOT_MESSAGE_STATUS_COUNT);
    return (front){message->kind,   message->status, message->entry, message->priority,
                   message->slot,   message->rank,   message->epoch, message->lsn,
                   message->commit, message->name,   message->prev,  (uint8_t)message->terms.size};
}

void slot_packet_add(slot_packet *packet, const slot_message *message) {
    MR_ASSERT(packet->count < SLOT_MESSAGE_COUNT_MAX);
    size_t size = slot_message_payload_size(message);
    MR_ASSERT(size <= SLOT_MESSAGE_PAYLOAD_MAX);
    bool points = can_point(packet, message->payload, message->bytes);
    uint32_t number = (uint32_t)size;
    uint8_t *start = room(packet, SLOT_MESSAGE_SIZE + message->terms.size + (points ? 0 : message->payload.size)), *at;
    *(front *)(void *)start = front_of(message);
    at = put(start + sizeof(front), message->terms.data, message->terms.size);
    at = align(at, slot_packet_size(packet) + (size_t)(at - start), size);
    at = put(at, &number, sizeof number);
    if (!points) at = put(at, message->payload.data, message->payload.size);
    packet->bytes.size += (size_t)(at - start);
    if (points) point(packet, message->payload, message->bytes);
    add_tail(packet, &message->tail);
    packet->maps = packet->maps || message->kind == SLOT_MESSAGE_MAP;
    packet->count++;
}

size_t slot_packet_size(const slot_packet *packet) { return packet->bytes.size + packet->pointed; }

static void write_count(slot_packet *packet) {
    MR_ASSERT(packet->bytes.size >= sizeof(opening) && packet->count <= SLOT_MESSAGE_COUNT_MAX);
    writer writer = writer_of(packet->bytes.data + 4, 4);
    writer_u32(&writer, packet->count | (packet->maps ? SLOT_MESSAGE_HAS_MAP : 0));
}

span slot_packet_end(slot_packet *packet) {
    MR_ASSERT(packet->piece_count == 0);
    write_count(packet);
    return span_of(packet->bytes.data, packet->bytes.size);
}

size_t slot_packet_pieces(slot_packet *packet, const shared_bytes_piece **pieces) {
    size_t count = 0, from = 0;
    const uint8_t *bytes = packet->bytes.data;
    write_count(packet);
    xgrow(&packet->said, &packet->said_room, 2 * packet->piece_count + 1, sizeof *packet->said);
    for (size_t i = 0; i < packet->piece_count; i++) {
        const slot_message_piece *piece = &packet->pieces[i];
        packet->said[count++] = (shared_bytes_piece){span_of(bytes + from, piece->behind - from), NULL};
        packet->said[count++] = (shared_bytes_piece){piece->payload, piece->bytes};
        from = piece->behind;
    }
    if (from < packet->bytes.size)
        packet->said[count++] = (shared_bytes_piece){span_of(bytes + from, packet->bytes.size - from), NULL};
    *pieces = packet->said;
    return count;
}

shared_bytes *slot_packet_copy(slot_packet *packet) {
    const shared_bytes_piece *pieces;
    size_t count = slot_packet_pieces(packet, &pieces);
    shared_bytes *bytes = shared_bytes_new(slot_packet_size(packet));
    uint8_t *at = shared_bytes_room(bytes);
    for (size_t i = 0; i < count; at += pieces[i++].bytes.size) memcpy(at, pieces[i].bytes.data, pieces[i].bytes.size);
    return bytes;
}

void slot_packet_fini(slot_packet *packet) {
    slot_packet_release(packet);
    free(packet->pieces);
    free(packet->said);
    buffer_fini(&packet->bytes);
}

static mr_status no_batch(size_t left) { return error_set(MR_CORRUPT, "malformed slot packet (%zu bytes left)", left); }

static mr_status no_such_batch(const opening *opening, size_t left) {
    uint32_t found = opening == NULL ? 0 : format_of(opening->magic, SLOT_MESSAGE_MAGIC, sizeof opening->magic);
    if (found == 0) return no_batch(left);
    return format_reject("a slot packet", found,
                         format_of(SLOT_MESSAGE_MAGIC, SLOT_MESSAGE_MAGIC, sizeof opening->magic), FORMAT_USE_SAME);
}

mr_status slot_message_read_head(reader *reader, slot_message_head *head, uint32_t *count) {
    MR_TRY(slot_message_peek(reader, head, count));
    size_t length = reader_u8(reader);
    const uint8_t *address = length < SLOT_MESSAGE_ADDRESS_MAX ? reader_bytes(reader, length) : NULL;
    if (address == NULL) return no_batch(reader_left(reader));
    memcpy(head->address, address, length);
    head->address[length] = '\0';
    return MR_OK;
}

mr_status slot_message_peek(reader *reader, slot_message_head *head, uint32_t *count) {
    const opening *opening = (const void *)reader_bytes(reader, sizeof(struct opening));
    if (opening == NULL || opening->magic != SLOT_MESSAGE_MAGIC) return no_such_batch(opening, reader_left(reader));
    *count = opening->parts & ~SLOT_MESSAGE_HAS_MAP;
    head->maps = (opening->parts & SLOT_MESSAGE_HAS_MAP) != 0;
    head->generation = opening->generation;
    head->number = opening->number;
    head->incarnation = opening->incarnation;
    head->who = opening->who;
    head->address[0] = '\0';
    return *count > SLOT_MESSAGE_COUNT_MAX ? no_batch(reader_left(reader)) : MR_OK;
}

static mr_status corrupt(size_t left) { return error_set(MR_CORRUPT, "malformed slot message (%zu bytes left)", left); }

/* The message of a front, without terms and payload; the caller checks kind and status. */
static slot_message message_of(const front *front) {
    return (slot_message){.kind = front->kind,
                          .status = front->status,
                          .entry = front->entry,
                          .priority = front->priority,
                          .slot = front->slot,
                          .rank = front->rank,
                          .epoch = front->epoch,
                          .lsn = front->lsn,
                          .commit = front->commit,
                          .name = front->name,
                          .prev = front->prev};
}

static bool is_known(const front *front) {
    return front->kind < SLOT_MESSAGE_KIND_COUNT && front->status < SLOT_MESSAGE_STATUS_COUNT;
}

static size_t front_size(size_t terms) { return (sizeof(front) + terms + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }
_Static_assert((sizeof(front) + SLOT_MESSAGE_TERMS_MAX + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT ==
                   SLOT_MESSAGE_FRONT_MAX,
               "the largest front has the longest terms");

size_t slot_message_write_front(const slot_message *message, uint8_t out[SLOT_MESSAGE_FRONT_MAX]) {
    const front front = front_of(message);
    size_t size = front_size(message->terms.size);
    uint8_t *at = put(put(out, &front, sizeof front), message->terms.data, message->terms.size);
    memset(at, 0, (size_t)(out + size - at));
    return size;
}

bool slot_message_read_front(span bytes, slot_message *out) {
    reader reader = reader_of(bytes.data, bytes.size);
    const front *front = (const void *)reader_bytes(&reader, sizeof(struct front));
    if (front == NULL || !is_known(front) || bytes.size < front_size(front->terms)) return false;
    size_t size = front_size(front->terms);
    *out = message_of(front);
    out->terms = span_of(bytes.data + sizeof *front, front->terms);
    out->payload = span_of(bytes.data + size, bytes.size - size);
    return true;
}

mr_status slot_message_read(reader *reader, slot_message *message) {
    const front *front = (const void *)reader_bytes(reader, sizeof(struct front));
    if (front == NULL) return corrupt(reader_left(reader));
    const uint8_t *terms = reader_bytes(reader, front->terms);
    size_t zeros = reader_u8(reader);
    (void)reader_bytes(reader, zeros);
    size_t size = reader_u32(reader);
    const uint8_t *payload = reader_bytes(reader, size);
    if (payload == NULL || zeros >= ALIGNMENT || !is_known(front)) return corrupt(reader_left(reader));
    *message = message_of(front);
    message->terms = span_of(terms, front->terms);
    message->payload = span_of(payload, size);
    return MR_OK;
}
