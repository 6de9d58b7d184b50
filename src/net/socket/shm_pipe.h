/* shm_pipe.h — byte stream in shared memory beside a unix socket: two byte rings, one for each direction.
 *
 * A link of two processes of one machine begins at a unix socket. The connecting side creates a shm pipe, a sealed
 * memfd, and passes it with its HELLO; the other side maps it, sets JOINED in it, and answers. From then on all bytes
 * go through the shm pipe, and the socket has two uses: it reports the end of the other side, and it wakes a side that
 * sleeps (one byte of any value).
 *
 *   connecting side                                      accepting side
 *   shm_pipe_create ── HELLO, descriptor ──► socket ──► shm_pipe_join: checks, maps, sets JOINED, and LOOKS if it also
 *                                                       reads memory passed with it (net/shm/shm_export.h)
 *   shm_pipe_is_joined ◄── socket ◄── HELLO ──
 *
 *   offset  what                                                               written by
 *   ------  -----------------------------------------------------------------  ---------------------------
 *   0       magic, capacity, JOINED                                            the creator; the joiner
 *   64      of each direction: head (bytes written), turns                     its writer
 *   128                        tail (bytes read), answer to a large ring       its reader
 *   192                        armed: the reader sleeps, wake it               reader sets, writer clears
 *   256                        starved: the writer waits for half of the room  writer sets, reader clears
 *   512     the same for the other direction
 *   4096    the bytes of the first direction, then of the second
 *
 * Order       If a side publishes (a head or a tail) and then finds the other side's flag clear, the other side will
 *             check again by itself: both sides store, then fence, then load. Heads and tails are stored with release
 *             and loaded with acquire: they order the bytes and the room.
 * Room        A writer without room is woken when half of the ring is free, not for every read: it then writes that
 *             much at once, while the reader reads the other half. The reader checks the flag when it sees at most
 *             half a ring unread and has read a quarter since its last check. No wake is lost: when a writer began to
 *             wait, more than half a ring was unread, none of which the reader had read at its check, and the reader
 *             does not sleep before the ring is empty; so the reader checks once more, at the end at the latest.
 * Lines       Each position read by the other side is a cache line that moves between the CPUs. A writer reads the
 *             tail only when it has used up the known room, once per lap; a message moves the lines of its bytes and
 *             that of the head. The sender of a small message demotes these to the cache that both CPUs share and
 *             prefetches the lines after them; a reader that finds bytes prefetches their first lines, and the one in
 *             which its own next message begins.
 * Growth      A writer that finds its ring full and has much to send creates a large ring (large_ring.h), once, and
 *             passes it over the socket; the reader maps it and answers in the shm pipe. From then on the writer has
 *             two rings. It *turns* to the large ring when the small one is full, and back when the large ring has
 *             been read to its end, so that small messages use cached memory. A turn is a position of the stream,
 *             published before any byte after it: bytes before it are in one ring, bytes after it in the other.
 *             Positions keep counting across rings. Without an answer (no memory, declined, a death, a program without
 *             large rings) the small ring remains in use.
 *
 *               writer   shm_pipe_offer ── descriptor ──► socket ──► shm_pipe_take, or shm_pipe_decline  reader
 *                        shm_pipe_grow ◄── answer, in the shm pipe; wakes a starved writer ──
 *
 *             Turns to the large ring have one word, turns back have another. A word is overwritten only when the turn
 *             in it has been noted: the writer turns back only when the reader has read beyond the turn to the large
 *             ring, and may turn to the large ring again before the reader has noted the turn back.
 * Trust       The other process may write anything at any time. Its position is read once, checked against the own
 *             position, and used from a local variable; an impossible one is reported. The memfd is sealed and cannot
 *             shrink.
 * Threads     Reading, arming and shm_pipe_readable by one thread at a time, writing by one at a time. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

#include "base/bytes.h"
#include "miniray/status.h"
#include "net/socket/large_ring.h"

enum {
    SHM_PIPE_CAPACITY = 512 * 1024,          /* of one direction, without the large ring */
    SHM_PIPE_STRIDE = 64 * 1024,             /* bytes published at once */
    SHM_PIPE_ENOUGH = SHM_PIPE_CAPACITY / 2, /* free room at which a writer is woken; for a large ring half of it too */
};

typedef struct shm_pipe shm_pipe;

MR_MUST mr_status shm_pipe_create(shm_pipe **out, int *fd); /* fd: for the other side; closed by the caller */
/* fd is not kept. `looks`: this side reads the export passed with it. MR_CORRUPT: not a shm pipe. MR_IO. */
MR_MUST mr_status shm_pipe_join(int fd, bool looks, shm_pipe **out);
void shm_pipe_close(shm_pipe *pipe);
bool shm_pipe_is_joined(const shm_pipe *pipe);
bool shm_pipe_is_looked_through(const shm_pipe *pipe); /* the joiner reads the export passed with it */

/* Both transfer as many bytes as possible, maybe none. *wake: the other side sleeps or waits for room; the caller wakes
 * it and continues (both stop there, so that the other side works while the rest is transferred). MR_CORRUPT: the other
 * side's position is impossible. */
MR_MUST mr_status shm_pipe_write(shm_pipe *pipe, const struct iovec *pieces, size_t count, size_t *moved, bool *wake);
MR_MUST mr_status shm_pipe_read(shm_pipe *pipe, const struct iovec *pieces, size_t count, size_t *moved, bool *wake);

/* Writes a small message of at most one stride, in two parts, at once and completely. False: impossible now, nothing
 * was written, and shm_pipe_write must be used. *wake as for shm_pipe_write, if it was written. */
bool shm_pipe_send(shm_pipe *pipe, span first, span rest, bool *wake);
/* Reads all available bytes, at most `max` and one stride, in one step; returns their number. 0: impossible or nothing
 * there, nothing was read, and shm_pipe_read must be used. */
size_t shm_pipe_receive(shm_pipe *pipe, void *to, size_t max);
bool shm_pipe_readable(const shm_pipe *pipe);
/* As shm_pipe_readable, for a waiting reader: prefetches the bytes from the other CPU's cache. */
bool shm_pipe_look(const shm_pipe *pipe);
bool shm_pipe_arm(shm_pipe *pipe);    /* before sleeping; false: there are bytes to read */
void shm_pipe_disarm(shm_pipe *pipe); /* after sleeping */
/* After a write without room: requests a wake-up. False: half of the ring is free now. */
bool shm_pipe_starve(shm_pipe *pipe);
/* Whether there is any room; shows a waiting writer that the other side reads. */
bool shm_pipe_has_room(const shm_pipe *pipe);

/* ---- Growth. For the writer: */

bool shm_pipe_may_offer(const shm_pipe *pipe); /* no large ring was offered or withdrawn yet */
/* Creates a large ring; the shm pipe keeps fd, which is for the other side. MR_NOMEM, MR_IO: there will be no large
 * ring. */
MR_MUST mr_status shm_pipe_offer(shm_pipe *pipe, int *fd);
void shm_pipe_withdraw(shm_pipe *pipe); /* the other side did not receive the large ring */
/* After a write without room: the next bytes go to the large ring. False: they do already, or there is no large ring
 * (yet). A second call after shm_pipe_starve misses no answer, because the answering side wakes a starved writer. */
bool shm_pipe_grow(shm_pipe *pipe);
void shm_pipe_rest(shm_pipe *pipe); /* frees the pages of an idle large ring until they are needed */

/* For the reader: maps a received large ring; fd is not kept. *wake: the other side waits for room. MR_CORRUPT: not a
 * large ring, or not the first one. MR_IO: it cannot be mapped, and the answer says so. */
MR_MUST mr_status shm_pipe_take(shm_pipe *pipe, int fd, bool *wake);
void shm_pipe_decline(shm_pipe *pipe);

unsigned shm_pipe_large_rings(const shm_pipe *pipe); /* mapped by this side: at most one per direction */
