/* frame_reader.h — frame reader: turns the received bytes of one link into frames.
 *
 * Reads go into a buffer, many frames with one system call. When a frame has a body, its head is looked at first and
 * the owner chooses the place of the body; bytes of it that came with the head are copied there, the rest is read
 * straight to its place, and the bytes that follow it into the buffer, with the same system call.
 *
 *   buffer   [ used up | header head | header hea…        ]     head only: delivered from where it lies
 *            [ header head | next header …                ]     while a body arrives the frame lies in front
 *   body     [ copied | read straight …                   ]
 *
 * The size of a read into the buffer follows the traffic: it doubles while reads fill it with small frames, and is
 * small after a large body, so that little of the next one passes through the buffer.
 *
 * Pure: the owner reads to the place it shows and reports how many bytes came; it returns frames.
 *
 * Ownership  the buffer is moved in by frame_reader_give and out by frame_reader_release when nothing in it is needed,
 *            so that idle links hold none. A frame that is too large for it makes the reader replace it by a larger
 *            one. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

#include "net/frame.h"

enum {
    FRAME_READER_READ_MIN = 4096,        /* bytes that one read may put into the buffer, at least */
    FRAME_READER_SLACK = 64,             /* bytes of the buffer that no frame uses, see frame_reader.c */
    FRAME_READER_BODY_LARGE = 16 * 1024, /* from this size on a body makes the next read small */
};

typedef enum frame_reader_event {
    FRAME_READER_MORE, /* nothing complete: read */
    FRAME_READER_BODY, /* reader->frame has a body, frame_reader_body must give its place */
    /* reader->frame is complete, with its body if it has one; valid until the next frame_reader_next */
    FRAME_READER_FRAME,
} frame_reader_event;

typedef struct frame_reader {
    uint8_t *data; /* owned, heap; NULL: none */
    size_t capacity, start, end;
    frame_limits limits; /* may be changed between two frames */
    size_t need;         /* of a frame whose header was seen and whose head was not; 0: none */
    size_t read_size;    /* how much the next read may put into the buffer */
    size_t shown;        /* how much the last one was shown of it */
    frame frame;         /* the present one */
    size_t frame_size;   /* of its header and head; 0: there is none */
    size_t used;         /* bytes from `start` on that belong to it */
    bool arriving;       /* its body is on the way */
    uint8_t *body;       /* borrowed: where it goes; NULL: thrown away */
    uint64_t body_got;
    uint64_t body_copied; /* bytes of all bodies that passed through the buffer */
    frame_body_sum *sum;  /* owned; NULL until a checked body comes */
} frame_reader;

void frame_reader_init(frame_reader *reader, const frame_limits *limits);
void frame_reader_fini(frame_reader *reader);

/* Moves a heap buffer in; one that it has is emptied into it and freed. */
void frame_reader_give(frame_reader *reader, uint8_t *data, size_t capacity);
/* The same for one that has none: `count` bytes of the stream lie in it already. */
void frame_reader_fill(frame_reader *reader, uint8_t *data, size_t capacity, size_t count);
static inline bool frame_reader_has_buffer(const frame_reader *reader) { return reader->data != NULL; }
/* Moves the buffer out if nothing in it is needed any more; else NULL. */
uint8_t *frame_reader_release(frame_reader *reader, size_t *capacity);

/* The place to read to, one or two pieces; returns their number. Only after FRAME_READER_MORE, with a buffer. */
size_t frame_reader_show(frame_reader *reader, struct iovec pieces[2]);
void frame_reader_got(frame_reader *reader, size_t count); /* so many bytes were read there */

/* The next event of the bytes. MR_CORRUPT and MR_TOO_LARGE as frame_decode, MR_DENIED for a frame of another version,
 * MR_NOMEM. After a failure nothing else may be asked. */
MR_MUST mr_status frame_reader_next(frame_reader *reader, frame_reader_event *out);

/* Answers FRAME_READER_BODY: frame.body_size bytes that stay valid until the frame is delivered or discarded; NULL
 * throws the body away. */
void frame_reader_body(frame_reader *reader, uint8_t *body);
/* the body that is arriving is not wanted any more; no-op if there is none */
void frame_reader_discard(frame_reader *reader);

/* The body of a frame that was delivered; data == NULL if it was thrown away. */
static inline span frame_reader_frame_body(const frame_reader *reader) {
    return span_of(reader->body, (size_t)reader->frame.body_size);
}
