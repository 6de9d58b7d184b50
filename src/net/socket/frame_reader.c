/* frame_reader.c — see frame_reader.h.
 *
 * Frames never use the last FRAME_READER_SLACK bytes of the buffer, so that a discarded body always has room to be read
 * to, even after a head that fills the buffer. */
#include "net/socket/frame_reader.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

void frame_reader_init(frame_reader *reader, const frame_limits *limits) {
    *reader = (struct frame_reader){.limits = *limits, .read_size = FRAME_READER_READ_MIN};
}

void frame_reader_fini(frame_reader *reader) {
    free(reader->data);
    free(reader->sum);
    *reader = (struct frame_reader){0};
}

static void move_to_front(frame_reader *reader, uint8_t *data) {
    size_t size = reader->end - reader->start;
    if (size > 0) memmove(data, reader->data + reader->start, size);
    if (reader->frame_size > 0) reader->frame.head.data = data + FRAME_HEADER_SIZE;
    reader->start = 0;
    reader->end = size;
}

void frame_reader_give(frame_reader *reader, uint8_t *data, size_t capacity) {
    MR_ASSERT(capacity > FRAME_READER_SLACK && capacity - FRAME_READER_SLACK >= reader->end - reader->start);
    move_to_front(reader, data);
    free(reader->data);
    reader->data = data;
    reader->capacity = capacity;
}

void frame_reader_fill(frame_reader *reader, uint8_t *data, size_t capacity, size_t count) {
    MR_ASSERT(reader->data == NULL && capacity > FRAME_READER_SLACK && capacity - FRAME_READER_SLACK >= count);
    reader->data = data;
    reader->capacity = capacity;
    reader->end = count;
}

uint8_t *frame_reader_release(frame_reader *reader, size_t *capacity) {
    if (reader->start + reader->used != reader->end || reader->arriving) return NULL;
    uint8_t *data = reader->data;
    *capacity = reader->capacity;
    reader->data = NULL;
    reader->capacity = reader->start = reader->end = reader->used = reader->frame_size = 0;
    return data;
}

size_t frame_reader_show(frame_reader *reader, struct iovec pieces[2]) {
    MR_ASSERT(reader->data != NULL);
    size_t count = 0, room = reader->capacity - FRAME_READER_SLACK - reader->end, wanted = reader->read_size;
    if (reader->arriving) {
        uint64_t left = reader->frame.body_size - reader->body_got;
        if (reader->body == NULL) {
            size_t size = reader->capacity - reader->end;
            pieces[0] = (struct iovec){reader->data + reader->end, left < size ? (size_t)left : size};
            return 1;
        }
        pieces[count++] = (struct iovec){reader->body + reader->body_got, (size_t)left};
    } else {
        size_t missing = reader->need - smaller(reader->need, reader->end - reader->start);
        if (wanted < missing) wanted = missing;
    }
    reader->shown = smaller(room, wanted);
    if (reader->shown > 0) pieces[count++] = (struct iovec){reader->data + reader->end, reader->shown};
    return count;
}

void frame_reader_got(frame_reader *reader, size_t count) {
    if (reader->arriving) {
        uint64_t left = reader->frame.body_size - reader->body_got;
        size_t part = count < left ? count : (size_t)left;
        if (reader->body != NULL && reader->frame.flags & FRAME_BODY_CHECKED)
            frame_body_sum_add(reader->sum, span_of(reader->body + reader->body_got, part));
        reader->body_got += part;
        count -= part;
    }
    reader->end += count;
    if (count > 0 && count == reader->shown && reader->read_size < reader->capacity) reader->read_size *= 2;
}

/* Makes room for `need` bytes from `start`. */
static mr_status make_room(frame_reader *reader, size_t need) {
    if (reader->start > 0) move_to_front(reader, reader->data);
    if (need <= reader->capacity - FRAME_READER_SLACK) return MR_OK;
    void *data;
    size_t capacity = need + FRAME_READER_SLACK + FRAME_READER_READ_MIN;
    MR_TRY(alloc_try(capacity, &data));
    frame_reader_give(reader, data, capacity);
    return MR_OK;
}

/* A frame of another version is MR_DENIED, not MR_CORRUPT: the peer is another program. */
static mr_status refusal(span bytes, mr_status status) {
    const uint32_t magic = FRAME_MAGIC;
    const size_t version = offsetof(frame_header, version);
    bool other =
        bytes.size > version && memcmp(bytes.data, &magic, sizeof magic) == 0 && bytes.data[version] != FRAME_VERSION;
    return other ? MR_DENIED : status;
}

static mr_status finish_body(frame_reader *reader, frame_reader_event *out) {
    reader->arriving = false;
    if (reader->body != NULL && reader->frame.flags & FRAME_BODY_CHECKED)
        MR_TRY(frame_body_sum_check(reader->sum, &reader->frame));
    *out = FRAME_READER_FRAME;
    return MR_OK;
}

mr_status frame_reader_next(frame_reader *reader, frame_reader_event *out) {
    if (reader->arriving) {
        if (reader->body_got == reader->frame.body_size) return finish_body(reader, out);
        *out = FRAME_READER_MORE;
        return MR_OK;
    }
    reader->start += reader->used;
    reader->used = reader->frame_size = 0;
    span bytes = span_of(reader->data + reader->start, reader->end - reader->start);
    *out = FRAME_READER_MORE;
    if (bytes.size == 0) return make_room(reader, FRAME_HEADER_SIZE);
    if (bytes.size < reader->need) return MR_OK; /* the header was decoded; the head has not arrived */
    size_t need;
    mr_status status = frame_decode(bytes, &reader->limits, &reader->frame, &need);
    if (__builtin_expect(status != MR_OK, 0)) return refusal(bytes, status);
    reader->need = need > FRAME_HEADER_SIZE ? need : 0;
    if (need > 0) return make_room(reader, need);
    reader->frame_size = reader->used = FRAME_HEADER_SIZE + reader->frame.head.size;
    reader->body = NULL;
    *out = reader->frame.body_size > 0 ? FRAME_READER_BODY : FRAME_READER_FRAME;
    return MR_OK;
}

void frame_reader_body(frame_reader *reader, uint8_t *body) {
    MR_ASSERT(!reader->arriving && reader->frame_size > 0 && reader->frame.body_size > 0);
    const uint8_t *came = reader->data + reader->start + reader->frame_size;
    size_t have = (size_t)(reader->data + reader->end - came);
    size_t part = have < reader->frame.body_size ? have : (size_t)reader->frame.body_size;
    if (reader->frame.body_size >= FRAME_READER_BODY_LARGE) reader->read_size = FRAME_READER_READ_MIN;
    reader->arriving = true;
    reader->body = body;
    reader->body_got = part;
    if (body != NULL) {
        memcpy(body, came, part);
        reader->body_copied += part;
        if (reader->frame.flags & FRAME_BODY_CHECKED) {
            if (reader->sum == NULL) reader->sum = xmalloc(sizeof *reader->sum);
            frame_body_sum_init(reader->sum);
            frame_body_sum_add(reader->sum, span_of(body, part));
        }
    }
    if (part == reader->frame.body_size) {
        reader->used = reader->frame_size + part;
        return;
    }
    reader->end = reader->start + reader->frame_size; /* bytes of the body have left the buffer */
    move_to_front(reader, reader->data);
}

void frame_reader_discard(frame_reader *reader) {
    if (reader->arriving) reader->body = NULL;
}
