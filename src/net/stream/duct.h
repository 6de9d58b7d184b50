/* duct.h — byte stream in shared memory beside a unix socket: two byte rings, one for each direction.
 *
 * A link of two processes of one machine begins at a unix socket. The side that connects makes a duct, a sealed memfd,
 * and passes it with its HELLO; the other maps it, notes in it that it did, and answers. From then on all bytes go
 * through the duct, and the socket is what it is best at: it says when the other side is gone, and it wakes who sleeps
 * (one byte, whatever it is).
 *
 *   connecting side                                   accepting side
 *   duct_create ── HELLO, descriptor ──► socket ──► duct_join: checks, maps, JOINED, and whether it LOOKS, too, at
 *                                                   memory that was passed with it (net/shm/glass.h)
 *   duct_is_joined ◄── socket ◄── HELLO ──
 *
 *   offset  what                                     written by
 *   ------  ---------------------------------------  -------------------------------
 *   0       magic, capacity, JOINED                  who made it; who joined
 *   64      of each direction: head (bytes written), turns           its writer
 *   128                        tail (bytes read), answer to an annex     its reader
 *   192                        armed: the reader sleeps, wake it     reader sets, writer clears
 *   256                        starved: the writer waits for half of the room    writer sets, reader clears
 *   512     the same for the other direction
 *   4096    the bytes of the first direction, then of the second
 *
 * Order       A side that publishes (a head or a tail), then finds the other side's flag clear, knows that the other
 *             looks again by itself: both sides store, then fence, then load. Heads and tails are stored with release
 *             and loaded with acquire: they carry the bytes and the room.
 * Room        A writer that found none is woken when half of the ring is free, not for every stretch that is read: it
 *             then writes that much at once, while its reader reads the other half. The reader asks for the flag when
 *             it knows of no more than half a ring and has read a quarter since it asked last. No wake is lost: who
 *             waits had more than half a ring before it, none of which the reader had read when it asked, and the
 *             reader does not sleep before it is empty; so it asks once more, at its end if not before.
 * Lines       A position that the other side looks at is a cache line that goes to and fro. A writer looks at the tail
 *             when it has used up the room that it knew of, once in a ring; a message takes the lines of its bytes and
 *             that of the head. A sender of a small message hands these over to the cache that both CPUs share, from
 *             where
 *             they come sooner, and claims the lines behind them; who looks and finds something has its first lines on
 *             their way, and claims the one in which its own next message begins.
 * Growth      A writer that finds its ring full and has much to send makes a larger one, an annex (annex.h), once, and
 *             passes it over the socket; the reader maps it and answers, in the duct. From then on the writer has two
 *             rings. It *turns* to the annex when the small one is full, and back when the annex has been read empty:
 *             small messages stay in memory that is warm. A turn is a position of the stream, published before any
 *             byte behind it: up to there the bytes lie in one ring, from there on in the other. Positions go on
 *             counting, only the places are others. Without an answer (no memory, no wish, a death, a program that
 *             knows of no annexes) the small ring goes on as before.
 *
 *               writer   duct_offer ── descriptor ──► socket ──► duct_take, or duct_decline   reader
 *                        duct_grow ◄── answer, in the duct; wakes who is starved ──
 *
 *             Turns to the annex have one word, turns back have another. A word is overwritten only when the turn in it
 *             has been noted: it turns back only when the reader has read beyond the turn to the annex, and to the
 *             annex again it may turn before the reader knows that it came back.
 * Trust       The other process may write anything at any time. Its position is read once, checked against our own,
 *             and used from a local; one that makes no sense is reported. The memfd is sealed: it cannot shrink under
 *             us.
 * Threads     reading, arming and duct_readable by one thread at a time, writing by one at a time. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

#include "base/bytes.h"
#include "miniray/status.h"
#include "net/stream/annex.h"

enum {
    DUCT_CAPACITY = 512 * 1024,      /* of one direction, without its annex */
    DUCT_STRIDE = 64 * 1024,         /* what is published at once */
    DUCT_ENOUGH = DUCT_CAPACITY / 2, /* room that a writer is woken for; of an annex half as well */
};

typedef struct duct duct;

MR_MUST mr_status duct_create(duct **out, int *fd); /* fd: for the other side, the caller's to close */
/* fd is not kept. `looks`: at what was passed with it. MR_CORRUPT: it is no duct. MR_IO */
MR_MUST mr_status duct_join(int fd, bool looks, duct **out);
void duct_close(duct *duct);
bool duct_is_joined(const duct *duct);
bool duct_is_looked_through(const duct *duct); /* who joined it looks at what was passed with it */

/* Both move as many bytes as they can, maybe none; *wake: the other side sleeps, or waits for room: wake it, then go on
 * (they stop at that point, so that it works while the rest is moved).
 * MR_CORRUPT: what the other side says of its position cannot be. */
MR_MUST mr_status duct_write(duct *duct, const struct iovec *pieces, size_t count, size_t *moved, bool *wake);
MR_MUST mr_status duct_read(duct *duct, const struct iovec *pieces, size_t count, size_t *moved, bool *wake);

/* A small message, of a stride at most, in two pieces, now and as a whole. False: it cannot be, and nothing was
 * written: that is for duct_write. *wake, if it was written: as there. */
bool duct_send(duct *duct, span first, span rest, bool *wake);
/* All that has come, of `max` bytes at most and a stride, in one step; how much that is. 0: it cannot be, or there is
 * nothing, and nothing was read: that is for duct_read. */
size_t duct_receive(duct *duct, void *to, size_t max);
bool duct_readable(const duct *duct);
/* The same for who waits for it: what has come lies in the other CPU's cache, and is on its way here while whoever asks
 * gets ready to read it. */
bool duct_look(const duct *duct);
bool duct_arm(duct *duct);    /* before sleeping: false: there is something to read */
void duct_disarm(duct *duct); /* after it */
bool duct_starve(duct *duct); /* after a write that found no room: asks to be woken. False: half of it is free now */
bool duct_has_room(const duct *duct); /* any: for who waits, and wants to know whether the other side takes something */

/* ---- Growth. For the writer: */

bool duct_may_offer(const duct *duct); /* nothing was offered, nor withdrawn */
/* Makes an annex; fd, for the other side, stays the duct's. MR_NOMEM, MR_IO: there is none, and will be none. */
MR_MUST mr_status duct_offer(duct *duct, int *fd);
void duct_withdraw(duct *duct); /* the other side was not told of it */
/* After a write that found no room: what comes goes to the annex. False: it is there already, or there is none (yet).
 * Asked again after duct_starve it misses no answer: who answers wakes who starves. */
bool duct_grow(duct *duct);
void duct_rest(duct *duct); /* the annex has not been used for long: its memory goes back until it is needed */

/* For the reader: of what was passed; fd is not kept. *wake: the other side waits for room.
 * MR_CORRUPT: it is no annex, or not the first one. MR_IO: it cannot be mapped, which is answered. */
MR_MUST mr_status duct_take(duct *duct, int fd, bool *wake);
void duct_decline(duct *duct);

unsigned duct_annexes(const duct *duct); /* that this side has mapped: at most one for each direction */
