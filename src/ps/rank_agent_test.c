/* rank_agent_test.c — one worker: it sends heartbeats, and holds the ranks that the newest cluster map gives it. */
#include "ps/rank_agent.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "cluster/metadata_store.h"
#include "tests/support/message_recorder.h"

enum { RANKS = 4 };

typedef struct world {
    rank_agent *agent;
    message_recorder recorder;
    uint64_t played[RANKS]; /* terms by rank; 0: not held */
    int begun, ended;
    uint64_t replaced; /* incarnation that replaced the agent's */
    uint64_t step;     /* step of its ranks; ended if `still` */
    bool still;
} world;

static void on_send(void *context, const char *address, span bytes) {
    message_recorder_take(&((world *)context)->recorder, address, bytes);
}
static void on_begin(void *context, uint32_t rank, uint64_t term) {
    world *world = context;
    assert_int_equal(world->played[rank], 0);
    world->played[rank] = term;
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

static void hear_this_map(world *world, cluster_map map, const cluster_map_rank *cluster_map_ranks) {
    map.ranks = (cluster_map_rank *)(uintptr_t)cluster_map_ranks;
    uint64_t number = map.number;
    slot_message_head head = {
        .generation = 5, .number = number, .incarnation = 1, .who = SLOT_MESSAGE_CONTROLLER, .address = "d"};
    message_recorder_batch batch = message_recorder_map(&head, &map);
    rank_agent_take(world->agent, batch.bytes);
    message_recorder_free(&batch);
}

/* Rank i is held by cluster_map_ranks[i]. */
static void hear_map(world *world, uint64_t number, uint32_t ranks, const cluster_map_rank *cluster_map_ranks) {
    hear_this_map(world, (cluster_map){.number = number, .generation = 5, .birth = 1, .rank_count = ranks},
                  cluster_map_ranks);
}

static void start(world *world) {
    *world = (struct world){0};
    rank_agent_options options = {.worker = 7,
                                  .address = "w7",
                                  .controller = "d",
                                  .send = on_send,
                                  .on_begin = on_begin,
                                  .on_end = on_end,
                                  .on_replaced = on_replaced,
                                  .stands = stands,
                                  .context = world};
    world->agent = rank_agent_create(&options);
    assert_int_equal(rank_agent_next_us(world->agent), CLOCK_NEVER_US);
    hear_map(world, 1, 1, (cluster_map_rank[]){{7, 0, 1}}); /* the agent has no incarnation yet */
    assert_int_equal(world->begun, 0);
    rank_agent_begin(world->agent, 70, 100);
}

static void it_says_that_it_is_here(void **state) {
    world world;
    start(&world);
    assert_int_equal(rank_agent_next_us(world.agent), 100);
    rank_agent_tick(world.agent, 100);
    assert_true(world.recorder.batches == 1 && world.recorder.count == 0); /* a heartbeat */
    assert_int_equal(rank_agent_next_us(world.agent), 100 + RANK_AGENT_BEAT_US);
    rank_agent_destroy(world.agent);
}

static void it_plays_what_the_newest_map_says(void **state) {
    world world;
    start(&world);
    /* The ranks are held by another process of this worker, another worker, this process, and no process. */
    hear_map(&world, 3, 4, (cluster_map_rank[]){{7, 69, 2}, {6, 70, 3}, {7, 70, 3}, {0}});
    assert_true(world.begun == 1 && world.played[2] == 3);
    hear_map(&world, 4, 4, (cluster_map_rank[]){{7, 70, 4}, {6, 70, 3}, {7, 70, 3}, {0}});
    assert_true(world.begun == 2 && world.ended == 0 && world.played[0] == 4);
    /* Rank 2 goes to another worker; rank 0 was another's in between, so its term is new. */
    hear_map(&world, 7, 4, (cluster_map_rank[]){{7, 70, 6}, {6, 70, 3}, {6, 70, 5}, {0}});
    assert_true(world.begun == 3 && world.ended == 2 && world.played[0] == 6 && world.played[2] == 0);
    hear_map(&world, 5, 4, (cluster_map_rank[]){{7, 70, 4}, {6, 70, 3}, {7, 70, 3}, {0}}); /* a late message */
    assert_true(world.begun == 3 && world.ended == 2 && rank_agent_map(world.agent)->number == 7);
    assert_int_equal(world.played[0], 6);
    rank_agent_destroy(world.agent);
}

/* The report of a loss is repeated until a cluster map has it. */
static void a_loss_is_reported_until_the_map_says_so(void **state) {
    world world;
    const cluster_map_rank rank = {7, 70, 2};
    start(&world);
    hear_this_map(&world, (cluster_map){.number = 2, .generation = 5, .birth = 1, .lost = true, .rank_count = 1},
                  &rank);
    rank_agent_tick(world.agent, RANK_AGENT_BEAT_US);
    assert_int_equal(message_recorder_count(&world.recorder, "d", SLOT_MESSAGE_REPORTED), 0);
    rank_agent_report(world.agent, 4); /* an earlier generation */
    assert_int_equal(message_recorder_count(&world.recorder, "d", SLOT_MESSAGE_REPORTED), 0);
    rank_agent_report(world.agent, 5);
    assert_int_equal(message_recorder_named(&world.recorder, "d", SLOT_MESSAGE_REPORTED, SLOT_MESSAGE_OK, 5), 1);
    rank_agent_tick(world.agent, 2 * RANK_AGENT_BEAT_US);
    assert_int_equal(message_recorder_named(&world.recorder, "d", SLOT_MESSAGE_REPORTED, SLOT_MESSAGE_OK, 5), 2);
    hear_this_map(
        &world,
        (cluster_map){.number = 3, .generation = 5, .birth = 1, .lost = true, .reported = true, .rank_count = 1},
        &rank);
    rank_agent_tick(world.agent, 3 * RANK_AGENT_BEAT_US);
    rank_agent_report(world.agent, 5);
    assert_int_equal(message_recorder_count(&world.recorder, "d", SLOT_MESSAGE_REPORTED), 2);
    rank_agent_destroy(world.agent);
}

static void hear_replaced(world *world, uint32_t who, uint64_t incarnation) {
    slot_message_head head = {.generation = 5, .number = 2, .incarnation = 1, .who = who, .address = "d"};
    message_recorder_batch batch =
        message_recorder_say(&head, &(slot_message){.kind = SLOT_MESSAGE_REPLACED, .name = incarnation});
    rank_agent_take(world->agent, batch.bytes);
    message_recorder_free(&batch);
}

/* The process enrolled when the metadata store had lost its disk; the controller knows a higher incarnation. */
static void an_unheard_rank_acquires_another_incarnation(void **state) {
    world world;
    uint64_t later = metadata_store_version(1, 5);
    start(&world);
    hear_map(&world, 2, 1, (cluster_map_rank[]){{7, 70, 2}});
    assert_int_equal(world.begun, 1);
    hear_replaced(&world, SLOT_MESSAGE_CONTROLLER, later);
    assert_int_equal(world.replaced, 0); /* the worker holds a rank, so it was accepted */
    hear_map(&world, 3, 1, (cluster_map_rank[]){{9, 1, 3}});
    hear_replaced(&world, 1, later);
    hear_replaced(&world, SLOT_MESSAGE_CONTROLLER, 71); /* a process of the same generation took its place */
    assert_int_equal(world.replaced, 0);
    hear_replaced(&world, SLOT_MESSAGE_CONTROLLER, later);
    assert_int_equal(world.replaced, later);
    rank_agent_destroy(world.agent);
}

static void hear_pause(world *world, uint32_t who, slot_message_status status, uint64_t number, uint64_t floor) {
    slot_message_head head = {.generation = 5, .number = 2, .incarnation = 1, .who = who, .address = "d"};
    message_recorder_batch batch = message_recorder_say(
        &head, &(slot_message){.kind = SLOT_MESSAGE_PAUSE, .status = (uint8_t)status, .name = number, .lsn = floor});
    world->recorder.count = 0;
    rank_agent_take(world->agent, batch.bytes);
    message_recorder_free(&batch);
}

static void it_rests_and_says_where_its_ranks_stand(void **state) {
    world world;
    start(&world);
    hear_map(&world, 2, 2, (cluster_map_rank[]){{7, 70, 2}, {7, 70, 2}});
    hear_pause(&world, 1, SLOT_MESSAGE_OK, 4, 0); /* not from the controller */
    assert_false(rank_agent_rests(world.agent, 9));
    world.step = 3;
    hear_pause(&world, SLOT_MESSAGE_CONTROLLER, SLOT_MESSAGE_OK, 4, 0);
    /* both ranks are in the step */
    assert_int_equal(message_recorder_named(&world.recorder, "d", SLOT_MESSAGE_PAUSED, SLOT_MESSAGE_LATER, 4), 2);
    assert_true(rank_agent_rests(world.agent, 3));
    hear_pause(&world, SLOT_MESSAGE_CONTROLLER, SLOT_MESSAGE_OK, 4, 4); /* other ranks need another step */
    assert_false(rank_agent_rests(world.agent, 3));
    world.still = true;
    rank_agent_say(world.agent);
    /* step 3 is below the floor: the rank must end another */
    assert_int_equal(message_recorder_count(&world.recorder, "d", SLOT_MESSAGE_PAUSED), 2);
    world.step = 4;
    world.recorder.count = 0;
    rank_agent_say(world.agent);
    assert_int_equal(message_recorder_named(&world.recorder, "d", SLOT_MESSAGE_PAUSED, SLOT_MESSAGE_OK, 4), 2);
    world.recorder.count = 0;
    rank_agent_say(world.agent); /* already reported */
    assert_int_equal(world.recorder.count, 0);
    hear_pause(&world, SLOT_MESSAGE_CONTROLLER, SLOT_MESSAGE_GONE, 4, 0);
    assert_false(rank_agent_rests(world.agent, 4));
    hear_pause(&world, SLOT_MESSAGE_CONTROLLER, SLOT_MESSAGE_OK, 4, 0); /* a late message */
    assert_int_equal(message_recorder_named(&world.recorder, "d", SLOT_MESSAGE_PAUSED, SLOT_MESSAGE_GONE, 4), 1);
    assert_false(rank_agent_rests(world.agent, 4));
    rank_agent_destroy(world.agent);
}

/* The controller does not repeat the pause: it is gone. */
static void a_rest_ends_by_itself(void **state) {
    world world;
    start(&world);
    hear_map(&world, 2, 1, (cluster_map_rank[]){{7, 70, 2}});
    hear_pause(&world, SLOT_MESSAGE_CONTROLLER, SLOT_MESSAGE_OK, 4, 0);
    assert_true(rank_agent_rests(world.agent, 0));
    for (int64_t now_us = 100; now_us < 2000000; now_us += RANK_AGENT_BEAT_US) rank_agent_tick(world.agent, now_us);
    assert_false(rank_agent_rests(world.agent, 0));
    rank_agent_destroy(world.agent);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_says_that_it_is_here),
        cmocka_unit_test(an_unheard_rank_acquires_another_incarnation),
        cmocka_unit_test(a_loss_is_reported_until_the_map_says_so),
        cmocka_unit_test(it_plays_what_the_newest_map_says),
        cmocka_unit_test(it_rests_and_says_where_its_ranks_stand),
        cmocka_unit_test(a_rest_ends_by_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
