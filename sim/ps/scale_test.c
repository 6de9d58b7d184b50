/* scale_test.c — cost of servers that join and leave, in small and large clusters.
 *
 * The same bars hold for every size; so costs bounded per change do not grow with the cluster, and costs bounded per
 * process grow at most linearly with the number of processes. MINIRAY_SCALE=1000 runs that many servers, and four ranks
 * for each, too (`make soak` does). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "ps/silence.h"
#include "sim/ps/scale_cluster.h"

enum { JOINS = 5, COPIES = 2, SLOTS_MAX = 2048 };

/* Bars for one change, at every size. The loss of a machine's power may take SILENCE_HOLD_US more. */
#define SETTLED_MAX_US INT64_C(3000000)
#define MAPS_MAX       6
#define MOVED_MAX      1.2 /* relative to the replicas that must move */
#define WAITED_MAX_US  INT64_C(3000000)
#define LEVEL_MAX      1.3 /* shares of the fullest server: BALANCER_TOLERANCE, and random error of the measurement */

/* Bars per process: for a second without changes, for a change, and for each replica that moves. */
#define MESSAGES_MAX 40.0
#define MORE_MAX     12.0
#define BYTES_MAX    1000.0
#define NEWS_MAX     150.0

static void show(const char *what, const scale_size *size, const scale_cost *cost) {
    double processes = size->servers + size->ranks;
    print_message("%4u servers, %4u ranks: %-9s %5d ms, %d maps, %3d copies moved of %5u (ideal %5.1f), "
                  "%5.1f messages and %5.0f bytes a process\n",
                  size->servers, size->ranks, what, (int)(cost->settled_us / 1000), (int)cost->maps, (int)cost->moved,
                  size->slots * size->copies, cost->ideal, (double)cost->messages / processes,
                  (double)cost->bytes / processes);
}

/* Checks the cost of a change beyond that of a rest of the same length. `held_us`: added to the bar of its time. */
static void check(const char *what, const scale_size *size, const scale_cost *rest, const scale_cost *cost,
                  int64_t held_us) {
    double processes = size->servers + size->ranks, seconds = (double)cost->settled_us / 1e6;
    show(what, size, cost);
    assert_in_range(cost->settled_us, 0, SETTLED_MAX_US + held_us);
    assert_in_range(cost->maps, 1, MAPS_MAX);
    assert_int_equal(cost->needless, 0);
    double messages = (double)cost->messages - (double)rest->messages * seconds;
    double bytes = (double)cost->bytes - (double)rest->bytes * seconds;
    print_message("      over a rest: %.1f messages, %.0f bytes a process\n", messages / processes, bytes / processes);
    assert_true(messages / processes <= MORE_MAX);
    assert_true(bytes / processes <= BYTES_MAX + NEWS_MAX * (double)cost->moved);
}

static void check_ranks(scale_cluster *cluster, int64_t held_us) {
    int64_t waited_us;
    assert_true(scale_check(cluster, &waited_us));
    print_message("      the longest step of a rank: %d ms\n", (int)(waited_us / 1000));
    assert_in_range(waited_us, 0, WAITED_MAX_US + held_us);
}

static void run(const scale_size *size) {
    scale_cluster *cluster = scale_create(size, 1);
    scale_cost rest, cost;
    assert_true(scale_begin(cluster));
    assert_true(scale_rest(cluster, &rest)); /* until links are open */
    assert_true(scale_rest(cluster, &rest));
    show("rest", size, &rest);
    assert_int_equal(rest.maps, 0);
    assert_true((double)rest.messages / (size->servers + size->ranks) <= MESSAGES_MAX);

    double moved = 0, ideal = 0;
    for (int i = 0; i < JOINS; i++) {
        assert_true(scale_join(cluster, i == 0 ? 1 : 1 + size->servers / 50, &cost));
        check("join", size, &rest, &cost, 0);
        moved += (double)cost.moved;
        ideal += cost.ideal;
    }
    assert_true(moved <= MOVED_MAX * ideal);
    assert_true(scale_leave(cluster, 1 + size->servers / 50, &cost));
    check("leave", size, &rest, &cost, 0);
    assert_true((double)cost.moved <= MOVED_MAX * cost.ideal);
    assert_true(scale_die(cluster, 1, false, &cost));
    check("death", size, &rest, &cost, 0);
    assert_true((double)cost.moved <= MOVED_MAX * cost.ideal);
    check_ranks(cluster, 0);
    assert_true(scale_die(cluster, 1, true, &cost));
    check("power", size, &rest, &cost, SILENCE_HOLD_US);
    assert_true((double)cost.moved <= MOVED_MAX * cost.ideal);
    check_ranks(cluster, SILENCE_HOLD_US);
    scale_destroy(cluster);
}

static scale_size size_of(uint32_t servers) {
    uint32_t slots = servers * 8 < SLOTS_MAX ? servers * 8 : SLOTS_MAX;
    return (scale_size){.servers = servers, .ranks = 4 * servers, .slots = slots, .copies = COPIES};
}

static void few_servers(void **state) {
    scale_size size = size_of(16);
    run(&size);
}

static void four_times_as_many(void **state) {
    scale_size size = size_of(64);
    run(&size);
}

/* While ranks train: the load of the fullest server approaches its share, few replicas move, and then none. */
static void load_is_balanced(void **state) {
    scale_size size = size_of(16);
    size.balance_us = 6000000;
    scale_cluster *cluster = scale_create(&size, 1);
    scale_balance busy, calm;
    assert_true(scale_begin(cluster));
    assert_true(scale_let_balance(cluster, INT64_C(60000000), &busy));
    assert_true(scale_let_balance(cluster, INT64_C(40000000), &calm));
    print_message(
        "the fullest server carries %.2f shares, then %.2f, then %.2f; %d copies moved (ideal %.0f), then %d\n",
        busy.before, busy.after, calm.after, (int)busy.cost.moved, busy.cost.ideal, (int)calm.cost.moved);
    assert_true(busy.before > 1.5 && busy.after <= LEVEL_MAX && calm.after <= LEVEL_MAX);
    assert_true((double)busy.cost.moved <= MOVED_MAX * busy.cost.ideal);
    assert_true((double)calm.cost.moved <= (MOVED_MAX - 1) * busy.cost.ideal);
    check_ranks(cluster, 0);
    scale_destroy(cluster);
}

static void as_many_as_one_asks_for(void **state) {
    const char *servers = getenv("MINIRAY_SCALE");
    if (servers == NULL) skip();
    scale_size size = size_of((uint32_t)strtoul(servers, NULL, 10));
    run(&size);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(few_servers),
        cmocka_unit_test(four_times_as_many),
        cmocka_unit_test(load_is_balanced),
        cmocka_unit_test(as_many_as_one_asks_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
