/* progress_thread.c — see progress_thread.h. */
#include "runtime/process/progress_thread.h"

#include <errno.h>

#include "base/error.h"
#include "base/futex.h"
#include "runtime/process/callback.h"
#include "runtime/process/context.h"
#include "runtime/worker/worker.h"

enum {
    TICK_US = 2000,
    TICK_DRIVEN_US = 10 * 1000, /* while another thread drives */
    PARK_TICKS = 50,            /* ticks without activity after which the thread parks */
    PARKED_US = 100 * 1000,     /* interval of polls for requests of other processes */
};

static __attribute__((noinline)) void wake(mr_context *mr) {
    atomic_fetch_add(&mr->progress.word, 1);
    futex_wake(&mr->progress.word, FUTEX_WITHIN);
}

void progress_thread_stirred(void *context) {
    mr_context *mr = context;
    mr->progress.activity++;
    if (atomic_load_explicit(&mr->progress.parked, memory_order_relaxed) != 0) wake(mr); /* set when locked */
}

void progress_thread_nudge(mr_context *mr) {
    if (mr->progress.sleeps) wake(mr);
}

/* Drives for a tick, if no other thread does. A thread that begins to wait meanwhile gets the poller next. */
static void drive(mr_context *mr) {
    poller_waiter waiter;
    poller_waiter_init(&waiter);
    if (poller_wait(&mr->poller, &waiter, 0) != POLLER_DRIVE) return;
    while (context_poll(mr)) {}
    int64_t deadline_us = 0;
    bool others = !list_empty(&mr->poller.line) || !list_empty(&mr->notices);
    if (!others && context_state_of(mr) < CONTEXT_STOPPING && context_await_more(mr, TICK_US, &deadline_us)) {
        while (context_poll(mr)) {}
    }
    poller_pass(&mr->poller);
}

/* Whether messages are expected that the thread handles while the program computes. */
static bool under_way(mr_context *mr) {
    return rpc_open_count(mr->worker.rpc) > 0 || tasks_have_leases(&mr->worker.tasks) ||
           (mr->worker.worker != NULL && worker_is_running(mr->worker.worker)) ||
           borrow_rpc_is_needed(&mr->worker.borrow_rpc) || mr->description != NULL;
}

typedef struct view { /* counts at the last tick */
    uint64_t activity, presence;
    int quiet; /* ticks without activity */
} view;

/* Parks: no calls are pending, and no message has arrived for a while. Returns as tick. */
static int64_t park_thread(mr_context *mr) {
    mr->worker.now_us = 0;
    if (mr->poller.driven) return -1;
    context_poll(mr);
    return PARKED_US;
}

/* One tick. Returns how long to sleep; 0: not at all, < 0: until it is woken. */
static int64_t tick(mr_context *mr, view *seen) {
    bool program_is_there = mr->progress.presence != seen->presence || mr->poller.driven;
    describe_look(mr);
    if (mr->worker.worker != NULL) worker_tick(mr->worker.worker, clock_now_us(mr->env.clock));
    seen->quiet = mr->progress.activity == seen->activity ? seen->quiet + 1 : 0;
    seen->activity = mr->progress.activity;
    seen->presence = mr->progress.presence;
    bool busy = under_way(mr), park = seen->quiet > PARK_TICKS && !busy;
    atomic_store(&mr->progress.parked, park);
    if (park) return park_thread(mr);
    bool wanted = !list_empty(&mr->watches) && !mr->poller.driven; /* a callback of the program waits for a future */
    if (busy && (!program_is_there || wanted)) {
        drive(mr);
        return 0;
    }
    core_worker_tick(&mr->worker, clock_now_us(mr->env.clock));
    if (!program_is_there) context_poll(mr); /* other processes may send CLIENT_LOOK */
    return mr->poller.driven ? TICK_DRIVEN_US : TICK_US;
}

static void *progress_main(void *argument) {
    mr_context *mr = argument;
    view seen = {0};
    poller_own(&mr->poller, mr->owner); /* unless context_open did it: the call may take long */
    context_lock(mr);
    while (context_state_of(mr) < CONTEXT_STOPPING) {
        uint32_t word = atomic_load(&mr->progress.word);
        int64_t sleep_us = tick(mr, &seen);
        if (callbacks_deliver(mr) || sleep_us == 0) continue;
        mr->progress.sleeps = true;
        context_unlock(mr);
        futex_wait(&mr->progress.word, word, sleep_us, FUTEX_WITHIN);
        context_lock(mr);
        mr->progress.sleeps = false;
    }
    context_unlock(mr);
    return NULL;
}

mr_status progress_thread_start(mr_context *mr) {
    errno = pthread_create(&mr->progress.thread, NULL, progress_main, mr);
    return errno == 0 ? MR_OK : error_errno("no thread for the runtime");
}

void progress_thread_join(mr_context *mr) {
    wake(mr);
    pthread_join(mr->progress.thread, NULL);
}
