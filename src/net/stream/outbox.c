/* outbox.c — see outbox.h. */
#include "net/stream/outbox.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"

enum { CAPACITY_FIRST = 4096, BODIES_FIRST = 4 };

static outbox_body *body_at(const outbox *outbox, uint32_t index) {
    return &outbox->bodies[index & (outbox->bodies_max - 1)];
}

void outbox_fini(outbox *outbox) {
    MR_ASSERT(outbox->told == outbox->last);
    free(outbox->data);
    free(outbox->bodies);
    *outbox = (struct outbox){0};
}

void outbox_trim(outbox *outbox) {
    if (outbox->pending == 0 && outbox->reserved == 0 && outbox->told == outbox->last) outbox_fini(outbox);
}

/* What is written already makes room at the front; it is used only if that frees half of the buffer, so that a byte is
 * moved at most about once. */
static mr_status make_room(outbox *outbox, size_t size) {
    size_t waiting = outbox->end - outbox->start;
    if (waiting == 0) {
        outbox->start = outbox->end = 0;
    } else if (outbox->start >= waiting && outbox->capacity - waiting >= size) {
        memmove(outbox->data, outbox->data + outbox->start, waiting);
        outbox->start = 0;
        outbox->end = waiting;
    }
    if (outbox->capacity - outbox->end >= size) return MR_OK;
    size_t capacity = outbox->capacity == 0 ? CAPACITY_FIRST : outbox->capacity * 2;
    if (capacity < outbox->end + size) capacity = outbox->end + size;
    void *data = outbox->data;
    MR_TRY(alloc_try_resize(&data, capacity));
    outbox->data = data;
    outbox->capacity = capacity;
    return MR_OK;
}

mr_status outbox_reserve_bodies(outbox *outbox, size_t more) {
    size_t count = outbox->last - outbox->told + more;
    if (count <= outbox->bodies_max) return MR_OK;
    uint32_t max = outbox->bodies_max == 0 ? BODIES_FIRST : outbox->bodies_max;
    while (max < count) max *= 2;
    void *memory;
    MR_TRY(alloc_try(max * sizeof(outbox_body), &memory));
    outbox_body *bodies = memory;
    for (uint32_t i = outbox->told; i != outbox->last; i++) bodies[i & (max - 1)] = *body_at(outbox, i);
    free(outbox->bodies);
    outbox->bodies = bodies;
    outbox->bodies_max = max;
    return MR_OK;
}

mr_status outbox_reserve(outbox *outbox, size_t size, uint8_t **out) {
    if (outbox->capacity - outbox->end < size || outbox->start == outbox->end) MR_TRY(make_room(outbox, size));
    if (outbox->last - outbox->told == outbox->bodies_max) MR_TRY(outbox_reserve_bodies(outbox, 1));
    outbox->reserved = size;
    *out = outbox->data + outbox->end;
    return MR_OK;
}

void outbox_commit(outbox *outbox, size_t size) {
    MR_ASSERT(size <= outbox->reserved);
    outbox->end += size;
    outbox->after += size;
    outbox->pending += size;
    outbox->reserved = 0;
}

void outbox_add_body(outbox *outbox, span body) {
    MR_ASSERT(body.size > 0 && outbox->last - outbox->told < outbox->bodies_max);
    *body_at(outbox, outbox->last++) = (outbox_body){.rest = body, .before = outbox->after};
    outbox->after = 0;
    outbox->pending += body.size;
}

static bool move(span *rest, span from, span to) {
    if (rest->size == 0 || rest->data < from.data || rest->data >= from.data + from.size) return false;
    if (to.size != 0) rest->data = to.data + (rest->data - from.data);
    return true;
}

bool outbox_move(outbox *outbox, const void *argument, span from, span to) {
    bool found = false;
    for (uint32_t first = outbox->left, i = first; i != outbox->last; i++) {
        if (body_at(outbox, i)->sent == NULL) continue;
        bool is_theirs = body_at(outbox, i)->argument == argument;
        for (; first != i + 1; first++) found |= is_theirs && move(&body_at(outbox, first)->rest, from, to);
    }
    return found;
}

void outbox_when_sent(outbox *outbox, body_sent_fn *sent, void *argument) {
    MR_ASSERT(outbox->left != outbox->last);
    outbox_body *body = body_at(outbox, outbox->last - 1);
    body->sent = sent;
    body->argument = argument;
}

bool outbox_interject(outbox *outbox, const void *bytes, size_t size) {
    MR_ASSERT(size <= OUTBOX_INTERJECTION_MAX);
    if (outbox->pending > 0) return false;
    memcpy(outbox->interjection, bytes, size);
    outbox->interjection_start = 0;
    outbox->interjection_end = (uint8_t)size;
    outbox->pending = size;
    return true;
}

static size_t add_piece(struct iovec *pieces, size_t count, const uint8_t *data, size_t size) {
    pieces[count] = (struct iovec){.iov_base = (void *)(uintptr_t)data, .iov_len = size};
    return count + 1;
}

size_t outbox_show(const outbox *outbox, struct iovec *pieces, size_t max) {
    size_t count = 0, interjected = (size_t)(outbox->interjection_end - outbox->interjection_start);
    if (interjected > 0) count = add_piece(pieces, 0, outbox->interjection + outbox->interjection_start, interjected);
    if (outbox->pending == interjected) return count;
    const uint8_t *at = outbox->data + outbox->start;
    for (uint32_t i = outbox->left; i != outbox->last && count < max; i++) {
        const outbox_body *body = body_at(outbox, i);
        if (body->before > 0) count = add_piece(pieces, count, at, body->before);
        at += body->before;
        if (count < max) count = add_piece(pieces, count, body->rest.data, body->rest.size);
    }
    if (count < max && outbox->after > 0) count = add_piece(pieces, count, at, outbox->after);
    return count;
}

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

void outbox_wrote(outbox *outbox, size_t count) {
    MR_ASSERT(count <= outbox->pending);
    outbox->pending -= count;
    size_t interjected = smaller(count, (size_t)(outbox->interjection_end - outbox->interjection_start));
    outbox->interjection_start += (uint8_t)interjected;
    count -= interjected;
    while (count > 0 && outbox->left != outbox->last) {
        outbox_body *body = body_at(outbox, outbox->left);
        size_t part = smaller(count, body->before);
        body->before -= part;
        outbox->start += part;
        count -= part;
        part = smaller(count, body->rest.size);
        body->rest = span_of(body->rest.data + part, body->rest.size - part);
        count -= part;
        if (body->rest.size == 0) outbox->left++;
    }
    MR_ASSERT(count <= outbox->after);
    outbox->start += count;
    outbox->after -= count;
}

bool outbox_is_inside_body(const outbox *outbox) {
    return outbox->interjection_start == outbox->interjection_end && outbox->left != outbox->last &&
           body_at(outbox, outbox->left)->before == 0;
}

bool outbox_take(outbox *outbox, bool all, body_sent_fn **sent, void **argument) {
    while (outbox->told != (all ? outbox->last : outbox->left)) {
        const outbox_body *body = body_at(outbox, outbox->told++);
        if (body->sent == NULL) continue;
        *sent = body->sent;
        *argument = body->argument;
        return true;
    }
    return false;
}
