/* broker_client.h — connection of a process to the shared-memory broker: receives the arena and requests rings.
 *
 * The socket to the broker carries only rare messages (joining, creation and end of links, resized rings); user
 * messages go through rings. Not thread-safe: one driver. A fork of the process is no client: the only call allowed
 * there is broker_client_leave, which then sends nothing to the broker.
 *
 * Sleeping  The broker rings this process's doorbell after each message that it sends. A client therefore arms the
 *           doorbell, calls broker_client_poll once more, and sleeps.
 */
#pragma once
#include "net/shm/arena.h"
#include "net/transport.h"

typedef struct broker_client broker_client;

typedef struct broker_client_link { /* the broker's message about a new link */
    uint32_t link;                  /* the broker's link number, the same in both processes */
    uint32_t tag;                   /* this process's from broker_client_connect; 0: requested by the peer */
    uint32_t peer_process_block;
    peer peer;
    extent send, receive; /* rings: the first 4 KB (with the header) are zero, the rest is arbitrary */
    int peer_event_fd;    /* moved to the callee: writing a u64 of 1 wakes a peer that sleeps in an event loop */
} broker_client_link;

typedef struct broker_client_events {
    void (*on_link)(void *context, const broker_client_link *link);
    void (*on_refused)(void *context, uint32_t tag, const cause *why); /* answer to broker_client_connect */
    void (*on_resized)(void *context, uint32_t link, extent send);     /* a new sending ring; size 0: unavailable */
    void (*on_gone)(void *context, uint32_t link, const cause *why);   /* the other process closed the link or died */
    void (*on_broker_gone)(void *context, const cause *why);           /* the broker closed or died */
} broker_client_events;

/* Joins: connects, is checked, maps the arena, gets a process block. Waits at most timeout_us. Other processes write to
 * `event_fd` (borrowed for the client's life, non-blocking) when this process sleeps in an event loop. `name` may be
 * NULL or empty. MR_NOT_FOUND: no broker. MR_DENIED: a broker of another user. MR_EXISTS: the name is taken.
 * MR_TIMEOUT, MR_BUSY. */
MR_MUST mr_status broker_client_join(const char *path, const char *name, int event_fd, int64_t timeout_us,
                                     broker_client **out);
/* Sends BYE, so that peers get MR_CLOSED instead of a death. Waits up to 0.1 s if thousands of requests are unsent. */
void broker_client_leave(broker_client *client);

const arena *broker_client_arena(const broker_client *client);
uint32_t broker_client_process_block(const broker_client *client);
uint64_t broker_client_process(const broker_client *client); /* this process's id */
int broker_client_fd(const broker_client *client);           /* readable when broker_client_poll has something to do */

/* Reads all messages of the broker and calls the events. Never blocks; costs one system call when there is no message.
 * Events may make requests, but not leave. */
void broker_client_poll(broker_client *client, const broker_client_events *events, void *context);

/* Requests. An event answers connecting and resizing. MR_CLOSED: the broker has ended. MR_BUSY: thousands of requests
 * are unsent; release and close never return it. Requests never block: broker_client_poll sends a request that the
 * socket does not accept at once. `tag` is not 0. */
MR_MUST mr_status broker_client_connect(broker_client *client, uint64_t process, uint32_t tag); /* peer by process id */
MR_MUST mr_status broker_client_connect_name(broker_client *client, const char *name, uint32_t tag);
MR_MUST mr_status broker_client_resize(broker_client *client, uint32_t link, uint64_t size);
MR_MUST mr_status broker_client_release(broker_client *client, uint32_t link,
                                        extent ring); /* a receiving ring that was replaced by a new one */
MR_MUST mr_status broker_client_close(broker_client *client, uint32_t link); /* no longer uses its rings */
