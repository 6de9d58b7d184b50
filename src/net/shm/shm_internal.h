/* shm_internal.h — internals of the shared-memory transport shared by shm_transport.c and shm_wait.c; see
 * shm_transport.h.
 *
 * Invariants (shm_transport_check)
 *  1  A link is in the table at its index, which is the lower half of its id; the index of the broker has none. Links
 *     are counted.
 *  2  `hot` has each link that is hot, once, SHM_TRANSPORT_HOT_MAX at most; only a link that the broker has joined is
 *     hot or sends.
 *  3  Bytes of a body wait only while the body is under way; no more of one has come than was announced.
 *  4  Both ends of its rings are sound (ring.h). */
#pragma once
#include "base/map.h"
#include "net/shm/doorbell.h"
#include "net/shm/shm_link.h"
#include "net/shm/shm_transport.h"

enum {
    SHM_TRANSPORT_HOT_MAX = 8,
    SHM_TRANSPORT_CLOCK_EVERY = 16, /* polls between two looks at the clock: one costs as much as a poll */
};

struct shm_transport { /* fields that every poll touches are at the beginning, the tables at the end */
    shm_host host;
    shm_link *hot[SHM_TRANSPORT_HOT_MAX];
    uint32_t hot_count;
    uint32_t polls;   /* since the clock was looked at */
    bool control_due; /* the broker may have sent something */
    bool polling;
    bool broker_gone;
    shm_link *last; /* the link that received last: worth spinning for */
    list todo;      /* links with something to do that is not in their ring */

    arena arena; /* a copy of the client's, close at hand */
    int event_fd;
    uint64_t patience;                   /* ticks */
    size_t heard;                        /* messages of the broker */
    uint64_t control_ticks, control_gap; /* when the broker was asked last */
    cause broker_cause;

    int64_t ring_idle_us, idle_look_us; /* when to look for grown rings that are quiet; CLOCK_NEVER_US: none is grown */

    event_loop_watch *watch_event, *watch_broker; /* attached */
    event_loop_idle *idle;
    event_loop_timer *timer;

    uint64_t sleeps_futex, sleeps_loop;

    uint32_t link_count, next_index;
    map numbers; /* links that the broker has announced, by its number of them */
    shm_link *links[PROCESS_BLOCK_LINKS_MAX];
    uint32_t generations[PROCESS_BLOCK_LINKS_MAX];
};

/* Stops looking at a ring directly. If something came at that moment, this sets the ready bit itself. */
void shm_transport_arm(shm_transport *transport, shm_link *link);

/* shm_check.c: asserts the invariants above (base/invariants.h) */
void shm_transport_check(const shm_transport *transport);
