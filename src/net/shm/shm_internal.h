/* shm_internal.h — internals of the shared-memory transport shared by shm_transport.c and shm_wait.c; see
 * shm_transport.h.
 *
 * Invariants (shm_transport_check)
 *  1  A link is in the table at its index, the lower bits of its id; the broker's index has no link. link_count is the
 *     number of links.
 *  2  `hot` contains each hot link once, at most SHM_TRANSPORT_HOT_MAX; only a link that has its rings is hot or sends.
 *  3  Unsent bytes of a body exist only while the body is being sent; at most the announced bytes of a body arrive.
 *  4  Each link's ends of its rings satisfy the invariants of ring.h. */
#pragma once
#include "base/map.h"
#include "net/shm/doorbell.h"
#include "net/shm/shm_link.h"
#include "net/shm/shm_transport.h"

enum {
    SHM_TRANSPORT_HOT_MAX = 8,
    SHM_TRANSPORT_CLOCK_EVERY = 16, /* polls between two clock reads: a read costs as much as a poll */
};

struct shm_transport { /* fields of every poll first, tables last */
    shm_host host;
    shm_link *hot[SHM_TRANSPORT_HOT_MAX];
    uint32_t hot_count;
    uint32_t polls;   /* since the last clock read */
    bool control_due; /* the broker may have sent a message */
    bool polling;
    bool broker_gone;
    shm_link *last; /* the link that received last: spinning waits for its peer */
    list to_visit;  /* links with events other than records in their ring */

    arena arena; /* a copy of the client's, for locality */
    int event_fd;
    uint64_t patience;                   /* ticks */
    size_t heard;                        /* messages received from the broker */
    uint64_t control_ticks, control_gap; /* time of the last poll of the broker's socket */
    cause broker_cause;

    int64_t ring_idle_us, idle_look_us; /* next check for idle grown rings; CLOCK_NEVER_US: none has grown */

    event_loop_watch *watch_event, *watch_broker; /* attached */
    event_loop_idle *idle;
    event_loop_timer *timer;

    int interrupt_fd; /* polled as shm_transport_watch says; -1: none */
    void (*interrupt)(void *context);
    void *interrupt_context;

    _Atomic uint64_t sleeps_futex, sleeps_loop; /* as the counters of spin_wait.h */

    uint32_t link_count, next_index;
    map numbers; /* links announced by the broker, by its numbers */
    shm_link *links[PROCESS_BLOCK_LINKS_MAX];
    uint32_t generations[PROCESS_BLOCK_LINKS_MAX];
};

/* Stops polling a ring directly. If a record comes at that moment, this sets the ready bit itself. */
void shm_transport_arm(shm_transport *transport, shm_link *link);

/* shm_check.c: asserts the invariants above (base/invariants.h) */
void shm_transport_check(const shm_transport *transport);
