/* socket_transport.h — transport over tcp and unix sockets.
 *
 * Addresses are those of address.h. A link is one socket that carries frames (net/frame.h). It is open when both sides
 * have sent HELLO, which carries their identity and protocol version, and on tcp proved that they have the same token
 * (handshake.h).
 *
 *   open()     CONNECTING ──► HANDSHAKE ──► OPEN ──► CLOSING ──► GONE
 *   accepted                  stranger  ──► OPEN     close()     on_closed
 *
 * Sending    commit writes into the link's write queue, which is sent with one system call at the end of the iteration,
 *            on flush, or when it is large. The kernel reads a body of more than a few KB from its owner's memory.
 *            Above send_high bytes reserve returns MR_BUSY until they are down to send_low.
 * Receiving  One read returns many frames; a body is read directly to the memory of on_body. A slow reader slows its
 *            sender down: nothing is queued on the receiving side.
 * Strangers  A peer whose handshake is not over has a receive buffer of a few hundred bytes, no link id and a deadline;
 *            at most strangers_max of them exist; beyond that the oldest is closed.
 * Death      a reset or an end without BYE is MR_PEER_DIED; silence is MR_TIMEOUT (net/heartbeat.h); bytes that are no
 *            frame are MR_CORRUPT, and the other side receives that cause; another version is MR_DENIED.
 * Closing    committed messages are sent, then BYE; linger_us bounds it. Nothing is delivered after close().
 *
 * Sharing    If both sides set `shares`, the bytes of a unix link go through shared memory (shm_pipe.h); all else
 *            is the same. A ring that is full during a large body grows (large_ring.h), within SOCKET_LARGE_RINGS_MAX,
 *            and frees the additional memory after some time without use.
 *            The opener of such a link passes its export (net/shm/shm_export.h), if any, to the other side: messages
 *            may then refer to that memory.
 *
 * Access     unix sockets have mode 0600 and both sides compare user ids. Both sides of a tcp link prove that they have
 *            the deployment's token. tcp is for addresses of this machine only: nothing is encrypted.
 *
 * Threads    A transport belongs to the thread of its loop. Two transports in one loop or process share nothing.
 */
#pragma once
#include "net/event_loop.h"
#include "net/socket/address.h"
#include "net/socket/token.h"
#include "net/transport.h"

typedef struct socket_transport socket_transport;

typedef struct socket_transport_options { /* zero: the default of each field */
    uint64_t process;                     /* this process's id; 0: random */
    const char *name;                     /* shown to peers; borrowed for the call */
    /* Finds the token of tcp links, when a link is opened or accepted; NULL: unix sockets only (token.h) */
    mr_status (*find_token)(void *context, token *out);
    void *find_token_context;
    bool check_bodies;          /* sends a checksum with every body; received checksums are always checked */
    int64_t hello_timeout_us;   /* for connecting and HELLO together; 5 s */
    int64_t linger_us;          /* for sending pending bytes after close(); 2 s */
    int64_t heartbeat_us;       /* pause after which a silent peer is pinged; 100 ms; < 0: never */
    uint32_t heartbeat_misses;  /* consecutive pings that may stay unanswered; 20 */
    size_t send_high, send_low; /* pending bytes of a link, including bodies; 1 MB, a quarter of it */
    uint64_t body_max;          /* larger bodies end the link with MR_TOO_LARGE without on_body; UINT64_MAX */
    uint32_t strangers_max;     /* accepted connections that are not open yet; 256 */
    bool shares;                /* unix sockets: bytes go through shared memory if both sides set this (shm_pipe.h) */
    /* With `shares`: memory that processes to which this one opens links can read; borrowed. NULL: none. */
    struct shm_export *export;
} socket_transport_options;

/* The events and their context are borrowed until socket_transport_close returns. */
MR_MUST mr_status socket_transport_open(event_loop *loop, const socket_transport_options *options,
                                        const transport_events *events, void *context, socket_transport **out);
/* Ends every link, with on_closed before it returns: bytes that the sockets accept at once are still sent, and peers
 * get MR_CLOSED. A caller that wants all bytes to be sent closes the links first. Must not be called in an event. */
void socket_transport_close(socket_transport *transport);

transport socket_transport_transport(socket_transport *socket_transport);
uint64_t socket_transport_process(const socket_transport *transport);

/* Accepts links at an address until socket_transport_close; `actual` (may be NULL) is the address with its real port.
 * MR_DENIED: other machines could reach it. MR_EXISTS: another process listens there. MR_NOT_FOUND: tcp needs OpenSSL.
 * MR_INVALID: tcp needs find_token. */
MR_MUST mr_status socket_transport_listen(socket_transport *transport, const char *address,
                                          char actual[ADDRESS_TEXT_MAX]);

typedef struct socket_transport_stats {
    uint32_t links;             /* with an id: open, opening or closing */
    uint32_t strangers;         /* accepted, and not open yet */
    uint64_t accepted, refused; /* all strangers, and those that did not become links */
    uint64_t reads, writes;     /* system calls */
    uint64_t bytes_in, bytes_out;
    uint64_t body_copied; /* bytes of received bodies that were copied instead of read directly to their memory */
    uint32_t pipes;       /* links that use shared memory */
    uint32_t large_rings; /* large rings of both directions */
    uint64_t turns;       /* switches of a full ring to its large ring */
} socket_transport_stats;

/* Whether the process at the other end of a link reads this process's export; false for links opened by the other
 * side. */
bool socket_transport_is_seen(const socket_transport *transport, link_id link);
uint64_t socket_transport_peer(const socket_transport *transport, link_id link); /* the peer's id; 0: unknown yet */
/* The export of a process that has opened a link to this one, while that link is open; NULL: none. */
const struct shm_import *socket_transport_import(const socket_transport *transport, uint64_t process);

/* Applies to parts that were committed with `argument`: unwritten bytes within `from` are at `to` from now on. With an
 * empty `to` the link that has such bytes ends. */
void socket_transport_move_pieces(socket_transport *transport, const void *argument, span from, span to);

socket_transport_stats socket_transport_stats_now(const socket_transport *transport);
bool socket_transport_has_news(const socket_transport *transport); /* a shm pipe has unread bytes */
