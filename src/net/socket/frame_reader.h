/* frame_reader.h — frame reader: turns the received bytes of one link into frames.
 *
 * One read fills a buffer with many frames. If a frame has a body, its head is decoded first and the owner chooses the
 * memory of the body; bytes of the body that came with the head are copied there, the rest is read directly to that
 * memory, and the bytes after it into the buffer, with the same system call.
 *
 *   buffer   [ used up | header head | header hea…        ]     head only: delivered in place
 *            [ header head | next header …                ]     while a body arrives its frame is at the front
 *   body     [ copied | read directly …                   ]
 *
 * The size of a read into the buffer follows the traffic: it doubles while reads fill it with small frames, and is
 * small after a large body, so that little of the next one passes through the buffer.
 *
 * Pure: the reader shows where to read to, the owner reads and reports the number of bytes, and the reader returns
 * frames.
 *
 * Ownership  frame_reader_give moves the buffer in, and frame_reader_release moves it out when nothing in it is needed,
 *            so that idle links have no buffer. For a frame that is too large the reader allocates a larger buffer. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

#include "net/frame.h"

enum {
    FRAME_READER_READ_MIN = 4096,        /* minimum room of the buffer for one read */
    FRAME_READER_SLACK = 64,             /* bytes of the buffer not used by frames, see frame_reader.c */
    FRAME_READER_BODY_LARGE = 16 * 1024, /* a body of at least this size makes the next read small */
};

typedef enum frame_reader_event {
    FRAME_READER_MORE, /* no complete frame: read more */
    FRAME_READER_BODY, /* reader->frame has a body, and frame_reader_body must set its memory */
    /* reader->frame and its body, if any, are complete; valid until the next frame_reader_next */
    FRAME_READER_FRAME,
} frame_reader_event;

typedef struct frame_reader {
    uint8_t *data; /* owned, heap; NULL: none */
    size_t capacity, start, end;
    frame_limits limits; /* may be changed between two frames */
    size_t need;         /* size of a frame whose header is decoded but whose head is incomplete; 0: none */
    size_t read_size;    /* how many bytes the next read may put into the buffer */
    size_t shown;        /* room of the buffer that was shown to the last read */
    frame frame;         /* the current frame */
    size_t frame_size;   /* of its header and head; 0: no frame */
    size_t used;         /* bytes from `start` on that belong to the frame */
    bool arriving;       /* its body is arriving */
    uint8_t *body;       /* borrowed: memory of the body; NULL: discarded */
    uint64_t body_got;
    uint64_t body_copied; /* bytes of all bodies that were copied from the buffer */
    frame_body_sum *sum;  /* owned; NULL until the first body with a checksum */
} frame_reader;

void frame_reader_init(frame_reader *reader, const frame_limits *limits);
void frame_reader_fini(frame_reader *reader);

/* Moves a heap buffer in; an earlier buffer is copied into it and freed. */
void frame_reader_give(frame_reader *reader, uint8_t *data, size_t capacity);
/* As frame_reader_give, for a reader without a buffer: `count` bytes of the stream are in it already. */
void frame_reader_fill(frame_reader *reader, uint8_t *data, size_t capacity, size_t count);
static inline bool frame_reader_has_buffer(const frame_reader *reader) { return reader->data != NULL; }
/* Moves the buffer out if nothing in it is needed; otherwise returns NULL. */
uint8_t *frame_reader_release(frame_reader *reader, size_t *capacity);

/* Shows where to read to, as one or two parts; returns their number. Only after FRAME_READER_MORE, with a buffer. */
size_t frame_reader_show(frame_reader *reader, struct iovec pieces[2]);
void frame_reader_got(frame_reader *reader, size_t count); /* reports the number of bytes read there */

/* Returns the next event. MR_CORRUPT and MR_TOO_LARGE as frame_decode, MR_DENIED for a frame of another version,
 * MR_NOMEM. After a failure the reader must not be used any more. */
MR_MUST mr_status frame_reader_next(frame_reader *reader, frame_reader_event *out);

/* Answers FRAME_READER_BODY: memory of frame.body_size bytes that stays valid until the frame is delivered or
 * discarded; NULL discards the body. */
void frame_reader_body(frame_reader *reader, uint8_t *body);
/* Discards the body that is arriving, if any. */
void frame_reader_discard(frame_reader *reader);

/* The body of a delivered frame; data == NULL if it was discarded. */
static inline span frame_reader_frame_body(const frame_reader *reader) {
    return span_of(reader->body, (size_t)reader->frame.body_size);
}
