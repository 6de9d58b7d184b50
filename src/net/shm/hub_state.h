/* hub_state.h — records of the broker, shared by hub.c (life), hub_guest.c (processes) and hub_link.c (links). No other
 * file includes this.
 *
 * A guest's record:
 *
 *   accepted ──► STRANGER ── HELLO ──► MEMBER ── BYE, end of file, death, dropped ──► GHOST ──► freed
 *                    └─ no HELLO in time, refused ──► freed
 *
 *   A member has a station. A ghost is a member that is gone: its links' other sides have been told. Its station is
 *   reused, and its record freed, when its process can touch the arena no more (it said BYE, closed its socket or
 * ended) and nobody has a link to it any more.
 *
 * A link has two sides. Each owns the ring it sends into: the extent in use now, and older ones that the receiving side
 * has not released yet. A side is done when its guest closed the link or can touch the arena no more; when both are
 * done the link and all its extents are freed.
 *
 * Invariants (hub_check)  the extents in the books are exactly those that are allocated; a member's `open` is the
 * number of its sides that are not done; every link is in both guests' lists. */
#pragma once
#include "base/heap.h"
#include "base/list.h"
#include "base/map.h"
#include "net/shm/extents.h"
#include "net/shm/hub.h"
#include "net/shm/hub_packet.h"
#include "net/shm/watermark.h"
#include "net/unix_listener.h"

enum {
    HUB_STRANGERS_MAX = 64,     /* more wait in the socket's backlog */
    HUB_HELLO_US = 5 * 1000000, /* how long a stranger may stay one */
    HUB_SHUT_US = 10 * 1000,    /* how long a door without a spare descriptor stays shut */
    HUB_GRACE_US = 500 * 1000,  /* how long to wait for the cause of an end before it is told without */
    HUB_QUEUE_MAX = 64,         /* messages kept for a guest that does not read; see hub_guest.c */
    HUB_BATCH = 64,             /* messages read from one guest before others get a turn */
    HUB_OLD_RINGS_MAX = 4,      /* of one side */
    HUB_RING_ZEROED = EXTENT_UNIT,
};

typedef enum hub_guest_state { HUB_STRANGER, HUB_MEMBER, HUB_GHOST } hub_guest_state;

typedef struct hub_guest {
    hub *hub;   /* borrowed */
    list place; /* in hub->guests */
    hub_guest_state state;
    loop_watch *socket_watch, *pid_watch; /* NULL: none */
    int fd;                               /* owned; -1: closed */
    int pidfd, event_fd;                  /* owned; -1: none yet */
    int pid;
    bool is_child;   /* of the hub's process: somebody may tell how it ended */
    bool at_end;     /* its socket has nothing more to read */
    bool harmless;   /* it can touch the arena no more */
    bool wait_known; /* wait_status is how it ended */
    int wait_status;
    uint32_t station;
    uint64_t process;
    char name[PEER_NAME_MAX];
    packet_queue queue;
    heap_item deadline; /* for HELLO, or for the cause of its end */
    list links;         /* hub_side.place */
    uint32_t open;
    list doomed_place; /* in hub->doomed */
    cause doom;        /* why it will be dropped; status MR_OK: it will not */
} hub_guest;

typedef struct hub_side {
    hub_guest *guest;      /* borrowed: outlives the link */
    struct hub_link *link; /* that it is a side of */
    list place;            /* in guest->links */
    bool done;
    extent ring; /* the one it sends into */
    extent old[HUB_OLD_RINGS_MAX];
    uint32_t old_count;
} hub_side;

typedef struct hub_link {
    uint32_t number;
    hub_side sides[2]; /* the one that asked, and the other */
} hub_link;

struct hub {
    loop *loop; /* borrowed */
    unix_listener path;
    loop_watch *listener;
    bool listening;
    loop_timer *timer;
    int spare_fd; /* given up for a moment when no other number is free, so that a caller can be turned away; or -1 */
    int64_t shut_until_us; /* nobody is let in or turned away before */
    bool no_descriptor;    /* was free for the last process that came */

    arena arena;
    extents *extents;
    watermark *watermark;
    int64_t trim_at_us;
    uint64_t ring_bytes, ring_bytes_max;
    uint32_t links_max;
    void (*explain)(void *context, int pid, int wait_status, char *out, size_t size);
    void *explain_context;

    list guests; /* all records */
    list doomed; /* to be dropped by hub_settle */
    heap deadlines;
    hub_guest *stations[STATIONS_MAX];
    uint32_t strangers, members;
    map processes; /* process → member */
    uint64_t process_next;

    map links; /* number → hub_link, owned */
    uint32_t link_next, rings;

    uint64_t lent; /* bytes in extents that the host has */
    uint32_t loans;
};

/* ---- hub.c */

MR_MUST mr_status hub_take(hub *hub, uint64_t size, extent *out); /* a stretch of the arena, backed */

/* Drops whoever was doomed meanwhile and sets the timer. Every callback of the loop ends with it. */
void hub_settle(hub *hub);
void hub_listen(hub *hub, bool listen); /* stops while there are too many strangers */

/* ---- hub_guest.c */

void hub_guest_accept(hub *hub, int fd); /* moved */
void hub_guest_due(hub_guest *guest);    /* its deadline came */

/* Tells a member something; its bell is rung. Never blocks, never frees anything. */
void hub_tell(hub_guest *guest, const wire *message, int fd);

bool hub_guest_reads(const hub_guest *guest);                /* false: too much waits for it */
hub_guest *hub_guest_find(const hub *hub, const char *name); /* the member with this name; NULL: none */

/* Will be dropped, for this reason, by the next hub_settle. */
void hub_guest_doom(hub_guest *guest, mr_status status, const char *format, ...) __attribute__((format(printf, 3, 4)));
void hub_guest_drop(hub_guest *guest);                   /* what hub_settle does with a doomed one */
void hub_guest_forget(hub_guest *guest);                 /* frees a ghost if nothing holds it back any more */
void hub_guest_free(hub_guest *guest, const cause *why); /* unconditionally; `why` is said where possible */

/* ---- hub_link.c */

void hub_link_connect(hub_guest *guest, const wire *message);
void hub_link_resize(hub_guest *guest, const wire *message);
void hub_link_release(hub_guest *guest, const wire *message);
void hub_link_close(hub_guest *guest, const wire *message);
void hub_links_tell_gone(hub_guest *guest, const cause *why); /* to everybody who has a link to it */
void hub_links_done(hub_guest *guest);                        /* none of its sides will be used again */
void hub_links_free(hub *hub);                                /* all */
