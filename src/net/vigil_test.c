/* vigil_test.c — polling happens where it pays. */
#include "net/vigil.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

typedef struct world {
    int64_t now_us, step_us; /* every look at the clock takes so long */
    int64_t ready_us;        /* from then on it is ready */
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

static bool look(vigil *vigil, world *world) { return vigil_look(vigil, (clock_source){&ops, world}, is_ready, world); }

static void it_looks_after_short_waits(void **state) {
    vigil vigil = {0};
    world world = {.step_us = 1};
    assert_false(look(&vigil, &world)); /* it trusts nobody yet */
    assert_int_equal(world.now_us, 0);
    for (int i = 0; i < VIGIL_TRUST; i++) vigil_slept(&vigil, VIGIL_US - 1);
    assert_true(look(&vigil, &world));
    world.ready_us = world.now_us + VIGIL_US / 2;
    assert_true(look(&vigil, &world));
    assert_int_equal(vigil.hits, 2);
}

/* Each look in vain makes the next one come twice as late, up to a bound; looks that are worth it make up for it. */
static void looking_in_vain_becomes_rare(void **state) {
    vigil vigil = {0};
    world world = {.step_us = 1, .ready_us = INT64_MAX};
    uint64_t waits = 0;
    for (uint32_t takes = VIGIL_TRUST; takes < 4 * VIGIL_TRUST_MAX; takes *= 2) {
        uint32_t expected = takes < VIGIL_TRUST_MAX ? takes : VIGIL_TRUST_MAX, slept = 0;
        for (uint64_t lost = vigil.lost; vigil.lost == lost; slept++, waits++) {
            assert_false(look(&vigil, &world));
            if (vigil.lost == lost) vigil_slept(&vigil, 1);
        }
        assert_int_equal(slept, expected + 1);
    }
    assert_in_range(world.now_us, vigil.lost * VIGIL_US, vigil.lost * (VIGIL_US + 2));
    vigil.trust = VIGIL_TRUST_MAX;
    world.ready_us = 0;
    while (vigil.vain != 0) assert_true(look(&vigil, &world));
    assert_in_range(vigil.hits, 1, 10);
}

static void long_waits_are_slept(void **state) {
    vigil vigil = {.trust = VIGIL_TRUST_MAX};
    for (int i = 0; i < VIGIL_TRUST_MAX; i++) vigil_slept(&vigil, VIGIL_US);
    assert_int_equal(vigil.trust, 0);
    vigil_slept(&vigil, VIGIL_US);
    assert_int_equal(vigil.trust, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_looks_after_short_waits),
        cmocka_unit_test(looking_in_vain_becomes_rare),
        cmocka_unit_test(long_waits_are_slept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
