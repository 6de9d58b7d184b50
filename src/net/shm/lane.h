/* lane.h — the sending side of one link in shared memory: small messages are written directly into the ring.
 *
 * The transport (shm_transport.h) gives a lane to a frequent sender on a link, so that a message costs no lookup in the
 * transport's tables: lane_reserve, fill in, lane_commit do in place what the transport's reserve and commit do for a
 * small message. lane_reserve returns NULL for messages that are not small or cannot be sent now; the transport's own
 * reserve then returns the cause.
 *
 * lane_commit_body sends a body of some kilobytes in several parts the same way, if there is room for all of it.
 *
 * The limit is 0 while the lane cannot be used (the link is not open, a body is being sent, a new ring is waiting): a
 * sender need not check the link's state. Borrowed from on_open until on_closed of its link.
 *
 * Runs: after several messages sent without a wait in between, more are expected, and publishing each one separately
 * costs a fence and takes the cache line from a reader close behind the writer. lane_hold then groups them into a run
 * (ring.h): the reader waits for the end of the run, for some microseconds at most, and the transport publishes the run
 * before it waits. A sender that holds records must drive its transport soon, or have a thread that does.
 *
 * Threads  As for the transport: with the poller's lock held. */
#pragma once
#include "base/bytes.h"
#include "base/failpoint.h"
#include "net/shm/ring.h"
#include "net/shm/spin_wait.h"

enum {
    LANE_MESSAGE = 1, /* the type of its records */
    LANE_TAIL = 8,    /* bytes after each head, for the size of a following body */
    LANE_ROW = 16,    /* consecutive messages that are published individually */
};

typedef struct lane_runs { /* state shared by the lanes of one transport */
    struct lane *holder;   /* the lane that may hold a run back; NULL: none */
    uint32_t in_row;       /* messages passed to lane_hold since the transport last waited */
} lane_runs;

typedef struct lane {
    size_t limit; /* heads below this size are written at once */
    process_block *self;
    bool used; /* something was sent since the last check for idle rings */
    ring_producer send;
    lane_runs *runs;                 /* of the lane's transport */
    void (*tell)(struct lane *lane); /* the reader is not polling: marks its ready bit and rings */
    bool (*body)(struct lane *lane, size_t size, const span *pieces, size_t count); /* implements lane_commit_body */
} lane;

/* Hint that a message will be written soon: prefetches its cache line. */
static inline void lane_foresee(const lane *lane) {
    if (lane->limit != 0) cpu_prefetch_write(lane->send.shared->data + lane->send.offset);
}

static inline uint8_t *lane_reserve(lane *lane, size_t size) {
    if (__builtin_expect(size >= lane->limit, 0)) return NULL;
    uint8_t *at = ring_reserve(&lane->send, size + LANE_TAIL);
    if (__builtin_expect(at != NULL, 1)) FAILPOINT("port.reserved");
    return at;
}

/* Publishes the message reserved by either of the two, as a record of that type. */
static inline void lane_publish(lane *lane, uint32_t size, uint16_t type) {
    spin_wait_publish(lane->self);
    lane->used = true;
    FAILPOINT("port.publish");
    if (__builtin_expect(ring_publish(&lane->send, size, type), 0)) {
        FAILPOINT("port.published");
        lane->tell(lane);
    }
}

static inline void lane_commit(lane *lane, size_t size) { lane_publish(lane, (uint32_t)size, LANE_MESSAGE); }

/* Publishes the message reserved by either of the two, with a body gathered from these parts, if all of it can be sent
 * at once, so the parts are borrowed for the call only. False: nothing was done, and the reservation stays. */
static inline bool lane_commit_body(lane *lane, size_t size, const span *pieces, size_t count) {
    return lane->limit != 0 && lane->body(lane, size, pieces, count);
}

/* Publishes the run that is held back, if there is one. */
static inline void lane_show(lane *lane) {
    if (lane->send.run_count == 0) return;
    FAILPOINT("port.show");
    if (ring_show(&lane->send)) lane->tell(lane);
}

/* As lane_commit, for a message that others may follow at once: after the first few in a row it is held back. */
static inline void lane_hold(lane *lane, size_t size) {
    lane_runs *runs = lane->runs;
    if (++runs->in_row <= LANE_ROW) {
        lane_commit(lane, size);
        return;
    }
    if (__builtin_expect(runs->holder != lane, 0)) {
        if (runs->holder != NULL) lane_show(runs->holder);
        runs->holder = lane;
    }
    spin_wait_publish(lane->self);
    lane->used = true;
    FAILPOINT("port.hold");
    if (__builtin_expect(ring_hold(&lane->send, (uint32_t)size, LANE_MESSAGE), 0)) lane->tell(lane);
}
