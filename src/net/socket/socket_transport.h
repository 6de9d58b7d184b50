/* socket_transport.h — transport over tcp and unix sockets.
 *
 * Addresses are those of address.h. A link is one socket that carries frames (net/frame.h). It is open when both sides
 * have sent HELLO, which carries their identity and protocol version.
 *
 *   open()     CONNECTING ──► HANDSHAKE ──► OPEN ──► CLOSING ──► GONE
 *   accepted                  stranger  ──► OPEN     close()     on_closed
 *
 * Sending    commit writes into the link's write queue; all of it leaves with one system call when the loop comes to
 *            its end, on flush, or when there is much of it. The kernel reads a body of more than a few KB from its
 *            place. Above send_high bytes reserve answers MR_BUSY until they are send_low.
 * Receiving  many frames with one read; a body is read straight to where on_body says. A slow reader slows its sender
 *            down: nothing is queued on the receiving side.
 * Strangers  A peer that has not sent HELLO has an inbox of a few hundred bytes, no link id and a deadline; there are
 *            at most strangers_max others; when there are too many, the oldest is closed.
 * Death      a reset or an end without BYE is MR_PEER_DIED; silence is MR_TIMEOUT (net/heartbeat.h); bytes that are no
 *            frame are MR_CORRUPT, and the other side receives that cause; another version is MR_DENIED.
 * Closing    committed messages are sent, then BYE; linger_us bounds it. Nothing is delivered after close().
 *
 * Sharing    Where both sides want it the bytes of a unix link go through shared memory (shm_pipe.h); all else is the
 *            same. A ring that a large body finds full grows (large_ring.h), within SOCKET_LARGE_RINGS_MAX, and gives
 *            its memory back when it was not needed for a while.
 *            The opener of such a link exports its memory (net/shm/shm_export.h) to the other side, if it has some:
 *            messages may then refer to it.
 *
 * Access     unix sockets have mode 0600 and both sides compare user ids. tcp is for addresses of this machine only
 *            unless beyond_this_machine is set: it has no secrets and no encryption.
 *
 * Threads    all of it belongs to the thread of its loop. Two transports in one loop or process share nothing.
 */
#pragma once
#include "net/event_loop.h"
#include "net/socket/address.h"
#include "net/transport.h"

typedef struct socket_transport socket_transport;

typedef struct socket_transport_options { /* zero: the default of each */
    uint64_t process;                     /* this process's id; 0: drawn at random */
    const char *name;                     /* shown to peers; borrowed for the call */
    bool beyond_this_machine;             /* allows tcp addresses that are not loopback */
    bool check_bodies;          /* sends a checksum with every body; those that come with one are always checked */
    int64_t hello_timeout_us;   /* for connecting and HELLO together; 5 s */
    int64_t linger_us;          /* for sending the rest at close(); 2 s */
    int64_t heartbeat_us;       /* pause after which a silent peer is pinged; 100 ms; < 0: never */
    uint32_t heartbeat_misses;  /* pings in a row that may be left unanswered; 20 */
    size_t send_high, send_low; /* bytes waiting on a link, bodies included; 1 MB, a quarter of it */
    uint64_t body_max;          /* larger ones end the link with MR_TOO_LARGE unasked; UINT64_MAX */
    uint32_t strangers_max;     /* accepted and without HELLO; 256 */
    bool shares;                /* unix sockets: bytes go through shared memory if both sides want that (shm_pipe.h) */
    /* with `shares`: readable by the processes that we open links to; borrowed. NULL: nothing */
    struct shm_export *export;
} socket_transport_options;

/* The events and their context are borrowed until socket_transport_close returns. */
MR_MUST mr_status socket_transport_open(event_loop *loop, const socket_transport_options *options,
                                        const transport_events *events, void *context, socket_transport **out);
/* Ends every link, with on_closed before it returns: bytes that the sockets take at once are still sent, and peers
 * see MR_CLOSED. A caller that waits for the rest closes the links first. Not inside an event. */
void socket_transport_close(socket_transport *transport);

transport socket_transport_transport(socket_transport *socket_transport);
uint64_t socket_transport_process(const socket_transport *transport);

/* Accepts links at an address, until socket_transport_close; `actual` (may be NULL) is the one with its real port.
 * MR_DENIED: it can be reached from other machines. MR_EXISTS: another process listens there. */
MR_MUST mr_status socket_transport_listen(socket_transport *transport, const char *address,
                                          char actual[ADDRESS_TEXT_MAX]);

typedef struct socket_transport_stats {
    uint32_t links;             /* that have an id: open, opening or closing */
    uint32_t strangers;         /* accepted, without HELLO */
    uint64_t accepted, refused; /* strangers that came, and that did not become links */
    uint64_t reads, writes;     /* system calls */
    uint64_t bytes_in, bytes_out;
    uint64_t body_copied; /* bytes of received bodies that were not read straight to their place */
    uint32_t pipes;       /* links that go through shared memory */
    uint32_t large_rings; /* rings of them that grew, or were offered to */
    uint64_t turns;       /* how often one found its ring full, and went on in its large ring */
} socket_transport_stats;

/* The process at the other end of a link reads this one's export; false for links that others opened. */
bool socket_transport_is_seen(const socket_transport *transport, link_id link);
uint64_t socket_transport_peer(const socket_transport *transport, link_id link); /* the process there; 0: none yet */
/* The export of a process that has opened a link here, while the link is open; NULL: there is none. */
const struct shm_import *socket_transport_import(const socket_transport *transport, uint64_t process);

/* Of the pieces that were committed with `argument`: bytes within `from` that are not written lie at `to` from now on.
 * An empty `to`: the link that has them ends. */
void socket_transport_move_pieces(socket_transport *transport, const void *argument, span from, span to);

socket_transport_stats socket_transport_stats_now(const socket_transport *transport);
bool socket_transport_has_news(const socket_transport *transport); /* something lies in a shm pipe and was not read */
