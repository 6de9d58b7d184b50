/* adaptive_poll_test.c — polling happens only after short waits. */
#include "net/adaptive_poll.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

typedef struct world {
    int64_t now_us, step_us; /* each clock read advances the time by this */
    int64_t ready_us;        /* ready from this time on */
} world;

static int64_t look_at_clock(void *self) {
    world *world = self;
    return world->now_us += world->step_us;
}

static const clock_ops ops = {.monotonic_us = look_at_clock};

static bool is_ready(void *context) {
    const world *world = context;
    return world->now_us >= world->ready_us;
}

static bool look(adaptive_poll *poll, world *world) {
    return adaptive_poll_look(poll, (clock_source){&ops, world}, is_ready, world);
}

static void it_looks_after_short_waits(void **state) {
    adaptive_poll poll = {0};
    world world = {.step_us = 1};
    assert_false(look(&poll, &world)); /* no short waits yet */
    assert_int_equal(world.now_us, 0);
    for (int i = 0; i < ADAPTIVE_POLL_TRUST; i++) adaptive_poll_slept(&poll, ADAPTIVE_POLL_US - 1);
    assert_true(look(&poll, &world));
    world.ready_us = world.now_us + ADAPTIVE_POLL_US / 2;
    assert_true(look(&poll, &world));
    assert_int_equal(poll.hits, 2);
}

/* Each unsuccessful poll doubles the number of short waits before the next one, up to a bound; successful polls reduce
 * it. */
static void looking_in_vain_becomes_rare(void **state) {
    adaptive_poll poll = {0};
    world world = {.step_us = 1, .ready_us = INT64_MAX};
    uint64_t waits = 0;
    for (uint32_t takes = ADAPTIVE_POLL_TRUST; takes < 4 * ADAPTIVE_POLL_TRUST_MAX; takes *= 2) {
        uint32_t expected = takes < ADAPTIVE_POLL_TRUST_MAX ? takes : ADAPTIVE_POLL_TRUST_MAX, slept = 0;
        for (uint64_t lost = poll.lost; poll.lost == lost; slept++, waits++) {
            assert_false(look(&poll, &world));
            if (poll.lost == lost) adaptive_poll_slept(&poll, 1);
        }
        assert_int_equal(slept, expected + 1);
    }
    assert_in_range(world.now_us, poll.lost * ADAPTIVE_POLL_US, poll.lost * (ADAPTIVE_POLL_US + 2));
    poll.trust = ADAPTIVE_POLL_TRUST_MAX;
    world.ready_us = 0;
    while (poll.vain != 0) assert_true(look(&poll, &world));
    assert_in_range(poll.hits, 1, 10);
}

static void long_waits_are_slept(void **state) {
    adaptive_poll poll = {.trust = ADAPTIVE_POLL_TRUST_MAX};
    for (int i = 0; i < ADAPTIVE_POLL_TRUST_MAX; i++) adaptive_poll_slept(&poll, ADAPTIVE_POLL_US);
    assert_int_equal(poll.trust, 0);
    adaptive_poll_slept(&poll, ADAPTIVE_POLL_US);
    assert_int_equal(poll.trust, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_looks_after_short_waits),
        cmocka_unit_test(looking_in_vain_becomes_rare),
        cmocka_unit_test(long_waits_are_slept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
