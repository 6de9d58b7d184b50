/* shm_pipe.h — byte stream in shared memory beside a unix socket: two byte rings, one for each direction.
 *
 * A link of two processes of one machine begins at a unix socket. The side that connects makes a shm pipe, a sealed
 * memfd, and passes it with its HELLO; the other maps it, notes in it that it did, and answers. From then on all bytes
 * go through the shm pipe, and the socket has two uses: it reports when the other side is gone, and it wakes a side
 * that sleeps (one byte of any value).
 *
 *   connecting side                                      accepting side
 *   shm_pipe_create ── HELLO, descriptor ──► socket ──► shm_pipe_join: checks, maps, sets JOINED, and LOOKS if it also
 *                                                       reads memory passed with it (net/shm/shm_export.h)
 *   shm_pipe_is_joined ◄── socket ◄── HELLO ──
 *
 *   offset  what                                                               written by
 *   ------  -----------------------------------------------------------------  ---------------------------
 *   0       magic, capacity, JOINED                                            the maker; the joiner
 *   64      of each direction: head (bytes written), turns                     its writer
 *   128                        tail (bytes read), answer to a large ring       its reader
 *   192                        armed: the reader sleeps, wake it               reader sets, writer clears
 *   256                        starved: the writer waits for half of the room  writer sets, reader clears
 *   512     the same for the other direction
 *   4096    the bytes of the first direction, then of the second
 *
 * Order       A side that publishes (a head or a tail), then finds the other side's flag clear, knows that the other
 *             looks again by itself: both sides store, then fence, then load. Heads and tails are stored with release
 *             and loaded with acquire: they carry the bytes and the room.
 * Room        A writer that found none is woken when half of the ring is free, not for every piece that is read: it
 *             then writes that much at once, while its reader reads the other half. The reader checks the flag when
 *             it knows of no more than half a ring and has read a quarter since its last check. No wake is lost: a
 *             waiting writer had more than half a ring before it, none of which the reader had read at its check, and
 *             the reader does not sleep before the ring is empty; so it checks once more, at its end if not before.
 * Lines       A position that the other side looks at is a cache line that goes to and fro. A writer looks at the tail
 *             when it has used up the room that it knew of, once in a ring; a message takes the lines of its bytes and
 *             that of the head. A sender of a small message hands these over to the cache that both CPUs share, from
 *             where they come sooner, and claims the lines behind them; a reader that looks and finds something has
 *             its first lines on their way, and claims the one in which its own next message begins.
 * Growth      A writer that finds its ring full and has much to send makes a large ring (large_ring.h), once, and
 *             passes it over the socket; the reader maps it and answers, in the shm pipe. From then on the writer has
 *             two rings. It *turns* to the large ring when the small one is full, and back when the large ring has
 *             been read empty: small messages stay in memory that is warm. A turn is a position of the stream,
 *             published before any byte behind it: up to there the bytes lie in one ring, from there on in the other.
 *             Positions go on counting; only the places differ. Without an answer (no memory, no wish, a death, a
 *             program that knows of no large rings) the small ring goes on as before.
 *
 *               writer   shm_pipe_offer ── descriptor ──► socket ──► shm_pipe_take, or shm_pipe_decline  reader
 *                        shm_pipe_grow ◄── answer, in the shm pipe; wakes a starved writer ──
 *
 *             Turns to the large ring have one word, turns back have another. A word is overwritten only when the turn
 *             in it has been noted: the writer turns back only when the reader has read beyond the turn to the large
 *             ring, and may turn to the large ring again before the reader knows that it came back.
 * Trust       The other process may write anything at any time. Its position is read once, checked against our own,
 *             and used from a local; one that makes no sense is reported. The memfd is sealed: it cannot shrink under
 *             us.
 * Threads  reading, arming and shm_pipe_readable by one thread at a time, writing by one at a time. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

#include "base/bytes.h"
#include "miniray/status.h"
#include "net/socket/large_ring.h"

enum {
    SHM_PIPE_CAPACITY = 512 * 1024,          /* of one direction, without its large ring */
    SHM_PIPE_STRIDE = 64 * 1024,             /* published at once */
    SHM_PIPE_ENOUGH = SHM_PIPE_CAPACITY / 2, /* room that a writer is woken for; of a large ring half as well */
};

typedef struct shm_pipe shm_pipe;

MR_MUST mr_status shm_pipe_create(shm_pipe **out, int *fd); /* fd: for the other side, the caller's to close */
/* fd is not kept. `looks`: this side reads the export passed with it. MR_CORRUPT: it is no shm pipe. MR_IO */
MR_MUST mr_status shm_pipe_join(int fd, bool looks, shm_pipe **out);
void shm_pipe_close(shm_pipe *pipe);
bool shm_pipe_is_joined(const shm_pipe *pipe);
bool shm_pipe_is_looked_through(const shm_pipe *pipe); /* the joiner reads the export passed with it */

/* Both move as many bytes as they can, maybe none; *wake: the other side sleeps, or waits for room: wake it, then go on
 * (they stop at that point, so that it works while the rest is moved).
 * MR_CORRUPT: the position of the other side is impossible. */
MR_MUST mr_status shm_pipe_write(shm_pipe *pipe, const struct iovec *pieces, size_t count, size_t *moved, bool *wake);
MR_MUST mr_status shm_pipe_read(shm_pipe *pipe, const struct iovec *pieces, size_t count, size_t *moved, bool *wake);

/* A small message, of a stride at most, in two pieces, now and as a whole. False: it cannot be, and nothing was
 * written: that is for shm_pipe_write. *wake, if it was written: as there. */
bool shm_pipe_send(shm_pipe *pipe, span first, span rest, bool *wake);
/* All that has come, of `max` bytes at most and a stride, in one step; how much that is. 0: it cannot be, or there is
 * nothing, and nothing was read: that is for shm_pipe_read. */
size_t shm_pipe_receive(shm_pipe *pipe, void *to, size_t max);
bool shm_pipe_readable(const shm_pipe *pipe);
/* The same for a waiting reader: the bytes lie in the other CPU's cache, and are on their way here while the caller
 * gets ready to read them. */
bool shm_pipe_look(const shm_pipe *pipe);
bool shm_pipe_arm(shm_pipe *pipe);    /* before sleeping: false: there is something to read */
void shm_pipe_disarm(shm_pipe *pipe); /* after it */
/* after a write that found no room: asks to be woken. False: half of it is free now */
bool shm_pipe_starve(shm_pipe *pipe);
/* any: for a waiting writer that wants to know whether the other side reads */
bool shm_pipe_has_room(const shm_pipe *pipe);

/* ---- Growth. For the writer: */

bool shm_pipe_may_offer(const shm_pipe *pipe); /* nothing was offered, nor withdrawn */
/* Makes a large ring; the shm pipe keeps fd, for the other side. MR_NOMEM, MR_IO: there is none, and will be none. */
MR_MUST mr_status shm_pipe_offer(shm_pipe *pipe, int *fd);
void shm_pipe_withdraw(shm_pipe *pipe); /* the other side did not receive it */
/* After a write that found no room: the next bytes go to the large ring. False: they do already, or there is none
 * (yet). A second call after shm_pipe_starve misses no answer: the answering side wakes a starved writer. */
bool shm_pipe_grow(shm_pipe *pipe);
void shm_pipe_rest(shm_pipe *pipe); /* gives the memory of an idle large ring back until it is needed */

/* For the reader: a large ring that was passed; fd is not kept. *wake: the other side waits for room.
 * MR_CORRUPT: it is no large ring, or not the first one. MR_IO: it cannot be mapped, which is answered. */
MR_MUST mr_status shm_pipe_take(shm_pipe *pipe, int fd, bool *wake);
void shm_pipe_decline(shm_pipe *pipe);

unsigned shm_pipe_large_rings(const shm_pipe *pipe); /* that this side has mapped: at most one for each direction */
