/* event_loop.c — see event_loop.h.
 *
 * A libuv handle must stay allocated until its close callback, so each watch and timer is a small heap object that
 * begins with its handle and frees itself in that callback. event_loop_destroy closes the loop's own handles. */
#include "net/event_loop.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/cpu.h"
#include "base/error.h"
#include "base/list.h"
#include "net/adaptive_poll.h"

struct event_loop {
    uv_loop_t uv;
    uv_async_t wake;
    uv_prepare_t prepare; /* runs the idles before each wait */
    uv_timer_t limit;     /* limits the wait of event_loop_run_once */
    uv_idle_t awake;      /* active while idles have input to fetch, so that libuv does not wait */
    list idles, lookouts;
    bool in_idles;
    bool again;   /* the idles run once more before the loop waits */
    bool looks;   /* the loop polls before it sleeps */
    bool no_wait; /* the current run does not wait */
    adaptive_poll poll;
    unsigned looked;   /* number of rounds of polling */
    int64_t looked_us; /* time of the last poll of descriptors */
    bool found;        /* a descriptor was ready in the last poll, and libuv has not processed it */
    bool brought;      /* a lookout was ready, and its input was not fetched yet */
    unsigned skips;    /* consecutive iterations with lookout input and no clock read */
};

enum { LOOKS_IN_A_ROW = 16 };       /* rounds over lookouts before the clock is read */
enum { LOOKS_OF_DESCRIPTORS = 16 }; /* one such group in this many also polls descriptors, which costs a system call */
enum { FETCHES_MAX = 64 };          /* consecutive fetches before descriptors are polled */
enum { LOOK_AGAIN_US = 50 };        /* maximum age of the last poll of descriptors while lookouts have input */
enum { SKIPS_MAX = 16 };            /* maximum consecutive iterations without that check: input comes in bursts */

struct event_loop_lookout {
    list item;
    const event_loop_lookout_ops *ops;
    void *context;
};

struct event_loop_idle {
    list item;
    event_loop *loop;
    event_loop_idle_fn *fn; /* NULL: removed while the idles ran, freed after them */
    void *context;
};

struct event_loop_watch {
    uv_poll_t handle; /* first field: the handle's address is the watch's */
    event_loop_watch_fn *fn;
    void *context;
};

struct event_loop_timer {
    uv_timer_t handle; /* first field, likewise */
    event_loop_timer_fn *fn;
    void *context;
};

static void must(int uv_error) { MR_ASSERT(uv_error == 0); }

static void run_idles(event_loop *loop) {
    if (loop->in_idles) return;
    loop->in_idles = true;
    loop->again = false;
    list_for_each (at, &loop->idles) {
        event_loop_idle *idle = container_of(at, event_loop_idle, item);
        if (idle->fn != NULL) idle->fn(idle->context);
        next_at = at->next; /* idles added meanwhile run too */
    }
    loop->in_idles = false;
    list_for_each (at, &loop->idles) {
        event_loop_idle *idle = container_of(at, event_loop_idle, item);
        if (idle->fn == NULL) event_loop_idle_remove(idle);
    }
}

/* Whether watches were begun that libuv has not yet passed to the kernel; it does so in the next iteration. */
static bool has_news(const uv_loop_t *uv) {
    const void *first; /* head of a list that points at itself when empty; libuv 1.45 changed its type */
    memcpy(&first, &uv->watcher_queue, sizeof first);
    return first != &uv->watcher_queue;
}

static bool any_ready(const event_loop *loop) {
    list_for_each (at, &loop->lookouts) {
        const event_loop_lookout *lookout = container_of(at, event_loop_lookout, item);
        if (lookout->ops->ready(lookout->context)) return true;
    }
    return false;
}

static bool await(event_loop *loop, int64_t timeout_us);

/* Polls and sleeps outside libuv; ready descriptors are left to libuv. Returns true if a lookout is ready or an idle
 * asked to run again. libuv's clock is updated before the wait and after a sleep, but not when the poll succeeds, which
 * saves time. */
static bool wait_here(event_loop *loop) {
    if (loop->again) return true;
    uv_update_time(&loop->uv);
    int timeout_ms = has_news(&loop->uv) ? 0 : uv_backend_timeout(&loop->uv);
    if (timeout_ms == 0) return false;
    if (await(loop, timeout_ms < 0 ? -1 : (int64_t)timeout_ms * 1000)) return true;
    uv_update_time(&loop->uv);
    return any_ready(loop);
}

static void on_awake(uv_idle_t *handle) {}

static void on_prepare(uv_prepare_t *handle) {
    event_loop *loop = handle->data;
    must(uv_idle_stop(&loop->awake));
    run_idles(loop);
    int fetches = 0;
    while (loop->looks && !loop->no_wait && fetches <= FETCHES_MAX && wait_here(loop)) {
        if (fetches++ < FETCHES_MAX) run_idles(loop);
    }
    if (!loop->no_wait && (loop->again || fetches > FETCHES_MAX)) must(uv_idle_start(&loop->awake, on_awake));
}

static void on_wake(uv_async_t *handle) {} /* the callback has nothing to do: the wake-up itself ends the wait */
static void on_limit(uv_timer_t *handle) {}

mr_status event_loop_create(event_loop **out) {
    event_loop *loop = xcalloc(1, sizeof *loop);
    list_init(&loop->idles);
    list_init(&loop->lookouts);
    mr_status status = event_loop_status(uv_loop_init(&loop->uv), "cannot create an event loop");
    if (status != MR_OK) goto free_loop;
    status =
        event_loop_status(uv_async_init(&loop->uv, &loop->wake, on_wake), "cannot create the wake-up of an event loop");
    if (status != MR_OK) goto close_uv;
    must(uv_timer_init(&loop->uv, &loop->limit));
    must(uv_idle_init(&loop->uv, &loop->awake));
    must(uv_prepare_init(&loop->uv, &loop->prepare));
    loop->prepare.data = loop;
    must(uv_prepare_start(&loop->prepare, on_prepare));
    *out = loop;
    return MR_OK;

close_uv:
    must(uv_loop_close(&loop->uv));
free_loop:
    free(loop);
    return status;
}

void event_loop_destroy(event_loop *loop) {
    if (loop == NULL) return;
    MR_ASSERT(list_empty(&loop->idles) && list_empty(&loop->lookouts));
    uv_close((uv_handle_t *)&loop->wake, NULL);
    uv_close((uv_handle_t *)&loop->prepare, NULL);
    uv_close((uv_handle_t *)&loop->limit, NULL);
    uv_close((uv_handle_t *)&loop->awake, NULL);
    while (uv_run(&loop->uv, UV_RUN_DEFAULT) != 0) continue; /* a stop requested outside a run ends one uv_run */
    must(uv_loop_close(&loop->uv));
    free(loop);
}

uv_loop_t *event_loop_uv(event_loop *loop) { return &loop->uv; }

int64_t event_loop_now_us(event_loop *loop) { return (int64_t)(uv_hrtime() / 1000); }

/* libuv computes a due time in ms as its cached time plus the timeout, so a timeout relative to that cached time makes
 * the due time exact even if the cache is old. Rounded up, so that a timer never fires early. */
static uint64_t delay_ms(event_loop *loop, int64_t delay_us) {
    int64_t now_us = event_loop_now_us(loop);
    int64_t due_us = delay_us > INT64_MAX - 1000 - now_us ? INT64_MAX - 1000 : now_us + delay_us;
    uint64_t due_ms = (uint64_t)(due_us + 999) / 1000, cached_ms = uv_now(&loop->uv);
    return due_ms > cached_ms ? due_ms - cached_ms : 0;
}

void event_loop_run(event_loop *loop) {
    uv_run(&loop->uv, UV_RUN_DEFAULT);
    run_idles(loop);
}

/* Whether this iteration may skip polling descriptors, because lookouts have input or the last poll is recent. */
static bool may_skip(event_loop *loop) {
    if (list_empty(&loop->lookouts) || loop->found || has_news(&loop->uv)) return false;
    bool brought = loop->brought;
    loop->brought = false;
    if (brought && loop->skips++ < SKIPS_MAX) return true;
    loop->skips = 0;
    int64_t now_us = event_loop_now_us(loop);
    if (now_us - loop->looked_us < LOOK_AGAIN_US) return true;
    loop->looked_us = now_us;
    return false;
}

void event_loop_run_once(event_loop *loop, int64_t timeout_us) {
    if (timeout_us == 0 && may_skip(loop)) {
        run_idles(loop);
        return;
    }
    loop->found = false;
    if (timeout_us > 0) must(uv_timer_start(&loop->limit, on_limit, delay_ms(loop, timeout_us), 0));
    loop->no_wait = timeout_us == 0;
    uv_run(&loop->uv, loop->no_wait ? UV_RUN_NOWAIT : UV_RUN_ONCE);
    loop->no_wait = false;
    if (timeout_us > 0) must(uv_timer_stop(&loop->limit));
    run_idles(loop);
}

int64_t event_loop_pause_us(event_loop *loop) {
    uv_update_time(&loop->uv);
    int timeout_ms = loop->again || has_news(&loop->uv) ? 0 : uv_backend_timeout(&loop->uv);
    return timeout_ms < 0 ? -1 : (int64_t)timeout_ms * 1000;
}

static bool is_ready(void *context) {
    event_loop *loop = context;
    for (int i = 0; i < LOOKS_IN_A_ROW && !list_empty(&loop->lookouts); i++) {
        if (any_ready(loop)) return true;
        cpu_relax();
    }
    if (!list_empty(&loop->lookouts) && ++loop->looked % LOOKS_OF_DESCRIPTORS != 0) return false;
    struct pollfd fd = {.fd = uv_backend_fd(&loop->uv), .events = POLLIN};
    loop->found = poll(&fd, 1, 0) > 0;
    return loop->found;
}

static void disarm(event_loop *loop) {
    list_for_each (at, &loop->lookouts) {
        const event_loop_lookout *lookout = container_of(at, event_loop_lookout, item);
        lookout->ops->disarm(lookout->context);
    }
}

static bool arm(event_loop *loop) {
    list_for_each (at, &loop->lookouts) {
        const event_loop_lookout *lookout = container_of(at, event_loop_lookout, item);
        if (!lookout->ops->arm(lookout->context)) return false;
    }
    return true;
}

static void sleep_at(event_loop *loop, int64_t timeout_us) {
    struct pollfd fd = {.fd = uv_backend_fd(&loop->uv), .events = POLLIN};
    struct timespec limit = {timeout_us / 1000000, timeout_us % 1000000 * 1000};
    if (arm(loop)) loop->found = ppoll(&fd, 1, timeout_us < 0 ? NULL : &limit, NULL) != 0;
    disarm(loop);
}

/* Returns true if a lookout was ready before the loop slept. */
static bool await(event_loop *loop, int64_t timeout_us) {
    if (any_ready(loop)) return true;
    loop->found = false; /* libuv has processed the descriptor, or the next poll reports it again */
    if (loop->looks && adaptive_poll_look(&loop->poll, clock_real(), is_ready, loop)) return !loop->found;
    int64_t start_us = event_loop_now_us(loop);
    sleep_at(loop, timeout_us);
    adaptive_poll_slept(&loop->poll, event_loop_now_us(loop) - start_us);
    return false;
}

bool event_loop_pause(event_loop *loop, int64_t timeout_us) {
    if (timeout_us != 0) loop->brought = await(loop, timeout_us);
    return timeout_us != 0 && loop->brought;
}

void event_loop_look_first(event_loop *loop) { loop->looks = true; }

event_loop_lookout *event_loop_lookout_add(event_loop *loop, const event_loop_lookout_ops *ops, void *context) {
    event_loop_lookout *lookout = XNEW(event_loop_lookout, .ops = ops, .context = context);
    list_push_back(&loop->lookouts, &lookout->item);
    loop->looks = true;
    return lookout;
}

void event_loop_lookout_remove(event_loop_lookout *lookout) {
    if (lookout == NULL) return;
    list_remove(&lookout->item);
    free(lookout);
}

void event_loop_stop(event_loop *loop) { uv_stop(&loop->uv); }
void event_loop_wake(event_loop *loop) { must(uv_async_send(&loop->wake)); }

event_loop_idle *event_loop_idle_add(event_loop *loop, event_loop_idle_fn *fn, void *context) {
    event_loop_idle *idle = XNEW(event_loop_idle, .loop = loop, .fn = fn, .context = context);
    list_push_back(&loop->idles, &idle->item);
    return idle;
}

void event_loop_idle_again(event_loop *loop) { loop->again = true; }

void event_loop_idle_remove(event_loop_idle *idle) {
    if (idle == NULL) return;
    if (idle->loop->in_idles) {
        idle->fn = NULL;
        return;
    }
    list_remove(&idle->item);
    free(idle);
}

static void free_handle(uv_handle_t *handle) { free(handle); }

/* libuv reports a descriptor in error once with a status; the callback gets the same error when it reads. */
static void on_poll(uv_poll_t *handle, int status, int events) {
    event_loop_watch *watch = (event_loop_watch *)handle;
    watch->fn(watch->context);
}

mr_status event_loop_watch_add(event_loop *loop, int fd, event_loop_watch_fn *fn, void *context,
                               event_loop_watch **out) {
    event_loop_watch *watch = XNEW(event_loop_watch, .fn = fn, .context = context);
    mr_status status = event_loop_status(uv_poll_init(&loop->uv, &watch->handle, fd), "cannot watch a file descriptor");
    if (status != MR_OK) {
        free(watch);
        return status;
    }
    event_loop_watch_set(watch, true, false);
    *out = watch;
    return MR_OK;
}

void event_loop_watch_set(event_loop_watch *watch, bool reads, bool writes) {
    int events = (reads ? UV_READABLE : 0) | (writes ? UV_WRITABLE : 0);
    must(events == 0 ? uv_poll_stop(&watch->handle) : uv_poll_start(&watch->handle, events, on_poll));
}

void event_loop_watch_urgent(event_loop_watch *watch) { must(uv_poll_start(&watch->handle, UV_PRIORITIZED, on_poll)); }

void event_loop_watch_remove(event_loop_watch *watch) {
    if (watch == NULL) return;
    must(uv_poll_stop(&watch->handle));
    uv_close((uv_handle_t *)&watch->handle, free_handle);
}

static void on_timer(uv_timer_t *handle) {
    event_loop_timer *timer = (event_loop_timer *)handle;
    timer->fn(timer->context);
}

event_loop_timer *event_loop_timer_create(event_loop *loop, event_loop_timer_fn *fn, void *context) {
    event_loop_timer *timer = XNEW(event_loop_timer, .fn = fn, .context = context);
    must(uv_timer_init(&loop->uv, &timer->handle));
    timer->handle.data = loop;
    return timer;
}

void event_loop_timer_set(event_loop_timer *timer, int64_t delay_us) {
    if (delay_us < 0)
        must(uv_timer_stop(&timer->handle));
    else
        must(uv_timer_start(&timer->handle, on_timer, delay_ms(timer->handle.data, delay_us), 0));
}

void event_loop_timer_destroy(event_loop_timer *timer) {
    if (timer == NULL) return;
    must(uv_timer_stop(&timer->handle));
    uv_close((uv_handle_t *)&timer->handle, free_handle);
}

mr_status event_loop_status(int uv_error, const char *what) {
    if (uv_error >= 0) return MR_OK;
    mr_status status = uv_error == UV_ECANCELED   ? MR_CANCELLED
                       : uv_error == UV_ETIMEDOUT ? MR_TIMEOUT
                                                  : error_status(-uv_error); /* libuv errors are negated errnos */
    return error_set(status, "%s: %s", what, uv_strerror(uv_error));
}
