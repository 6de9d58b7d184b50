/* balancer_test.c — moves improve the balance, are few, and end. */
#include "ps/balancer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/rng.h"

enum { SLOTS = 200, SERVERS_MAX = 10, MOVES = 500 };

static double fullest(const balancer_slot *slots, const balancer_server *servers, size_t count) {
    double loads[SERVERS_MAX] = {0}, most = 0;
    for (size_t i = 0; i < SLOTS; i++) loads[slots[i].server] += slots[i].load;
    for (size_t i = 0; i < count; i++)
        if (loads[i] / servers[i].weight > most) most = loads[i] / servers[i].weight;
    return most;
}

static double share(const balancer_slot *slots, const balancer_server *servers, size_t count) {
    double load = 0, weight = 0;
    for (size_t i = 0; i < SLOTS; i++) load += slots[i].load;
    for (size_t i = 0; i < count; i++) weight += servers[i].weight;
    return load / weight;
}

static size_t draw(rng *rng, balancer_slot *slots, balancer_server *servers) {
    size_t count = 2 + (size_t)rng_below(rng, SERVERS_MAX - 1);
    for (size_t i = 0; i < count; i++) servers[i] = (balancer_server){i, rng_chance(rng, 0.3) ? 2 : 1};
    for (size_t i = 0; i < SLOTS; i++)
        slots[i] = (balancer_slot){(uint32_t)i, (uint32_t)rng_below(rng, rng_chance(rng, 0.5) ? 1 : count),
                                   rng_unit(rng), true};
    return count;
}

static void load_becomes_even(void **state) {
    for (uint64_t seed = 1; seed <= 100; seed++) {
        balancer_slot slots[SLOTS];
        balancer_server servers[SERVERS_MAX];
        balancer_move moves[MOVES];
        rng rng;
        rng_init(&rng, seed);
        size_t count = draw(&rng, slots, servers);
        double before = fullest(slots, servers, count), bar = share(slots, servers, count);
        size_t moved = balancer_decide(slots, SLOTS, servers, count, moves, MOVES);
        assert_true(moved <= SLOTS && fullest(slots, servers, count) <= before);
        assert_true(fullest(slots, servers, count) <= (1 + BALANCER_TOLERANCE) * bar);
        for (size_t i = 0; i < SLOTS; i++) slots[i].movable = true;
        /* a balanced map needs no moves */
        assert_int_equal(balancer_decide(slots, SLOTS, servers, count, moves, MOVES), 0);
    }
}

static void a_balanced_map_stays(void **state) {
    balancer_slot slots[] = {{0, 0, 1.0, true}, {1, 0, 0.15, true}, {2, 1, 1.0, true}};
    const balancer_server servers[] = {{1, 1}, {2, 1}};
    balancer_move moves[2];
    assert_int_equal(balancer_decide(slots, 3, servers, 2, moves, 2), 0);
    slots[1].load = 1;
    slots[2].load = 0.1;
    assert_int_equal(balancer_decide(slots, 3, servers, 2, moves, 2), 1);
    assert_true(moves[0].slot == 0 && moves[0].from == 0 && moves[0].to == 1);
}

static void bounds_and_pins_hold(void **state) {
    balancer_slot slots[] = {{0, 0, 1, false}, {1, 0, 1, true}, {2, 0, 1, true}, {3, 0, 1, true}};
    const balancer_server servers[] = {{1, 1}, {2, 1}, {3, 1}, {4, 1}};
    balancer_move moves[4];
    assert_int_equal(balancer_decide(slots, 4, servers, 4, moves, 2), 2);
    for (size_t i = 0; i < 2; i++) assert_true(moves[i].slot != 0 && moves[i].from == 0);
    assert_int_equal(balancer_decide(slots, 4, servers, 1, moves, 4), 0);
}

static void a_slot_too_much_for_any_server_is_hot(void **state) {
    balancer_slot slots[] = {{10, 0, 9, true}, {11, 1, 1, true}, {12, 1, 20, true}, {13, 0, 0, true}};
    const balancer_server servers[] = {{1, 1}, {2, 1}, {3, 1}, {4, 1}};
    balancer_move moves[4];
    uint32_t hot[4];
    assert_int_equal(balancer_hot(slots, 4, servers, 4, hot, 4), 1);
    assert_int_equal(hot[0], 12);
    assert_int_equal(balancer_decide(slots, 4, servers, 4, moves, 4), 1); /* the hot slot stays, its neighbour moves */
    assert_int_equal(moves[0].slot, 11);
    assert_int_equal(balancer_hot(slots, 4, servers, 0, hot, 4), 0);
}

static void one_interval_decides_nothing(void **state) {
    double load = 1;
    load = balancer_smooth(load, 10);
    assert_true(load < 5);
    for (int i = 0; i < 30; i++) load = balancer_smooth(load, 10);
    assert_true(load > 9.9);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(load_becomes_even),
        cmocka_unit_test(a_balanced_map_stays),
        cmocka_unit_test(bounds_and_pins_hold),
        cmocka_unit_test(a_slot_too_much_for_any_server_is_hot),
        cmocka_unit_test(one_interval_decides_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
