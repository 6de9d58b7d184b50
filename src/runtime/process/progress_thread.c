/* progress_thread.c — see progress_thread.h. Tested by tests/waiting_test.c. */
#include "runtime/process/progress_thread.h"

#include <errno.h>
#include <unistd.h>

#include "base/error.h"
#include "base/futex.h"
#include "runtime/common/process_limit.h"
#include "runtime/process/callback.h"
#include "runtime/process/context.h"
#include "runtime/worker/worker.h"

enum {
    TICK_US = 2000,
    TICK_DRIVEN_US = 10 * 1000, /* while another thread drives */
    QUIET_TICKS = 3,            /* ticks without activity after which the thread rests */
    IDLE_TICKS = 50,            /* the same if no messages are expected, and no thread drives */
};

static __attribute__((noinline)) void wake(mr_context *mr) {
    atomic_fetch_add(&mr->progress.word, 1);
    futex_wake(&mr->progress.word, FUTEX_WITHIN);
}

/* While another thread has the lock, a driving thread is away. */
void progress_thread_end_rest(mr_context *mr) {
    bool drives = mr->progress.rest == PROGRESS_DRIVES;
    mr->progress.rest = PROGRESS_TICKS;
    if (drives)
        poller_rouse(&mr->poller);
    else
        wake(mr);
}

void progress_thread_stirred(void *context) {
    mr_context *mr = context;
    mr->progress.activity++;
    if (mr->progress.rest != PROGRESS_TICKS) progress_thread_end_rest(mr);
}

void progress_thread_nudge(mr_context *mr) {
    if (mr->progress.rest != PROGRESS_TICKS)
        progress_thread_end_rest(mr);
    else if (mr->progress.sleeps)
        wake(mr);
}

/* Whether work is under way that only ticks notice. */
static bool needs_ticks(const mr_context *mr) {
    return mr->description != NULL || (mr->worker.worker != NULL && worker_needs_ticks(mr->worker.worker));
}

/* Drives for a tick, or until something happens, if no other thread does. A thread that begins to wait meanwhile gets
 * the poller next. */
static void drive(mr_context *mr, bool quiet) {
    poller_waiter waiter;
    poller_waiter_init(&waiter);
    if (poller_wait(&mr->poller, &waiter, 0) != POLLER_DRIVE) return;
    while (context_poll(mr)) {}
    int64_t deadline_us = 0;
    bool others = !list_empty(&mr->poller.line) || !list_empty(&mr->notices);
    if (!others && context_state_of(mr) < CONTEXT_STOPPING) {
        bool rests = quiet && !needs_ticks(mr);
        mr->progress.rest = rests ? PROGRESS_DRIVES : PROGRESS_TICKS;
        bool more = context_await_more(mr, rests ? -1 : TICK_US, &deadline_us);
        mr->progress.rest = PROGRESS_TICKS;
        while (more && context_poll(mr)) {}
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

/* Another thread drives. Returns as tick. */
static int64_t look_on(mr_context *mr, bool quiet, int64_t now_us, int64_t next_us) {
    if (!quiet || needs_ticks(mr)) return TICK_DRIVEN_US;
    mr->progress.rest = PROGRESS_PARKED;
    mr->worker.now_us = 0;
    return next_us == CLOCK_NEVER_US ? -1 : next_us > now_us ? next_us - now_us : 1;
}

/* One tick. Returns how long to sleep; 0: not at all, < 0: until it is woken. */
static int64_t tick(mr_context *mr, view *seen) {
    int64_t now_us = clock_now_us(mr->env.clock);
    mr->progress.rest = PROGRESS_TICKS;
    bool program_is_there = mr->progress.presence != seen->presence || mr->poller.driven;
    describe_look(mr);
    if (mr->worker.worker != NULL) worker_tick(mr->worker.worker, now_us);
    seen->quiet = mr->progress.activity == seen->activity ? seen->quiet + 1 : 0;
    seen->activity = mr->progress.activity;
    seen->presence = mr->progress.presence;
    if (mr->poller.driven) return look_on(mr, seen->quiet > QUIET_TICKS, now_us, core_worker_tick(&mr->worker, now_us));
    bool wanted = !list_empty(&mr->watches); /* a callback of the program waits for a future */
    if (wanted || (!program_is_there && (under_way(mr) || seen->quiet > IDLE_TICKS))) {
        drive(mr, seen->quiet > QUIET_TICKS);
        return 0;
    }
    core_worker_tick(&mr->worker, now_us);
    if (!program_is_there) context_poll(mr); /* other processes may send CLIENT_LOOK */
    return TICK_US;
}

/* Only the opening thread has the context while it joins the node. */
static void await_join(mr_context *mr) {
    uint32_t word = atomic_load(&mr->progress.word);
    while (context_state_of(mr) == CONTEXT_JOINING) {
        futex_wait(&mr->progress.word, word, -1, FUTEX_WITHIN);
        word = atomic_load(&mr->progress.word);
    }
}

static void *progress_main(void *argument) {
    mr_context *mr = argument;
    view seen = {0};
    await_join(mr);
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
    char limit[PROCESS_LIMIT_TEXT_MAX];
    errno = pthread_create(&mr->progress.thread, NULL, progress_main, mr);
    if (errno == 0) return MR_OK;
    if (!process_limit_is(errno)) return error_errno("cannot start the runtime's thread in process %d", (int)getpid());
    process_limit_text(errno, limit, sizeof limit);
    return error_set(MR_IO, "cannot start the runtime's thread in process %d: %s", (int)getpid(), limit);
}

void progress_thread_begin(mr_context *mr) { wake(mr); }

void progress_thread_join(mr_context *mr) {
    context_lock(mr);
    poller_rouse(&mr->poller);
    context_unlock(mr);
    wake(mr);
    pthread_join(mr->progress.thread, NULL);
}
