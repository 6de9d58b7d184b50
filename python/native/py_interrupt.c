/* py_interrupt.c — see py_interrupt.h. */
#include "python/native/py_interrupt.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

enum { AGAIN_MS = 20 };

static struct py_interrupt {
    pthread_t thread;           /* thread that runs tasks, */
    pid_t thread_id;            /* and its number for system calls */
    _Atomic uint64_t running;   /* number of the running task; 0: none */
    _Atomic uint64_t cancelled; /* number of the last cancelled task */
    pthread_mutex_t lock;       /* protects the fields below */
    timer_t timer;              /* repeats the signal until its handler has run */
    bool has_timer;
    atomic_bool repeats; /* the timer is active */
} interrupt = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- Repetition. */

static void set_timer(int milliseconds) {
    const struct timespec gap = {.tv_nsec = milliseconds * 1000L * 1000};
    (void)timer_settime(interrupt.timer, 0, &(struct itimerspec){gap, gap}, NULL);
}

static void repeat(void) {
    pthread_mutex_lock(&interrupt.lock);
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGINT};
    event._sigev_un._tid = interrupt.thread_id;
    if (!interrupt.has_timer) interrupt.has_timer = timer_create(CLOCK_MONOTONIC, &event, &interrupt.timer) == 0;
    if (interrupt.has_timer) set_timer(AGAIN_MS); /* without a timer the signal is sent once */
    atomic_store(&interrupt.repeats, interrupt.has_timer);
    pthread_mutex_unlock(&interrupt.lock);
}

static void repeat_no_more(void) {
    if (!atomic_load(&interrupt.repeats)) return;
    pthread_mutex_lock(&interrupt.lock);
    atomic_store(&interrupt.repeats, false);
    set_timer(0);
    pthread_mutex_unlock(&interrupt.lock);
}

/* ---- Cancellation. */

static void told(void *user, bool cancelled) {
    uint64_t number = (uintptr_t)user;
    if (!cancelled || atomic_load(&interrupt.running) != number) return;
    atomic_store(&interrupt.cancelled, number);
    pthread_kill(interrupt.thread, SIGINT);
    repeat();
    if (atomic_load(&interrupt.running) != number) repeat_no_more(); /* the task has ended meanwhile */
}

void py_interrupt_begin(mr_call *call) {
    uint64_t number = core.calls;
    interrupt.thread = pthread_self();
    if (interrupt.thread_id == 0) interrupt.thread_id = gettid();
    atomic_store_explicit(&interrupt.running, number, memory_order_release);
    if (mr_on_cancel(call, told, (void *)(uintptr_t)number) != MR_OK) return; /* no memory: no interrupt */
}

void py_interrupt_end(void) {
    atomic_store(&interrupt.running, 0);
    repeat_no_more();
}

PyObject *py_interrupt_is_due(PyObject *module, PyObject *none) {
    uint64_t running = atomic_load(&interrupt.running);
    bool due = running != 0 && atomic_compare_exchange_strong(&interrupt.cancelled, &running, 0);
    repeat_no_more();
    return PyBool_FromLong(due);
}
