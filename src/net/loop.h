/* loop.h — event loop on libuv; besides net/stream, which uses its handles, no other file knows libuv.
 *
 * One loop, one thread. An iteration runs due timers, calls the idles, waits for descriptors, timers and wake-ups, and
 * calls back for each. Times are in microseconds; libuv counts milliseconds, so a wait may last up to one longer than
 * asked, never shorter.
 *
 * Ownership  What *_add and *_create give out is owned by the loop's user and ends with *_remove or *_destroy, which
 *            may be called anywhere on the loop's thread, also inside the callback of the thing itself. After that the
 *            callback does not come again. All of it must be gone before loop_destroy. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "miniray/status.h"

typedef struct loop loop;

MR_MUST mr_status loop_create(loop **out);
void loop_destroy(loop *loop); /* everything that was opened on it must be closed or closing; runs the last callbacks */
uv_loop_t *loop_uv(loop *loop);

void loop_run(loop *loop);                          /* until loop_stop, also when there is nothing to wait for */
void loop_run_once(loop *loop, int64_t timeout_us); /* one iteration; waits at most timeout_us (< 0: no limit) */
void loop_stop(loop *loop);                         /* ends the present run, or the next one before it waits */
void loop_wake(loop *loop);                         /* from any thread or signal handler: ends a wait */

/* From now on it looks for a while before it sleeps, where that has been worth it (net/vigil.h): in loop_run,
 * loop_run_once and loop_pause. */
void loop_look_first(loop *loop);

/* For a loop that several threads drive in turn, with a lock: one of them waits without it. loop_pause_us says, with
 * the lock and after loop_run_once(loop, 0), for how long there is nothing to do (< 0: no limit); loop_pause waits so
 * long, or until a descriptor is ready or somebody wakes the loop, and touches nothing. True: a lookout was ready
 * before it slept. */
int64_t loop_pause_us(loop *loop);
bool loop_pause(loop *loop, int64_t timeout_us);

int64_t loop_now_us(loop *loop); /* monotonic, the same as clock_real() */

/* Calls back before the loop waits, and once more when a run ends: where transports flush. */
typedef void loop_idle_fn(void *context);
typedef struct loop_idle loop_idle;
loop_idle *loop_idle_add(loop *loop, loop_idle_fn *fn, void *context);
void loop_idle_remove(loop_idle *idle);
void loop_idle_again(loop *loop); /* from one of them: all run once more before the loop waits */

/* Something that is no descriptor and may have news: looked at before the loop sleeps, which then looks first (above).
 * What it brings is fetched by an idle. All are called by who drives the loop, `ready` and the others also in
 * loop_pause. */
typedef struct loop_lookout_ops {
    bool (*ready)(void *context);
    bool (*arm)(void *context); /* the loop is about to sleep, and is to be woken by a descriptor; false: it is ready */
    void (*disarm)(void *context);
} loop_lookout_ops;
typedef struct loop_lookout loop_lookout;
loop_lookout *loop_lookout_add(loop *loop, const loop_lookout_ops *ops, void *context); /* ops: static */
void loop_lookout_remove(loop_lookout *lookout);                                        /* not in its own callbacks */

/* Calls back while a descriptor is readable, writable (loop_watch_set) or broken; the descriptor stays the caller's and
 * becomes non-blocking. */
typedef struct loop_watch loop_watch;
typedef void loop_watch_fn(void *context);
MR_MUST mr_status loop_watch_add(loop *loop, int fd, loop_watch_fn *fn, void *context, loop_watch **out);
void loop_watch_set(loop_watch *watch, bool reads, bool writes); /* what it calls back for: at first reads only */
void loop_watch_remove(loop_watch *watch);                       /* the descriptor may be closed at once */

/* One-shot timers; one that is set again in its own callback repeats. */
typedef struct loop_timer loop_timer;
typedef void loop_timer_fn(void *context);
loop_timer *loop_timer_create(loop *loop, loop_timer_fn *fn, void *context);
void loop_timer_set(loop_timer *timer, int64_t delay_us); /* < 0: off */
void loop_timer_destroy(loop_timer *timer);

mr_status loop_status(int uv_error, const char *what); /* a libuv error as a status, with its text kept */
