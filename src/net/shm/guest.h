/* guest.h — connection of a process to the shared-memory broker: it receives the arena and asks for rings.
 *
 * The socket to the hub carries only rare things (joining, links coming and going, rings that change size); messages go
 * through rings. Not thread-safe: one driver. A fork of the process is no guest: it may only guest_leave, which then
 * says nothing to the hub.
 *
 * Sleeping  After each thing the hub says it rings this process's bell. So: arm the bell, guest_poll once more, sleep.
 */
#pragma once
#include "net/shm/arena.h"
#include "net/transport.h"

typedef struct guest guest;

typedef struct guest_link { /* what the hub says about a new link */
    uint32_t link;          /* the hub's number of it, in both processes */
    uint32_t tag;           /* ours from guest_connect, or 0 when the other side asked */
    uint32_t peer_station;
    peer peer;
    extent send, receive; /* rings: the first 4 KB (all of the header) are zeros, what follows may hold anything */
    int peer_event_fd;    /* moved to the callee: writing a u64 of 1 wakes a peer that sleeps in its loop */
} guest_link;

typedef struct guest_events {
    void (*on_link)(void *context, const guest_link *link);
    void (*on_refused)(void *context, uint32_t tag, const cause *why); /* answer to guest_connect */
    void (*on_resized)(void *context, uint32_t link, extent send);   /* a new sending ring; size 0: not to be had now */
    void (*on_gone)(void *context, uint32_t link, const cause *why); /* the other process closed the link or died */
    void (*on_hub_gone)(void *context, const cause *why);            /* the hub closed or died: all is over */
} guest_events;

/* Joins: connects, is checked, maps the arena, takes a station. Waits at most timeout_us. `event_fd` (borrowed for the
 * guest's life, non-blocking) is what others write to when this process sleeps in its loop. `name` may be NULL or
 * empty. MR_NOT_FOUND: no hub is there. MR_DENIED: of another user. MR_EXISTS: the name is taken. MR_TIMEOUT, MR_BUSY.
 */
MR_MUST mr_status guest_join(const char *path, const char *name, int event_fd, int64_t timeout_us, guest **out);
/* Says goodbye: peers see MR_CLOSED, not a death. Waits up to 0.1 s if thousands of requests are still to be sent. */
void guest_leave(guest *guest);

const arena *guest_arena(const guest *guest);
uint32_t guest_station(const guest *guest);
uint64_t guest_process(const guest *guest); /* this process's id */
int guest_fd(const guest *guest);           /* readable when guest_poll has something to do */

/* Reads what the hub said and calls the events, all of it. Never blocks; costs one system call when there is nothing.
 * Events may make requests, but not leave. */
void guest_poll(guest *guest, const guest_events *events, void *context);

/* Requests. Connecting and resizing are answered by an event. MR_CLOSED: the hub is gone. MR_BUSY: thousands of them
 * wait; release and close are never refused for that. They never block: what the socket does not take at once is kept
 * and sent by guest_poll. `tag` is not 0. */
MR_MUST mr_status guest_connect(guest *guest, uint64_t process, uint32_t tag); /* peer by process id */
MR_MUST mr_status guest_connect_name(guest *guest, const char *name, uint32_t tag);
MR_MUST mr_status guest_resize(guest *guest, uint32_t link, uint64_t size);
MR_MUST mr_status guest_release(guest *guest, uint32_t link,
                                extent ring);               /* a receiving ring that was left for a new one */
MR_MUST mr_status guest_close(guest *guest, uint32_t link); /* done with both rings */
