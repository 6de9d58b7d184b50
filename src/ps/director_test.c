/* director_test.c — one director, a coordinator of one value, servers made by hand. */
#include "ps/director.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ps/tape.h"
#include "tests/support/said.h"

typedef struct world {
    director *director;
    rng rng;
    buffer value;            /* at the coordinator */
    uint64_t version, known; /* known: the newest that was said to be */
    int swaps;
    bool away;
    int64_t now_us;
    said said;
    const char *depot;
    uint64_t checkpoint; /* that it told of */
    uint64_t stopped;    /* the chart with which everything was stopped on purpose */
} world;

static void get(void *self, const char *key, uint64_t known, coordinator_done_fn *done, void *argument) {
    world *world = self;
    mr_status status = world->away ? MR_TIMEOUT : MR_OK;
    world->known = known;
    done(argument, &(coordinator_answer){status, world->version, span_of(world->value.data, world->value.size)});
}

static void swap(void *self, const char *key, uint64_t expected, span value, uint64_t lease, coordinator_done_fn *done,
                 void *argument) {
    world *world = self;
    if (world->away) {
        done(argument, &(coordinator_answer){MR_TIMEOUT, 0, {0}});
    } else if (expected != world->version) {
        get(self, key, 0, done, argument);
    } else {
        buffer_clear(&world->value);
        assert_int_equal(buffer_append(&world->value, value.data, value.size), MR_OK);
        world->version++;
        world->swaps++;
        done(argument, &(coordinator_answer){MR_OK, world->version, {0}});
    }
}

static const coordinator_ops ops = {.name = "one value", .get = get, .compare_and_swap = swap};

static void on_send(void *context, const char *address, span bytes) {
    said_take(&((world *)context)->said, address, bytes);
}

static void on_checkpoint(void *context, uint64_t checkpoint) { ((world *)context)->checkpoint = checkpoint; }

static void hear(world *world, uint32_t who, uint64_t incarnation, const part *part) {
    const chart *chart = director_chart(world->director);
    part_head head = {.generation = chart->generation, .number = chart->number, .incarnation = incarnation, .who = who};
    head.address[0] = (who & PART_WORKER) != 0 ? 'w' : 's';
    head.address[1] = (char)('0' + (who & ~(uint32_t)PART_WORKER) % 10);
    said_batch batch = said_say(&head, part);
    director_take(world->director, batch.bytes, world->now_us);
    said_free(&batch);
}

/* Time goes on; those servers say that they live. */
static void pass(world *world, int ticks, uint32_t servers) {
    for (int i = 0; i < ticks; i++) {
        world->now_us += DIRECTOR_TICK_US;
        for (uint32_t k = 0; k < servers; k++) hear(world, k, 10 + k, NULL);
        director_tick(world->director, world->now_us);
        director_check(world->director);
    }
}

static void create(world *world, consistency_kind kind) {
    rng_init(&world->rng, 1);
    buffer_init(&world->value, 1 << 16);
    director_options options = {.address = "d",
                                .coordinator = {&ops, world},
                                .rng = &world->rng,
                                .consistency = {kind, 0},
                                .copies = 2,
                                .rank_count = 2,
                                .slot_count = 2,
                                .first_servers = 2,
                                .send = on_send,
                                .depot = world->depot,
                                .restores = world->depot != NULL,
                                .stopped = world->stopped,
                                .on_checkpoint = on_checkpoint,
                                .context = world};
    world->director = director_create(&options, 0);
}

static void start(world *world, consistency_kind kind) {
    *world = (struct world){0};
    create(world, kind);
    pass(world, 3, 1); /* one is not enough */
    assert_int_equal(director_chart(world->director)->number, 0);
    pass(world, 2, 2);
    assert_true(director_chart(world->director)->number == 1 && world->swaps == 1);
    assert_int_equal(director_chart(world->director)->slots[0].count, 2);
}

static void stop(world *world) {
    director_destroy(world->director);
    buffer_fini(&world->value);
}

static void who_is_silent_is_taken_out_but_never_the_last(void **state) {
    world world;
    start(&world, CONSISTENCY_ASP);
    pass(&world, 10, 1);
    const chart *chart = director_chart(world.director);
    assert_true(chart->number == 2 && chart->slots[0].count == 1 && chart->slots[0].chain[0].server == 0);
    pass(&world, 20, 0);
    assert_int_equal(director_chart(world.director)->number, 2);
    pass(&world, 2, 2); /* both are back: the other is to be filled */
    assert_true(said_count(&world.said, "s0", PART_JOIN) != 0 && said_count(&world.said, "s1", PART_JOIN) == 0);
    hear(&world, 0, 10, &(part){.kind = PART_GATE, .epoch = 1, .name = 1, .prev = 11}); /* of an epoch that is over */
    pass(&world, 1, 2);
    assert_int_equal(director_chart(world.director)->slots[0].count, 1);
    hear(&world, 0, 10, &(part){.kind = PART_GATE, .epoch = 2, .name = 1, .prev = 11});
    pass(&world, 1, 2);
    chart = director_chart(world.director);
    assert_true(chart->number == 3 && chart->slots[0].count == 2 && chart->slots[1].count == 1);
    stop(&world);
}

static void a_slot_whose_copies_were_all_replaced_is_lost(void **state) {
    world world;
    start(&world, CONSISTENCY_ASP);
    hear(&world, 0, 20, NULL); /* another process of the server */
    assert_false(director_lost(world.director, 0));
    hear(&world, 1, 21, NULL);
    assert_true(director_lost(world.director, 0));
    stop(&world);
}

static void nothing_is_decided_while_the_coordinator_is_away(void **state) {
    world world;
    start(&world, CONSISTENCY_ASP);
    world.away = true;
    pass(&world, 30, 1);
    assert_int_equal(director_chart(world.director)->number, 1);
    world.away = false;
    pass(&world, 15, 1);
    assert_int_equal(director_chart(world.director)->number, 2);
    stop(&world);
}

static void a_rank_is_given_up_until_the_ledger_answers(void **state) {
    world world;
    start(&world, CONSISTENCY_BSP);
    uint32_t head = director_chart(world.director)->slots[1].chain[0].server;
    const char *address = head == 0 ? "s0" : "s1";
    director_drop(world.director, 1, 7);
    pass(&world, 2, 2);
    assert_int_equal(said_count(&world.said, address, PART_ORDER), 2);
    const part *order = &world.said.list[world.said.count - 1].part;
    assert_true(order->entry == TAPE_DROP && order->slot == 1 && order->rank == 1 && order->name >> 16 == 7);
    uint64_t name = order->name;
    hear(&world, head, 10 + head,
         &(part){.kind = PART_ORDERED, .entry = TAPE_DROP, .rank = 1, .name = name - 1}); /* an earlier one */
    pass(&world, 1, 2);
    assert_int_equal(said_count(&world.said, address, PART_ORDER), 3);
    hear(&world, head, 10 + head, &(part){.kind = PART_ORDERED, .entry = TAPE_DROP, .rank = 1, .name = name});
    pass(&world, 2, 2);
    assert_int_equal(said_count(&world.said, address, PART_ORDER), 3);
    stop(&world);
}

static const chart_player *player(const world *world, uint32_t rank) {
    return &director_chart(world->director)->players[rank];
}

static void ranks_are_played_by_workers_that_are_here(void **state) {
    world world;
    start(&world, CONSISTENCY_ASP);
    assert_int_equal(player(&world, 0)->since, 0);
    for (int i = 0; i < 2; i++) hear(&world, PART_WORKER | 5, 50, NULL);
    pass(&world, 1, 2);
    assert_true(player(&world, 0)->worker == 5 && player(&world, 1)->worker == 5 && player(&world, 1)->since == 2);
    hear(&world, PART_WORKER | 1, 51, NULL); /* one more: it gets the rank of its number */
    pass(&world, 1, 2);
    assert_true(player(&world, 0)->worker == 5 && player(&world, 1)->worker == 1 && player(&world, 1)->since == 3);
    assert_true(player(&world, 0)->since == 2);
    for (int i = 0; i < 9; i++) { /* it is silent */
        hear(&world, PART_WORKER | 5, 50, NULL);
        pass(&world, 1, 2);
    }
    assert_true(player(&world, 1)->worker == 5 && player(&world, 1)->since == 4);
    hear(&world, PART_WORKER | 5, 60, NULL); /* another process */
    pass(&world, 1, 2);
    assert_true(player(&world, 0)->incarnation == 60 && player(&world, 1)->incarnation == 60);
    pass(&world, 12, 2); /* nobody is here: nothing changes */
    assert_true(director_chart(world.director)->number == 5 && world.swaps == 5);
    stop(&world);
}

static void who_may_be_dead_is_found_sooner(void **state) {
    world world;
    start(&world, CONSISTENCY_ASP);
    director_broken(world.director, "s1", world.now_us);
    pass(&world, 1, 2); /* it was heard again */
    director_broken(world.director, "nobody", world.now_us);
    pass(&world, 5, 1);
    assert_int_equal(director_chart(world.director)->number, 1);
    pass(&world, 1, 2);
    director_broken(world.director, "s1", world.now_us);
    pass(&world, 3, 1);
    assert_true(director_chart(world.director)->number == 2 && director_chart(world.director)->slots[0].count == 1);
    stop(&world);
}

static void what_is_lost_begins_anew_from_the_last_checkpoint(void **state) {
    world world = {.depot = "depot"};
    create(&world, CONSISTENCY_ASP);
    pass(&world, 3, 2); /* nothing begins before the depot has answered */
    assert_int_equal(director_chart(world.director)->number, 0);
    assert_true(said_named(&world.said, "depot", PART_SEAL, PART_OK, 0) != 0);
    hear(&world, PART_DEPOT, 1, &(part){.kind = PART_SEALED, .lsn = 6});
    pass(&world, 1, 2);
    const chart *chart = director_chart(world.director);
    assert_true(chart->number == 1 && chart->origin == 6 && chart->birth == 1);
    uint64_t generation = chart->generation;
    director_checkpoint(world.director);
    hear(&world, PART_DEPOT, 1, &(part){.kind = PART_WHOLE, .name = 6});
    pass(&world, 1, 2);
    const char *head = chart->slots[0].chain[0].server == 0 ? "s0" : "s1";
    assert_true(said_named(&world.said, head, PART_ORDER, PART_OK, 7) != 0 && world.checkpoint == 0);
    hear(&world, PART_DEPOT, 1, &(part){.kind = PART_WHOLE, .name = 7});
    assert_int_equal(world.checkpoint, 7);
    hear(&world, 0, 20, NULL); /* both are other processes now: everything is lost */
    hear(&world, 1, 21, NULL);
    world.said.count = 0;
    pass(&world, 1, 0);
    assert_int_equal(said_named(&world.said, "depot", PART_SEAL, PART_OK, 1), 1);
    hear(&world, PART_DEPOT, 1, &(part){.kind = PART_SEALED, .name = 1, .lsn = 7});
    pass(&world, 1, 0);
    chart = director_chart(world.director);
    assert_true(chart->number == 2 && chart->origin == 7 && chart->birth == 2 && chart->generation != generation);
    assert_int_equal(chart->slots[0].chain[0].incarnation, 20 + chart->slots[0].chain[0].server);
    director_restore(world.director); /* somebody wants it, though nothing is lost */
    pass(&world, 1, 0);
    hear(&world, PART_DEPOT, 1, &(part){.kind = PART_SEALED, .name = 2, .lsn = 7});
    pass(&world, 2, 0);
    assert_true(director_chart(world.director)->number == 3 && director_chart(world.director)->birth == 3);
    stop(&world);
}

/* A coordinator that has lost its disk begins another generation of versions, in which there is no chart. */
static void what_the_coordinator_forgets_begins_anew(void **state) {
    world world = {.depot = "depot"};
    create(&world, CONSISTENCY_ASP);
    pass(&world, 2, 2);
    hear(&world, PART_DEPOT, 1, &(part){.kind = PART_SEALED, .lsn = 6});
    pass(&world, 1, 2);
    assert_int_equal(director_chart(world.director)->number, 1);
    world.version = coordinator_version(5, 0);
    buffer_clear(&world.value);
    world.said.count = 0;
    pass(&world, 12, 2);
    assert_true(said_named(&world.said, "depot", PART_SEAL, PART_OK, world.version) != 0);
    assert_int_equal(director_chart(world.director)->number, 1);
    hear(&world, PART_DEPOT, 1, &(part){.kind = PART_SEALED, .name = world.version, .lsn = 7});
    pass(&world, 1, 2);
    const chart *chart = director_chart(world.director);
    assert_true(chart->number == coordinator_version(5, 1) && chart->birth == chart->number && chart->origin == 7);
    stop(&world);
}

/* So has everybody else, and its generation is below the last one; the depot remembers. */
static void what_only_the_depot_remembers_is_told_to_the_coordinator(void **state) {
    world world = {.depot = "depot", .version = coordinator_version(2, 0)};
    create(&world, CONSISTENCY_ASP);
    pass(&world, 3, 2);
    hear(&world, PART_DEPOT, 1,
         &(part){.kind = PART_SEALED, .name = world.version, .lsn = 6, .commit = coordinator_version(4, 9)});
    pass(&world, 2, 2);
    assert_int_equal(director_chart(world.director)->number, 0); /* nothing begins below that */
    assert_int_equal(world.known, coordinator_version(4, 9));
    world.version = coordinator_version(5, 0); /* it has heeded that */
    world.said.count = 0;
    pass(&world, 2, 2);
    assert_true(said_named(&world.said, "depot", PART_SEAL, PART_OK, world.version) != 0);
    hear(&world, PART_DEPOT, 1, &(part){.kind = PART_SEALED, .name = world.version, .lsn = 6, .commit = world.version});
    pass(&world, 1, 2);
    assert_int_equal(director_chart(world.director)->number, coordinator_version(5, 1));
    stop(&world);
}

/* Both servers are processes with these incarnations; the chart that a new generation begins with, or none. */
static const chart *serve(world *world, uint64_t incarnation) {
    uint64_t generation = director_chart(world->director)->generation;
    for (int i = 0; i < 20; i++) {
        world->now_us += DIRECTOR_TICK_US;
        for (uint32_t k = 0; k < 2; k++) hear(world, k, incarnation + k, NULL);
        director_tick(world->director, world->now_us);
        hear(world, PART_DEPOT, 1, &(part){.kind = PART_SEALED, .name = world->version, .lsn = 3});
    }
    const chart *chart = director_chart(world->director);
    return chart->generation == generation ? NULL : chart;
}

/* A generation that begins with a loss has `lost` in its charts; so has the next one if no worker has played a rank in
 * between. Where no worker had played a rank before, nothing was lost. */
static void a_loss_is_in_the_chart_until_somebody_plays(void **state) {
    world world = {.depot = "depot"};
    create(&world, CONSISTENCY_ASP);
    const chart *chart = serve(&world, 10);
    assert_true(chart != NULL && !chart->lost && chart->first_stint == 0);
    chart = serve(&world, 20);
    assert_true(chart != NULL && !chart->lost);
    hear(&world, PART_WORKER | 1, 5, NULL);
    assert_null(serve(&world, 20));
    chart = director_chart(world.director);
    assert_true(chart->players[1].since != 0 && chart->first_stint == chart->players[1].since);
    pass(&world, 10, 0); /* the worker is gone */
    chart = serve(&world, 30);
    assert_true(chart != NULL && chart->lost && chart->first_stint == 0 && chart->origin == 3);
    chart = serve(&world, 40); /* again, before anybody has come */
    assert_true(chart != NULL && chart->lost && chart->first_stint == 0);
    hear(&world, PART_WORKER | 0, 6, NULL);
    assert_null(serve(&world, 40));
    chart = director_chart(world.director);
    assert_true(chart->lost && chart->first_stint == chart->players[0].since && chart->first_stint != 0);
    stop(&world);
}

static void start_again(world *world, uint64_t stopped) {
    director_destroy(world->director);
    buffer before = world->value;
    world->stopped = stopped;
    create(world, CONSISTENCY_ASP);
    rng_init(&world->rng, 2); /* it draws another generation */
    world->value = before;
}

static void what_was_stopped_on_purpose_is_no_loss(void **state) {
    for (int way = 0; way < 3; way++) {
        world world = {.depot = "depot"};
        create(&world, CONSISTENCY_ASP);
        (void)serve(&world, 10);
        hear(&world, PART_WORKER | 1, 5, NULL);
        assert_null(serve(&world, 10));
        start_again(&world, way == 0 ? 0 : world.version);
        if (way == 2) (void)serve(&world, 10);  /* only the scheduler was stopped: its servers are heard */
        hear(&world, PART_WORKER | 1, 6, NULL); /* who comes before servers do changes nothing */
        pass(&world, 3, 0);
        const chart *chart = serve(&world, 20);
        assert_non_null(chart);
        assert_int_equal(chart->lost, way != 1);
        stop(&world);
    }
}

/* A worker whose link broke cannot learn of a loss: it is not the generation's first player. */
static void who_has_just_gone_plays_no_rank(void **state) {
    world world = {.depot = "depot"};
    create(&world, CONSISTENCY_ASP);
    (void)serve(&world, 10);
    hear(&world, PART_WORKER | 1, 5, NULL);
    assert_null(serve(&world, 10));
    hear(&world, PART_WORKER | 1, 5, NULL);
    director_broken(world.director, "w1", world.now_us);
    const chart *chart = serve(&world, 20);
    assert_true(chart != NULL && chart->lost && chart->first_stint == 0);
    hear(&world, PART_WORKER | 1, 5, NULL); /* it lives after all */
    assert_null(serve(&world, 20));
    assert_true(director_chart(world.director)->players[1].since != 0);
    stop(&world);
}

static void a_process_of_before_is_told_so(void **state) {
    world world = {0};
    start(&world, CONSISTENCY_ASP);
    world.said.count = 0;
    hear(&world, 1, 9, NULL);
    assert_int_equal(said_named(&world.said, "s1", PART_REPLACED, PART_OK, 11), 1);
    hear(&world, PART_WORKER | 4, 30, NULL);
    hear(&world, PART_WORKER | 4, 29, NULL);
    assert_int_equal(said_named(&world.said, "w4", PART_REPLACED, PART_OK, 30), 1);
    hear(&world, 1, 11, NULL);
    assert_int_equal(said_count(&world.said, "s1", PART_REPLACED), 1);
    stop(&world);
}

/* The depot had to go back to an older checkpoint than this generation begins from. */
static void a_damaged_beginning_is_gone_back_behind(void **state) {
    world world = {.depot = "depot"};
    create(&world, CONSISTENCY_ASP);
    pass(&world, 2, 2);
    hear(&world, PART_DEPOT, 1, &(part){.kind = PART_SEALED, .lsn = 6});
    pass(&world, 1, 2);
    world.said.count = 0;
    hear(&world, PART_DEPOT, 1, &(part){.kind = PART_WHOLE, .name = 5, .payload = span_of("shard-1-0", 9)});
    pass(&world, 1, 2);
    assert_int_equal(said_named(&world.said, "depot", PART_SEAL, PART_OK, 1), 1);
    hear(&world, PART_DEPOT, 1, &(part){.kind = PART_SEALED, .name = 1, .lsn = 5});
    pass(&world, 1, 2);
    assert_true(director_chart(world.director)->number == 2 && director_chart(world.director)->origin == 5);
    stop(&world);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_lost_begins_anew_from_the_last_checkpoint),
        cmocka_unit_test(who_is_silent_is_taken_out_but_never_the_last),
        cmocka_unit_test(a_slot_whose_copies_were_all_replaced_is_lost),
        cmocka_unit_test(nothing_is_decided_while_the_coordinator_is_away),
        cmocka_unit_test(a_rank_is_given_up_until_the_ledger_answers),
        cmocka_unit_test(ranks_are_played_by_workers_that_are_here),
        cmocka_unit_test(who_may_be_dead_is_found_sooner),
        cmocka_unit_test(what_the_coordinator_forgets_begins_anew),
        cmocka_unit_test(what_only_the_depot_remembers_is_told_to_the_coordinator),
        cmocka_unit_test(a_loss_is_in_the_chart_until_somebody_plays),
        cmocka_unit_test(what_was_stopped_on_purpose_is_no_loss),
        cmocka_unit_test(who_has_just_gone_plays_no_rank),
        cmocka_unit_test(a_process_of_before_is_told_so),
        cmocka_unit_test(a_damaged_beginning_is_gone_back_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
