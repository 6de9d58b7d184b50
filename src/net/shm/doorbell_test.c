/* doorbell_test.c — every mark is found, and no process sleeps through a ring: on the futex, in a loop, with many
 * senders. */
#include "net/shm/doorbell.h"

#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"

static process_block *new_process_block(void) {
    process_block *fresh = aligned_alloc(64, sizeof *fresh);
    assert_non_null(fresh);
    memset(fresh, 0, sizeof *fresh);
    return fresh;
}

typedef struct seen {
    unsigned counts[PROCESS_BLOCK_LINKS_MAX];
} seen;

static void note(void *context, uint32_t index) { ((seen *)context)->counts[index]++; }

static void marks_are_taken_once_each(void **state) {
    process_block *block = new_process_block();
    seen *seen = calloc(1, sizeof *seen);
    static const uint32_t marks[] = {0, 1, 63, 64, 65, 2048, PROCESS_BLOCK_LINKS_MAX - 1, 64};
    assert_false(doorbell_marked(block));
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++) doorbell_mark(block, marks[i]);
    assert_true(doorbell_marked(block));
    doorbell_take(block, note, seen);
    assert_false(doorbell_marked(block));
    for (uint32_t i = 0; i < PROCESS_BLOCK_LINKS_MAX; i++) {
        bool wanted = i <= 1 || i == 63 || i == 64 || i == 65 || i == 2048 || i == PROCESS_BLOCK_LINKS_MAX - 1;
        assert_int_equal(seen->counts[i], wanted);
    }
    doorbell_take(block, note, seen);
    assert_int_equal(seen->counts[64], 1);
    free(seen);
    free(block);
}

static void an_index_from_outside_stays_inside(void **state) {
    process_block *block = new_process_block();
    seen *seen = calloc(1, sizeof *seen);
    doorbell_mark(block, UINT32_MAX); /* a value that a faulty peer may write into a ring */
    doorbell_take(block, note, seen);
    assert_int_equal(seen->counts[PROCESS_BLOCK_LINKS_MAX - 1], 1);
    free(seen);
    free(block);
}

static void ringing_an_awake_process_does_nothing(void **state) {
    process_block *block = new_process_block();
    int fd = eventfd(0, EFD_NONBLOCK);
    doorbell_ring(block, fd);
    uint64_t value;
    assert_int_equal(read(fd, &value, sizeof value), -1);
    doorbell_arm(block, DOORBELL_LOOP);
    assert_false(doorbell_is_rung(block));
    doorbell_ring(block, fd);
    assert_true(doorbell_is_rung(block)); /* until the process runs */
    doorbell_ring(block, fd);             /* woken already: no second write */
    assert_int_equal(read(fd, &value, sizeof value), sizeof value);
    assert_int_equal(value, 1);
    doorbell_disarm(block);
    assert_false(doorbell_is_rung(block));
    close(fd);
    free(block);
}

static void sleep_ends_by_itself_after_its_time(void **state) {
    process_block *block = new_process_block();
    doorbell_arm(block, DOORBELL_FUTEX);
    doorbell_sleep(block, 1000);
    doorbell_disarm(block);
    doorbell_sleep(block, -1); /* not armed: returns at once */
    free(block);
}

/* ---- Sender threads mark and ring; the owner sleeps while nothing is marked. */

enum { SENDERS = 3, RINGS = 3000 };

typedef struct receiver {
    process_block *block;
    int event_fd;
    _Atomic uint32_t sent[SENDERS];
} receiver;

typedef struct sender {
    receiver *receiver;
    uint32_t index;
} sender;

static void *ring_often(void *argument) {
    sender *sender = argument;
    for (int i = 0; i < RINGS; i++) {
        atomic_fetch_add_explicit(&sender->receiver->sent[sender->index], 1, memory_order_relaxed);
        doorbell_mark(sender->receiver->block, sender->index * 70);
        doorbell_ring(sender->receiver->block, sender->receiver->event_fd);
        if (i % 16 == 0) sched_yield();
    }
    return NULL;
}

static void take_all(receiver *receiver, seen *seen, uint32_t *got) {
    memset(seen, 0, sizeof *seen);
    doorbell_take(receiver->block, note, seen);
    for (uint32_t i = 0; i < SENDERS; i++)
        if (seen->counts[i * 70] != 0) got[i] = atomic_load(&receiver->sent[i]);
}

static void nobody_sleeps_through(doorbell_state how) {
    receiver receiver = {.block = new_process_block(), .event_fd = eventfd(0, EFD_NONBLOCK)};
    seen *seen = calloc(1, sizeof *seen);
    sender senders[SENDERS];
    pthread_t threads[SENDERS];
    for (uint32_t i = 0; i < SENDERS; i++) {
        senders[i] = (sender){&receiver, i};
        assert_int_equal(pthread_create(&threads[i], NULL, ring_often, &senders[i]), 0);
    }
    uint32_t got[SENDERS] = {0};
    unsigned missed = 0;
    while (got[0] < RINGS || got[1] < RINGS || got[2] < RINGS) {
        take_all(&receiver, seen, got);
        doorbell_arm(receiver.block, how);
        if (doorbell_marked(receiver.block) || (got[0] == RINGS && got[1] == RINGS && got[2] == RINGS)) {
            doorbell_disarm(receiver.block);
            continue;
        }
        if (how == DOORBELL_FUTEX) {
            int64_t start_ns = clock_ns();
            doorbell_sleep(receiver.block, 10 * 1000 * 1000);
            missed += clock_ns() - start_ns >= INT64_C(10000000000); /* the wait may end early for no reason */
        } else {
            struct pollfd fd = {.fd = receiver.event_fd, .events = POLLIN};
            missed += poll(&fd, 1, 10 * 1000) == 0;
            uint64_t value;
            if (read(receiver.event_fd, &value, sizeof value) < 0) missed++;
        }
        doorbell_disarm(receiver.block);
    }
    for (int i = 0; i < SENDERS; i++) pthread_join(threads[i], NULL);
    assert_int_equal(missed, 0);
    close(receiver.event_fd);
    free(seen);
    free(receiver.block);
}

static void no_ring_is_missed_on_the_futex(void **state) { nobody_sleeps_through(DOORBELL_FUTEX); }
static void no_ring_is_missed_with_an_eventfd(void **state) { nobody_sleeps_through(DOORBELL_LOOP); }

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(marks_are_taken_once_each),
        cmocka_unit_test(an_index_from_outside_stays_inside),
        cmocka_unit_test(ringing_an_awake_process_does_nothing),
        cmocka_unit_test(sleep_ends_by_itself_after_its_time),
        cmocka_unit_test(no_ring_is_missed_on_the_futex),
        cmocka_unit_test(no_ring_is_missed_with_an_eventfd),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
