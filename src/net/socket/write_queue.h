/* write_queue.h — write queue: bytes and bodies that wait to be written to one link.
 *
 * Frames without a body are written one after the other into one buffer, so that many of them leave with one system
 * call. Bodies are borrowed: they are remembered with the place in the buffer where they belong, and the kernel reads
 * them from the sender's memory.
 *
 *   buffer   [ header head | header head | header head | header head ]
 *                                        ^ body of 1 MB ^ body of 3 MB
 *
 * Heartbeats are not part of the queue: they are interjected between two frames, past reserved bytes.
 *
 * Pure: write_queue_show gives the bytes to write as an iovec, and the owner reports how many it wrote. Nothing moves
 * between write_queue_reserve and its commit.
 *
 * Invariants  start <= end <= capacity; told <= left <= last (bodies: reported / written wholly / all);
 *             pending == bytes of the buffer, the bodies and the interjection that are not written yet. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

#include "net/transport.h"

enum { WRITE_QUEUE_INTERJECTION_MAX = 64 };

typedef struct write_queue_body {
    span rest;          /* borrowed: bytes not written yet */
    size_t before;      /* bytes of the buffer that are still to be written before it and after the body before it */
    body_sent_fn *sent; /* NULL: none is called */
    void *argument;
} write_queue_body;

typedef struct write_queue { /* zero-initialized it is empty and ready */
    uint8_t *data;           /* owned */
    size_t start, end, capacity;
    size_t reserved;          /* bytes at `end` that may be committed */
    size_t after;             /* bytes of the buffer behind the last body */
    write_queue_body *bodies; /* owned ring of bodies_max, a power of two; indices run freely */
    uint32_t bodies_max, told, left, last;
    uint8_t interjection[WRITE_QUEUE_INTERJECTION_MAX];
    uint8_t interjection_start, interjection_end;
    size_t pending;
} write_queue;

/* Forgets everything. Bodies that are not reported yet must have been taken with write_queue_take before. */
void write_queue_fini(write_queue *queue);

/* Room for `size` bytes and one body. The bytes are written in place; the next reserve gives them up. MR_NOMEM. */
MR_MUST mr_status write_queue_reserve(write_queue *queue, size_t size, uint8_t **out);
/* the first `size` of the reserved bytes */
void write_queue_commit(write_queue *queue, size_t size);
/* room for so many bodies, not one. MR_NOMEM */
MR_MUST mr_status write_queue_reserve_bodies(write_queue *queue, size_t count);
void write_queue_add_body(write_queue *queue, span body); /* behind the committed bytes; of one byte or more */
/* Of the bodies up to those at whose end `argument` is reported, and behind those before them: bytes within `from` lie
 * at `to` from now on; with an empty `to` they stay. True: some of them are not written. */
bool write_queue_move(write_queue *queue, const void *argument, span from, span to);
void write_queue_when_sent(write_queue *queue, body_sent_fn *sent, void *argument); /* callback of the last body */

/* Something short to be written before all that is committed later. Only if nothing waits, else false: then the other
 * side hears from us anyway, and the place between two frames is not known. */
bool write_queue_interject(write_queue *queue, const void *bytes, size_t size);

static inline size_t write_queue_pending(const write_queue *queue) { return queue->pending; }

/* The bytes to be written next, in at most `max` pieces; returns their number. */
size_t write_queue_show(const write_queue *queue, struct iovec *pieces, size_t max);
void write_queue_wrote(write_queue *queue, size_t count);  /* the first `count` bytes that were shown */
bool write_queue_is_inside_body(const write_queue *queue); /* the next byte to be written is a body's */

/* The oldest body that was not reported: of all, or of those that were written wholly. False: there is none. */
bool write_queue_take(write_queue *queue, bool all, body_sent_fn **sent, void **argument);

/* Gives the memory back if nothing is waiting or reserved. */
void write_queue_trim(write_queue *queue);
