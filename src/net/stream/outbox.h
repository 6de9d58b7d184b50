/* outbox.h — write queue: bytes and bodies that wait to be written to one link.
 *
 * Frames without a body are written one after the other into one buffer, so that many of them leave with one system
 * call. Bodies are borrowed: they are remembered with the place in the buffer where they belong, and the kernel reads
 * them from the sender's memory.
 *
 *   buffer   [ header head | header head | header head | header head ]
 *                                        ^ body of 1 MB ^ body of 3 MB
 *
 * What is not part of the queue (heartbeats) is interjected between two frames, past whatever is reserved.
 *
 * Pure: what is to be written is shown as an iovec, and the owner says how much of it was. Nothing moves between
 * outbox_reserve and its commit.
 *
 * Invariants  start <= end <= capacity; told <= left <= last (bodies: reported / written wholly / all);
 *             pending == bytes of the buffer, the bodies and the interjection that are not written yet. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

#include "net/transport.h"

enum { OUTBOX_INTERJECTION_MAX = 64 };

typedef struct outbox_body {
    span rest;          /* borrowed: what is not written yet */
    size_t before;      /* bytes of the buffer that are still to be written before it and after the body before it */
    body_sent_fn *sent; /* NULL: nobody is told */
    void *argument;
} outbox_body;

typedef struct outbox { /* zero-initialized it is empty and ready */
    uint8_t *data;      /* owned */
    size_t start, end, capacity;
    size_t reserved;     /* bytes at `end` that may be committed */
    size_t after;        /* bytes of the buffer behind the last body */
    outbox_body *bodies; /* owned ring of bodies_max, a power of two; indices run freely */
    uint32_t bodies_max, told, left, last;
    uint8_t interjection[OUTBOX_INTERJECTION_MAX];
    uint8_t interjection_start, interjection_end;
    size_t pending;
} outbox;

/* Forgets everything. Bodies that are not told yet must have been taken with outbox_take before. */
void outbox_fini(outbox *outbox);

/* Room for `size` bytes and one body. The bytes are written in place; the next reserve gives them up. MR_NOMEM. */
MR_MUST mr_status outbox_reserve(outbox *outbox, size_t size, uint8_t **out);
void outbox_commit(outbox *outbox, size_t size);                       /* the first `size` of the reserved bytes */
MR_MUST mr_status outbox_reserve_bodies(outbox *outbox, size_t count); /* room for so many bodies, not one. MR_NOMEM */
void outbox_add_body(outbox *outbox, span body); /* behind what was committed; of one byte or more */
/* Of the bodies up to those at whose end `argument` is told, and behind those before them: what lies within `from` lies
 * at `to` from now on, the same bytes; if that is nowhere, it stays. Gives whether there is something not written. */
bool outbox_move(outbox *outbox, const void *argument, span from, span to);
void outbox_when_sent(outbox *outbox, body_sent_fn *sent, void *argument); /* of the last one: who is told */

/* Something short to be written before all that is committed later. Only if nothing waits, else false: then the other
 * side hears from us anyway, and the place between two frames is not known. */
bool outbox_interject(outbox *outbox, const void *bytes, size_t size);

static inline size_t outbox_pending(const outbox *outbox) { return outbox->pending; }

/* What is to be written next, in at most `max` pieces; how many they are. */
size_t outbox_show(const outbox *outbox, struct iovec *pieces, size_t max);
void outbox_wrote(outbox *outbox, size_t count);  /* the first `count` bytes of what was shown */
bool outbox_is_inside_body(const outbox *outbox); /* the next byte to be written is a body's */

/* The oldest body that nobody was told of: of all, or of those that were written wholly. False: there is none. */
bool outbox_take(outbox *outbox, bool all, body_sent_fn **sent, void **argument);

/* Gives the memory back if nothing is waiting or reserved. */
void outbox_trim(outbox *outbox);
