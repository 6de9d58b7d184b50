/* bell.c — see bell.h. */
#include "net/shm/bell.h"

#include <unistd.h>

#include "base/futex.h"

void bell_mark(station *station, uint32_t index) {
    uint32_t word = (index / 64) % STATION_READY_WORDS;
    uint64_t bit = UINT64_C(1) << (index % 64);
    if (atomic_fetch_or_explicit(&station->ready[word], bit, memory_order_acq_rel) & bit) return;
    atomic_fetch_or_explicit(&station->summary, UINT64_C(1) << word, memory_order_acq_rel);
}

void bell_wake(station *station, int event_fd) {
    uint32_t how = atomic_load_explicit(&station->sleep, memory_order_relaxed);
    do {
        if (!bell_is_asleep(how)) return; /* another sender was faster, or it has woken by itself */
    } while (!atomic_compare_exchange_weak_explicit(&station->sleep, &how, BELL_RUNG, memory_order_acq_rel,
                                                    memory_order_relaxed));
    if (how == BELL_FUTEX) {
        futex_wake(&station->sleep, FUTEX_ACROSS);
    } else if (how == BELL_LOOP) {
        uint64_t one = 1;
        ssize_t written = write(event_fd, &one, sizeof one);
        (void)written; /* full means that it is awake already */
    }
}

void bell_sleep(station *station, int64_t timeout_us) {
    futex_wait(&station->sleep, BELL_FUTEX, timeout_us, FUTEX_ACROSS);
}

/* The summary is cleared before the words, so a bit that is set meanwhile sets its summary bit again. */
void bell_take(station *station, bell_take_fn *fn, void *context) {
    uint64_t words = atomic_exchange_explicit(&station->summary, 0, memory_order_acq_rel);
    while (words != 0) {
        uint32_t word = (uint32_t)__builtin_ctzll(words);
        words &= words - 1;
        uint64_t bits = atomic_exchange_explicit(&station->ready[word], 0, memory_order_acq_rel);
        while (bits != 0) {
            uint32_t bit = (uint32_t)__builtin_ctzll(bits);
            bits &= bits - 1;
            fn(context, word * 64 + bit);
        }
    }
}
