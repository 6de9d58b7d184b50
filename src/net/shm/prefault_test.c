/* prefault_test.c — promised pages are backed, unused ones are returned, and the two threads do not conflict. */
#include "net/shm/prefault.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/failpoint.h"
#include "base/rng.h"

#define MB   (UINT64_C(1) << 20)
#define FROM ARENA_EXTENTS_OFFSET

static uint64_t blocks_of(const arena *arena) {
    struct stat stat;
    assert_int_equal(fstat(arena->fd, &stat), 0);
    return (uint64_t)stat.st_blocks * 512;
}

static void the_helper_runs_ahead(void **state) {
    arena arena;
    prefault *prefault;
    assert_int_equal(arena_create(256 * MB, &arena), MR_OK);
    assert_int_equal(prefault_start(&arena, FROM, &prefault), MR_OK);
    while (prefault_backed(prefault) < FROM + PREFAULT_AHEAD_MIN) usleep(1000);
    assert_int_equal(prefault_need(prefault, FROM + 10 * MB), MR_OK); /* backed already: only changes the target */
    while (prefault_backed(prefault) < FROM + 26 * MB) usleep(1000);
    assert_int_equal(blocks_of(&arena), prefault_backed(prefault));
    prefault_stop(prefault);
    arena_unmap(&arena);
}

static void a_caller_ahead_of_the_prefault_backs_its_pages(void **state) {
    arena arena;
    prefault *prefault;
    assert_int_equal(arena_create(128 * MB, &arena), MR_OK);
    assert_int_equal(prefault_start(&arena, FROM, &prefault), MR_OK);
    assert_int_equal(prefault_need(prefault, arena.size), MR_OK);
    assert_int_equal(prefault_backed(prefault), arena.size);
    assert_int_equal(blocks_of(&arena), arena.size);
    prefault_stop(prefault);
    arena_unmap(&arena);
}

static void a_caller_that_cannot_wait_asks_again(void **state) {
    arena arena;
    prefault *prefault;
    assert_int_equal(arena_create(256 * MB, &arena), MR_OK);
    assert_int_equal(prefault_start(&arena, FROM, &prefault), MR_OK);
    unsigned busy = 0;
    mr_status status;
    while ((status = prefault_reach(prefault, arena.size)) == MR_BUSY) usleep(busy++ == 0 ? 0 : 500);
    assert_int_equal(status, MR_OK);
    assert_true(busy > 0); /* more than one step was missing */
    assert_int_equal(blocks_of(&arena), arena.size);
    prefault_stop(prefault);
    arena_unmap(&arena);
}

static void a_machine_without_memory_says_so(void **state) {
    if (failpoint_count() == 0) skip();
    arena arena;
    prefault *prefault;
    assert_int_equal(arena_create(128 * MB, &arena), MR_OK);
    assert_int_equal(prefault_start(&arena, FROM, &prefault), MR_OK);
    prefault_settle(prefault);
    uint64_t backed = prefault_backed(prefault);
    assert_int_equal(failpoint_arm("arena.fallocate=error"), MR_OK);
    assert_int_equal(prefault_need(prefault, 100 * MB), MR_NOMEM);
    assert_int_equal(prefault_backed(prefault), backed);
    assert_int_equal(prefault_need(prefault, backed), MR_OK);
    failpoint_disarm_all();
    assert_int_equal(prefault_need(prefault, 100 * MB), MR_OK);
    prefault_stop(prefault);
    arena_unmap(&arena);
}

static void an_unused_tail_is_returned(void **state) {
    arena arena;
    prefault *prefault;
    int64_t now = 1000;
    assert_int_equal(arena_create(256 * MB, &arena), MR_OK);
    assert_int_equal(prefault_start(&arena, FROM, &prefault), MR_OK);
    assert_int_equal(prefault_need(prefault, 200 * MB), MR_OK);
    prefault_settle(prefault);
    assert_int_equal(prefault_trim(prefault, 190 * MB, now), CLOCK_NEVER_US); /* too little to return */
    int64_t due = prefault_trim(prefault, FROM, now);
    assert_int_equal(due, now + PREFAULT_PATIENCE_US);
    assert_int_equal(prefault_trim(prefault, 40 * MB, now + 5), due); /* a short peak counts */
    assert_int_equal(prefault_trim(prefault, FROM, due - 1), due);
    prefault_settle(prefault);
    assert_true(prefault_backed(prefault) >= 200 * MB);
    assert_int_equal(prefault_trim(prefault, FROM, due), CLOCK_NEVER_US);
    prefault_settle(prefault);
    assert_int_equal(prefault_backed(prefault), 56 * MB); /* the peak, and what is kept ahead of it */
    assert_int_equal(blocks_of(&arena), 56 * MB);
    assert_int_equal(prefault_need(prefault, 200 * MB), MR_OK);
    assert_true(blocks_of(&arena) >= 200 * MB);
    prefault_stop(prefault);
    arena_unmap(&arena);
}

/* The owner's guarantee holds while the helper backs and punches: each page below the argument of prefault_need is
 * resident at every moment. ThreadSanitizer checks the threads. */
static void owner_and_helper_do_not_trip(void **state) {
    arena arena;
    prefault *prefault;
    rng rng;
    rng_init(&rng, 7);
    int64_t now = 0;
    assert_int_equal(arena_create(192 * MB, &arena), MR_OK);
    assert_int_equal(prefault_start(&arena, FROM, &prefault), MR_OK);
    for (int round = 0; round < 200; round++) {
        uint64_t end = FROM + rng_below(&rng, 190) * MB;
        assert_int_equal(prefault_need(prefault, end), MR_OK);
        assert_true(prefault_backed(prefault) >= end);
        unsigned char resident = 0;
        assert_int_equal(mincore(arena.base + end - 4096, 4096, &resident), 0);
        assert_true(resident & 1);
        for (int ticks = 0; ticks < 2; ticks++) {
            (void)prefault_trim(prefault, rng_below(&rng, 4) == 0 ? end : FROM, now);
            now += PREFAULT_PATIENCE_US;
        }
    }
    prefault_stop(prefault);
    arena_unmap(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_helper_runs_ahead),
        cmocka_unit_test(a_caller_ahead_of_the_prefault_backs_its_pages),
        cmocka_unit_test(a_caller_that_cannot_wait_asks_again),
        cmocka_unit_test(a_machine_without_memory_says_so),
        cmocka_unit_test(an_unused_tail_is_returned),
        cmocka_unit_test(owner_and_helper_do_not_trip),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
