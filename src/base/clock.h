/* clock.h — clock interface: real or virtual time.
 *
 * Protocol code receives `now_us` as an argument; its host has a clock. monotonic_us never goes back and cannot be
 * compared between processes; wall_us is calendar time (µs since 1970) and may jump. */
#pragma once
#include <stdint.h>

#define CLOCK_NEVER_US INT64_MAX /* a deadline that never passes */

typedef struct clock_ops {
    int64_t (*monotonic_us)(void *self);
    int64_t (*wall_us)(void *self);
} clock_ops;

typedef struct clock_source { /* two words, passed by value */
    const clock_ops *ops;
    void *self;
} clock_source;

static inline int64_t clock_now_us(clock_source clock) { return clock.ops->monotonic_us(clock.self); }
static inline int64_t clock_wall_us(clock_source clock) { return clock.ops->wall_us(clock.self); }
static inline int64_t clock_earlier_us(int64_t a, int64_t b) { return a < b ? a : b; } /* the earlier deadline */

clock_source clock_real(void);

/* A clock that stands still until virtual_clock_advance moves it. */
typedef struct virtual_clock {
    int64_t now_us;
    int64_t wall_offset_us;
} virtual_clock;

clock_source clock_virtual(virtual_clock *clock);                /* borrowed while the clock is used */
void virtual_clock_advance(virtual_clock *clock, int64_t to_us); /* never moves the clock back */

/* The CPU's cycle counter where the machine has one, for spinning and measuring. */
uint64_t clock_ticks(void);
double clock_ticks_per_us(void); /* measured once per process where the machine does not state it */
int64_t clock_ns(void);          /* monotonic, for measuring */

/* deadline = now + timeout without overflow; a negative timeout means never. */
int64_t clock_deadline_us(int64_t now_us, int64_t timeout_us);
