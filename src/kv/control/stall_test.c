/* stall_test.c — stall diagnosis: servers missing at the start and after a loss, servers that may return, an
 * unreadable folder; the texts, the commands, and how often they are logged. */
#include "kv/control/stall.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { SLOTS = 12, MS = 1000 };

typedef struct scene {
    process_table table;
    cluster_map map;
    cluster_map_slot slots[SLOTS];
    stall_facts facts;
    char text[512], help[512];
} scene;

static scene *begin(scene *scene, uint32_t servers) {
    *scene = (struct scene){.facts = {.server_count = servers,
                                      .scheduler = "unix:/tmp/s",
                                      .folder = "/var/state",
                                      .trouble = "",
                                      .undecided = "",
                                      .now_us = 1000 * MS}};
    scene->facts.map = &scene->map;
    scene->facts.table = &scene->table;
    return scene;
}

static void hear(scene *scene, uint32_t number, uint64_t incarnation) {
    process_state state = {.role = MR_PS_SERVERS, .number = number, .incarnation = incarnation};
    snprintf(state.address, sizeof state.address, "unix:/tmp/%u", number);
    process_table_take(&scene->table, &state, scene->facts.now_us);
}

static void break_link(scene *scene, uint32_t number) {
    char address[32];
    snprintf(address, sizeof address, "unix:/tmp/%u", number);
    process_table_broken(&scene->table, address, scene->facts.now_us);
}

/* The chain of slot i begins with server i % servers, followed by the next ones; all have incarnation 1. */
static void map_of(scene *scene, uint32_t servers, uint8_t copies) {
    scene->map = (cluster_map){.number = 3, .copies = copies, .slot_count = SLOTS, .slots = scene->slots};
    for (uint32_t i = 0; i < SLOTS; i++) {
        scene->slots[i].count = copies;
        for (uint32_t k = 0; k < copies; k++)
            scene->slots[i].chain[k] = (cluster_map_member){.server = (i + k) % servers, .incarnation = 1};
    }
}

static stall_kind look(scene *scene) {
    stall stall = stall_look(&scene->facts);
    stall_say(&stall, &scene->facts, scene->text, sizeof scene->text);
    stall_help(&stall, &scene->facts, scene->help, sizeof scene->help);
    return stall.kind;
}

static void at_the_beginning_servers_are(void **state) {
    scene own, *scene = begin(&own, 3);
    hear(scene, 0, 1);
    assert_int_equal(look(scene), STALL_SERVERS);
    assert_string_equal(scene->text, "1 of 3 servers is connected; tables begin when all are");
    assert_string_equal(scene->help, "miniray ps server --scheduler unix:/tmp/s");
    hear(scene, 1, 1);
    hear(scene, 7, 1); /* any server number counts */
    assert_int_equal(look(scene), STALL_NOTHING);
    assert_string_equal(scene->text, "");
    assert_string_equal(scene->help, "");
    scene->facts.trouble = "manifest is damaged";
    assert_int_equal(look(scene), STALL_CHECKPOINT);
    assert_string_equal(scene->text, "tables cannot start from the checkpoints in /var/state: manifest is damaged");
    assert_string_equal(scene->help, "miniray ps checkpoint list --checkpoint-dir /var/state");
    process_table_fini(&scene->table);
}

static void a_process_that_may_return_is_awaited(void **state) {
    scene own, *scene = begin(&own, 3);
    map_of(scene, 3, 1);
    for (uint32_t i = 0; i < 3; i++) hear(scene, i, 1);
    scene->facts.trouble = "shard-0-0 is damaged";
    assert_int_equal(look(scene), STALL_NOTHING);
    scene->facts.stuck = true; /* a generation has begun from the checkpoint */
    assert_int_equal(look(scene), STALL_CHECKPOINT);
    scene->facts.stuck = false;
    scene->facts.undecided = "no room";
    assert_int_equal(look(scene), STALL_DISK);
    assert_non_null(strstr(scene->text, "decisions cannot be written to /var/state: no room"));
    assert_string_equal(scene->help, "df /var/state");
    scene->facts.undecided = "";
    scene->facts.trouble = "";
    scene->facts.now_us += PROCESS_TABLE_SILENT_US;
    hear(scene, 0, 1);
    hear(scene, 2, 1);
    hear(scene, 5, 1); /* not one of the missing servers */
    scene->facts.checkpoint = 42;
    assert_int_equal(look(scene), STALL_RETURN); /* its link is open: no process is to take its place */
    assert_string_equal(scene->text,
                        "server 1 is silent, with its connection open, and has the only replicas of slots 1, 4, 7 and "
                        "10: the machine may be overloaded; nothing is lost when it is heard again");
    assert_string_equal(scene->help, "miniray ps status --scheduler unix:/tmp/s");
    break_link(scene, 1);
    assert_int_equal(look(scene), STALL_RETURN);
    assert_string_equal(scene->text, "server 1 is gone with the only replicas of slots 1, 4, 7 and 10: when it is back "
                                     "as another process, all tables go back to checkpoint 42");
    assert_string_equal(scene->help, "miniray ps server --scheduler unix:/tmp/s --id 1");
    hear(scene, 1, 2); /* another incarnation: the replicas of the first are lost */
    assert_int_equal(look(scene), STALL_NOTHING);
    scene->facts.now_us += PROCESS_TABLE_SILENT_US;
    hear(scene, 1, 2);
    scene->facts.checkpoint = 0;
    assert_int_equal(look(scene), STALL_SERVERS); /* the other servers are needed as servers, not for their replicas */
    assert_non_null(
        strstr(scene->text, "1 of 3 servers is connected, and slots 0, 1, 2, 3, 4, 5, 6, 7 and 4 more lost "));
    assert_non_null(strstr(scene->text, "all tables begin empty: there is no checkpoint"));
    process_table_fini(&scene->table);
}

static void one_copy_is_enough(void **state) {
    scene own, *scene = begin(&own, 4);
    map_of(scene, 4, 2);
    for (uint32_t i = 0; i < 4; i++) hear(scene, i, 1);
    scene->facts.now_us += PROCESS_TABLE_SILENT_US;
    hear(scene, 0, 1);
    hear(scene, 2, 1);
    assert_int_equal(look(scene), STALL_NOTHING); /* each slot has a replica */
    scene->facts.now_us += PROCESS_TABLE_SILENT_US;
    hear(scene, 0, 1);
    for (uint32_t i = 1; i < 4; i++) break_link(scene, i);
    assert_int_equal(look(scene), STALL_RETURN);
    assert_non_null(
        strstr(scene->text, "servers 1, 2 and 3 are gone with the only replicas of slots 1, 2, 5, 6, 9 and 10"));
    assert_non_null(strstr(scene->help, "--id 1\nminiray ps server --scheduler unix:/tmp/s --id 2\n"));
    hear(scene, 2, 2); /* other servers may have replicas of its slots */
    assert_int_equal(look(scene), STALL_RETURN);
    assert_non_null(strstr(scene->text, "servers 1 and 3 are gone"));
    process_table_fini(&scene->table);
}

static void texts_have_bounds(void **state) {
    scene own, *scene = begin(&own, 1);
    char small[24];
    map_of(scene, SLOTS, 1);
    stall stall = stall_look(&scene->facts);
    assert_true(stall.kind == STALL_RETURN && stall.server_count == SLOTS);
    stall_say(&stall, &scene->facts, small, sizeof small);
    assert_string_equal(small, "servers 0, 1, 2, 3, 4, ");
    stall_help(&stall, &scene->facts, small, sizeof small);
    assert_string_equal(small, "miniray ps server --sch");
    stall_say(&stall, &scene->facts, scene->text, sizeof scene->text);
    assert_non_null(strstr(scene->text, "6, 7 and 4 more are gone"));
}

static void it_is_said_now_and_then(void **state) {
    scene own, *scene = begin(&own, 2);
    stall_watch watch = {0};
    int64_t begun_us = scene->facts.now_us;
    assert_int_equal(stall_watch_look(&watch, &scene->facts), STALL_NO_NEWS);
    stall_watch_say(&watch, &scene->facts, scene->text, sizeof scene->text);
    assert_string_equal(scene->text, "0 of 2 servers are connected; tables begin when all are (for 0 s; try: "
                                     "`miniray ps server --scheduler unix:/tmp/s`, 2 of them)");
    scene->facts.now_us = begun_us + STALL_PATIENCE_US;
    assert_int_equal(stall_watch_look(&watch, &scene->facts), STALL_SAY);
    assert_int_equal(stall_watch_look(&watch, &scene->facts), STALL_NO_NEWS);
    scene->facts.now_us += STALL_AGAIN_US;
    assert_int_equal(stall_watch_look(&watch, &scene->facts), STALL_SAY);
    assert_int_equal(watch.since_us, begun_us);
    hear(scene, 0, 1);
    hear(scene, 1, 1);
    assert_int_equal(stall_watch_look(&watch, &scene->facts), STALL_OVER);
    assert_int_equal(stall_watch_look(&watch, &scene->facts), STALL_NO_NEWS);
    stall_watch_say(&watch, &scene->facts, scene->text, sizeof scene->text);
    assert_string_equal(scene->text, "");
    map_of(scene, 2, 1);
    process_table_broken(&scene->table, "unix:/tmp/0", scene->facts.now_us);
    scene->facts.now_us += PROCESS_TABLE_BROKEN_US;
    hear(scene, 1, 1);
    assert_int_equal(stall_watch_look(&watch, &scene->facts), STALL_NO_NEWS);
    assert_int_equal(watch.since_us, scene->facts.now_us - PROCESS_TABLE_BROKEN_US); /* time of the last message */
    scene->facts.now_us += PROCESS_TABLE_SILENT_US;
    assert_int_equal(stall_watch_look(&watch, &scene->facts), STALL_SAY);
    stall_watch_say(&watch, &scene->facts, scene->text, sizeof scene->text);
    assert_non_null(strstr(scene->text, "(for 3 s; try: `miniray ps server --scheduler unix:/tmp/s --id 0`, "
                                        "and likewise for the others)"));
    hear(scene, 1, 1);
    assert_int_equal(stall_watch_look(&watch, &scene->facts), STALL_SAY); /* other servers are missing than before */
    process_table_fini(&scene->table);
}

static void an_unreported_stall_ends_without_a_message(void **state) {
    scene own, *scene = begin(&own, 1);
    stall_watch watch = {0};
    assert_int_equal(stall_watch_look(&watch, &scene->facts), STALL_NO_NEWS);
    hear(scene, 0, 1);
    assert_int_equal(stall_watch_look(&watch, &scene->facts), STALL_NO_NEWS);
    process_table_fini(&scene->table);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(at_the_beginning_servers_are), cmocka_unit_test(a_process_that_may_return_is_awaited),
        cmocka_unit_test(one_copy_is_enough),           cmocka_unit_test(texts_have_bounds),
        cmocka_unit_test(it_is_said_now_and_then),      cmocka_unit_test(an_unreported_stall_ends_without_a_message),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
