/* event_loop.h — event loop on libuv; besides net/socket, which uses its handles, no other file knows libuv.
 *
 * One loop, one thread. An iteration runs due timers, calls the idles, waits for descriptors, timers and wake-ups, and
 * calls back for each. Times are in microseconds; libuv counts milliseconds, so a wait may last up to one longer than
 * asked, never shorter.
 *
 * Ownership  What *_add and *_create give out is owned by the loop's user and ends with *_remove or *_destroy, which
 *            may be called anywhere on the loop's thread, also inside the callback of the thing itself. After that the
 *            callback does not come again. All of it must be gone before event_loop_destroy. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "miniray/status.h"

typedef struct event_loop event_loop;

MR_MUST mr_status event_loop_create(event_loop **out);
/* everything that was opened on it must be closed or closing; runs the last callbacks */
void event_loop_destroy(event_loop *loop);
uv_loop_t *event_loop_uv(event_loop *loop);

/* until event_loop_stop, also when there is nothing to wait for */
void event_loop_run(event_loop *loop);
/* one iteration; waits at most timeout_us (< 0: no limit) */
void event_loop_run_once(event_loop *loop, int64_t timeout_us);
/* ends the present run, or the next one before it waits */
void event_loop_stop(event_loop *loop);
void event_loop_wake(event_loop *loop); /* from any thread or signal handler: ends a wait */

/* From now on it looks for a while before it sleeps, where that has been worth it (net/adaptive_poll.h): in
 * event_loop_run, event_loop_run_once and event_loop_pause. */
void event_loop_look_first(event_loop *loop);

/* For a loop that several threads drive in turn, with a lock: one of them waits without it. event_loop_pause_us says,
 * with the lock and after event_loop_run_once(loop, 0), for how long there is nothing to do (< 0: no limit);
 * event_loop_pause waits so long, or until a descriptor is ready or a thread wakes the loop, and touches nothing. True:
 * a lookout was ready before it slept. */
int64_t event_loop_pause_us(event_loop *loop);
bool event_loop_pause(event_loop *loop, int64_t timeout_us);

int64_t event_loop_now_us(event_loop *loop); /* monotonic, the same as clock_real() */

/* Calls back before the loop waits, and once more when a run ends: where transports flush. */
typedef void event_loop_idle_fn(void *context);
typedef struct event_loop_idle event_loop_idle;
event_loop_idle *event_loop_idle_add(event_loop *loop, event_loop_idle_fn *fn, void *context);
void event_loop_idle_remove(event_loop_idle *idle);
void event_loop_idle_again(event_loop *loop); /* from one of them: all run once more before the loop waits */

/* Something that is no descriptor and may have news: looked at before the loop sleeps, which then looks first (above).
 * An idle fetches its input. All are called by the driver of the loop, `ready` and the others also in
 * event_loop_pause. */
typedef struct event_loop_lookout_ops {
    bool (*ready)(void *context);
    bool (*arm)(void *context); /* the loop is about to sleep, and is to be woken by a descriptor; false: it is ready */
    void (*disarm)(void *context);
} event_loop_lookout_ops;
typedef struct event_loop_lookout event_loop_lookout;
/* ops: static */
event_loop_lookout *event_loop_lookout_add(event_loop *loop, const event_loop_lookout_ops *ops, void *context);
/* not in its own callbacks */
void event_loop_lookout_remove(event_loop_lookout *lookout);

/* Calls back while a descriptor is readable, writable (event_loop_watch_set) or broken; the descriptor stays the
 * caller's and becomes non-blocking. */
typedef struct event_loop_watch event_loop_watch;
typedef void event_loop_watch_fn(void *context);
MR_MUST mr_status event_loop_watch_add(event_loop *loop, int fd, event_loop_watch_fn *fn, void *context,
                                       event_loop_watch **out);
/* the events it calls back for: at first reads only */
void event_loop_watch_set(event_loop_watch *watch, bool reads, bool writes);
void event_loop_watch_remove(event_loop_watch *watch); /* the descriptor may be closed at once */

/* One-shot timers; one that is set again in its own callback repeats. */
typedef struct event_loop_timer event_loop_timer;
typedef void event_loop_timer_fn(void *context);
event_loop_timer *event_loop_timer_create(event_loop *loop, event_loop_timer_fn *fn, void *context);
void event_loop_timer_set(event_loop_timer *timer, int64_t delay_us); /* < 0: off */
void event_loop_timer_destroy(event_loop_timer *timer);

mr_status event_loop_status(int uv_error, const char *what); /* a libuv error as a status, with its text kept */
