/* heartbeat.c — see heartbeat.h. */
#include "net/heartbeat.h"

#include "base/assert.h"
#include "base/clock.h"

void heartbeat_init(heartbeat *heartbeat, int64_t interval_us, uint32_t misses_max, int64_t now_us) {
    MR_ASSERT(interval_us <= 0 || misses_max > 0);
    *heartbeat = (struct heartbeat){
        .interval_us = interval_us,
        .misses_max = misses_max,
        .due_us = interval_us <= 0 ? CLOCK_NEVER_US : clock_deadline_us(now_us, interval_us),
        .heard_us = now_us,
    };
}

int64_t heartbeat_next_us(const heartbeat *heartbeat) { return heartbeat->due_us; }

heartbeat_verdict heartbeat_tick(heartbeat *heartbeat, int64_t now_us) {
    if (heartbeat->due_us == CLOCK_NEVER_US || now_us < heartbeat->due_us) return HEARTBEAT_NOTHING;
    bool late = now_us - heartbeat->due_us >= heartbeat->interval_us;
    heartbeat->due_us = clock_deadline_us(now_us, heartbeat->interval_us);
    if (heartbeat->heard) {
        heartbeat->heard = heartbeat->was_late = false;
        heartbeat->misses = 0;
        heartbeat->heard_us = now_us;
        return HEARTBEAT_NOTHING;
    }
    heartbeat->was_late = late && !heartbeat->was_late;
    if (heartbeat->was_late) return HEARTBEAT_PING;
    if (heartbeat->misses == heartbeat->misses_max) return HEARTBEAT_DEAD;
    heartbeat->misses++;
    return HEARTBEAT_PING;
}

int64_t heartbeat_silence_us(const heartbeat *heartbeat, int64_t now_us) { return now_us - heartbeat->heard_us; }
