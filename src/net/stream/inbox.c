/* inbox.c — see inbox.h.
 *
 * The last INBOX_SLACK bytes of the buffer are left out when frames are read, so that a body that is thrown away always
 * finds a place to be read to, also behind a head that fills the buffer. */
#include "net/stream/inbox.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

void inbox_init(inbox *inbox, const frame_limits *limits) {
    *inbox = (struct inbox){.limits = *limits, .read_size = INBOX_READ_MIN};
}

void inbox_fini(inbox *inbox) {
    free(inbox->data);
    free(inbox->sum);
    *inbox = (struct inbox){0};
}

static void move_to_front(inbox *inbox, uint8_t *data) {
    size_t size = inbox->end - inbox->start;
    if (size > 0) memmove(data, inbox->data + inbox->start, size);
    if (inbox->frame_size > 0) inbox->frame.head.data = data + FRAME_HEADER_SIZE;
    inbox->start = 0;
    inbox->end = size;
}

void inbox_give(inbox *inbox, uint8_t *data, size_t capacity) {
    MR_ASSERT(capacity > INBOX_SLACK && capacity - INBOX_SLACK >= inbox->end - inbox->start);
    move_to_front(inbox, data);
    free(inbox->data);
    inbox->data = data;
    inbox->capacity = capacity;
}

void inbox_fill(inbox *inbox, uint8_t *data, size_t capacity, size_t count) {
    MR_ASSERT(inbox->data == NULL && capacity > INBOX_SLACK && capacity - INBOX_SLACK >= count);
    inbox->data = data;
    inbox->capacity = capacity;
    inbox->end = count;
}

uint8_t *inbox_release(inbox *inbox, size_t *capacity) {
    if (inbox->start + inbox->used != inbox->end || inbox->arriving) return NULL;
    uint8_t *data = inbox->data;
    *capacity = inbox->capacity;
    inbox->data = NULL;
    inbox->capacity = inbox->start = inbox->end = inbox->used = inbox->frame_size = 0;
    return data;
}

size_t inbox_show(inbox *inbox, struct iovec pieces[2]) {
    MR_ASSERT(inbox->data != NULL);
    size_t count = 0, room = inbox->capacity - INBOX_SLACK - inbox->end, wanted = inbox->read_size;
    if (inbox->arriving) {
        uint64_t left = inbox->frame.body_size - inbox->body_got;
        if (inbox->body == NULL) {
            size_t size = inbox->capacity - inbox->end;
            pieces[0] = (struct iovec){inbox->data + inbox->end, left < size ? (size_t)left : size};
            return 1;
        }
        pieces[count++] = (struct iovec){inbox->body + inbox->body_got, (size_t)left};
    } else {
        size_t missing = inbox->need - smaller(inbox->need, inbox->end - inbox->start);
        if (wanted < missing) wanted = missing;
    }
    inbox->shown = smaller(room, wanted);
    if (inbox->shown > 0) pieces[count++] = (struct iovec){inbox->data + inbox->end, inbox->shown};
    return count;
}

void inbox_got(inbox *inbox, size_t count) {
    if (inbox->arriving) {
        uint64_t left = inbox->frame.body_size - inbox->body_got;
        size_t part = count < left ? count : (size_t)left;
        if (inbox->body != NULL && inbox->frame.flags & FRAME_BODY_CHECKED)
            frame_body_sum_add(inbox->sum, span_of(inbox->body + inbox->body_got, part));
        inbox->body_got += part;
        count -= part;
    }
    inbox->end += count;
    if (count > 0 && count == inbox->shown && inbox->read_size < inbox->capacity) inbox->read_size *= 2;
}

/* Makes sure that `need` bytes from `start` on have a place. */
static mr_status make_room(inbox *inbox, size_t need) {
    if (inbox->start > 0) move_to_front(inbox, inbox->data);
    if (need <= inbox->capacity - INBOX_SLACK) return MR_OK;
    void *data;
    size_t capacity = need + INBOX_SLACK + INBOX_READ_MIN;
    MR_TRY(alloc_try(capacity, &data));
    inbox_give(inbox, data, capacity);
    return MR_OK;
}

/* A peer of another version is not broken, it is another program. */
static mr_status refusal(span bytes, mr_status status) {
    const uint32_t magic = FRAME_MAGIC;
    const size_t version = offsetof(frame_header, version);
    bool other =
        bytes.size > version && memcmp(bytes.data, &magic, sizeof magic) == 0 && bytes.data[version] != FRAME_VERSION;
    return other ? MR_DENIED : status;
}

static mr_status finish_body(inbox *inbox, inbox_event *out) {
    inbox->arriving = false;
    if (inbox->body != NULL && inbox->frame.flags & FRAME_BODY_CHECKED)
        MR_TRY(frame_body_sum_check(inbox->sum, &inbox->frame));
    *out = INBOX_FRAME;
    return MR_OK;
}

mr_status inbox_next(inbox *inbox, inbox_event *out) {
    if (inbox->arriving) {
        if (inbox->body_got == inbox->frame.body_size) return finish_body(inbox, out);
        *out = INBOX_MORE;
        return MR_OK;
    }
    inbox->start += inbox->used;
    inbox->used = inbox->frame_size = 0;
    span bytes = span_of(inbox->data + inbox->start, inbox->end - inbox->start);
    *out = INBOX_MORE;
    if (bytes.size == 0) return make_room(inbox, FRAME_HEADER_SIZE);
    if (bytes.size < inbox->need) return MR_OK; /* its header was seen; the head is not here yet */
    size_t need;
    mr_status status = frame_decode(bytes, &inbox->limits, &inbox->frame, &need);
    if (__builtin_expect(status != MR_OK, 0)) return refusal(bytes, status);
    inbox->need = need > FRAME_HEADER_SIZE ? need : 0;
    if (need > 0) return make_room(inbox, need);
    inbox->frame_size = inbox->used = FRAME_HEADER_SIZE + inbox->frame.head.size;
    inbox->body = NULL;
    *out = inbox->frame.body_size > 0 ? INBOX_BODY : INBOX_FRAME;
    return MR_OK;
}

void inbox_body(inbox *inbox, uint8_t *body) {
    MR_ASSERT(!inbox->arriving && inbox->frame_size > 0 && inbox->frame.body_size > 0);
    const uint8_t *came = inbox->data + inbox->start + inbox->frame_size;
    size_t have = (size_t)(inbox->data + inbox->end - came);
    size_t part = have < inbox->frame.body_size ? have : (size_t)inbox->frame.body_size;
    if (inbox->frame.body_size >= INBOX_BODY_LARGE) inbox->read_size = INBOX_READ_MIN;
    inbox->arriving = true;
    inbox->body = body;
    inbox->body_got = part;
    if (body != NULL) {
        memcpy(body, came, part);
        inbox->body_copied += part;
        if (inbox->frame.flags & FRAME_BODY_CHECKED) {
            if (inbox->sum == NULL) inbox->sum = xmalloc(sizeof *inbox->sum);
            frame_body_sum_init(inbox->sum);
            frame_body_sum_add(inbox->sum, span_of(body, part));
        }
    }
    if (part == inbox->frame.body_size) {
        inbox->used = inbox->frame_size + part;
        return;
    }
    inbox->end = inbox->start + inbox->frame_size; /* what came of the body has left the buffer */
    move_to_front(inbox, inbox->data);
}

void inbox_discard(inbox *inbox) {
    if (inbox->arriving) inbox->body = NULL;
}
