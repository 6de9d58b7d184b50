/* shm_link.c — see shm_link.h. Tested by tests/shm_body_test.c. */
#include "net/shm/shm_link.h"

#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/failpoint.h"
#include "net/shm/doorbell.h"

void shm_link_init(shm_link *link, link_id id, uint32_t index) {
    *link = (shm_link){.id = id, .index = index, .state = SHM_LINK_OPENING, .peer_event_fd = -1};
    list_init(&link->queued);
    buffer_init(&link->in_head, MESSAGE_HEAD_MAX);
}

void shm_link_fini(shm_link *link) {
    list_remove(&link->queued);
    if (link->peer_event_fd >= 0) close(link->peer_event_fd);
    buffer_fini(&link->in_head);
}

/* Recomputes the lane's limit after a change of any state it depends on. */
static void set_send_limit(shm_link *link) {
    bool free = link->state == SHM_LINK_OPEN && link->out_sent == NULL && link->next_extent.size == 0;
    size_t limit = (size_t)ring_record_max(link->lane.send.capacity) - SHM_BODY_TAIL + 1;
    link->lane.limit = !free ? 0 : limit < MESSAGE_HEAD_MAX ? limit : MESSAGE_HEAD_MAX;
}

void shm_link_end(shm_link *link, shm_link_state state, const cause *why) {
    if (link->state != SHM_LINK_CLOSING) link->cause = *why;
    if (state == SHM_LINK_CLOSING) link->deaf = true;
    link->state = state;
    link->lane.limit = 0;
    link->lane.send.run = NULL; /* its records stay readable, and the ring is not written again */
    link->lane.send.run_count = 0;
}

static bool usable_ring(const shm_host *host, extent ring) {
    return arena_holds(host->arena, ring) && ring.size >= RING_BYTES_MIN && ring.size % 64 == 0;
}

static void tell_peer(shm_link *link, uint32_t ready_index) {
    doorbell_mark(link->peer_block, ready_index);
    FAILPOINT("port.marked");
    doorbell_ring(link->peer_block, link->peer_event_fd);
}

static void tell(lane *lane) {
    tell_peer(container_of(lane, shm_link, lane),
              atomic_load_explicit(&lane->send.shared->consumer_index, memory_order_relaxed));
}

static bool commit_gathered(lane *lane, size_t size, const span *pieces, size_t count);

mr_status shm_link_join(shm_host *host, shm_link *link, const broker_client_link *told) {
    if (!usable_ring(host, told->send) || !usable_ring(host, told->receive) ||
        told->peer_process_block >= PROCESS_BLOCKS_MAX)
        return error_set(MR_CORRUPT, "the broker's link %u has rings outside the arena", told->link);
    link->number = told->link;
    link->linked = true;
    link->peer = told->peer;
    link->peer_process_block_index = told->peer_process_block;
    link->peer_block = arena_process_block(host->arena, told->peer_process_block);
    link->peer_event_fd = told->peer_event_fd;
    link->send_extent = told->send;
    link->receive_extent = told->receive;
    link->lane = (lane){.self = host->self, .tell = tell, .body = commit_gathered, .runs = &host->runs};
    arena_allow(host->arena, told->send);
    arena_allow(host->arena, told->receive);
    ring_producer_init(&link->lane.send, arena_at(host->arena, told->send.offset), told->send.size, link->index);
    ring_consumer_init(&link->receive, arena_at(host->arena, told->receive.offset), told->receive.size, link->index);
    if (host->ring_bytes == 0 || told->send.size < host->ring_bytes) host->ring_bytes = told->send.size;
    link->state = SHM_LINK_OPEN;
    set_send_limit(link);
    return MR_OK;
}

/* ---- Sending. */

/* Writes the MOVED record if a new ring is waiting and the old one has room. True: it did. */
static bool move_ring(shm_host *host, shm_link *link) {
    if (link->next_extent.size == 0) return false;
    uint8_t *at = ring_reserve(&link->lane.send, SHM_MOVED_SIZE);
    if (at == NULL) return false;
    writer writer = writer_of(at, SHM_MOVED_SIZE);
    writer_u64(&writer, link->next_extent.offset);
    writer_u64(&writer, link->next_extent.size);
    FAILPOINT("port.moving");
    ring_producer next;
    arena_allow(host->arena, link->next_extent);
    ring_producer_init(&next, arena_at(host->arena, link->next_extent.offset), link->next_extent.size, link->index);
    lane_publish(&link->lane, SHM_MOVED_SIZE, SHM_MOVED);
    FAILPOINT("port.moved");
    ring_leave(link->lane.send.shared);
    ++*(link->next_extent.size > link->send_extent.size ? &host->grown : &host->shrunk);
    link->lane.send = next;
    link->send_extent = link->next_extent;
    link->next_extent = (extent){0};
    set_send_limit(link);
    return true;
}

/* Requests a ring that accepts records of `size`, or any larger ring. */
static void ask_larger(shm_host *host, shm_link *link, size_t size) {
    uint64_t bytes = link->send_extent.size * 4;
    while (ring_record_max(bytes - RING_HEADER) < size && bytes < host->ring_bytes_max) bytes *= 2;
    if (bytes > host->ring_bytes_max) bytes = host->ring_bytes_max;
    if (link->resizing || link->next_extent.size != 0 || link->resize_refused || bytes <= link->send_extent.size)
        return;
    FAILPOINT("port.grow");
    if (broker_client_resize(host->client, link->number, bytes) == MR_OK) link->resizing = true;
}

static mr_status no_room(shm_host *host, shm_link *link, size_t size, bool fits_when_empty) {
    lane_show(&link->lane);
    if (!fits_when_empty && link->resize_refused)
        return error_set(
            MR_NOMEM, "a message of %zu bytes needs a larger ring, which does not fit the arena (arena_bytes)", size);
    ask_larger(host, link, size);
    link->wants_room = true;
    return MR_BUSY;
}

mr_status shm_link_reserve_slow(shm_host *host, shm_link *link, size_t size, uint8_t **out) {
    if (link->state != SHM_LINK_OPEN) return error_set(MR_CLOSED, "link %u is not open", link->id.v);
    if (size > MESSAGE_HEAD_MAX)
        return error_set(MR_TOO_LARGE, "a message head of %zu bytes exceeds the limit of %d: send it as a body", size,
                         MESSAGE_HEAD_MAX);
    if (link->out_sent == NULL) move_ring(host, link);
    if (link->out_sent != NULL || link->next_extent.size != 0) {
        link->wants_room = true;
        return MR_BUSY;
    }
    size_t need = size + SHM_BODY_TAIL;
    bool fits = need <= ring_record_max(link->lane.send.capacity);
    if (!fits && ring_record_max(host->ring_bytes_max - RING_HEADER) < need)
        return error_set(MR_TOO_LARGE, "a message head of %zu bytes does not fit a ring of %llu (ring_bytes_max)", size,
                         (unsigned long long)host->ring_bytes_max);
    do {
        uint8_t *at = fits ? ring_reserve(&link->lane.send, need) : NULL;
        if (at != NULL) {
            *out = at;
            return MR_OK;
        }
    } while (fits && !ring_starve(&link->lane.send));
    return no_room(host, link, need, fits);
}

/* A body was sent: sets the range of the ring to prefetch for a next body of that size. */
static void look_ahead(shm_host *host, shm_link *link, size_t body) {
    const ring_producer *send = &link->lane.send;
    if (body > SHM_AHEAD_MAX) return;
    if (body > send->capacity / SHM_AHEAD_ROOM) ask_larger(host, link, 0);
    uint64_t free = send->tail_seen + send->capacity - send->head;
    uint64_t bytes = body < free ? body : free; /* the part that the reader has not read yet stays in its cache */
    host->ahead = (shm_ahead){.data = send->shared->data,
                              .capacity = send->capacity,
                              .offset = send->offset,
                              .lines = (uint32_t)(bytes / SHM_LINE)};
}

/* Sends as much of the body as there is room for. True: some was sent. */
static bool pump_body(shm_host *host, shm_link *link) {
    bool moved = false;
    while (link->out_sent != NULL) {
        size_t most = (size_t)ring_record_max(link->lane.send.capacity) / 2;
        size_t size = link->out_body.size;
        if (size > most) size = most;
        if (size > link->out_piece) size = link->out_piece;
        uint8_t *at = ring_reserve(&link->lane.send, size);
        if (at == NULL) {
            if (!ring_starve(&link->lane.send)) continue;
            ask_larger(host, link, SHM_PIECE_MAX);
            return moved;
        }
        memcpy(at, link->out_body.data, size);
        FAILPOINT("port.piece");
        lane_publish(&link->lane, (uint32_t)size, SHM_PIECE);
        link->out_body.data += size;
        link->out_body.size -= size;
        moved = true;
        if (link->out_body.size == 0) {
            look_ahead(host, link, link->out_size);
            shm_link_drop_body(link, MR_OK);
        } else if (link->next_extent.size != 0) {
            move_ring(host, link);
        }
    }
    return moved;
}

static size_t piece_of(size_t body) {
    size_t piece = (body / SHM_PIECES + 63) & ~(size_t)63; /* whole cache lines */
    if (piece < SHM_PIECE_MIN) return SHM_PIECE_MIN;
    return piece < SHM_PIECE_MAX ? piece : SHM_PIECE_MAX;
}

/* Writes the body's size after the reserved head. */
static void write_tail(shm_link *link, size_t size, uint64_t body) {
    uint64_t offset = link->lane.send.skipped != 0 ? 0 : link->lane.send.offset;
    writer writer = writer_of(link->lane.send.shared->data + offset + RING_RECORD_HEADER + size, SHM_BODY_TAIL);
    writer_u64(&writer, body);
}

void shm_link_commit_body(shm_host *host, shm_link *link, size_t size, span body, body_sent_fn *sent, void *argument) {
    MR_ASSERT(sent != NULL && link->out_sent == NULL);
    if (body.size == 0) {
        lane_commit(&link->lane, size);
        sent(argument, MR_OK);
        return;
    }
    write_tail(link, size, body.size);
    link->out_body = body;
    link->out_size = body.size;
    link->out_piece = piece_of(body.size);
    link->out_sent = sent;
    link->out_argument = argument;
    link->lane.limit = 0;
    lane_publish(&link->lane, (uint32_t)(size + SHM_BODY_TAIL), SHM_BODY);
    FAILPOINT("port.body");
    pump_body(host, link);
}

typedef struct gather { /* a list of parts, read as one */
    const span *pieces;
    size_t at; /* offset in the first part */
} gather;

static void gather_copy(gather *gather, uint8_t *to, size_t size) {
    while (size > 0) {
        span piece = *gather->pieces;
        size_t left = piece.size - gather->at, part = left < size ? left : size;
        if (part > 0) memcpy(to, piece.data + gather->at, part);
        to += part;
        size -= part;
        gather->at += part;
        if (part == left) *gather = (struct gather){.pieces = gather->pieces + 1};
    }
}

/* Only the last record is followed by a fence: a polling reader sees all of them anyway, and the last one wakes a
 * sleeping reader. */
static bool commit_gathered(lane *lane, size_t size, const span *pieces, size_t count) {
    shm_link *link = container_of(lane, shm_link, lane);
    size_t body = 0, most = (size_t)ring_record_max(lane->send.capacity) / 2;
    for (size_t i = 0; i < count; i++) body += pieces[i].size;
    size_t piece = piece_of(body) < most ? piece_of(body) : most;
    if (body == 0) return false;
    /* Each record has a word and padding, and a gap at the end of the ring is shorter than the record after it. */
    uint64_t words = (body / piece + 3) * 2 * RING_RECORD_HEADER, gaps = lane->send.skipped + ring_padded(piece);
    if (!ring_is_free(&lane->send, gaps + size + SHM_BODY_TAIL + body + words)) return false;
    lane_show(lane);
    write_tail(link, size, body);
    uint32_t head = (uint32_t)(size + SHM_BODY_TAIL);
    ring_place(&lane->send, head, ring_word(head, SHM_BODY));
    FAILPOINT("port.body");
    gather gather = {.pieces = pieces};
    for (size_t left = body; left > 0;) {
        uint32_t part = (uint32_t)(left < piece ? left : piece);
        uint8_t *at = ring_reserve(&lane->send, part);
        MR_ASSERT(at != NULL);
        gather_copy(&gather, at, part);
        FAILPOINT("port.piece");
        left -= part;
        if (left > 0)
            ring_place(&lane->send, part, ring_word(part, SHM_PIECE));
        else
            lane_publish(lane, part, SHM_PIECE);
    }
    look_ahead(container_of(lane->runs, shm_host, runs), link, body);
    return true;
}

void shm_link_drop_body(shm_link *link, mr_status status) {
    body_sent_fn *sent = link->out_sent;
    link->out_sent = NULL;
    link->out_body = (span){0};
    set_send_limit(link);
    if (sent != NULL) sent(link->out_argument, status);
}

bool shm_link_room(shm_host *host, shm_link *link) {
    bool did = false;
    if (link->out_sent != NULL) did |= pump_body(host, link);
    if (link->out_sent == NULL) did |= move_ring(host, link);
    bool can_send = link->state == SHM_LINK_OPEN && link->out_sent == NULL && link->next_extent.size == 0;
    if (!can_send || !link->wants_room) return did;
    uint64_t tail = atomic_load_explicit(&link->lane.send.shared->tail, memory_order_acquire);
    if (link->lane.send.head - tail > link->lane.send.capacity / 2 && ring_starve(&link->lane.send))
        return did; /* another notification follows when more has been read */
    link->wants_room = false;
    host->events->on_room(host->context, link->id);
    return true;
}

void shm_link_resized(shm_host *host, shm_link *link, extent extent) {
    link->resizing = false;
    if (usable_ring(host, extent))
        link->next_extent = extent, link->lane.limit = 0;
    else
        link->resize_refused = true;
    FAILPOINT("port.resized");
    shm_link_room(host, link);
}

/* Returns a replaced ring to the broker once its sender has left it too: a sender that has published its last record
 * still reads the ring's flags, and the broker may reuse the memory at once. */
static void release_left(shm_host *host, shm_link *link) {
    if (link->left_extent.size == 0) return;
    ring_shared *shared = arena_at(host->arena, link->left_extent.offset);
    if (atomic_load_explicit(&shared->left, memory_order_acquire) == 0) return; /* checked again later */
    extent left = link->left_extent;
    link->left_extent = (extent){0};
    (void)!broker_client_release(host->client, link->number, left); /* a broker that has ended needs no return */
}

bool shm_link_shrink(shm_host *host, shm_link *link) {
    bool quiet = !link->lane.used && link->state == SHM_LINK_OPEN && link->out_sent == NULL && !link->resizing &&
                 link->next_extent.size == 0;
    bool large = link->send_extent.size > host->ring_bytes;
    link->lane.used = false;
    link->resize_refused = false;
    release_left(host, link);
    if (quiet && large && broker_client_resize(host->client, link->number, host->ring_bytes) == MR_OK)
        link->resizing = true;
    return large;
}

/* ---- Receiving. */

static __attribute__((noinline, cold)) void corrupt(shm_link *link, const char *what) {
    link->state = SHM_LINK_GONE;
    link->deaf = true;
    link->lane.limit = 0;
    cause_set(&link->cause, MR_CORRUPT, "malformed message from process %d in shared memory: %s", link->peer.pid, what);
    link->cause.pid = link->peer.pid;
}

static void give_back(shm_link *link) {
    FAILPOINT("port.read");
    if (!ring_release(&link->receive)) return;
    tell_peer(link, atomic_load_explicit(&link->receive.shared->producer_index, memory_order_relaxed));
}

static void body_begins(shm_host *host, shm_link *link, const ring_record *record) {
    if (record->size < SHM_BODY_TAIL) {
        corrupt(link, "a body without a size");
        return;
    }
    span head = span_of(record->data, record->size - SHM_BODY_TAIL);
    reader reader = reader_of(record->data + head.size, SHM_BODY_TAIL);
    uint64_t size = reader_u64(&reader);
    if (size == 0 || size > SIZE_MAX / 2) {
        corrupt(link, "a body of an impossible size");
        return;
    }
    buffer_clear(&link->in_head);
    void *place = buffer_append(&link->in_head, head.data, head.size) == MR_OK
                      ? host->events->on_body(host->context, link->id, head, size)
                      : NULL;
    if (link->state != SHM_LINK_OPEN && link->state != SHM_LINK_GONE) return; /* closed by on_body */
    if (place == NULL) {
        link->state = SHM_LINK_GONE;
        link->deaf = true;
        link->lane.limit = 0;
        cause_set(&link->cause, MR_TOO_LARGE, "the receiver refused a body of %llu bytes from process %d",
                  (unsigned long long)size, link->peer.pid);
        return;
    }
    link->in_active = true;
    link->in_body = place == BODY_DISCARD ? NULL : place;
    link->in_size = size;
    link->in_got = 0;
}

static void body_piece(shm_host *host, shm_link *link, const ring_record *record) {
    if (!link->in_active || record->size > link->in_size - link->in_got) {
        corrupt(link, "a piece of a body that did not begin or is already complete");
        return;
    }
    if (link->in_body != NULL) memcpy(link->in_body + link->in_got, record->data, record->size);
    link->in_got += record->size;
    if (link->in_got < link->in_size) return;
    link->in_active = false;
    message message = {.head = span_of(link->in_head.data, link->in_head.size),
                       .body = span_of(link->in_body, (size_t)link->in_size)};
    host->events->on_message(host->context, link->id, &message);
}

/* The old ring has been read to its end: switches to the new one. */
static __attribute__((noinline)) void ring_moved(shm_host *host, shm_link *link, const ring_record *record) {
    reader reader = reader_of(record->data, record->size);
    extent next = {.offset = reader_u64(&reader), .size = reader_u64(&reader)};
    if (reader.failed || reader_left(&reader) != 0 || !usable_ring(host, next)) {
        corrupt(link, "a ring outside the arena");
        return;
    }
    FAILPOINT("port.follow");
    release_left(host, link);
    if (link->left_extent.size != 0) {
        corrupt(link, "a second larger ring before the first was read");
        return;
    }
    link->left_extent = link->receive_extent;
    arena_allow(host->arena, next);
    ring_consumer_init(&link->receive, arena_at(host->arena, next.offset), next.size, link->index);
    link->receive_extent = next;
    release_left(host, link);
}

/* Handles a record that is not a complete message. */
static __attribute__((noinline)) void deliver_part(shm_host *host, shm_link *link, const ring_record *record) {
    if (record->type == SHM_PIECE) {
        body_piece(host, link, record);
        return;
    }
    if (link->in_active) {
        corrupt(link, "another record within a body");
        return;
    }
    if (record->type != SHM_BODY) {
        corrupt(link, "a record of an unknown kind");
        return;
    }
    body_begins(host, link, record);
}

/* True: the record has been handled and may be overwritten. False: the link has ended, or another ring is read from now
 * on. */
static bool deliver(shm_host *host, shm_link *link, const ring_record *record) {
    if (__builtin_expect(record->type == SHM_MESSAGE && !link->in_active, 1)) {
        message message = {.head = span_of(record->data, record->size)};
        host->events->on_message(host->context, link->id, &message);
    } else if (record->type == SHM_MOVED) {
        ring_moved(host, link, record);
        return false;
    } else {
        deliver_part(host, link, record);
    }
    return !link->deaf;
}

size_t shm_link_receive(shm_host *host, shm_link *link, size_t budget) {
    size_t count = 0;
    while (count < budget && !link->deaf) {
        ring_record record;
        ring_peek_result result = ring_peek(&link->receive, &record);
        if (result == RING_EMPTY) break;
        if (__builtin_expect(result == RING_FIRST, 0) && !host->impatient && link->state == SHM_LINK_OPEN) break;
        if (__builtin_expect(result == RING_CORRUPT, 0)) {
            corrupt(link, "a broken record");
            break;
        }
        count++;
        if (!deliver(host, link, &record)) continue;
        ring_advance(&link->receive, record.size);
        if (link->receive.tail - link->receive.released > link->receive.capacity / 4) give_back(link);
        if (host->wait.alone) break; /* the next line usually has not arrived yet, and reading it would stall */
    }
    return count;
}

void shm_link_settle(shm_host *host, shm_link *link) {
    give_back(link);
    release_left(host, link);
}

/* Reads the rest of a link that the other side left. A peer cannot have sent more bytes than the arena has; more
 * records mean a corrupt ring. */
bool shm_link_drain(shm_host *host, shm_link *link, size_t budget) {
    size_t count = shm_link_receive(host, link, budget);
    link->drained += count;
    if (link->drained <= host->arena->size / RING_RECORD_HEADER) return count == budget;
    corrupt(link, "records without end");
    return false;
}

void shm_link_discard(shm_link *link) {
    if (link->in_active) link->in_body = NULL;
}
