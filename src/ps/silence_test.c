/* silence_test.c — which silent server is given up, and when. */
#include "ps/silence.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { SERVERS = 4, NOW = 1000000 };

typedef struct world {
    silence_server servers[SERVERS];
    cluster_map_slot slots[2];
    cluster_map map;
} world;

/* Servers 0 … copies - 1 hold both slots; the first `servers` servers are there. */
static void begin(world *world, size_t servers, uint8_t copies) {
    *world = (struct world){.map = {.number = 1, .copies = copies, .slot_count = 2}};
    world->map.slots = world->slots;
    for (uint32_t i = 0; i < servers; i++)
        world->servers[i] = (silence_server){.id = i, .incarnation = 10 + i, .sure = true};
    for (size_t i = 0; i < 2; i++)
        for (world->slots[i].count = 0; world->slots[i].count < copies; world->slots[i].count++)
            world->slots[i].chain[world->slots[i].count] =
                (cluster_map_member){world->slots[i].count, 10 + (uint64_t)world->slots[i].count, 1};
}

static void silence_one(world *world, size_t at) {
    world->servers[at].sure = false;
    world->servers[at].silent = true;
}

static size_t choose(world *world, size_t count, int64_t now_us) {
    return silence_choose(&world->map, world->servers, count, SILENCE_HOLD_US, now_us);
}

static void a_third_replica_lets_one_go(void **state) {
    world world;
    begin(&world, 3, 3);
    silence_one(&world, 1);
    assert_int_equal(choose(&world, 3, NOW), 1); /* two sure replicas are left */
}

/* Until the spare server is filled, the slots would have one replica. */
static void a_spare_server_lets_nobody_go(void **state) {
    world world;
    begin(&world, 3, 2);
    silence_one(&world, 0);
    assert_int_equal(choose(&world, 3, NOW), 3);
    assert_int_equal(choose(&world, 3, NOW + SILENCE_HOLD_US - 1), 3);
    assert_int_equal(choose(&world, 3, NOW + SILENCE_HOLD_US), 0);
}

static void the_last_safe_replicas_are_held(void **state) {
    world world;
    begin(&world, 2, 2);
    silence_one(&world, 1);
    assert_int_equal(choose(&world, 2, NOW), 2); /* nobody can take its place */
    assert_int_equal(choose(&world, 2, NOW + SILENCE_HOLD_US - 1), 2);
    assert_int_equal(choose(&world, 2, NOW + SILENCE_HOLD_US), 1);
    begin(&world, 4, 3);
    silence_one(&world, 0);
    silence_one(&world, 1);
    assert_int_equal(choose(&world, 4, NOW), 4); /* one sure replica is left of each slot */
}

static void a_word_begins_the_time_anew(void **state) {
    world world;
    begin(&world, 2, 2);
    silence_one(&world, 1);
    assert_int_equal(choose(&world, 2, NOW), 2);
    world.servers[1].silent = false;
    assert_int_equal(choose(&world, 2, NOW + 1), 2);
    assert_int_equal(world.servers[1].silent_us, 0);
    world.servers[1].silent = true;
    assert_int_equal(choose(&world, 2, NOW + SILENCE_HOLD_US), 2);
    world.servers[1].given_up = true; /* once is enough */
    assert_int_equal(choose(&world, 2, NOW + 3 * SILENCE_HOLD_US), 2);
}

static void an_earlier_process_is_no_replica(void **state) {
    world world;
    begin(&world, 3, 3);
    world.servers[2].incarnation++; /* restarted: it has no replica */
    silence_one(&world, 1);
    assert_int_equal(choose(&world, 3, NOW), 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_third_replica_lets_one_go),      cmocka_unit_test(a_spare_server_lets_nobody_go),
        cmocka_unit_test(the_last_safe_replicas_are_held),  cmocka_unit_test(a_word_begins_the_time_anew),
        cmocka_unit_test(an_earlier_process_is_no_replica),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
