/* lane.h — the sending side of one link in shared memory: a small message is written straight into the ring.
 *
 * A port (port.h) lends it to whoever sends on a link again and again, so that a message costs no look into the port's
 * tables: lane_reserve, fill in, lane_commit are what the transport's reserve and commit do for a small message, in
 * place. lane_reserve says NULL for all that is not small, or not now; the transport's own reserve then knows why.
 *
 * The limit is 0 while nothing may be sent this way (the link is not open, a body leaves, another ring waits): so
 * nobody has to ask whether the link still is what it was. Borrowed from on_open until on_closed of its link.
 *
 * Threads   as the port: with the baton's lock held. */
#pragma once
#include "base/failpoint.h"
#include "net/shm/ring.h"
#include "net/shm/waiter.h"

enum {
    LANE_MESSAGE = 1, /* the type of its records */
    LANE_TAIL = 8,    /* bytes behind each head, for the size of a body that may follow */
};

typedef struct lane {
    size_t limit; /* heads below this are written at once */
    station *self;
    bool used; /* something was sent since the last look for idle rings */
    ring_producer send;
    void (*tell)(struct lane *lane); /* the other side does not look: marks its ready bit and rings */
} lane;

/* A message will be written in a moment: has its line come meanwhile. */
static inline void lane_foresee(const lane *lane) {
    if (lane->limit != 0) cpu_prefetch_write(lane->send.shared->data + lane->send.offset);
}

static inline uint8_t *lane_reserve(lane *lane, size_t size) {
    if (__builtin_expect(size >= lane->limit, 0)) return NULL;
    uint8_t *at = ring_reserve(&lane->send, size + LANE_TAIL);
    if (__builtin_expect(at != NULL, 1)) FAILPOINT("port.reserved");
    return at;
}

/* Publishes what was reserved, by whichever of the two, as a record of that type. */
static inline void lane_publish(lane *lane, uint32_t size, uint16_t type) {
    waiter_publish(lane->self);
    lane->used = true;
    FAILPOINT("port.publish");
    if (__builtin_expect(ring_publish(&lane->send, size, type), 0)) {
        FAILPOINT("port.published");
        lane->tell(lane);
    }
}

static inline void lane_commit(lane *lane, size_t size) { lane_publish(lane, (uint32_t)size, LANE_MESSAGE); }
