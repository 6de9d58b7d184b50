/* event_loop.h — event loop on libuv. Only this module and net/socket, which uses its handles, include libuv.
 *
 * One loop, one thread. An iteration runs due timers, calls the idles, waits for descriptors, timers and wake-ups, and
 * calls back for each. Times are in microseconds; libuv counts milliseconds, so a wait may last up to one millisecond
 * longer than requested, never shorter.
 *
 * Ownership  The loop's user owns the objects of *_add and *_create and ends them with *_remove or *_destroy, which may
 *            be called anywhere on the loop's thread, also in the object's own callback. The callback is not called
 *            again after that. All objects must be ended before event_loop_destroy. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "miniray/status.h"

typedef struct event_loop event_loop;

MR_MUST mr_status event_loop_create(event_loop **out);
/* All objects opened on the loop must be closed or closing; runs the last callbacks. */
void event_loop_destroy(event_loop *loop);
uv_loop_t *event_loop_uv(event_loop *loop);

/* Runs until event_loop_stop, even when there is nothing to wait for. */
void event_loop_run(event_loop *loop);
/* Runs one iteration; waits at most timeout_us (< 0: no limit). */
void event_loop_run_once(event_loop *loop, int64_t timeout_us);
/* Ends the current run, or the next one before it waits. */
void event_loop_stop(event_loop *loop);
void event_loop_wake(event_loop *loop); /* ends a wait; callable from any thread or signal handler */

/* From this call on the loop polls before it sleeps if recent waits were short (net/adaptive_poll.h): in
 * event_loop_run, event_loop_run_once and event_loop_pause. */
void event_loop_look_first(event_loop *loop);

/* For a loop that several threads drive in turn under a lock: one of them waits without the lock. event_loop_pause_us,
 * called with the lock after event_loop_run_once(loop, 0), returns how long the loop may wait (< 0: no limit).
 * event_loop_pause waits that long, or until a descriptor is ready or a thread wakes the loop, and runs no callbacks.
 * Returns true if a lookout was ready before the thread slept. */
int64_t event_loop_pause_us(event_loop *loop);
bool event_loop_pause(event_loop *loop, int64_t timeout_us);

int64_t event_loop_now_us(event_loop *loop); /* monotonic, the same as clock_real() */

/* Idle callbacks run before the loop waits and once more when a run ends; transports flush there. */
typedef void event_loop_idle_fn(void *context);
typedef struct event_loop_idle event_loop_idle;
event_loop_idle *event_loop_idle_add(event_loop *loop, event_loop_idle_fn *fn, void *context);
void event_loop_idle_remove(event_loop_idle *idle);
void event_loop_idle_again(event_loop *loop); /* called in an idle: all idles run once more before the loop waits */

/* A source of input that is not a descriptor: polled before the loop sleeps, which then polls first (see above). An
 * idle fetches its input. All functions are called by the thread that drives the loop, also in event_loop_pause. */
typedef struct event_loop_lookout_ops {
    bool (*ready)(void *context);
    bool (*arm)(void *context); /* called before the loop sleeps: a descriptor shall wake it; false: ready already */
    void (*disarm)(void *context);
} event_loop_lookout_ops;
typedef struct event_loop_lookout event_loop_lookout;
/* `ops` is static. */
event_loop_lookout *event_loop_lookout_add(event_loop *loop, const event_loop_lookout_ops *ops, void *context);
/* Must not be called in the lookout's own callbacks. */
void event_loop_lookout_remove(event_loop_lookout *lookout);

/* Calls back while a descriptor is readable, writable (event_loop_watch_set) or broken. The caller keeps the
 * descriptor, which becomes non-blocking. */
typedef struct event_loop_watch event_loop_watch;
typedef void event_loop_watch_fn(void *context);
MR_MUST mr_status event_loop_watch_add(event_loop *loop, int fd, event_loop_watch_fn *fn, void *context,
                                       event_loop_watch **out);
/* Sets the events to call back for; initially only reads. */
void event_loop_watch_set(event_loop_watch *watch, bool reads, bool writes);
void event_loop_watch_urgent(event_loop_watch *watch); /* only for urgent events (POLLPRI), as pressure files have */
void event_loop_watch_remove(event_loop_watch *watch); /* the descriptor may be closed at once */

/* One-shot timers; a timer set again in its own callback repeats. */
typedef struct event_loop_timer event_loop_timer;
typedef void event_loop_timer_fn(void *context);
event_loop_timer *event_loop_timer_create(event_loop *loop, event_loop_timer_fn *fn, void *context);
void event_loop_timer_set(event_loop_timer *timer, int64_t delay_us); /* < 0: off */
void event_loop_timer_destroy(event_loop_timer *timer);

mr_status event_loop_status(int uv_error, const char *what); /* a libuv error as a status; keeps libuv's text */
