/* loop.h — libuv, and the only place that knows it (besides stream.c and hub.c, which are made of its handles).
 *
 * One loop, one thread. A loop runs callbacks until it is stopped or nothing is left to wait for. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "miniray/status.h"

typedef struct loop loop;

MR_MUST mr_status loop_create(loop **out);
void loop_destroy(loop *loop); /* everything that was opened on it must be closed or closing; runs the last callbacks */
uv_loop_t *loop_uv(loop *loop);

void loop_run(loop *loop);                          /* until loop_stop */
void loop_run_once(loop *loop, int64_t timeout_us); /* waits at most timeout_us (< 0: until something happens) */
void loop_stop(loop *loop);
void loop_wake(loop *loop); /* from any thread or signal handler: ends a wait */
int64_t loop_now_us(loop *loop);

/* Calls back at the end of each iteration, before the loop waits: where transports flush. */
typedef void loop_idle_fn(void *context);
typedef struct loop_idle loop_idle;
loop_idle *loop_idle_add(loop *loop, loop_idle_fn *fn, void *context);
void loop_idle_remove(loop_idle *idle);

/* Calls back when a descriptor is readable; the descriptor stays the caller's. */
typedef struct loop_watch loop_watch;
typedef void loop_watch_fn(void *context);
MR_MUST mr_status loop_watch_add(loop *loop, int fd, loop_watch_fn *fn, void *context, loop_watch **out);
void loop_watch_remove(loop_watch *watch);

/* One-shot and repeating timers. */
typedef struct loop_timer loop_timer;
typedef void loop_timer_fn(void *context);
loop_timer *loop_timer_create(loop *loop, loop_timer_fn *fn, void *context);
void loop_timer_set(loop_timer *timer, int64_t delay_us); /* < 0: off */
void loop_timer_destroy(loop_timer *timer);

mr_status loop_status(int uv_error, const char *what); /* a libuv error as a status, with its text kept */
