/* write_queue.h — write queue: bytes and bodies that wait to be written to one link.
 *
 * Frames without a body are written consecutively into one buffer, so that one system call sends many of them. Bodies
 * are borrowed: the queue records their position in the buffer, and the kernel reads them from the sender's memory.
 *
 *   buffer   [ header head | header head | header head | header head ]
 *                                        ^ body of 1 MB ^ body of 3 MB
 *
 * Heartbeats are not part of the queue: they are sent between two frames, independent of reserved bytes.
 *
 * Pure: write_queue_show returns the bytes to write as an iovec, and the owner reports how many it wrote. Reserved
 * bytes do not move until their commit.
 *
 * Invariants  start <= end <= capacity; told <= left <= last (bodies: reported / completely written / all);
 *             pending == unwritten bytes of the buffer, the bodies and the interjection. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

#include "net/transport.h"

enum { WRITE_QUEUE_INTERJECTION_MAX = 64 };

typedef struct write_queue_body {
    span rest;          /* borrowed: unwritten bytes */
    size_t before;      /* unwritten bytes of the buffer between the previous body and this one */
    body_sent_fn *sent; /* NULL: no callback */
    void *argument;
} write_queue_body;

typedef struct write_queue { /* zero-initialized: empty and ready */
    uint8_t *data;           /* owned */
    size_t start, end, capacity;
    size_t reserved;          /* bytes at `end` that can be committed */
    size_t after;             /* bytes of the buffer after the last body */
    write_queue_body *bodies; /* owned ring of bodies_max entries, a power of two; indices are not reduced */
    uint32_t bodies_max, told, left, last;
    uint8_t interjection[WRITE_QUEUE_INTERJECTION_MAX];
    uint8_t interjection_start, interjection_end;
    size_t pending;
} write_queue;

/* Frees the queue. Unreported bodies must have been taken with write_queue_take before. */
void write_queue_fini(write_queue *queue);

/* Reserves `size` bytes and room for one body. The bytes are written in place; the next reserve cancels the
 * reservation. MR_NOMEM. */
MR_MUST mr_status write_queue_reserve(write_queue *queue, size_t size, uint8_t **out);
/* Commits the first `size` of the reserved bytes. */
void write_queue_commit(write_queue *queue, size_t size);
/* Reserves room for `count` bodies. MR_NOMEM. */
MR_MUST mr_status write_queue_reserve_bodies(write_queue *queue, size_t count);
void write_queue_add_body(write_queue *queue, span body); /* after the committed bytes; at least one byte */
/* Applies to the bodies whose end reports `argument`, i.e. those after the previous reporting body: bytes within `from`
 * are at `to` from now on; with an empty `to` nothing changes. True: some of these bytes are unwritten. */
bool write_queue_move(write_queue *queue, const void *argument, span from, span to);
void write_queue_when_sent(write_queue *queue, body_sent_fn *sent, void *argument); /* callback of the last body */

/* Adds a few bytes to be written before everything committed later. Only if nothing is pending, otherwise false: then
 * other bytes prove life, and the boundary of the current frame is not known. */
bool write_queue_interject(write_queue *queue, const void *bytes, size_t size);

static inline size_t write_queue_pending(const write_queue *queue) { return queue->pending; }

/* Returns the next bytes to write, in at most `max` parts; returns their number. */
size_t write_queue_show(const write_queue *queue, struct iovec *pieces, size_t max);
void write_queue_wrote(write_queue *queue, size_t count);  /* the first `count` of the shown bytes were written */
bool write_queue_is_inside_body(const write_queue *queue); /* the next byte to write belongs to a body */

/* Takes the oldest unreported body: of all bodies, or of those completely written. False: none. */
bool write_queue_take(write_queue *queue, bool all, body_sent_fn **sent, void **argument);

/* Frees the memory if nothing is pending or reserved. */
void write_queue_trim(write_queue *queue);
