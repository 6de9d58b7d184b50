/* deployment_end_test.c — what ends a deployment for a process that waits for it, and what does not. */
#include "kv/client/deployment_end.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "kv/control/control_wire.h"
#include "tests/support/transport_recorder.h"

enum { SERVERS = 2 };

typedef struct world {
    transport_recorder recorder;
    messenger *messenger;
    cluster_map map;
    cluster_map_server servers[SERVERS];
    deployment_end end;
} world;

static const messenger_handlers handlers = {0};

static int setup(void **state) {
    world *world = xcalloc(1, sizeof *world);
    transport_recorder_init(&world->recorder);
    world->recorder.clock.now_us = 10 * MESSENGER_RETRY_US;
    world->messenger = messenger_create(&world->recorder.env, &handlers, world);
    transport_recorder_listen(&world->recorder, &messenger_events, world->messenger);
    for (uint32_t i = 0; i < SERVERS; i++)
        snprintf(world->servers[i].address, sizeof world->servers[i].address, "s%u", i);
    world->map = (cluster_map){.servers = world->servers, .server_count = SERVERS, .number = 2};
    *state = world;
    return 0;
}

static int teardown(void **state) {
    world *world = *state;
    messenger_destroy(world->messenger);
    transport_recorder_fini(&world->recorder);
    free(world);
    return 0;
}

static void announce(world *world) {
    static const char how[] = "its scheduler was stopped";
    const control_message message = {.kind = CONTROL_STOPPED, .stamp = {.view = 2}, .value = span_of(how, strlen(how))};
    deployment_end_take(&world->end, world->messenger, "scheduler", &message);
}

static mr_status check(const world *world) { return deployment_end_check(&world->end, world->messenger, &world->map); }

/* The next attempt to reach all processes: each link opens (MR_OK), or fails with this status. */
static void probe(world *world, mr_status scheduler, mr_status first, mr_status second) {
    const mr_status outcomes[] = {scheduler, first, second};
    static const char *const addresses[] = {"scheduler", "s0", "s1"};
    uint32_t before = world->recorder.opened;
    world->recorder.clock.now_us += MESSENGER_RETRY_US;
    assert_true(deployment_end_next_us(&world->end) <= world->recorder.clock.now_us);
    deployment_end_tick(&world->end, world->messenger, &world->map, world->recorder.clock.now_us);
    for (uint32_t link = before + 1; link <= world->recorder.opened; link++)
        for (size_t i = 0; i < 3; i++) {
            if (strcmp(world->recorder.links[link - 1].address, addresses[i]) != 0) continue;
            if (outcomes[i] == MR_OK)
                transport_recorder_open(&world->recorder, link);
            else
                transport_recorder_close(&world->recorder, link, outcomes[i]);
        }
}

static void a_stop_ends_it_when_all_are_gone(void **state) {
    world *world = *state;
    assert_int_equal(deployment_end_next_us(&world->end), CLOCK_NEVER_US);
    announce(world);
    assert_int_equal(check(world), MR_OK);
    probe(world, MR_NOT_FOUND, MR_OK, MR_NOT_FOUND); /* the link to server 0 is open from now on */
    assert_int_equal(check(world), MR_OK);
    for (uint32_t link = 1; link <= world->recorder.opened; link++)
        if (strcmp(world->recorder.links[link - 1].address, "s0") == 0)
            transport_recorder_close(&world->recorder, link, MR_PEER_DIED);
    assert_int_equal(check(world), MR_OK); /* the link may have broken although the process lives */
    probe(world, MR_NOT_FOUND, MR_NOT_FOUND, MR_NOT_FOUND);
    assert_int_equal(check(world), MR_PEER_DIED);
    assert_string_equal(mr_last_error(),
                        "the parameter server at scheduler has ended: its scheduler was stopped; start it "
                        "again, or another one");
}

static void silence_is_no_end(void **state) {
    world *world = *state;
    announce(world);
    probe(world, MR_NOT_FOUND, MR_TIMEOUT, MR_NOT_FOUND);
    assert_int_equal(check(world), MR_OK);
    probe(world, MR_TIMEOUT, MR_NOT_FOUND, MR_NOT_FOUND);
    assert_int_equal(check(world), MR_OK);
    probe(world, MR_NOT_FOUND, MR_PEER_DIED, MR_NOT_FOUND);
    assert_int_equal(check(world), MR_PEER_DIED);
}

static void servers_that_are_not_known_may_serve(void **state) {
    world *world = *state;
    world->map.number = 1;
    announce(world);
    probe(world, MR_NOT_FOUND, MR_NOT_FOUND, MR_NOT_FOUND);
    assert_int_equal(check(world), MR_OK);
    world->map.number = 2;
    assert_int_equal(check(world), MR_PEER_DIED);
    probe(world, MR_NOT_FOUND, MR_NOT_FOUND, MR_OK);
    assert_int_equal(check(world), MR_OK);
    assert_int_equal(deployment_end_check(&world->end, world->messenger, NULL), MR_PEER_DIED);
}

static void deaths_without_a_stop_are_no_end(void **state) {
    world *world = *state;
    for (uint32_t i = 1; i <= 3; i++) {
        messenger_reach(world->messenger, i == 1 ? "scheduler" : world->servers[i - 2].address);
        transport_recorder_close(&world->recorder, i, MR_NOT_FOUND);
    }
    assert_int_equal(check(world), MR_OK);
}

static void another_scheduler_makes_it_void(void **state) {
    world *world = *state;
    announce(world);
    probe(world, MR_NOT_FOUND, MR_NOT_FOUND, MR_NOT_FOUND);
    assert_int_equal(check(world), MR_PEER_DIED);
    probe(world, MR_OK, MR_NOT_FOUND, MR_NOT_FOUND);
    assert_int_equal(check(world), MR_OK);
    transport_recorder_close(&world->recorder, world->recorder.opened - 2, MR_PEER_DIED);
    probe(world, MR_NOT_FOUND, MR_NOT_FOUND, MR_NOT_FOUND); /* it died: nothing stopped it */
    assert_int_equal(check(world), MR_OK);
    assert_int_equal(deployment_end_next_us(&world->end), CLOCK_NEVER_US);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_stop_ends_it_when_all_are_gone, setup, teardown),
        cmocka_unit_test_setup_teardown(silence_is_no_end, setup, teardown),
        cmocka_unit_test_setup_teardown(servers_that_are_not_known_may_serve, setup, teardown),
        cmocka_unit_test_setup_teardown(deaths_without_a_stop_are_no_end, setup, teardown),
        cmocka_unit_test_setup_teardown(another_scheduler_makes_it_void, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
