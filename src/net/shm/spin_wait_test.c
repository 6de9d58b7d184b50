/* spin_wait_test.c — spins for a peer on another CPU, never for one on the same CPU, and moves away only when
 * allowed. */
#include "net/shm/spin_wait.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/cpu.h"
#include "net/shm/doorbell.h"

typedef struct looks {
    unsigned count, ready_at; /* `ready` returns true from this poll on; 0: never */
} looks;

static bool look(void *context) {
    looks *looks = context;
    looks->count++;
    return looks->ready_at != 0 && looks->count >= looks->ready_at;
}

typedef struct scene {
    process_block *self, *peer;
    cpu_set_t allowed;
} scene;

static int set_up(void **state) {
    scene *scene = calloc(1, sizeof *scene);
    scene->self = aligned_alloc(64, 2 * sizeof(process_block));
    if (scene->self == NULL) return -1;
    memset(scene->self, 0, 2 * sizeof(process_block));
    scene->peer = scene->self + 1;
    sched_getaffinity(0, sizeof scene->allowed, &scene->allowed);
    cpu_set_t one; /* one CPU only, so that the comparison is exact */
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
    spin_wait wait;
    spin_wait_init(&wait, 1000 * 1000);
    atomic_store(&scene->peer->cpu, cpu_current() + 1);
    looks looks = {.ready_at = 500};
    assert_true(spin_wait_spin(&wait, scene->self, scene->peer, false, look, &looks));
    assert_int_equal(looks.count, 500);
    assert_int_equal(atomic_load(&scene->self->cpu), cpu_current());
    assert_int_equal(wait.spins_hit, 1);
}

/* A message present at the first polls may be part of a stream; one that was waited for is not. */
static void what_was_waited_for_comes_alone(void **state) {
    scene *scene = *state;
    spin_wait wait;
    spin_wait_init(&wait, 1000 * 1000);
    atomic_store(&scene->peer->cpu, cpu_current() + 1);
    looks looks = {.ready_at = SPIN_WAIT_ALONE_AFTER};
    assert_true(spin_wait_spin(&wait, scene->self, scene->peer, false, look, &looks));
    assert_false(wait.alone);
    looks = (struct looks){.ready_at = SPIN_WAIT_ALONE_AFTER + 1};
    assert_true(spin_wait_spin(&wait, scene->self, scene->peer, false, look, &looks));
    assert_true(wait.alone);
    looks = (struct looks){.ready_at = 1};
    assert_true(spin_wait_spin(&wait, scene->self, scene->peer, false, look, &looks));
    assert_false(wait.alone);
    looks = (struct looks){.ready_at = 17}; /* the first poll after a clock read */
    assert_true(spin_wait_spin(&wait, scene->self, scene->peer, false, look, &looks));
    assert_true(wait.alone);
}

static void spinning_ends(void **state) {
    scene *scene = *state;
    spin_wait wait;
    spin_wait_init(&wait, 50);
    atomic_store(&scene->peer->cpu, cpu_current() + 1);
    looks looks = {0};
    assert_false(spin_wait_spin(&wait, scene->self, scene->peer, false, look, &looks));
    assert_true(looks.count > 16);
    assert_int_equal(wait.spins_missed, 1);
    assert_true(wait.alone);
}

static void a_peer_on_the_same_cpu_is_not_spun_for(void **state) {
    scene *scene = *state;
    spin_wait wait;
    spin_wait_init(&wait, 1000 * 1000);
    atomic_store(&scene->peer->cpu, cpu_current());
    looks looks = {.ready_at = 500};
    assert_false(spin_wait_spin(&wait, scene->self, scene->peer, false, look, &looks));
    assert_int_equal(looks.count, 1);
    assert_int_equal(wait.sleeps_at_once, 1);
}

static void a_waiter_without_peer_does_not_spin(void **state) {
    scene *scene = *state;
    spin_wait wait;
    spin_wait_init(&wait, 1000 * 1000);
    looks looks = {.ready_at = 500};
    assert_false(spin_wait_spin(&wait, scene->self, NULL, false, look, &looks));
    assert_int_equal(looks.count, 1);
}

/* ---- Other processes that need the CPU. */

typedef struct crowd {
    process_block *blocks; /* self, peer, and others */
    _Atomic uint32_t processes;
} crowd;

enum { CROWD = 6 };

static void crowd_open(crowd *crowd, spin_wait *wait, uint32_t rung_max) {
    crowd->blocks = aligned_alloc(64, CROWD * sizeof(process_block));
    assert_non_null(crowd->blocks);
    memset(crowd->blocks, 0, CROWD * sizeof(process_block));
    atomic_store(&crowd->processes, CROWD);
    for (int i = 0; i < CROWD; i++) atomic_store(&crowd->blocks[i].cpu, cpu_current() + 1);
    spin_wait_init(wait, 1000 * 1000);
    spin_wait_heed(wait, crowd->blocks, &crowd->processes);
    wait->rung_max = rung_max; /* as if there were one more CPU */
    wait->patient_ticks = 0;
}

/* Whether the process stops at the first check of the others, after an unsuccessful spin. */
static bool makes_way(const crowd *crowd, spin_wait *wait) {
    looks looks = {.ready_at = 500};
    wait->vain = 1;
    bool seen = spin_wait_spin(wait, &crowd->blocks[0], &crowd->blocks[1], false, look, &looks);
    assert_int_equal(seen, looks.count == 500);
    return !seen;
}

static void more_processes_than_cpus_are_detected(void **state) {
    crowd crowd;
    spin_wait wait;
    spin_wait_init(&wait, 1000);
    assert_false(spin_wait_is_crowded(&wait)); /* no processes are set */
    crowd_open(&crowd, &wait, 2);
    assert_true(spin_wait_is_crowded(&wait)); /* on the one CPU of this test */
    wait.cpus = CROWD;
    assert_false(spin_wait_is_crowded(&wait));
    free(crowd.blocks);
}

static void a_spinning_thread_yields_to_woken_threads(void **state) {
    crowd crowd;
    spin_wait wait;
    crowd_open(&crowd, &wait, 2);
    assert_false(makes_way(&crowd, &wait));
    doorbell_arm(&crowd.blocks[1], DOORBELL_FUTEX);
    doorbell_ring(&crowd.blocks[1], -1); /* the peer itself is waited for and does not count */
    doorbell_arm(&crowd.blocks[2], DOORBELL_FUTEX);
    doorbell_ring(&crowd.blocks[2], -1);
    doorbell_arm(&crowd.blocks[3], DOORBELL_FUTEX); /* asleep: needs no CPU */
    assert_false(makes_way(&crowd, &wait));
    doorbell_ring(&crowd.blocks[3], -1);
    assert_true(makes_way(&crowd, &wait));
    assert_int_equal(wait.made_way, 1);
    atomic_store(&crowd.processes, 3); /* only three processes count */
    assert_false(makes_way(&crowd, &wait));
    atomic_store(&crowd.processes, CROWD);
    doorbell_disarm(&crowd.blocks[2]); /* the process runs */
    assert_false(makes_way(&crowd, &wait));
    free(crowd.blocks);
}

static void a_spinning_thread_yields_to_a_thread_it_preempted(void **state) {
    crowd crowd;
    spin_wait wait;
    crowd_open(&crowd, &wait, 2);
    wait.fresh_ticks = UINT64_MAX / 2; /* every wake-up counts as recent */
    spin_wait_woken(&crowd.blocks[2]); /* on this CPU, where this process runs */
    assert_int_equal(atomic_load(&crowd.blocks[2].cpu), cpu_current());
    assert_true(makes_way(&crowd, &wait));
    doorbell_arm(&crowd.blocks[2], DOORBELL_LOOP); /* the process sleeps again */
    assert_false(makes_way(&crowd, &wait));
    doorbell_disarm(&crowd.blocks[2]);
    assert_true(makes_way(&crowd, &wait));
    wait.fresh_ticks = 0; /* the wake-up was long ago: its state is unknown */
    assert_false(makes_way(&crowd, &wait));
    free(crowd.blocks);
}

static void spinning_depends_on_the_last_answer(void **state) {
    crowd crowd;
    spin_wait wait;
    crowd_open(&crowd, &wait, 1);
    doorbell_arm(&crowd.blocks[2], DOORBELL_FUTEX);
    doorbell_ring(&crowd.blocks[2], -1);
    for (int i = 0; i < 3; i++) {
        looks answered = {.ready_at = 100}, never = {0};
        wait.spin_ticks = UINT64_MAX / 2;
        assert_true(spin_wait_spin(&wait, &crowd.blocks[0], &crowd.blocks[1], false, look, &answered));
        assert_int_equal(wait.vain, 0); /* and stays 0 the next time: */
        wait.spin_ticks = (uint64_t)(50 * clock_ticks_per_us());
        for (unsigned vain = 1; vain <= SPIN_WAIT_STAY_EVERY; vain++) {
            assert_false(spin_wait_spin(&wait, &crowd.blocks[0], &crowd.blocks[1], false, look, &never));
            assert_int_equal(wait.vain, vain);
            assert_int_equal(wait.spins_missed, i + 1);
        }
        assert_int_equal(wait.made_way, (i + 1) * (SPIN_WAIT_STAY_EVERY - 1));
    }
    free(crowd.blocks);
}

static unsigned shared_waits(scene *scene, spin_wait *wait, bool may_nudge, unsigned count) {
    looks looks = {0};
    for (unsigned i = 0; i < count; i++) {
        atomic_store(&scene->peer->cpu, cpu_current());
        spin_wait_spin(wait, scene->self, scene->peer, may_nudge, look, &looks);
    }
    return (unsigned)wait->nudges;
}

static void the_nudge_moves_one_side_and_backs_off(void **state) {
    scene *scene = *state;
    if (CPU_COUNT(&scene->allowed) < 2) skip();
    sched_setaffinity(0, sizeof scene->allowed, &scene->allowed);
    spin_wait wait;
    spin_wait_init(&wait, 20);
    assert_int_equal(shared_waits(scene, &wait, false, 1000), 0);
    assert_int_equal(shared_waits(scene, &wait, true, SPIN_WAIT_NUDGE_AFTER - 1), 0);
    assert_int_equal(shared_waits(scene, &wait, true, 1), 1);
    cpu_set_t now;
    sched_getaffinity(0, sizeof now, &now);
    assert_true(CPU_EQUAL(&now, &scene->allowed)); /* the mask is restored */
    wait.nudge_gap_min = wait.nudge_gap = UINT64_MAX / 8;
    assert_int_equal(shared_waits(scene, &wait, true, 10 * SPIN_WAIT_NUDGE_AFTER), 1);
}

static void one_cpu_only_means_no_nudge(void **state) {
    scene *scene = *state;
    spin_wait wait;
    spin_wait_init(&wait, 20);
    assert_int_equal(shared_waits(scene, &wait, true, 10 * SPIN_WAIT_NUDGE_AFTER), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_peer_on_another_cpu_is_spun_for, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_was_waited_for_comes_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(spinning_ends, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_peer_on_the_same_cpu_is_not_spun_for, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_waiter_without_peer_does_not_spin, set_up, tear_down),
        cmocka_unit_test_setup_teardown(more_processes_than_cpus_are_detected, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_spinning_thread_yields_to_woken_threads, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_spinning_thread_yields_to_a_thread_it_preempted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(spinning_depends_on_the_last_answer, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_nudge_moves_one_side_and_backs_off, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_cpu_only_means_no_nudge, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
