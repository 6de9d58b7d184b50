/* baton.c — see baton.h.
 *
 * A waiter's word is written with the lock held and read by its thread without, so a thread that is told wakes up
 * knowing what it was told. */
#include "net/shm/baton.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/futex.h"

void baton_init(baton *baton) {
    baton->lock = (latch){0};
    baton->driven = false;
    list_init(&baton->line);
    baton->away = NULL;
    baton->rouse = NULL;
}

/* Sleeps without the lock until the waiter's word changes or the deadline passes. */
static void sleep_in_line(baton *baton, baton_waiter *waiter, int64_t deadline_us) {
    baton_unlock(baton);
    while (atomic_load_explicit(&waiter->word, memory_order_acquire) == BATON_WAITING) {
        int64_t left = -1;
        if (deadline_us != CLOCK_NEVER_US) {
            left = deadline_us - clock_now_us(clock_real());
            if (left <= 0) break;
        }
        futex_wait(&waiter->word, BATON_WAITING, left, FUTEX_WITHIN);
    }
    baton_lock(baton);
}

baton_turn baton_wait_in_line(baton *baton, baton_waiter *waiter, int64_t timeout_us) {
    int64_t deadline_us = timeout_us < 0 ? CLOCK_NEVER_US : clock_deadline_us(clock_now_us(clock_real()), timeout_us);
    atomic_store_explicit(&waiter->word, BATON_WAITING, memory_order_relaxed);
    list_push_back(&baton->line, &waiter->link);
    sleep_in_line(baton, waiter, deadline_us);
    list_remove(&waiter->link);
    bool told_to_drive = atomic_load_explicit(&waiter->word, memory_order_relaxed) == BATON_TO_DRIVE;
    if (waiter->done) {
        if (told_to_drive) baton_pass(baton); /* both came at once: somebody else must drive */
        return BATON_DONE;
    }
    return told_to_drive ? BATON_DRIVE : BATON_TIMEOUT;
}

void baton_wake(baton *baton, baton_waiter *waiter) {
    if (atomic_load_explicit(&waiter->word, memory_order_relaxed) != BATON_WAITING) {
        baton_rouse(baton); /* it may be the driver; who is awake looks by itself */
        return;
    }
    atomic_store_explicit(&waiter->word, BATON_TOLD, memory_order_release);
    futex_wake(&waiter->word, FUTEX_WITHIN);
}

void baton_pass_on(baton *baton) {
    for (list *next; (next = list_pop_front(&baton->line)) != NULL;) {
        baton_waiter *waiter = container_of(next, baton_waiter, link);
        if (waiter->done) continue; /* it is on its way out */
        atomic_store_explicit(&waiter->word, BATON_TO_DRIVE, memory_order_release);
        futex_wake(&waiter->word, FUTEX_WITHIN);
        return;
    }
    baton->driven = false;
}
