/* ps_forgery_test.c — a process that has the token, and sends what only other processes may send: its links end, and
 * servers, scheduler and tables go on. A process that holds a rank and vanishes without a sign. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "kv/control/control_wire.h"
#include "kv/van.h"
#include "ps/cluster_map.h"
#include "ps/slot_message.h"
#include "tests/support/message_recorder.h"
#include "tests/support/ps_fixture.h"

enum { PATIENCE_US = 30000000 };

typedef struct intruder {
    van *van;
    unsigned broken; /* links that the other side closed */
    mr_status answer;
} intruder;

static void take(void *context, link_id link, span bytes, shared_bytes *shared) {
    intruder *intruder = context;
    control_message message;
    if (control_message_decode(bytes, &message) == MR_OK && message.kind == CONTROL_MESSAGE_ANSWER)
        intruder->answer = message.status;
}

static void broken(void *context, const char *address, bool silent) { ((intruder *)context)->broken++; }
static int64_t next_us(void *context) { return CLOCK_NEVER_US; }

static const van_host host = {.take = take, .broken = broken, .next_us = next_us};

static void run_until(intruder *intruder, const unsigned *counter, unsigned wanted) {
    int64_t until_us = van_now_us(intruder->van) + PATIENCE_US;
    while (*counter < wanted && van_now_us(intruder->van) < until_us)
        event_loop_run_once(van_loop(intruder->van), 10000);
    assert_true(*counter >= wanted);
}

static void pause_us(intruder *intruder, int64_t pause_us) {
    int64_t until_us = van_now_us(intruder->van) + pause_us;
    while (van_now_us(intruder->van) < until_us) event_loop_run_once(van_loop(intruder->van), 10000);
}

/* Sends the bytes; the other side closes the link. */
static void expect_refusal(intruder *intruder, const char *address, span bytes) {
    unsigned before = intruder->broken;
    pause_us(intruder, 2 * MESSENGER_RETRY_US); /* the link may be opened again */
    van_send(intruder->van, address, bytes);
    run_until(intruder, &intruder->broken, before + 1);
}

static void forge(intruder *intruder, const char *address, const mr_ps_cluster_map *map, uint32_t who,
                  const slot_message *message) {
    slot_message_head head = {.generation = map->generation, .number = map->number, .incarnation = 1, .who = who};
    strcpy(head.address, "tcp:127.0.0.1:1");
    message_recorder_batch batch = message_recorder_say(&head, message);
    expect_refusal(intruder, address, batch.bytes);
    message_recorder_free(&batch);
}

/* Sends a cluster map of another generation, in the name of a worker: the packet is well-formed, so the link stays. */
static void forge_map(intruder *intruder, const char *address, const mr_ps_cluster_map *map) {
    cluster_map forged = {.number = map->number + 100,
                          .generation = map->generation + 1,
                          .birth = map->number + 100,
                          .slot_count = map->slot_count,
                          .slots = xcalloc(map->slot_count, sizeof *forged.slots)};
    for (uint32_t i = 0; i < forged.slot_count; i++) forged.slots[i].epoch = forged.number;
    slot_message_head head = {
        .generation = map->generation, .number = map->number, .incarnation = 1, .who = SLOT_MESSAGE_WORKER | 99};
    strcpy(head.address, "tcp:127.0.0.1:1");
    message_recorder_batch batch = message_recorder_map(&head, &forged);
    pause_us(intruder, 2 * MESSENGER_RETRY_US); /* the link may be opened again */
    van_send(intruder->van, address, batch.bytes);
    pause_us(intruder, 100000);
    message_recorder_free(&batch);
    cluster_map_fini(&forged);
}

static mr_ps_cluster_map *map_of(const ps_fixture *fixture) {
    mr_ps_cluster_map *map;
    assert_int_equal(mr_ps_cluster_map_get(fixture->address, PATIENCE_US, &map), MR_OK);
    return map;
}

static bool lives(pid_t pid) {
    siginfo_t info = {0};
    return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == 0;
}

/* Writes over a decision of the scheduler; the version is that of the newest cluster map. */
static void forge_decision(intruder *intruder, const ps_fixture *fixture, const mr_ps_cluster_map *map) {
    size_t size;
    control_message swap = {.kind = CONTROL_MESSAGE_SWAP, .request = 7, .version = map->number};
    swap.key = span_of(CLUSTER_MAP_KEY, strlen(CLUSTER_MAP_KEY));
    swap.value = span_of("garbage", 7);
    uint8_t *bytes = control_message_write(&swap, &size);
    intruder->answer = MR_OK;
    van_send(intruder->van, fixture->address, span_of(bytes, size));
    int64_t until_us = van_now_us(intruder->van) + PATIENCE_US;
    while (intruder->answer == MR_OK && van_now_us(intruder->van) < until_us)
        event_loop_run_once(van_loop(intruder->van), 10000);
    assert_int_equal(intruder->answer, MR_DENIED);
    free(bytes);
}

static void forged_messages_end_links(bool tcp) {
    ps_fixture fixture = {.tcp = tcp, .servers = 2, .workers = 1, .slots = 2, .copies = 2};
    intruder intruder = {0};
    assert_true(ps_fixture_init(&fixture));
    assert_true(ps_fixture_start_scheduler(&fixture));
    for (uint32_t i = 0; i < fixture.servers; i++) ps_fixture_start_server(&fixture, i);
    assert_true(ps_fixture_full(&fixture, 0, NULL));
    mr_ps *ps = ps_fixture_connect(&fixture, 0);
    assert_non_null(ps);
    mr_ps_cluster_map *map = map_of(&fixture);
    const mr_ps_server *victim = &map->servers[0];
    assert_int_equal(van_open(&(van_options){.scheduler = fixture.address}, &host, &intruder, &intruder.van), MR_OK);

    /* The order with which a scheduler ends a server whose number another process has. */
    forge(&intruder, victim->address, map, SLOT_MESSAGE_CONTROLLER,
          &(slot_message){.kind = SLOT_MESSAGE_REPLACED, .name = victim->incarnation + 1});
    forge(&intruder, victim->address, map, SLOT_MESSAGE_CHECKPOINTS,
          &(slot_message){.kind = SLOT_MESSAGE_SHARD, .epoch = map->slots[0].epoch});
    forge(&intruder, fixture.address, map, SLOT_MESSAGE_CONTROLLER, &(slot_message){.kind = SLOT_MESSAGE_MAP});
    expect_refusal(&intruder, victim->address, span_of("PST1", 4));
    expect_refusal(&intruder, fixture.address, span_of("\xff\xff\xff", 3));
    control_message message = {.kind = CONTROL_LEFT, .stamp = {.view = 1}};
    size_t size;
    uint8_t *left = control_message_write(&message, &size);
    expect_refusal(&intruder, victim->address, span_of(left, size));
    free(left);
    /* The server says to the scheduler that it drains. */
    message =
        (control_message){.kind = CONTROL_LEAVE, .stamp = {.id = victim->number, .incarnation = victim->incarnation}};
    left = control_message_write(&message, &size);
    expect_refusal(&intruder, fixture.address, span_of(left, size));
    free(left);
    forge_map(&intruder, fixture.address, map);
    for (uint32_t i = 0; i < map->info.servers; i++) forge_map(&intruder, map->servers[i].address, map);
    pause_us(&intruder, 2 * MESSENGER_RETRY_US);
    forge_decision(&intruder, &fixture, map);
    pause_us(&intruder, 500000);

    assert_true(lives(fixture.scheduler) && lives(fixture.server[0]) && lives(fixture.server[1]));
    mr_ps_cluster_map *after = map_of(&fixture);
    assert_true(after->number == map->number); /* no server was lost or replaced */
    mr_ps_cluster_map_free(after);
    mr_ps_cluster_map_free(map);
    van_close(intruder.van);
    mr_ps_table *table;
    uint64_t key = 7;
    float value = 1, seen = 0;
    mr_ps_ticket ticket;
    assert_int_equal(mr_ps_table_create(ps, "rows", &MR_OPTIONS(mr_ps_table_options, .dim = 1), PATIENCE_US, &table),
                     MR_OK);
    assert_int_equal(mr_ps_push(table, &key, 1, &value, NULL, NULL, &ticket), MR_OK);
    assert_int_equal(mr_ps_wait(ps, ticket, PATIENCE_US), MR_OK);
    assert_int_equal(mr_ps_pull(table, &key, 1, &seen, NULL, NULL, &ticket), MR_OK);
    assert_int_equal(mr_ps_wait(ps, ticket, PATIENCE_US), MR_OK);
    assert_true(seen == 1);
    mr_ps_table_free(table);
    mr_ps_close(ps);
    assert_true(ps_fixture_fini(&fixture));
}

/* The last word of a worker may arrive after the scheduler's link to it has broken, and before the worker's own link
 * does: no link is left whose end would show that the worker is gone. */
static void the_rank_of_a_worker_that_vanished_is_free_soon(void **state) {
    ps_fixture fixture = {.servers = 1, .workers = 1, .slots = 2, .copies = 1};
    intruder worker = {0};
    slot_message_head head = {.incarnation = 1, .who = SLOT_MESSAGE_WORKER};
    mr_ps *ps;
    assert_true(ps_fixture_init(&fixture));
    assert_true(ps_fixture_start_scheduler(&fixture));
    ps_fixture_start_server(&fixture, 0);
    assert_true(ps_fixture_full(&fixture, 0, NULL));
    snprintf(head.address, sizeof head.address, "%.50s.gone", fixture.address);
    assert_int_equal(van_open(&(van_options){.scheduler = fixture.address}, &host, &worker, &worker.van), MR_OK);
    for (int i = 0; i < 20; i++) { /* until the scheduler has nothing more to send to it */
        mr_ps_cluster_map *map = map_of(&fixture);
        head.generation = map->generation;
        head.number = map->number;
        mr_ps_cluster_map_free(map);
        message_recorder_batch heartbeat = message_recorder_say(&head, NULL);
        van_send(worker.van, fixture.address, heartbeat.bytes);
        message_recorder_free(&heartbeat);
        pause_us(&worker, 100000);
    }
    van_close(worker.van);
    assert_int_equal(mr_ps_connect(fixture.address, MR_PS_ANY_RANK, PATIENCE_US, &ps), MR_OK);
    mr_ps_close(ps);
    assert_true(ps_fixture_fini(&fixture));
}

static void forged_messages_end_links_by_unix(void **state) { forged_messages_end_links(false); }
static void forged_messages_end_links_by_tcp(void **state) { forged_messages_end_links(true); }

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forged_messages_end_links_by_unix),
        cmocka_unit_test(forged_messages_end_links_by_tcp),
        cmocka_unit_test(the_rank_of_a_worker_that_vanished_is_free_soon),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
