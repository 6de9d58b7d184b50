/* waiter_test.c — spins for somebody on another CPU, never for somebody on its own, and moves away only when it may. */
#include "net/shm/waiter.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cpu.h"

typedef struct looks {
    unsigned count, ready_at; /* ready from this look on; 0: never */
} looks;

static bool look(void *context) {
    looks *looks = context;
    looks->count++;
    return looks->ready_at != 0 && looks->count >= looks->ready_at;
}

typedef struct scene {
    station *self, *peer;
    cpu_set_t allowed;
} scene;

static int set_up(void **state) {
    scene *scene = calloc(1, sizeof *scene);
    scene->self = aligned_alloc(64, 2 * sizeof(station));
    if (scene->self == NULL) return -1;
    memset(scene->self, 0, 2 * sizeof(station));
    scene->peer = scene->self + 1;
    sched_getaffinity(0, sizeof scene->allowed, &scene->allowed);
    cpu_set_t one; /* stay on one CPU, so that the comparison is exact */
    CPU_ZERO(&one);
    CPU_SET(cpu_current(), &one);
    sched_setaffinity(0, sizeof one, &one);
    *state = scene;
    return 0;
}

static int tear_down(void **state) {
    scene *scene = *state;
    sched_setaffinity(0, sizeof scene->allowed, &scene->allowed);
    free(scene->self);
    free(scene);
    return 0;
}

static void a_peer_on_another_cpu_is_spun_for(void **state) {
    scene *scene = *state;
    waiter waiter;
    waiter_init(&waiter, 1000 * 1000);
    atomic_store(&scene->peer->cpu, cpu_current() + 1);
    looks looks = {.ready_at = 500};
    assert_true(waiter_spin(&waiter, scene->self, scene->peer, false, look, &looks));
    assert_int_equal(looks.count, 500);
    assert_int_equal(atomic_load(&scene->self->cpu), cpu_current());
    assert_int_equal(waiter.spins_hit, 1);
}

/* What is there at the first looks may be one of many; what lets us wait is not. */
static void what_was_waited_for_comes_alone(void **state) {
    scene *scene = *state;
    waiter waiter;
    waiter_init(&waiter, 1000 * 1000);
    atomic_store(&scene->peer->cpu, cpu_current() + 1);
    looks looks = {.ready_at = WAITER_ALONE_AFTER};
    assert_true(waiter_spin(&waiter, scene->self, scene->peer, false, look, &looks));
    assert_false(waiter.alone);
    looks = (struct looks){.ready_at = WAITER_ALONE_AFTER + 1};
    assert_true(waiter_spin(&waiter, scene->self, scene->peer, false, look, &looks));
    assert_true(waiter.alone);
    looks = (struct looks){.ready_at = 1};
    assert_true(waiter_spin(&waiter, scene->self, scene->peer, false, look, &looks));
    assert_false(waiter.alone);
    looks = (struct looks){.ready_at = 17}; /* the first one after a look at the clock */
    assert_true(waiter_spin(&waiter, scene->self, scene->peer, false, look, &looks));
    assert_true(waiter.alone);
}

static void spinning_ends(void **state) {
    scene *scene = *state;
    waiter waiter;
    waiter_init(&waiter, 50);
    atomic_store(&scene->peer->cpu, cpu_current() + 1);
    looks looks = {0};
    assert_false(waiter_spin(&waiter, scene->self, scene->peer, false, look, &looks));
    assert_true(looks.count > 16);
    assert_int_equal(waiter.spins_missed, 1);
    assert_true(waiter.alone);
}

static void a_peer_on_the_same_cpu_is_not_spun_for(void **state) {
    scene *scene = *state;
    waiter waiter;
    waiter_init(&waiter, 1000 * 1000);
    atomic_store(&scene->peer->cpu, cpu_current());
    looks looks = {.ready_at = 500};
    assert_false(waiter_spin(&waiter, scene->self, scene->peer, false, look, &looks));
    assert_int_equal(looks.count, 1);
    assert_int_equal(waiter.sleeps_at_once, 1);
}

static void nobody_to_wait_for_means_no_spinning(void **state) {
    scene *scene = *state;
    waiter waiter;
    waiter_init(&waiter, 1000 * 1000);
    looks looks = {.ready_at = 500};
    assert_false(waiter_spin(&waiter, scene->self, NULL, false, look, &looks));
    assert_int_equal(looks.count, 1);
}

static unsigned shared_waits(scene *scene, waiter *waiter, bool may_nudge, unsigned count) {
    looks looks = {0};
    for (unsigned i = 0; i < count; i++) {
        atomic_store(&scene->peer->cpu, cpu_current());
        waiter_spin(waiter, scene->self, scene->peer, may_nudge, look, &looks);
    }
    return (unsigned)waiter->nudges;
}

static void the_nudge_moves_one_side_and_backs_off(void **state) {
    scene *scene = *state;
    if (CPU_COUNT(&scene->allowed) < 2) skip();
    sched_setaffinity(0, sizeof scene->allowed, &scene->allowed);
    waiter waiter;
    waiter_init(&waiter, 20);
    assert_int_equal(shared_waits(scene, &waiter, false, 1000), 0);
    assert_int_equal(shared_waits(scene, &waiter, true, WAITER_NUDGE_AFTER - 1), 0);
    assert_int_equal(shared_waits(scene, &waiter, true, 1), 1);
    cpu_set_t now;
    sched_getaffinity(0, sizeof now, &now);
    assert_true(CPU_EQUAL(&now, &scene->allowed)); /* the mask is restored */
    waiter.nudge_gap_min = waiter.nudge_gap = UINT64_MAX / 8;
    assert_int_equal(shared_waits(scene, &waiter, true, 10 * WAITER_NUDGE_AFTER), 1);
}

static void one_cpu_only_means_no_nudge(void **state) {
    scene *scene = *state;
    waiter waiter;
    waiter_init(&waiter, 20);
    assert_int_equal(shared_waits(scene, &waiter, true, 10 * WAITER_NUDGE_AFTER), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_peer_on_another_cpu_is_spun_for, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_was_waited_for_comes_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(spinning_ends, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_peer_on_the_same_cpu_is_not_spun_for, set_up, tear_down),
        cmocka_unit_test_setup_teardown(nobody_to_wait_for_means_no_spinning, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_nudge_moves_one_side_and_backs_off, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_cpu_only_means_no_nudge, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
