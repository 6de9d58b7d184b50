/* controller_test.c — one controller, a metadata store with one value, servers simulated by hand. */
#include "ps/controller.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ps/replica_log.h"
#include "ps/silence.h"
#include "tests/support/message_recorder.h"

enum { HOLD = SILENCE_HOLD_US / CONTROLLER_TICK_US };

typedef struct world {
    controller *controller;
    rng rng;
    buffer value;            /* value at the metadata store */
    uint64_t version, known; /* known: the number that the controller sent with its last read */
    int swaps;
    bool away;
    int64_t now_us;
    message_recorder recorder;
    const char *checkpoints;
    uint64_t checkpoint; /* last checkpoint that the controller reported as complete */
    uint64_t stopped;    /* number of the cluster map with which the deployment was stopped on purpose */
} world;

static void get(void *self, const char *key, uint64_t known, metadata_store_done_fn *done, void *argument) {
    world *world = self;
    mr_status status = world->away ? MR_TIMEOUT : MR_OK;
    world->known = known;
    done(argument, &(metadata_store_answer){status, world->version, span_of(world->value.data, world->value.size)});
}

static void swap(void *self, const char *key, uint64_t expected, span value, uint64_t lease,
                 metadata_store_done_fn *done, void *argument) {
    world *world = self;
    if (world->away) {
        done(argument, &(metadata_store_answer){MR_TIMEOUT, 0, {0}});
    } else if (expected != world->version) {
        get(self, key, 0, done, argument);
    } else {
        buffer_clear(&world->value);
        assert_int_equal(buffer_append(&world->value, value.data, value.size), MR_OK);
        world->version++;
        world->swaps++;
        done(argument, &(metadata_store_answer){MR_OK, world->version, {0}});
    }
}

static const metadata_store_ops ops = {.name = "one value", .get = get, .compare_and_swap = swap};

static void on_send(void *context, const char *address, span bytes) {
    message_recorder_take(&((world *)context)->recorder, address, bytes);
}

static void on_checkpoint(void *context, uint64_t checkpoint) { ((world *)context)->checkpoint = checkpoint; }

static void hear(world *world, uint32_t who, uint64_t incarnation, const slot_message *message) {
    const cluster_map *map = controller_map(world->controller);
    slot_message_head head = {
        .generation = map->generation, .number = map->number, .incarnation = incarnation, .who = who};
    head.address[0] = (who & SLOT_MESSAGE_WORKER) != 0 ? 'w' : 's';
    head.address[1] = (char)('0' + (who & ~(uint32_t)SLOT_MESSAGE_WORKER) % 10);
    message_recorder_batch batch = message_recorder_say(&head, message);
    controller_take(world->controller, batch.bytes, world->now_us);
    message_recorder_free(&batch);
}

/* Advances the time; the first `servers` servers send heartbeats. */
static void pass(world *world, int ticks, uint32_t servers) {
    for (int i = 0; i < ticks; i++) {
        world->now_us += CONTROLLER_TICK_US;
        for (uint32_t k = 0; k < servers; k++) hear(world, k, 10 + k, NULL);
        controller_tick(world->controller, world->now_us);
        controller_check(world->controller);
    }
}

static void open_controller(world *world, consistency_kind kind) {
    controller_options options = {.address = "d",
                                  .store = {&ops, world},
                                  .rng = &world->rng,
                                  .consistency = {kind, 0},
                                  .hold_us = SILENCE_HOLD_US,
                                  .copies = 2,
                                  .rank_count = 2,
                                  .slot_count = 2,
                                  .first_servers = 2,
                                  .send = on_send,
                                  .checkpoints = world->checkpoints,
                                  .restores = world->checkpoints != NULL,
                                  .stopped = world->stopped,
                                  .on_checkpoint = on_checkpoint,
                                  .context = world};
    world->controller = controller_create(&options, world->now_us);
}

static void create(world *world, consistency_kind kind) {
    rng_init(&world->rng, 1);
    buffer_init(&world->value, 1 << 16);
    open_controller(world, kind);
}

static void start(world *world, consistency_kind kind) {
    *world = (struct world){0};
    create(world, kind);
    pass(world, 3, 1); /* one server is too few */
    assert_int_equal(controller_map(world->controller)->number, 0);
    pass(world, 2, 2);
    assert_true(controller_map(world->controller)->number == 1 && world->swaps == 1);
    assert_int_equal(controller_map(world->controller)->slots[0].count, 2);
}

static void stop(world *world) {
    controller_destroy(world->controller);
    buffer_fini(&world->value);
}

static void a_silent_replica_is_removed_unless_it_is_the_last(void **state) {
    world world;
    start(&world, CONSISTENCY_ASP);
    pass(&world, 10, 1);
    assert_int_equal(controller_map(world.controller)->number, 1); /* no other server could take its place */
    pass(&world, HOLD, 1);
    const cluster_map *map = controller_map(world.controller);
    assert_true(map->number == 2 && map->slots[0].count == 1 && map->slots[0].chain[0].server == 0);
    pass(&world, 20, 0);
    assert_int_equal(controller_map(world.controller)->number, 2);
    pass(&world, 2, 2); /* both servers are alive: the other is to join */
    assert_true(message_recorder_count(&world.recorder, "s0", SLOT_MESSAGE_JOIN) != 0 &&
                message_recorder_count(&world.recorder, "s1", SLOT_MESSAGE_JOIN) == 0);
    /* a report of an old epoch */
    hear(&world, 0, 10, &(slot_message){.kind = SLOT_MESSAGE_GATE, .epoch = 1, .name = 1, .prev = 11});
    pass(&world, 1, 2);
    assert_int_equal(controller_map(world.controller)->slots[0].count, 1);
    hear(&world, 0, 10, &(slot_message){.kind = SLOT_MESSAGE_GATE, .epoch = 2, .name = 1, .prev = 11});
    pass(&world, 1, 2);
    map = controller_map(world.controller);
    assert_true(map->number == 3 && map->slots[0].count == 2 && map->slots[1].count == 1);
    stop(&world);
}

/* Advances the time; the servers in the set, one bit for each, send heartbeats. */
static void pass_with(world *world, int ticks, uint32_t set) {
    for (int i = 0; i < ticks; i++) {
        world->now_us += CONTROLLER_TICK_US;
        world->recorder.count = 0; /* the orders of the last tick */
        for (uint32_t k = 0; k < 4; k++)
            if ((set >> k & 1) != 0) hear(world, k, 10 + k, NULL);
        controller_tick(world->controller, world->now_us);
        controller_check(world->controller);
    }
}

static size_t replicas(const world *world) {
    const cluster_map *map = controller_map(world->controller);
    return map->slots[0].count + map->slots[1].count;
}

/* Server 0 is silent, given up, heard again, and filled by server 1: both hold both slots. */
static void give_up_and_fill(world *world) {
    pass_with(world, 7 + HOLD, 2);
    assert_int_equal(replicas(world), 2);
    pass_with(world, 1, 3);
    slot_message gate = {.kind = SLOT_MESSAGE_GATE, .epoch = 2, .name = 0, .prev = 10};
    for (gate.slot = 0; gate.slot < 2; gate.slot++) hear(world, 1, 11, &gate);
    pass_with(world, 1, 3);
    assert_int_equal(replicas(world), 4);
}

/* On an overloaded machine one server after the other is silent, and none has died. */
static void silence_removes_one_server_at_a_time(void **state) {
    world world;
    start(&world, CONSISTENCY_ASP);
    give_up_and_fill(&world);
    pass_with(&world, HOLD, 1); /* server 1 is silent */
    assert_int_equal(replicas(&world), 4);
    pass_with(&world, 1, 3); /* and was alive */
    assert_int_equal(replicas(&world), 4);
    pass_with(&world, 60 + HOLD, 1); /* a server that stays silent is taken out in the end */
    assert_int_equal(replicas(&world), 2);
    stop(&world);
}

/* Also with a third server, which could be filled: the slots would have one replica until then. */
static void silence_leaves_no_slot_with_one_replica(void **state) {
    world world;
    start(&world, CONSISTENCY_ASP);
    pass_with(&world, 2, 7);
    pass_with(&world, HOLD, 6); /* server 0 is silent */
    assert_int_equal(replicas(&world), 4);
    pass_with(&world, 7, 6); /* and stays so */
    assert_int_equal(replicas(&world), 2);
    pass_with(&world, HOLD, 4); /* server 1, too: it has the only sure replicas */
    assert_int_equal(replicas(&world), 2);
    assert_int_equal(controller_map(world.controller)->slots[0].chain[0].server, 1);
    stop(&world);
}

/* A timeout of a link proves no more than silence does. */
static void a_timeout_is_no_broken_link(void **state) {
    world world;
    start(&world, CONSISTENCY_ASP);
    controller_broken(world.controller, "s1", true, world.now_us);
    pass_with(&world, HOLD, 1);
    assert_int_equal(replicas(&world), 4);
    controller_broken(world.controller, "s1", false, world.now_us);
    pass_with(&world, 3, 1);
    assert_int_equal(replicas(&world), 2);
    stop(&world);
}

/* The next controller spares a server that it knows from the cluster map only, unless its link breaks. */
static void a_server_that_has_not_spoken_is_spared(void **state) {
    world world;
    start(&world, CONSISTENCY_ASP);
    controller_destroy(world.controller);
    open_controller(&world, CONSISTENCY_ASP);
    world.recorder = (message_recorder){0};
    pass_with(&world, HOLD, 1);
    assert_int_equal(replicas(&world), 4);
    assert_true(world.recorder.batches != 0);
    controller_broken(world.controller, "s1", false, world.now_us); /* a packet found nobody there */
    pass_with(&world, 3, 1);
    assert_int_equal(replicas(&world), 2);
    stop(&world);
}

/* The link of a process that died breaks: it is taken out at once. */
static void a_broken_link_spares_nobody(void **state) {
    world world;
    start(&world, CONSISTENCY_ASP);
    give_up_and_fill(&world);
    controller_broken(world.controller, "s1", false, world.now_us);
    pass_with(&world, 3, 1);
    assert_int_equal(replicas(&world), 2);
    assert_int_equal(controller_map(world.controller)->slots[0].chain[0].server, 0);
    stop(&world);
}

static void a_slot_whose_copies_were_all_replaced_is_lost(void **state) {
    world world;
    start(&world, CONSISTENCY_ASP);
    hear(&world, 0, 20, NULL); /* another process of the server */
    assert_false(controller_lost(world.controller, 0));
    hear(&world, 1, 21, NULL);
    assert_true(controller_lost(world.controller, 0));
    stop(&world);
}

static void nothing_is_decided_while_the_metadata_is_away(void **state) {
    world world;
    start(&world, CONSISTENCY_ASP);
    world.away = true;
    pass(&world, 30, 1);
    assert_int_equal(controller_map(world.controller)->number, 1);
    world.away = false;
    pass(&world, HOLD, 1);
    assert_int_equal(controller_map(world.controller)->number, 2);
    stop(&world);
}

static void a_rank_is_given_up_until_the_round_state_answers(void **state) {
    world world;
    start(&world, CONSISTENCY_BSP);
    uint32_t head = controller_map(world.controller)->slots[1].chain[0].server;
    const char *address = head == 0 ? "s0" : "s1";
    controller_drop(world.controller, 1, 7);
    pass(&world, 2, 2);
    assert_int_equal(message_recorder_count(&world.recorder, address, SLOT_MESSAGE_ORDER), 2);
    const slot_message *order = &world.recorder.list[world.recorder.count - 1].message;
    assert_true(order->entry == REPLICA_LOG_DROP && order->slot == 1 && order->rank == 1 && order->name >> 16 == 7);
    uint64_t name = order->name;
    hear(&world, head, 10 + head,
         /* the answer to an earlier order */
         &(slot_message){.kind = SLOT_MESSAGE_ORDERED, .entry = REPLICA_LOG_DROP, .rank = 1, .name = name - 1});
    pass(&world, 1, 2);
    assert_int_equal(message_recorder_count(&world.recorder, address, SLOT_MESSAGE_ORDER), 3);
    hear(&world, head, 10 + head,
         &(slot_message){.kind = SLOT_MESSAGE_ORDERED, .entry = REPLICA_LOG_DROP, .rank = 1, .name = name});
    pass(&world, 2, 2);
    assert_int_equal(message_recorder_count(&world.recorder, address, SLOT_MESSAGE_ORDER), 3);
    stop(&world);
}

static const cluster_map_rank *holder(const world *world, uint32_t rank) {
    return &controller_map(world->controller)->ranks[rank];
}

static void ranks_are_played_by_workers_that_are_here(void **state) {
    world world;
    start(&world, CONSISTENCY_ASP);
    assert_int_equal(holder(&world, 0)->since, 0);
    for (int i = 0; i < 2; i++) hear(&world, SLOT_MESSAGE_WORKER | 5, 50, NULL);
    pass(&world, 1, 2);
    assert_true(holder(&world, 0)->worker == 5 && holder(&world, 1)->worker == 5 && holder(&world, 1)->since == 2);
    hear(&world, SLOT_MESSAGE_WORKER | 1, 51, NULL); /* another worker gets the rank of its number */
    pass(&world, 1, 2);
    assert_true(holder(&world, 0)->worker == 5 && holder(&world, 1)->worker == 1 && holder(&world, 1)->since == 3);
    assert_true(holder(&world, 0)->since == 2);
    for (int i = 0; i < 9; i++) { /* worker 1 is silent */
        hear(&world, SLOT_MESSAGE_WORKER | 5, 50, NULL);
        pass(&world, 1, 2);
    }
    assert_true(holder(&world, 1)->worker == 5 && holder(&world, 1)->since == 4);
    hear(&world, SLOT_MESSAGE_WORKER | 5, 60, NULL); /* another process */
    pass(&world, 1, 2);
    assert_true(holder(&world, 0)->incarnation == 60 && holder(&world, 1)->incarnation == 60);
    pass(&world, 12, 2); /* no worker is alive: nothing changes */
    assert_true(controller_map(world.controller)->number == 5 && world.swaps == 5);
    stop(&world);
}

static void a_suspected_process_is_declared_dead_sooner(void **state) {
    world world;
    start(&world, CONSISTENCY_ASP);
    controller_broken(world.controller, "s1", false, world.now_us);
    pass(&world, 1, 2); /* a message of the server arrived again */
    controller_broken(world.controller, "nobody", false, world.now_us);
    pass(&world, 5, 1);
    assert_int_equal(controller_map(world.controller)->number, 1);
    pass(&world, 1, 2);
    controller_broken(world.controller, "s1", false, world.now_us);
    pass(&world, 3, 1);
    assert_true(controller_map(world.controller)->number == 2 && controller_map(world.controller)->slots[0].count == 1);
    stop(&world);
}

static void a_lost_slot_restarts_from_the_last_checkpoint(void **state) {
    world world = {.checkpoints = "depot"};
    create(&world, CONSISTENCY_ASP);
    pass(&world, 3, 2); /* nothing begins before the checkpoint store has answered */
    assert_int_equal(controller_map(world.controller)->number, 0);
    assert_true(message_recorder_named(&world.recorder, "depot", SLOT_MESSAGE_SEAL, SLOT_MESSAGE_OK, 0) != 0);
    hear(&world, SLOT_MESSAGE_CHECKPOINTS, 1, &(slot_message){.kind = SLOT_MESSAGE_SEALED, .lsn = 6});
    pass(&world, 1, 2);
    const cluster_map *map = controller_map(world.controller);
    assert_true(map->number == 1 && map->origin == 6 && map->birth == 1);
    uint64_t generation = map->generation;
    controller_checkpoint(world.controller);
    hear(&world, SLOT_MESSAGE_CHECKPOINTS, 1, &(slot_message){.kind = SLOT_MESSAGE_WHOLE, .name = 6});
    pass(&world, 1, 2);
    const char *head = map->slots[0].chain[0].server == 0 ? "s0" : "s1";
    assert_true(message_recorder_named(&world.recorder, head, SLOT_MESSAGE_ORDER, SLOT_MESSAGE_OK, 7) != 0 &&
                world.checkpoint == 0);
    hear(&world, SLOT_MESSAGE_CHECKPOINTS, 1, &(slot_message){.kind = SLOT_MESSAGE_WHOLE, .name = 7});
    assert_int_equal(world.checkpoint, 7);
    hear(&world, 0, 20, NULL); /* both servers are new processes: everything is lost */
    hear(&world, 1, 21, NULL);
    world.recorder.count = 0;
    pass(&world, 1, 0);
    assert_int_equal(message_recorder_named(&world.recorder, "depot", SLOT_MESSAGE_SEAL, SLOT_MESSAGE_OK, 1), 1);
    hear(&world, SLOT_MESSAGE_CHECKPOINTS, 1, &(slot_message){.kind = SLOT_MESSAGE_SEALED, .name = 1, .lsn = 7});
    pass(&world, 1, 0);
    map = controller_map(world.controller);
    assert_true(map->number == 2 && map->origin == 7 && map->birth == 2 && map->generation != generation);
    assert_int_equal(map->empty_since, 1); /* as before: the checkpoint is of these tables */
    assert_int_equal(map->slots[0].chain[0].incarnation, 20 + map->slots[0].chain[0].server);
    controller_restore(world.controller); /* a restore is requested although nothing is lost */
    pass(&world, 1, 0);
    hear(&world, SLOT_MESSAGE_CHECKPOINTS, 1, &(slot_message){.kind = SLOT_MESSAGE_SEALED, .name = 2, .lsn = 7});
    pass(&world, 2, 0);
    assert_true(controller_map(world.controller)->number == 3 && controller_map(world.controller)->birth == 3);
    assert_int_equal(controller_map(world.controller)->empty_since, 1);
    controller_restore(world.controller); /* the checkpoints are gone: the tables begin empty */
    pass(&world, 1, 0);
    hear(&world, SLOT_MESSAGE_CHECKPOINTS, 1, &(slot_message){.kind = SLOT_MESSAGE_SEALED, .name = 3});
    pass(&world, 2, 0);
    assert_true(controller_map(world.controller)->number == 4 && controller_map(world.controller)->empty_since == 4);
    stop(&world);
}

/* A metadata store that lost its disk begins another generation of versions, without a cluster map. */
static void lost_metadata_begins_a_new_generation(void **state) {
    world world = {.checkpoints = "depot"};
    create(&world, CONSISTENCY_ASP);
    pass(&world, 2, 2);
    hear(&world, SLOT_MESSAGE_CHECKPOINTS, 1, &(slot_message){.kind = SLOT_MESSAGE_SEALED, .lsn = 6});
    pass(&world, 1, 2);
    assert_int_equal(controller_map(world.controller)->number, 1);
    world.version = metadata_store_version(5, 0);
    buffer_clear(&world.value);
    world.recorder.count = 0;
    pass(&world, 12, 2);
    assert_true(message_recorder_named(&world.recorder, "depot", SLOT_MESSAGE_SEAL, SLOT_MESSAGE_OK, world.version) !=
                0);
    assert_int_equal(controller_map(world.controller)->number, 1);
    hear(&world, SLOT_MESSAGE_CHECKPOINTS, 1,
         &(slot_message){.kind = SLOT_MESSAGE_SEALED, .name = world.version, .lsn = 7});
    pass(&world, 1, 2);
    const cluster_map *map = controller_map(world.controller);
    assert_true(map->number == metadata_store_version(5, 1) && map->birth == map->number && map->origin == 7);
    assert_int_equal(map->empty_since, map->number); /* the consumer group is lost, too */
    stop(&world);
}

/* The metadata store begins below the last generation; only the checkpoint store knows the higher number. */
static void a_generation_known_only_from_checkpoints_is_stored(void **state) {
    world world = {.checkpoints = "depot", .version = metadata_store_version(2, 0)};
    create(&world, CONSISTENCY_ASP);
    pass(&world, 3, 2);
    hear(&world, SLOT_MESSAGE_CHECKPOINTS, 1,
         &(slot_message){
             .kind = SLOT_MESSAGE_SEALED, .name = world.version, .lsn = 6, .commit = metadata_store_version(4, 9)});
    pass(&world, 2, 2);
    assert_int_equal(controller_map(world.controller)->number, 0); /* nothing begins below that number */
    assert_int_equal(world.known, metadata_store_version(4, 9));
    world.version = metadata_store_version(5, 0); /* the metadata store begins above the number it was given */
    world.recorder.count = 0;
    pass(&world, 2, 2);
    assert_true(message_recorder_named(&world.recorder, "depot", SLOT_MESSAGE_SEAL, SLOT_MESSAGE_OK, world.version) !=
                0);
    hear(&world, SLOT_MESSAGE_CHECKPOINTS, 1,
         &(slot_message){.kind = SLOT_MESSAGE_SEALED, .name = world.version, .lsn = 6, .commit = world.version});
    pass(&world, 1, 2);
    assert_int_equal(controller_map(world.controller)->number, metadata_store_version(5, 1));
    stop(&world);
}

/* Both servers become processes with these incarnations. Returns the first cluster map of a new generation, or NULL. */
static const cluster_map *serve(world *world, uint64_t incarnation) {
    uint64_t generation = controller_map(world->controller)->generation;
    for (int i = 0; i < 20; i++) {
        world->now_us += CONTROLLER_TICK_US;
        for (uint32_t k = 0; k < 2; k++) hear(world, k, incarnation + k, NULL);
        controller_tick(world->controller, world->now_us);
        hear(world, SLOT_MESSAGE_CHECKPOINTS, 1,
             &(slot_message){.kind = SLOT_MESSAGE_SEALED, .name = world->version, .lsn = 3});
    }
    const cluster_map *map = controller_map(world->controller);
    return map->generation == generation ? NULL : map;
}

/* A generation that begins with a loss has `lost` in its cluster maps, and so has the next one if no worker has held a
 * rank in between. If no worker had held a rank before, nothing was lost. */
static void a_loss_stays_in_the_map_until_a_rank_is_taken(void **state) {
    world world = {.checkpoints = "depot"};
    create(&world, CONSISTENCY_ASP);
    const cluster_map *map = serve(&world, 10);
    assert_true(map != NULL && !map->lost && map->first_term == 0);
    map = serve(&world, 20);
    assert_true(map != NULL && !map->lost);
    hear(&world, SLOT_MESSAGE_WORKER | 1, 5, NULL);
    assert_null(serve(&world, 20));
    map = controller_map(world.controller);
    assert_true(map->ranks[1].since != 0 && map->first_term == map->ranks[1].since);
    pass(&world, 10, 0); /* the worker is gone */
    map = serve(&world, 30);
    assert_true(map != NULL && map->lost && map->first_term == 0 && map->origin == 3);
    map = serve(&world, 40); /* a second loss, before any worker has come */
    assert_true(map != NULL && map->lost && map->first_term == 0);
    hear(&world, SLOT_MESSAGE_WORKER | 0, 6, NULL);
    assert_null(serve(&world, 40));
    map = controller_map(world.controller);
    assert_true(map->lost && map->first_term == map->ranks[0].since && map->first_term != 0);
    stop(&world);
}

static void report(world *world, uint32_t who, uint64_t incarnation, uint64_t generation) {
    hear(world, who, incarnation, &(slot_message){.kind = SLOT_MESSAGE_REPORTED, .name = generation});
    pass(world, 1, 0);
}

static void start_again(world *world, uint64_t stopped) {
    controller_destroy(world->controller);
    buffer before = world->value;
    world->stopped = stopped;
    create(world, CONSISTENCY_ASP);
    rng_init(&world->rng, 2); /* the restarted controller draws another generation */
    world->value = before;
}

static void an_intended_stop_is_no_loss(void **state) {
    for (int way = 0; way < 3; way++) {
        world world = {.checkpoints = "depot"};
        create(&world, CONSISTENCY_ASP);
        (void)serve(&world, 10);
        hear(&world, SLOT_MESSAGE_WORKER | 1, 5, NULL);
        assert_null(serve(&world, 10));
        start_again(&world, way == 0 ? 0 : world.version);
        if (way == 2) (void)serve(&world, 10); /* only the scheduler was stopped: its servers still send heartbeats */
        hear(&world, SLOT_MESSAGE_WORKER | 1, 6, NULL); /* a worker that comes before the servers changes nothing */
        pass(&world, 3, 0);
        const cluster_map *map = serve(&world, 20);
        assert_non_null(map);
        assert_int_equal(map->lost, way != 1);
        stop(&world);
    }
}

/* Only the process that holds a rank reports a loss, and an intended stop before its report keeps the loss. */
static void a_loss_is_reported_by_a_rank(void **state) {
    world world = {.checkpoints = "depot"};
    create(&world, CONSISTENCY_ASP);
    (void)serve(&world, 10);
    hear(&world, SLOT_MESSAGE_WORKER | 1, 5, NULL);
    assert_null(serve(&world, 10));
    report(&world, SLOT_MESSAGE_WORKER | 1, 5, controller_map(world.controller)->generation);
    assert_false(controller_map(world.controller)->reported); /* nothing is lost */
    const cluster_map *map = serve(&world, 20);
    assert_true(map != NULL && map->lost && !map->reported);
    assert_null(serve(&world, 20));
    start_again(&world, world.version);
    map = serve(&world, 30);
    assert_true(map != NULL && map->lost && !map->reported);
    hear(&world, SLOT_MESSAGE_WORKER | 0, 7, NULL);
    assert_null(serve(&world, 30));
    map = controller_map(world.controller);
    assert_true(map->lost && !map->reported && map->ranks[0].incarnation == 7);
    report(&world, SLOT_MESSAGE_WORKER | 0, 6, map->generation);
    report(&world, SLOT_MESSAGE_WORKER | 9, 7, map->generation);
    report(&world, 0, 30, map->generation);
    report(&world, SLOT_MESSAGE_WORKER | 0, 7, map->generation + 1);
    assert_false(controller_map(world.controller)->reported);
    report(&world, SLOT_MESSAGE_WORKER | 0, 7, map->generation);
    assert_true(controller_map(world.controller)->reported && controller_map(world.controller)->lost);
    start_again(&world, world.version);
    map = serve(&world, 40);
    assert_true(map != NULL && !map->lost);
    stop(&world);
}

/* A worker whose link broke cannot learn of a loss: it does not hold the generation's first rank. */
static void a_process_that_has_just_left_gets_no_rank(void **state) {
    world world = {.checkpoints = "depot"};
    create(&world, CONSISTENCY_ASP);
    (void)serve(&world, 10);
    hear(&world, SLOT_MESSAGE_WORKER | 1, 5, NULL);
    assert_null(serve(&world, 10));
    hear(&world, SLOT_MESSAGE_WORKER | 1, 5, NULL);
    controller_broken(world.controller, "w1", false, world.now_us);
    const cluster_map *map = serve(&world, 20);
    assert_true(map != NULL && map->lost && map->first_term == 0);
    hear(&world, SLOT_MESSAGE_WORKER | 1, 5, NULL); /* the worker is alive after all */
    assert_null(serve(&world, 20));
    assert_true(controller_map(world.controller)->ranks[1].since != 0);
    stop(&world);
}

static void a_process_of_before_is_told_so(void **state) {
    world world = {0};
    start(&world, CONSISTENCY_ASP);
    world.recorder.count = 0;
    hear(&world, 1, 9, NULL);
    assert_int_equal(message_recorder_named(&world.recorder, "s1", SLOT_MESSAGE_REPLACED, SLOT_MESSAGE_OK, 11), 1);
    hear(&world, SLOT_MESSAGE_WORKER | 4, 30, NULL);
    hear(&world, SLOT_MESSAGE_WORKER | 4, 29, NULL);
    assert_int_equal(message_recorder_named(&world.recorder, "w4", SLOT_MESSAGE_REPLACED, SLOT_MESSAGE_OK, 30), 1);
    hear(&world, 1, 11, NULL);
    assert_int_equal(message_recorder_count(&world.recorder, "s1", SLOT_MESSAGE_REPLACED), 1);
    stop(&world);
}

/* Time passes while servers of the set are heard, and the checkpoint store reports that it has nothing yet. Returns
 * whether the other checkpoint is ordered. */
static bool tries_another(world *world, int64_t for_us, uint32_t set, uint64_t first) {
    const char *head = controller_map(world->controller)->slots[0].chain[0].server == 0 ? "s0" : "s1";
    for (int64_t us = 0; us < for_us; us += CONTROLLER_TICK_US) {
        hear(world, SLOT_MESSAGE_CHECKPOINTS, 1, &(slot_message){.kind = SLOT_MESSAGE_WHOLE});
        pass_with(world, 1, set);
    }
    return message_recorder_named(&world->recorder, head, SLOT_MESSAGE_ORDER, SLOT_MESSAGE_OK, first) == 0;
}

/* A server that copies a large slot sends nothing meanwhile. Another order would make it begin again. */
static void a_head_that_makes_a_cut_is_waited_for(void **state) {
    world world = {.checkpoints = "depot"};
    create(&world, CONSISTENCY_ASP);
    pass(&world, 2, 2);
    hear(&world, SLOT_MESSAGE_CHECKPOINTS, 1, &(slot_message){.kind = SLOT_MESSAGE_SEALED});
    pass(&world, 1, 2);
    uint32_t both = 3, head = controller_map(world.controller)->slots[0].chain[0].server;
    controller_checkpoint(world.controller);
    assert_false(tries_another(&world, CONTROLLER_TICK_US, both, 1));
    assert_false(tries_another(&world, 3 * CHECKPOINTER_PATIENCE_US, both & ~(1u << head), 1));
    assert_false(tries_another(&world, CHECKPOINTER_PATIENCE_US / 2, both, 1));
    assert_true(tries_another(&world, CHECKPOINTER_PATIENCE_US, both, 1)); /* the head has missed its cut */
    stop(&world);
}

/* The checkpoint store fell back to a checkpoint older than the one from which this generation begins. */
static void a_damaged_beginning_is_gone_back_behind(void **state) {
    world world = {.checkpoints = "depot"};
    create(&world, CONSISTENCY_ASP);
    pass(&world, 2, 2);
    hear(&world, SLOT_MESSAGE_CHECKPOINTS, 1, &(slot_message){.kind = SLOT_MESSAGE_SEALED, .lsn = 6});
    pass(&world, 1, 2);
    world.recorder.count = 0;
    hear(&world, SLOT_MESSAGE_CHECKPOINTS, 1,
         &(slot_message){.kind = SLOT_MESSAGE_WHOLE, .name = 5, .payload = span_of("shard-1-0", 9)});
    pass(&world, 1, 2);
    assert_int_equal(message_recorder_named(&world.recorder, "depot", SLOT_MESSAGE_SEAL, SLOT_MESSAGE_OK, 1), 1);
    hear(&world, SLOT_MESSAGE_CHECKPOINTS, 1, &(slot_message){.kind = SLOT_MESSAGE_SEALED, .name = 1, .lsn = 5});
    pass(&world, 1, 2);
    assert_true(controller_map(world.controller)->number == 2 && controller_map(world.controller)->origin == 5);
    stop(&world);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lost_slot_restarts_from_the_last_checkpoint),
        cmocka_unit_test(a_silent_replica_is_removed_unless_it_is_the_last),
        cmocka_unit_test(silence_removes_one_server_at_a_time),
        cmocka_unit_test(silence_leaves_no_slot_with_one_replica),
        cmocka_unit_test(a_timeout_is_no_broken_link),
        cmocka_unit_test(a_server_that_has_not_spoken_is_spared),
        cmocka_unit_test(a_broken_link_spares_nobody),
        cmocka_unit_test(a_slot_whose_copies_were_all_replaced_is_lost),
        cmocka_unit_test(nothing_is_decided_while_the_metadata_is_away),
        cmocka_unit_test(a_rank_is_given_up_until_the_round_state_answers),
        cmocka_unit_test(ranks_are_played_by_workers_that_are_here),
        cmocka_unit_test(a_suspected_process_is_declared_dead_sooner),
        cmocka_unit_test(lost_metadata_begins_a_new_generation),
        cmocka_unit_test(a_generation_known_only_from_checkpoints_is_stored),
        cmocka_unit_test(a_loss_stays_in_the_map_until_a_rank_is_taken),
        cmocka_unit_test(an_intended_stop_is_no_loss),
        cmocka_unit_test(a_loss_is_reported_by_a_rank),
        cmocka_unit_test(a_process_that_has_just_left_gets_no_rank),
        cmocka_unit_test(a_process_of_before_is_told_so),
        cmocka_unit_test(a_damaged_beginning_is_gone_back_behind),
        cmocka_unit_test(a_head_that_makes_a_cut_is_waited_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
