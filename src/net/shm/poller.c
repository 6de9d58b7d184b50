/* poller.c — see poller.h.
 *
 * A waiter's word is written with the lock held and read by its thread without the lock, so a thread knows why it was
 * woken. */
#include "net/shm/poller.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/futex.h"

void poller_init(poller *poller) {
    *poller = (struct poller){0};
    list_init(&poller->line);
}

/* Sleeps without the lock until the waiter's word changes or the deadline passes. */
static void sleep_in_line(poller *poller, poller_waiter *waiter, int64_t deadline_us) {
    poller_unlock(poller);
    while (atomic_load_explicit(&waiter->word, memory_order_acquire) == POLLER_WAITING) {
        int64_t left = -1;
        if (deadline_us != CLOCK_NEVER_US) {
            left = deadline_us - clock_now_us(clock_real());
            if (left <= 0) break;
        }
        futex_wait(&waiter->word, POLLER_WAITING, left, FUTEX_WITHIN);
    }
    poller_lock(poller);
}

poller_turn poller_wait_in_line(poller *poller, poller_waiter *waiter, int64_t timeout_us) {
    int64_t deadline_us = timeout_us < 0 ? CLOCK_NEVER_US : clock_deadline_us(clock_now_us(clock_real()), timeout_us);
    atomic_store_explicit(&waiter->word, POLLER_WAITING, memory_order_relaxed);
    list_push_back(&poller->line, &waiter->link);
    sleep_in_line(poller, waiter, deadline_us);
    list_remove(&waiter->link);
    bool told_to_drive = atomic_load_explicit(&waiter->word, memory_order_relaxed) == POLLER_TO_DRIVE;
    if (waiter->done) {
        if (told_to_drive) poller_pass(poller); /* both happened at once: another thread must drive */
        return POLLER_DONE;
    }
    return told_to_drive ? POLLER_DRIVE : POLLER_TIMEOUT;
}

void poller_wake(poller *poller, poller_waiter *waiter) {
    if (atomic_load_explicit(&waiter->word, memory_order_relaxed) != POLLER_WAITING) {
        poller_rouse(poller); /* the waiter may be the driver; an awake thread checks by itself */
        return;
    }
    atomic_store_explicit(&waiter->word, POLLER_TOLD, memory_order_release);
    futex_wake(&waiter->word, FUTEX_WITHIN);
}

void poller_interrupt(poller *poller, poller_waiter *waiter) {
    if (!waiter->done) poller_wake(poller, waiter);
}

void poller_pass_on(poller *poller) {
    for (list *next; (next = list_pop_front(&poller->line)) != NULL;) {
        poller_waiter *waiter = container_of(next, poller_waiter, link);
        if (waiter->done) continue; /* this waiter is about to leave */
        atomic_store_explicit(&waiter->word, POLLER_TO_DRIVE, memory_order_release);
        futex_wake(&waiter->word, FUTEX_WITHIN);
        return;
    }
    poller->driven = false;
}
