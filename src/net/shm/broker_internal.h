/* broker_internal.h — records of the broker, shared by broker.c (broker), broker_peers.c (processes) and broker_link.c
 * (links). No other file includes this.
 *
 * A client's record:
 *
 *   accepted ──► STRANGER ── HELLO ──► MEMBER ── BYE, end of file, death, dropped ──► GHOST ──► freed
 *                    └─ no HELLO in time, refused ──► freed
 *
 * A stranger has not sent HELLO; a member has a process block. A ghost is a former member: the other sides of its links
 * have been notified. Its process block is reused, and its record freed, when its process can no longer access the
 * arena (it sent BYE, closed its socket or ended) and no process has a link to it any more.
 *
 * A link has two sides. Each owns the ring it sends into: the extent in use now, and older ones that the receiving side
 * has not released yet. A side is done when its client closed the link or can no longer access the arena; when both
 * are done the link and all its extents are freed.
 *
 * Invariants (broker_check)  the extents recorded are exactly those that are allocated; a member's `open` is the
 * number of its sides that are not done; every link is in both clients' lists. */
#pragma once
#include "base/list.h"
#include "base/map.h"
#include "base/timer_heap.h"
#include "net/pidfd.h"
#include "net/shm/broker.h"
#include "net/shm/extent_allocator.h"
#include "net/shm/fd_packet.h"
#include "net/shm/prefault.h"
#include "net/unix_listener.h"

enum {
    BROKER_STRANGERS_MAX = 64,     /* further callers wait in the socket's backlog */
    BROKER_HELLO_US = 5 * 1000000, /* timeout for HELLO */
    BROKER_SHUT_US = 10 * 1000,    /* pause of accepting without a spare descriptor */
    BROKER_GRACE_US = 500 * 1000,  /* wait for the cause of an end before peers are notified without it */
    BROKER_QUEUE_MAX = 64,         /* messages kept for a client that does not read; see broker_peers.c */
    BROKER_BATCH = 64,             /* messages read from one client before others get a turn */
    BROKER_OLD_RINGS_MAX = 4,      /* per side */
    BROKER_RING_ZEROED = EXTENT_UNIT,
};

typedef enum broker_peer_state { BROKER_STRANGER, BROKER_MEMBER, BROKER_GHOST } broker_peer_state;

typedef struct broker_peer {
    broker *broker; /* borrowed */
    list place;     /* in broker->peers */
    broker_peer_state state;
    event_loop_watch *socket_watch, *pid_watch; /* NULL: not watched */
    int fd;                                     /* owned; -1: closed */
    int event_fd;                               /* owned; -1: none yet */
    pidfd pidfd;                                /* owned; PIDFD_NONE: none yet */
    int pid;
    bool is_child;   /* of the broker's process: broker_note_exit may report its wait status */
    bool at_end;     /* end of file was read from its socket */
    bool harmless;   /* its process can no longer access the arena */
    bool wait_known; /* wait_status is valid */
    int wait_status;
    uint32_t process_block;
    uint64_t process;
    char name[PEER_NAME_MAX];
    fd_packet_queue queue;
    timer_heap_item deadline; /* for HELLO, or for the cause of its end */
    list links;               /* broker_side.place */
    uint32_t open;
    list doomed_place; /* in broker->doomed */
    cause doom;        /* why the peer will be dropped; status MR_OK: it will not */
} broker_peer;

typedef struct broker_side {
    broker_peer *peer;        /* borrowed: exists longer than the link */
    struct broker_link *link; /* the link of this side */
    list place;               /* in peer->links */
    bool done;
    extent ring; /* the ring that this side sends into */
    extent old[BROKER_OLD_RINGS_MAX];
    uint32_t old_count;
} broker_side;

typedef struct broker_link {
    uint32_t number;
    broker_side sides[2]; /* the requesting side, then the other */
} broker_link;

struct broker {
    event_loop *loop; /* borrowed */
    unix_listener path;
    event_loop_watch *listener;
    bool listening;
    event_loop_timer *timer;
    int spare_fd;          /* closed temporarily when no descriptor is free, so that a caller can be refused; or -1 */
    int64_t shut_until_us; /* no process is accepted or refused before this time */
    bool no_descriptor;    /* no descriptor was free for the last caller */

    arena arena;
    extent_allocator *allocator;
    prefault *prefault;
    int64_t trim_at_us;
    uint64_t ring_bytes, ring_bytes_max;
    uint32_t links_max;
    mr_status (*explain)(void *context, int pid, int wait_status, char *out, size_t size);
    void *explain_context;

    list peers;  /* all records */
    list doomed; /* to be dropped by broker_settle */
    timer_heap deadlines;
    broker_peer *process_blocks[PROCESS_BLOCKS_MAX];
    uint32_t strangers, members;
    map processes; /* process → member */
    uint64_t process_next;

    map links; /* number → broker_link, owned */
    uint32_t link_next, rings;

    uint64_t exported; /* bytes in extents allocated to the host */
    uint32_t loans;
};

/* ---- broker.c */

MR_MUST mr_status broker_take(broker *broker, uint64_t size, extent *out); /* allocates a backed extent of the arena */

/* Drops the doomed peers and sets the timer. Called at the end of every callback of the loop. */
void broker_settle(broker *broker);
void broker_listen(broker *broker, bool listen); /* off while there are too many strangers */

/* ---- broker_peers.c */

void broker_peer_accept(broker *broker, int fd); /* moved */
void broker_peer_due(broker_peer *peer);         /* its deadline has passed */

/* Sends a message to a member and rings its doorbell. Never blocks, never frees anything. */
void broker_tell(broker_peer *peer, const broker_wire *message, int fd);

bool broker_peer_reads(const broker_peer *peer);                       /* false: too many messages are queued for it */
broker_peer *broker_peer_find(const broker *broker, const char *name); /* the member with this name; NULL: none */

/* Marks the peer to be dropped with this cause by the next broker_settle. */
void broker_peer_doom(broker_peer *peer, mr_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void broker_peer_drop(broker_peer *peer);                   /* broker_settle calls it for a doomed peer */
void broker_peer_forget(broker_peer *peer);                 /* frees a ghost without links that is harmless */
void broker_peer_free(broker_peer *peer, const cause *why); /* unconditionally; `why` is sent where possible */

/* ---- broker_link.c */

void broker_link_connect(broker_peer *peer, const broker_wire *message);
void broker_link_resize(broker_peer *peer, const broker_wire *message);
void broker_link_release(broker_peer *peer, const broker_wire *message);
void broker_link_close(broker_peer *peer, const broker_wire *message);
void broker_links_tell_gone(broker_peer *peer, const cause *why); /* to all processes linked to it */
void broker_links_done(broker_peer *peer);                        /* marks all sides of the peer as done */
void broker_links_free(broker *broker);                           /* all links */
