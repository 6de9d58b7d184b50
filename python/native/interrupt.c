/* interrupt.c — see interrupt.h. */
#include "python/native/interrupt.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

static struct interrupt {
    pthread_t thread;           /* that runs tasks */
    _Atomic uint64_t running;   /* number of the task at hand; 0: none */
    _Atomic uint64_t cancelled; /* of the last that was cancelled */
} interrupt;

static void told(void *user, bool cancelled) {
    uint64_t number = (uintptr_t)user;
    if (!cancelled || atomic_load(&interrupt.running) != number) return;
    atomic_store(&interrupt.cancelled, number);
    pthread_kill(interrupt.thread, SIGINT);
}

void interrupt_begin(mr_call *call) {
    uint64_t number = core.calls;
    interrupt.thread = pthread_self();
    atomic_store_explicit(&interrupt.running, number, memory_order_release);
    if (mr_on_cancel(call, told, (void *)(uintptr_t)number) != MR_OK) return; /* without memory it is not interrupted */
}

void interrupt_end(void) { atomic_store_explicit(&interrupt.running, 0, memory_order_release); }

PyObject *interrupt_is_due(PyObject *module, PyObject *none) {
    uint64_t running = atomic_load(&interrupt.running);
    return PyBool_FromLong(running != 0 && atomic_compare_exchange_strong(&interrupt.cancelled, &running, 0));
}
