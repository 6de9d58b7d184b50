/* sim_test.c — order of events, clocks, busy nodes, crashes and replay. */
#include "sim/sim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "sim/sim_disk.h"

/* ---- A program that records its events. */

typedef struct trace {
    char text[4000];
    int64_t ticks_us[100], next_us;
    size_t ticks;
    int started, stopped;
    bool crash_in_tick;
    sim_node *node;
    const env *env;
} trace;

static void *start(sim_node *node, const env *env, void *argument) {
    trace *trace = argument;
    trace->node = node;
    trace->env = env;
    trace->started++;
    trace->next_us = CLOCK_NEVER_US;
    return trace;
}
static void stop(void *state) { ((trace *)state)->stopped++; }
static int64_t next_us(void *state) { return ((trace *)state)->next_us; }
static void tick(void *state, int64_t now_us) {
    trace *trace = state;
    trace->ticks_us[trace->ticks++] = now_us;
    trace->next_us = CLOCK_NEVER_US;
    if (trace->crash_in_tick) {
        sim_node_crash(trace->node, false);
        assert_true(sim_node_up(trace->node)); /* the process ends when this returns */
        assert_true(sim_node_dying(trace->node));
    }
}
static const sim_program program = {"trace", start, stop, next_us, tick};

typedef struct world {
    scenario_options options;
    sim *sim;
    trace trace;
    sim_node *node;
} world;

static int world_open(void **state) {
    world *world = xcalloc(1, sizeof *world);
    world->options = scenario_options_of(5, NULL);
    world->sim = sim_create(&world->options);
    world->node = sim_node_add(world->sim, NULL, &program, &world->trace);
    sim_node_start(world->node);
    *state = world;
    return 0;
}

static int world_close(void **state) {
    world *world = *state;
    scenario_result result;
    sim_finish(world->sim, &result);
    int unbalanced = world->trace.started != world->trace.stopped;
    free(world);
    return unbalanced;
}

static void add_message(void *context, uint64_t message) {
    trace *trace = context;
    size_t length = strlen(trace->text);
    trace->text[length] = (char)message;
    trace->text[length + 1] = '\0';
}

static void events_come_by_time_then_by_order(void **state) {
    world *world = *state;
    sim_after(world->sim, 20, add_message, &world->trace, 'c');
    sim_after(world->sim, 10, add_message, &world->trace, 'a');
    sim_after(world->sim, 20, add_message, &world->trace, 'd');
    sim_node_after(world->node, 10, add_message, &world->trace, 'b');
    sim_after(world->sim, 21, add_message, &world->trace, 'e');
    assert_true(sim_run(world->sim, 20));
    assert_string_equal(world->trace.text, "abcd");
    assert_int_equal(sim_now_us(world->sim), 20);
    assert_true(sim_run(world->sim, 1000));
    assert_string_equal(world->trace.text, "abcde");
    assert_int_equal(sim_now_us(world->sim), 1000);
}

static bool has_two(void *context) { return strlen(((trace *)context)->text) == 2; }

static void a_run_ends_when_what_it_waits_for_holds(void **state) {
    world *world = *state;
    for (int i = 1; i <= 5; i++) sim_after(world->sim, i * 10, add_message, &world->trace, 'x');
    bool held;
    assert_true(sim_run_until(world->sim, 1000, has_two, &world->trace, &held));
    assert_true(held);
    assert_int_equal(sim_now_us(world->sim), 20);
    assert_true(sim_run_until(world->sim, 2000, has_two, &world->trace, &held));
    assert_false(held);
}

static void events_of_a_busy_node_wait_in_order(void **state) {
    world *world = *state;
    sim_node_spend(world->node, 100);
    sim_node_after(world->node, 100, add_message, &world->trace, 'a'); /* after the busy time, and after the others */
    sim_node_after(world->node, 50, add_message, &world->trace, 'b');
    sim_after(world->sim, 60, add_message, &world->trace, 'c'); /* not an event of the node */
    sim_node_after(world->node, 70, add_message, &world->trace, 'd');
    assert_true(sim_run(world->sim, 99));
    assert_string_equal(world->trace.text, "c");
    assert_true(sim_run(world->sim, 100));
    assert_string_equal(world->trace.text, "cbda");
}

static void events_of_a_process_end_with_it(void **state) {
    world *world = *state;
    sim_node_spend(world->node, 100);
    sim_node_after(world->node, 50, add_message, &world->trace, 'a');
    assert_true(sim_run(world->sim, 60));
    sim_node_crash(world->node, false);
    sim_node_start(world->node);
    sim_node_after(world->node, 10, add_message, &world->trace, 'b'); /* the new process is not busy */
    assert_true(sim_run(world->sim, 80));
    assert_string_equal(world->trace.text, "b");
}

static void ask_for_tick(void *context, uint64_t delay_us) {
    trace *trace = context;
    trace->next_us = clock_now_us(trace->env->clock) + (int64_t)delay_us;
}

static void ticks_come_by_the_nodes_own_clock(void **state) {
    world *world = *state;
    static const int64_t drifts[] = {0, 500000, -500000, 20000, -1};
    for (size_t i = 0; i < 5; i++) {
        sim_node_set_drift(world->node, drifts[i]);
        int64_t before_us = sim_now_us(world->sim), local_us = sim_node_now_us(world->node);
        sim_node_after(world->node, 0, ask_for_tick, &world->trace, 1000000);
        assert_true(sim_run(world->sim, before_us + 5000000));
        assert_int_equal(world->trace.ticks, i + 1);
        assert_int_equal(world->trace.ticks_us[i], local_us + 1000000);
        int64_t passed_us = sim_node_now_us(world->node) - local_us;
        assert_int_equal(passed_us, 5000000 + 5 * drifts[i]);
    }
}

static void the_wall_clock_jumps_and_the_other_does_not(void **state) {
    world *world = *state;
    clock_source clock = sim_node_env(world->node)->clock;
    int64_t wall_us = clock_wall_us(clock), now_us = clock_now_us(clock);
    sim_node_jump_wall(world->node, -3600000000);
    assert_int_equal(clock_wall_us(clock), wall_us - 3600000000);
    assert_int_equal(clock_now_us(clock), now_us);
}

static void a_crash_inside_a_callback_ends_the_process_after_it(void **state) {
    world *world = *state;
    world->trace.crash_in_tick = true;
    sim_node_after(world->node, 0, ask_for_tick, &world->trace, 10);
    assert_true(sim_run(world->sim, 100));
    assert_int_equal(world->trace.ticks, 1);
    assert_false(sim_node_up(world->node));
    assert_int_equal(world->trace.stopped, 1);
    assert_null(sim_node_state(world->node));
    sim_node_start(world->node);
    assert_int_equal(sim_node_process(world->node), 2);
}

static void the_first_violation_ends_the_run(void **state) {
    world *world = *state;
    sim_after(world->sim, 50, add_message, &world->trace, 'a');
    assert_true(sim_run(world->sim, 10));
    sim_violation(world->sim, "first %d", 1);
    sim_violation(world->sim, "second");
    assert_false(sim_run(world->sim, 100));
    assert_string_equal(world->trace.text, "");
    scenario_result result;
    sim_finish(world->sim, &result);
    assert_string_equal(result.violation, "at 0.000010 s: first 1");
    world->sim = sim_create(&world->options); /* for the teardown */
}

static void forever(void *context, uint64_t unused) { sim_after(context, 0, forever, context, 0); }

static void an_endless_run_is_a_violation(void **state) {
    world *world = *state;
    forever(world->sim, 0);
    assert_false(sim_run(world->sim, 1));
    assert_true(sim_failed(world->sim));
}

static void a_run_can_be_cut_short(void **state) {
    scenario_options options = scenario_options_of(1, NULL);
    options.stop_after = 3;
    sim *sim = sim_create(&options);
    trace trace = {0};
    for (int i = 1; i <= 5; i++) sim_after(sim, i * 10, add_message, &trace, 'x');
    assert_false(sim_run(sim, 1000));
    assert_string_equal(trace.text, "xxx");
    scenario_result result;
    sim_finish(sim, &result);
    assert_string_equal(result.violation, "");
    assert_int_equal(result.events, 3);
}

/* ---- Chance and hash. */

static uint64_t hash_of(uint64_t seed, const char *note, bool more) {
    scenario_options options = scenario_options_of(seed, NULL);
    sim *sim = sim_create(&options);
    trace trace = {0};
    sim_node *node = sim_node_add(sim, NULL, &program, &trace);
    sim_node_start(node);
    sim_node_after(node, 5, ask_for_tick, &trace, more ? 11 : 10);
    assert_true(sim_run(sim, 100));
    sim_note(sim, node, "%s", note);
    scenario_result result;
    sim_finish(sim, &result);
    return result.hash;
}

static void the_hash_tells_histories_apart(void **state) {
    assert_true(hash_of(1, "a", false) == hash_of(1, "a", false));
    assert_true(hash_of(1, "a", false) != hash_of(1, "b", false));
    assert_true(hash_of(1, "a", false) != hash_of(1, "a", true));
    assert_true(hash_of(1, "a", false) != hash_of(2, "a", false));
}

static void streams_of_chance_do_not_disturb_each_other(void **state) {
    world *world = *state;
    rng a = sim_fork_rng(world->sim, 50), b = sim_fork_rng(world->sim, 51);
    uint64_t first = rng_next(&a);
    assert_true(first != rng_next(&b));
    for (int i = 0; i < 10; i++) rng_next(sim_rng(world->sim));
    rng again = sim_fork_rng(world->sim, 50);
    assert_true(rng_next(&again) == first);
}

#define IN_WORLD(test) cmocka_unit_test_setup_teardown(test, world_open, world_close)

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_WORLD(events_come_by_time_then_by_order),
        IN_WORLD(a_run_ends_when_what_it_waits_for_holds),
        IN_WORLD(events_of_a_busy_node_wait_in_order),
        IN_WORLD(events_of_a_process_end_with_it),
        IN_WORLD(ticks_come_by_the_nodes_own_clock),
        IN_WORLD(the_wall_clock_jumps_and_the_other_does_not),
        IN_WORLD(a_crash_inside_a_callback_ends_the_process_after_it),
        IN_WORLD(the_first_violation_ends_the_run),
        IN_WORLD(an_endless_run_is_a_violation),
        cmocka_unit_test(a_run_can_be_cut_short),
        cmocka_unit_test(the_hash_tells_histories_apart),
        IN_WORLD(streams_of_chance_do_not_disturb_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
