/* doorbell.c — see doorbell.h. */
#include "net/shm/doorbell.h"

#include <unistd.h>

#include "base/futex.h"

void doorbell_mark(process_block *block, uint32_t index) {
    uint32_t word = (index / 64) % PROCESS_BLOCK_READY_WORDS;
    uint64_t bit = UINT64_C(1) << (index % 64);
    if (atomic_fetch_or_explicit(&block->ready[word], bit, memory_order_acq_rel) & bit) return;
    atomic_fetch_or_explicit(&block->summary, UINT64_C(1) << word, memory_order_acq_rel);
}

void doorbell_wake(process_block *block, int event_fd) {
    uint32_t how = atomic_load_explicit(&block->sleep, memory_order_relaxed);
    do {
        if (!doorbell_is_asleep(how)) return; /* another sender was faster, or the process woke by itself */
    } while (!atomic_compare_exchange_weak_explicit(&block->sleep, &how, DOORBELL_RUNG, memory_order_acq_rel,
                                                    memory_order_relaxed));
    if (how == DOORBELL_FUTEX) {
        futex_wake(&block->sleep, FUTEX_ACROSS);
    } else if (how == DOORBELL_LOOP) {
        uint64_t one = 1;
        ssize_t written = write(event_fd, &one, sizeof one);
        (void)written; /* a full counter means that the process is awake already */
    }
}

void doorbell_sleep(process_block *block, int64_t timeout_us) {
    futex_wait(&block->sleep, DOORBELL_FUTEX, timeout_us, FUTEX_ACROSS);
}

/* The summary is cleared before the words, so a bit set meanwhile sets its summary bit again. */
void doorbell_take(process_block *block, doorbell_take_fn *fn, void *context) {
    uint64_t words = atomic_exchange_explicit(&block->summary, 0, memory_order_acq_rel);
    while (words != 0) {
        uint32_t word = (uint32_t)__builtin_ctzll(words);
        words &= words - 1;
        uint64_t bits = atomic_exchange_explicit(&block->ready[word], 0, memory_order_acq_rel);
        while (bits != 0) {
            uint32_t bit = (uint32_t)__builtin_ctzll(bits);
            bits &= bits - 1;
            fn(context, word * 64 + bit);
        }
    }
}
