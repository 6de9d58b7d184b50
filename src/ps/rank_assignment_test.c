/* rank_assignment_test.c — every process gets a share, no rank has two processes, and few ranks move. */
#include "ps/rank_assignment.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"

enum { WORKERS_MAX = 12 };

typedef struct world {
    cluster_map map;
    cluster_map_process workers[WORKERS_MAX];
    size_t count;
} world;

static void start(world *world, uint32_t ranks, uint32_t workers) {
    *world = (struct world){.map = {.number = 1, .rank_count = ranks}, .count = workers};
    for (uint32_t i = 0; i < workers; i++)
        world->workers[i] = (cluster_map_process){.id = i, .incarnation = 10 + i, .alive = true};
}

static bool next(world *world) {
    world->map.number++;
    return rank_assignment_next(&world->map, world->workers, world->count);
}

static uint32_t holder(const world *world, uint32_t rank) { return world->map.ranks[rank].worker; }

static void each_plays_the_rank_of_its_number(void **state) {
    world world;
    start(&world, 3, 4);
    assert_true(next(&world));
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(holder(&world, i), i);
        assert_true(world.map.ranks[i].incarnation == 10 + i && world.map.ranks[i].since == 2);
    }
    assert_false(next(&world));
    cluster_map_fini(&world.map);
}

static void a_rank_whose_process_is_gone_is_played_by_another(void **state) {
    world world;
    start(&world, 3, 4);
    (void)next(&world);
    world.workers[1].alive = false;
    assert_true(next(&world));
    assert_int_equal(holder(&world, 1), 3); /* the worker without a rank */
    assert_true(world.map.ranks[1].since == 3 && world.map.ranks[0].since == 2);
    world.workers[0].alive = false;
    assert_true(next(&world));
    assert_int_equal(holder(&world, 0), 2); /* one worker holds two ranks */
    world.workers[1] = (cluster_map_process){.id = 1, .incarnation = 21, .alive = true};
    assert_true(next(&world)); /* a new worker gets one of the two; its own number is held by a worker with one rank */
    assert_true(holder(&world, 1) == 3 && holder(&world, 2) == 1 && holder(&world, 0) == 2);
    world.workers[3].incarnation = 33; /* another process of the worker keeps its rank */
    assert_true(next(&world));
    assert_true(holder(&world, 1) == 3 && world.map.ranks[1].incarnation == 33);
    cluster_map_fini(&world.map);
}

static void without_workers_nothing_changes(void **state) {
    world world;
    start(&world, 2, 1);
    world.workers[0].alive = false;
    assert_false(next(&world));
    assert_true(world.map.ranks[0].since == 0);
    world.workers[0].alive = true;
    assert_true(next(&world));
    world.workers[0].alive = false;
    assert_false(next(&world));
    assert_true(world.map.ranks[0].since == 3 && world.map.ranks[1].since == 3);
    cluster_map_fini(&world.map);
    start(&world, 0, 1); /* a table without ranks */
    assert_false(next(&world));
    cluster_map_fini(&world.map);
}

/* Every rank is held by a connected worker, shares differ by at most one, and no rank moves without need. */
static void check(const world *world, const cluster_map_rank *before) {
    uint32_t plays[WORKERS_MAX] = {0}, least = UINT32_MAX, most = 0, here = 0, moved = 0, orphans = 0;
    for (uint32_t i = 0; i < world->map.rank_count; i++) {
        const cluster_map_rank *now = &world->map.ranks[i];
        assert_true(world->workers[now->worker].alive && world->workers[now->worker].incarnation == now->incarnation);
        plays[now->worker]++;
        const cluster_map_process *was = &world->workers[before[i].worker];
        bool gone = before[i].since == 0 || !was->alive || was->incarnation != before[i].incarnation;
        assert_true(now->since == (now->since == world->map.number ? now->since : before[i].since));
        orphans += gone;
        moved += now->since == world->map.number;
    }
    for (size_t i = 0; i < world->count; i++) {
        if (!world->workers[i].alive) continue;
        here++;
        if (plays[i] < least) least = plays[i];
        if (plays[i] > most) most = plays[i];
    }
    assert_true(most <= least + 1);
    assert_true(moved <= orphans + world->map.rank_count / here * here); /* at most one share for each worker */
}

static void many_comings_and_goings(void **state) {
    rng rng;
    rng_init(&rng, 1);
    for (int round = 0; round < 200; round++) {
        world world;
        start(&world, 1 + (uint32_t)rng_below(&rng, 16), 1 + (uint32_t)rng_below(&rng, WORKERS_MAX));
        (void)next(&world);
        for (int step = 0; step < 30; step++) {
            cluster_map_rank before[16];
            memcpy(before, world.map.ranks, world.map.rank_count * sizeof *before);
            cluster_map_process *worker = &world.workers[rng_below(&rng, world.count)];
            worker->alive = !worker->alive;
            if (worker->alive && rng_chance(&rng, 0.5)) worker->incarnation += 100;
            size_t here = 0;
            for (size_t i = 0; i < world.count; i++) here += world.workers[i].alive;
            bool changed = next(&world);
            assert_true(here != 0 || !changed);
            if (here != 0) check(&world, before);
        }
        cluster_map_fini(&world.map);
    }
}

static void of_those_who_play_their_own_rank_no_other_plays_it(void **state) {
    world world;
    start(&world, 3, 4);
    world.workers[1].alive = false;
    assert_true(rank_assignment_own(&world.map, world.workers, world.count));
    assert_true(world.map.ranks[1].since == 0 && world.map.ranks[0].since != 0 && holder(&world, 2) == 2);
    assert_false(rank_assignment_own(&world.map, world.workers, world.count));
    world.workers[0].alive = false; /* a missing worker is waited for */
    assert_false(rank_assignment_own(&world.map, world.workers, world.count));
    world.workers[0] = (cluster_map_process){.id = 0, .incarnation = 30, .alive = true};
    world.workers[1].alive = true;
    world.map.number++;
    assert_true(rank_assignment_own(&world.map, world.workers, world.count));
    assert_true(holder(&world, 0) == 0 && world.map.ranks[0].incarnation == 30);
    assert_int_equal(world.map.ranks[1].since, world.map.number);
    cluster_map_fini(&world.map);
}

/* A reader gets no rank, also when ranks have no process, and no other process gets its place. */
static void a_reader_has_its_own_place_and_no_rank(void **state) {
    world world;
    start(&world, 2, 1);
    world.map.reader_count = 2;
    world.workers[1] = (cluster_map_process){.id = CLUSTER_MAP_READER + 1, .incarnation = 40, .alive = true};
    world.workers[2] = (cluster_map_process){.id = CLUSTER_MAP_READER + 2, .incarnation = 41, .alive = true};
    world.count = 3; /* the last reader has no place */
    assert_true(next(&world));
    assert_true(holder(&world, 0) == 0 && holder(&world, 1) == 0);
    assert_true(world.map.ranks[2].since == 0 && world.map.ranks[3].incarnation == 40);
    assert_false(next(&world));
    assert_false(rank_assignment_own(&world.map, world.workers, world.count));
    world.workers[1].incarnation = 50;
    world.map.number++;
    assert_true(rank_assignment_own(&world.map, world.workers, world.count));
    assert_true(holder(&world, 3) == CLUSTER_MAP_READER + 1 && world.map.ranks[3].incarnation == 50);
    cluster_map_fini(&world.map);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reader_has_its_own_place_and_no_rank),
        cmocka_unit_test(each_plays_the_rank_of_its_number),
        cmocka_unit_test(a_rank_whose_process_is_gone_is_played_by_another),
        cmocka_unit_test(without_workers_nothing_changes),
        cmocka_unit_test(many_comings_and_goings),
        cmocka_unit_test(of_those_who_play_their_own_rank_no_other_plays_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
