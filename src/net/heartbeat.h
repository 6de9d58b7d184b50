/* heartbeat.h — liveness check of one link by heartbeats.
 *
 * Pure: takes `now_us`, does no I/O. The owner reports whenever anything came from the peer (a ping, a pong, data) and
 * asks it once per interval what to do. A peer that was not heard since the last tick is pinged, and must answer every
 * ping; one that has left `misses_max` pings in a row unanswered is dead. So two sides with different intervals
 * understand each other, and a busy link carries no pings at all.
 *
 *   heard since the last tick    count = 0                    nothing
 *   silent                       count < misses_max: + 1      ping
 *                                count == misses_max          dead
 *   silent, but the tick came    the count stays              ping
 *   an interval late or more
 *
 * The last line is for a process that was itself stopped (SIGSTOP, a suspended machine, a debugger, a long callback):
 * it finds that much time has passed, while the bytes of its peers wait unread in its sockets. It counts intervals in
 * which it could have heard, not time. Two late ticks in a row do count: a process that is always late still notices
 * deaths.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

typedef struct heartbeat {
    int64_t interval_us; /* <= 0: off, never pings and never dies */
    uint32_t misses_max;
    uint32_t misses;  /* pings in a row that were not answered */
    int64_t due_us;   /* the next tick */
    int64_t heard_us; /* the last tick before which something came, or the start */
    bool heard;       /* since the last tick */
    bool was_late;    /* the last tick was not counted, because it was late */
} heartbeat;

typedef enum heartbeat_verdict { HEARTBEAT_NOTHING, HEARTBEAT_PING, HEARTBEAT_DEAD } heartbeat_verdict;

void heartbeat_init(heartbeat *heartbeat, int64_t interval_us, uint32_t misses_max, int64_t now_us);

/* Something came. Cheap enough for every read: no clock. */
static inline void heartbeat_heard(heartbeat *heartbeat) { heartbeat->heard = true; }

int64_t heartbeat_next_us(const heartbeat *heartbeat); /* when to tick; CLOCK_NEVER_US if it is off */

/* The next action; HEARTBEAT_NOTHING before the tick is due. */
heartbeat_verdict heartbeat_tick(heartbeat *heartbeat, int64_t now_us);

/* For the text: how long it has been silent, to the interval. */
int64_t heartbeat_silence_us(const heartbeat *heartbeat, int64_t now_us);
