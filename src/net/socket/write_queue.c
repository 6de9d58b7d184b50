/* write_queue.c — see write_queue.h. */
#include "net/socket/write_queue.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"

enum { CAPACITY_FIRST = 4096, BODIES_FIRST = 4 };

static write_queue_body *body_at(const write_queue *queue, uint32_t index) {
    return &queue->bodies[index & (queue->bodies_max - 1)];
}

void write_queue_fini(write_queue *queue) {
    MR_ASSERT(queue->told == queue->last);
    free(queue->data);
    free(queue->bodies);
    *queue = (struct write_queue){0};
}

void write_queue_trim(write_queue *queue) {
    if (queue->pending == 0 && queue->reserved == 0 && queue->told == queue->last) write_queue_fini(queue);
}

/* Moves the unwritten bytes to the front only if that frees half of the buffer, so that a byte is moved about once at
 * most. */
static mr_status make_room(write_queue *queue, size_t size) {
    size_t waiting = queue->end - queue->start;
    if (waiting == 0) {
        queue->start = queue->end = 0;
    } else if (queue->start >= waiting && queue->capacity - waiting >= size) {
        memmove(queue->data, queue->data + queue->start, waiting);
        queue->start = 0;
        queue->end = waiting;
    }
    if (queue->capacity - queue->end >= size) return MR_OK;
    size_t capacity = queue->capacity == 0 ? CAPACITY_FIRST : queue->capacity * 2;
    if (capacity < queue->end + size) capacity = queue->end + size;
    MR_TRY(alloc_try_resize(&queue->data, capacity));
    queue->capacity = capacity;
    return MR_OK;
}

mr_status write_queue_reserve_bodies(write_queue *queue, size_t more) {
    size_t count = queue->last - queue->told + more;
    if (count <= queue->bodies_max) return MR_OK;
    uint32_t max = queue->bodies_max == 0 ? BODIES_FIRST : queue->bodies_max;
    while (max < count) max *= 2;
    write_queue_body *bodies;
    MR_TRY(alloc_try(max * sizeof *bodies, &bodies));
    for (uint32_t i = queue->told; i != queue->last; i++) bodies[i & (max - 1)] = *body_at(queue, i);
    free(queue->bodies);
    queue->bodies = bodies;
    queue->bodies_max = max;
    return MR_OK;
}

mr_status write_queue_reserve(write_queue *queue, size_t size, uint8_t **out) {
    if (queue->capacity - queue->end < size || queue->start == queue->end) MR_TRY(make_room(queue, size));
    if (queue->last - queue->told == queue->bodies_max) MR_TRY(write_queue_reserve_bodies(queue, 1));
    queue->reserved = size;
    *out = queue->data + queue->end;
    return MR_OK;
}

void write_queue_commit(write_queue *queue, size_t size) {
    MR_ASSERT(size <= queue->reserved);
    queue->end += size;
    queue->after += size;
    queue->pending += size;
    queue->reserved = 0;
}

void write_queue_add_body(write_queue *queue, span body) {
    MR_ASSERT(body.size > 0 && queue->last - queue->told < queue->bodies_max);
    *body_at(queue, queue->last++) = (write_queue_body){.rest = body, .before = queue->after};
    queue->after = 0;
    queue->pending += body.size;
}

static bool move(span *rest, span from, span to) {
    if (rest->size == 0 || rest->data < from.data || rest->data >= from.data + from.size) return false;
    if (to.size != 0) rest->data = to.data + (rest->data - from.data);
    return true;
}

bool write_queue_move(write_queue *queue, const void *argument, span from, span to) {
    bool found = false;
    for (uint32_t first = queue->left, i = first; i != queue->last; i++) {
        if (body_at(queue, i)->sent == NULL) continue;
        bool is_theirs = body_at(queue, i)->argument == argument;
        for (; first != i + 1; first++) found |= is_theirs && move(&body_at(queue, first)->rest, from, to);
    }
    return found;
}

void write_queue_when_sent(write_queue *queue, body_sent_fn *sent, void *argument) {
    MR_ASSERT(queue->left != queue->last);
    write_queue_body *body = body_at(queue, queue->last - 1);
    body->sent = sent;
    body->argument = argument;
}

bool write_queue_interject(write_queue *queue, const void *bytes, size_t size) {
    MR_ASSERT(size <= WRITE_QUEUE_INTERJECTION_MAX);
    if (queue->pending > 0) return false;
    memcpy(queue->interjection, bytes, size);
    queue->interjection_start = 0;
    queue->interjection_end = (uint8_t)size;
    queue->pending = size;
    return true;
}

static size_t add_piece(struct iovec *pieces, size_t count, const uint8_t *data, size_t size) {
    pieces[count] = (struct iovec){.iov_base = (void *)(uintptr_t)data, .iov_len = size};
    return count + 1;
}

size_t write_queue_show(const write_queue *queue, struct iovec *pieces, size_t max) {
    size_t count = 0, interjected = (size_t)(queue->interjection_end - queue->interjection_start);
    if (interjected > 0) count = add_piece(pieces, 0, queue->interjection + queue->interjection_start, interjected);
    if (queue->pending == interjected) return count;
    const uint8_t *at = queue->data + queue->start;
    for (uint32_t i = queue->left; i != queue->last && count < max; i++) {
        const write_queue_body *body = body_at(queue, i);
        if (body->before > 0) count = add_piece(pieces, count, at, body->before);
        at += body->before;
        if (count < max) count = add_piece(pieces, count, body->rest.data, body->rest.size);
    }
    if (count < max && queue->after > 0) count = add_piece(pieces, count, at, queue->after);
    return count;
}

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

void write_queue_wrote(write_queue *queue, size_t count) {
    MR_ASSERT(count <= queue->pending);
    queue->pending -= count;
    size_t interjected = smaller(count, (size_t)(queue->interjection_end - queue->interjection_start));
    queue->interjection_start += (uint8_t)interjected;
    count -= interjected;
    while (count > 0 && queue->left != queue->last) {
        write_queue_body *body = body_at(queue, queue->left);
        size_t part = smaller(count, body->before);
        body->before -= part;
        queue->start += part;
        count -= part;
        part = smaller(count, body->rest.size);
        body->rest = span_of(body->rest.data + part, body->rest.size - part);
        count -= part;
        if (body->rest.size == 0) queue->left++;
    }
    MR_ASSERT(count <= queue->after);
    queue->start += count;
    queue->after -= count;
}

bool write_queue_is_inside_body(const write_queue *queue) {
    return queue->interjection_start == queue->interjection_end && queue->left != queue->last &&
           body_at(queue, queue->left)->before == 0;
}

bool write_queue_take(write_queue *queue, bool all, body_sent_fn **sent, void **argument) {
    while (queue->told != (all ? queue->last : queue->left)) {
        const write_queue_body *body = body_at(queue, queue->told++);
        if (body->sent == NULL) continue;
        *sent = body->sent;
        *argument = body->argument;
        return true;
    }
    return false;
}
