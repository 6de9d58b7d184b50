/* player_test.c — one worker: it beats, and plays what the newest chart says. */
#include "ps/player.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "cluster/coordinator.h"
#include "tests/support/said.h"

enum { RANKS = 4 };

typedef struct world {
    player *player;
    said said;
    uint64_t played[RANKS]; /* stints; 0: it is not played */
    int begun, ended;
    uint64_t replaced; /* by this incarnation */
    uint64_t step;     /* where its ranks stand, or in which they are: */
    bool still;
} world;

static void on_send(void *context, const char *address, span bytes) {
    said_take(&((world *)context)->said, address, bytes);
}
static void on_begin(void *context, uint32_t rank, uint64_t stint) {
    world *world = context;
    assert_int_equal(world->played[rank], 0);
    world->played[rank] = stint;
    world->begun++;
}
static void on_end(void *context, uint32_t rank) {
    world *world = context;
    assert_int_not_equal(world->played[rank], 0);
    world->played[rank] = 0;
    world->ended++;
}

static void on_replaced(void *context, uint64_t incarnation) { ((world *)context)->replaced = incarnation; }

static bool stands(void *context, uint32_t rank, uint64_t *step) {
    const world *world = context;
    assert_int_not_equal(world->played[rank], 0);
    *step = world->step;
    return world->still;
}

/* Rank i is played by workers[i], whose incarnation is in the last digit of its stint. */
static void hear_chart(world *world, uint64_t number, uint32_t ranks, const chart_player *players) {
    chart chart = {.number = number, .generation = 5, .birth = 1, .rank_count = ranks};
    chart.players = (chart_player *)(uintptr_t)players;
    part_head head = {.generation = 5, .number = number, .incarnation = 1, .who = PART_DIRECTOR, .address = "d"};
    said_batch batch = said_chart(&head, &chart);
    player_take(world->player, batch.bytes);
    said_free(&batch);
}

static void start(world *world) {
    *world = (struct world){0};
    player_options options = {.worker = 7,
                              .address = "w7",
                              .director = "d",
                              .send = on_send,
                              .on_begin = on_begin,
                              .on_end = on_end,
                              .on_replaced = on_replaced,
                              .stands = stands,
                              .context = world};
    world->player = player_create(&options);
    assert_int_equal(player_next_us(world->player), CLOCK_NEVER_US);
    hear_chart(world, 1, 1, (chart_player[]){{7, 0, 1}}); /* it is nobody yet */
    assert_int_equal(world->begun, 0);
    player_begin(world->player, 70, 100);
}

static void it_says_that_it_is_here(void **state) {
    world world;
    start(&world);
    assert_int_equal(player_next_us(world.player), 100);
    player_tick(world.player, 100);
    assert_true(world.said.batches == 1 && world.said.count == 0); /* a sign of life */
    assert_int_equal(player_next_us(world.player), 100 + PLAYER_BEAT_US);
    player_destroy(world.player);
}

static void it_plays_what_the_newest_chart_says(void **state) {
    world world;
    start(&world);
    /* Another process of this worker, another worker, this one, nobody. */
    hear_chart(&world, 3, 4, (chart_player[]){{7, 69, 2}, {6, 70, 3}, {7, 70, 3}, {0}});
    assert_true(world.begun == 1 && world.played[2] == 3);
    hear_chart(&world, 4, 4, (chart_player[]){{7, 70, 4}, {6, 70, 3}, {7, 70, 3}, {0}});
    assert_true(world.begun == 2 && world.ended == 0 && world.played[0] == 4);
    /* One goes to another worker, one was another's meanwhile. */
    hear_chart(&world, 7, 4, (chart_player[]){{7, 70, 6}, {6, 70, 3}, {6, 70, 5}, {0}});
    assert_true(world.begun == 3 && world.ended == 2 && world.played[0] == 6 && world.played[2] == 0);
    hear_chart(&world, 5, 4, (chart_player[]){{7, 70, 4}, {6, 70, 3}, {7, 70, 3}, {0}}); /* late */
    assert_true(world.begun == 3 && world.ended == 2 && player_chart(world.player)->number == 7);
    assert_int_equal(world.played[0], 6);
    player_destroy(world.player);
}

static void hear_replaced(world *world, uint32_t who, uint64_t incarnation) {
    part_head head = {.generation = 5, .number = 2, .incarnation = 1, .who = who, .address = "d"};
    said_batch batch = said_say(&head, &(part){.kind = PART_REPLACED, .name = incarnation});
    player_take(world->player, batch.bytes);
    said_free(&batch);
}

/* It began when the coordinator had lost its disk, and an earlier one is known. */
static void who_is_not_heard_enrols_again(void **state) {
    world world;
    uint64_t later = coordinator_version(1, 5);
    start(&world);
    hear_chart(&world, 2, 1, (chart_player[]){{7, 70, 2}});
    assert_int_equal(world.begun, 1);
    hear_replaced(&world, PART_DIRECTOR, later);
    assert_int_equal(world.replaced, 0); /* it plays: it was heard */
    hear_chart(&world, 3, 1, (chart_player[]){{9, 1, 3}});
    hear_replaced(&world, 1, later);
    hear_replaced(&world, PART_DIRECTOR, 71); /* another took its place */
    assert_int_equal(world.replaced, 0);
    hear_replaced(&world, PART_DIRECTOR, later);
    assert_int_equal(world.replaced, later);
    player_destroy(world.player);
}

static void hear_pause(world *world, uint32_t who, part_status status, uint64_t number, uint64_t floor) {
    part_head head = {.generation = 5, .number = 2, .incarnation = 1, .who = who, .address = "d"};
    said_batch batch =
        said_say(&head, &(part){.kind = PART_PAUSE, .status = (uint8_t)status, .name = number, .lsn = floor});
    world->said.count = 0;
    player_take(world->player, batch.bytes);
    said_free(&batch);
}

static void it_rests_and_says_where_its_ranks_stand(void **state) {
    world world;
    start(&world);
    hear_chart(&world, 2, 2, (chart_player[]){{7, 70, 2}, {7, 70, 2}});
    hear_pause(&world, 1, PART_OK, 4, 0); /* not the director's */
    assert_false(player_rests(world.player, 9));
    world.step = 3;
    hear_pause(&world, PART_DIRECTOR, PART_OK, 4, 0);
    assert_int_equal(said_named(&world.said, "d", PART_PAUSED, PART_LATER, 4), 2); /* both are in it */
    assert_true(player_rests(world.player, 3));
    hear_pause(&world, PART_DIRECTOR, PART_OK, 4, 4); /* others need another step */
    assert_false(player_rests(world.player, 3));
    world.still = true;
    player_say(world.player);
    assert_int_equal(said_count(&world.said, "d", PART_PAUSED), 2); /* of the batch before: it has to go on */
    world.step = 4;
    world.said.count = 0;
    player_say(world.player);
    assert_int_equal(said_named(&world.said, "d", PART_PAUSED, PART_OK, 4), 2);
    world.said.count = 0;
    player_say(world.player); /* that was said */
    assert_int_equal(world.said.count, 0);
    hear_pause(&world, PART_DIRECTOR, PART_GONE, 4, 0);
    assert_false(player_rests(world.player, 4));
    hear_pause(&world, PART_DIRECTOR, PART_OK, 4, 0); /* late */
    assert_int_equal(said_named(&world.said, "d", PART_PAUSED, PART_GONE, 4), 1);
    assert_false(player_rests(world.player, 4));
    player_destroy(world.player);
}

/* Nobody says it again: whoever paused it is gone. */
static void a_rest_ends_by_itself(void **state) {
    world world;
    start(&world);
    hear_chart(&world, 2, 1, (chart_player[]){{7, 70, 2}});
    hear_pause(&world, PART_DIRECTOR, PART_OK, 4, 0);
    assert_true(player_rests(world.player, 0));
    for (int64_t now_us = 100; now_us < 2000000; now_us += PLAYER_BEAT_US) player_tick(world.player, now_us);
    assert_false(player_rests(world.player, 0));
    player_destroy(world.player);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_says_that_it_is_here),
        cmocka_unit_test(who_is_not_heard_enrols_again),
        cmocka_unit_test(it_plays_what_the_newest_chart_says),
        cmocka_unit_test(it_rests_and_says_where_its_ranks_stand),
        cmocka_unit_test(a_rest_ends_by_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
