/* heartbeat.h — liveness check of one link by heartbeats.
 *
 * Pure: takes `now_us`, does no I/O. The owner reports every receipt from the peer (a ping, a pong, data) and calls
 * heartbeat_tick once per interval for the next action. A peer from which nothing was received since the last tick is
 * pinged and must answer every ping; a peer that left `misses_max` consecutive pings unanswered is dead. Two sides may
 * have different intervals, and a busy link carries no pings.
 *
 *   received since the last tick count = 0                    nothing
 *   silent                       count < misses_max: + 1      ping
 *                                count == misses_max          dead
 *   silent, and the tick is      the count stays              ping
 *   an interval late or more
 *
 * The last row is for a process that was itself stopped (SIGSTOP, a suspended machine, a debugger, a long callback):
 * time has passed while the bytes of its peers wait unread in its sockets. Intervals in which the process could receive
 * are counted, not time. Of two late ticks in a row the second counts, so a process that is always late still detects
 * dead peers.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

typedef struct heartbeat {
    int64_t interval_us; /* <= 0: off, neither pings nor HEARTBEAT_DEAD */
    uint32_t misses_max;
    uint32_t misses;  /* consecutive unanswered pings */
    int64_t due_us;   /* the next tick */
    int64_t heard_us; /* the last tick before which something was received, or the start */
    bool heard;       /* something was received since the last tick */
    bool was_late;    /* the last tick was not counted, because it was late */
} heartbeat;

typedef enum heartbeat_verdict { HEARTBEAT_NOTHING, HEARTBEAT_PING, HEARTBEAT_DEAD } heartbeat_verdict;

void heartbeat_init(heartbeat *heartbeat, int64_t interval_us, uint32_t misses_max, int64_t now_us);

/* Reports a receipt. Cheap enough for every read: reads no clock. */
static inline void heartbeat_heard(heartbeat *heartbeat) { heartbeat->heard = true; }

int64_t heartbeat_next_us(const heartbeat *heartbeat); /* time of the next tick; CLOCK_NEVER_US if off */

/* The next action; HEARTBEAT_NOTHING before the tick is due. */
heartbeat_verdict heartbeat_tick(heartbeat *heartbeat, int64_t now_us);

/* How long the peer has been silent, to the precision of an interval; for error texts. */
int64_t heartbeat_silence_us(const heartbeat *heartbeat, int64_t now_us);
