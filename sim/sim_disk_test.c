/* sim_disk_test.c — synced data survives a crash; data that was not synced may be kept, lost or torn. */
#include "sim/sim_disk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"

static void *start(sim_node *node, const env *env, void *argument) { return argument; }
static void stop(void *state) {}
static const sim_program program = {.name = "none", .start = start, .stop = stop};

typedef struct world {
    scenario_options options;
    sim *sim;
    sim_node *node;
    disk disk;
} world;

static world *world_open(uint64_t seed) {
    world *world = xcalloc(1, sizeof *world);
    world->options = scenario_options_of(seed, NULL);
    world->sim = sim_create(&world->options);
    world->node = sim_node_add(world->sim, NULL, &program, world);
    sim_node_start(world->node);
    world->disk = sim_node_env(world->node)->disk;
    return world;
}

static void world_close(world *world) {
    scenario_result result;
    sim_finish(world->sim, &result);
    free(world);
}

static void reboot(world *world) {
    if (sim_node_up(world->node)) sim_node_crash(world->node, false);
    sim_node_start(world->node);
}

static span text(const char *text) { return span_of(text, strlen(text)); }

static bool holds(world *world, const char *file, const char *expected) {
    buffer content;
    buffer_init(&content, 1 << 20);
    mr_status status = disk_read_all(world->disk, file, 1 << 20, &content);
    bool same = status == MR_OK && content.size == strlen(expected) &&
                (content.size == 0 || memcmp(content.data, expected, content.size) == 0);
    buffer_fini(&content);
    return same;
}

static void a_write_is_readable_at_once(void **state) {
    world *world = world_open(1);
    disk disk = world->disk;
    assert_int_equal(disk.ops->write(disk.self, "a", 3, text("lo")), MR_OK);
    assert_int_equal(disk.ops->write(disk.self, "a", 0, text("hel")), MR_OK);
    assert_true(holds(world, "a", "hello"));
    assert_int_equal(disk.ops->rename(disk.self, "a", "b"), MR_OK);
    assert_true(holds(world, "b", "hello"));
    uint64_t size;
    assert_int_equal(disk.ops->size(disk.self, "a", &size), MR_NOT_FOUND);
    assert_int_equal(disk.ops->remove(disk.self, "b"), MR_OK);
    assert_int_equal(disk.ops->size(disk.self, "b", &size), MR_NOT_FOUND);
    assert_int_equal(disk.ops->write(disk.self, "../a", 0, text("x")), MR_INVALID);
    world_close(world);
}

static void synced_writes_survive_a_crash(void **state) {
    for (uint64_t seed = 1; seed <= 50; seed++) {
        world *world = world_open(seed);
        assert_int_equal(disk_replace(world->disk, "a", text("lost")), MR_OK);
        assert_int_equal(world->disk.ops->write(world->disk.self, "a", 0, text("kept")), MR_OK);
        assert_int_equal(world->disk.ops->sync_data(world->disk.self, "a"), MR_OK);
        assert_int_equal(disk_replace(world->disk, "b", text("whole")), MR_OK);
        reboot(world);
        assert_true(holds(world, "a", "kept"));
        assert_true(holds(world, "b", "whole"));
        world_close(world);
    }
}

static void a_lost_disk_is_empty_and_works(void **state) {
    world *world = world_open(1);
    assert_int_equal(disk_replace(world->disk, "a", text("kept")), MR_OK);
    assert_int_equal(disk_replace(world->disk, "b", text("kept")), MR_OK);
    sim_disk_lose(sim_node_disk(world->node));
    uint64_t size;
    assert_int_equal(world->disk.ops->size(world->disk.self, "a", &size), MR_NOT_FOUND);
    assert_int_equal(world->disk.ops->size(world->disk.self, "b", &size), MR_NOT_FOUND);
    assert_int_equal(disk_replace(world->disk, "a", text("new")), MR_OK);
    assert_true(holds(world, "a", "new"));
    world_close(world);
}

static void one_bit_rots_and_stays_so(void **state) {
    world *world = world_open(1);
    assert_null(sim_disk_rot(sim_node_disk(world->node)));
    assert_int_equal(disk_replace(world->disk, "a", text("x")), MR_OK);
    assert_string_equal(sim_disk_rot(sim_node_disk(world->node)), "a");
    assert_false(holds(world, "a", "x"));
    reboot(world);
    buffer content;
    buffer_init(&content, 16);
    assert_int_equal(disk_read_all(world->disk, "a", 16, &content), MR_OK);
    assert_int_equal(content.size, 1);
    assert_int_equal(__builtin_popcount(content.data[0] ^ 'x'), 1);
    buffer_fini(&content);
    world_close(world);
}

static void unsynced_writes_may_survive_be_lost_or_torn(void **state) {
    int kept = 0, lost = 0, torn = 0, gone = 0, out_of_order = 0;
    enum { SIZE = 3000 };
    for (uint64_t seed = 1; seed <= 1000; seed++) {
        world *world = world_open(seed);
        disk disk = world->disk;
        uint8_t *data = xmalloc(SIZE), content[2 * SIZE];
        memset(data, 'x', SIZE);
        bool named = seed % 2 == 0;
        if (named) assert_int_equal(disk_replace(disk, "a", (span){0}), MR_OK);
        assert_int_equal(disk.ops->write(disk.self, "a", 0, span_of(data, SIZE)), MR_OK);
        assert_int_equal(disk.ops->write(disk.self, "a", SIZE, span_of(data, SIZE)), MR_OK);
        reboot(world);
        size_t got = 0, filled = 0, second = 0;
        mr_status status = disk.ops->read(disk.self, "a", 0, content, sizeof content, &got);
        for (size_t i = 0; i < got; i++) {
            assert_true(content[i] == 'x' || content[i] == 0);
            filled += content[i] == 'x';
            second += content[i] == 'x' && i >= SIZE;
        }
        assert_true(status == MR_OK || (!named && status == MR_NOT_FOUND));
        gone += status == MR_NOT_FOUND;
        kept += filled == 2 * SIZE;
        lost += status == MR_OK && filled == 0;
        torn += filled > 0 && filled % SIZE != 0;
        out_of_order += second == SIZE && filled == SIZE;
        free(data);
        world_close(world);
    }
    assert_true(kept > 40 && lost > 40 && torn > 200 && gone > 100 && out_of_order > 40);
}

/* Renaming a file that was not synced is the classic mistake: the name is durable, the content is not. */
static void a_rename_without_a_sync_can_lose_the_content(void **state) {
    int old = 0, fresh = 0, neither = 0;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        world *world = world_open(seed);
        disk disk = world->disk;
        assert_int_equal(disk_replace(disk, "a", text("old")), MR_OK);
        assert_int_equal(disk.ops->write(disk.self, "b", 0, text("fresh")), MR_OK);
        assert_int_equal(disk.ops->rename(disk.self, "b", "a"), MR_OK);
        reboot(world);
        old += holds(world, "a", "old");
        fresh += holds(world, "a", "fresh");
        neither += !holds(world, "a", "old") && !holds(world, "a", "fresh");
        world_close(world);
    }
    assert_int_equal(old, 0);
    assert_true(fresh > 10 && neither > 10);
}

static void in_node_replace(void *context, uint64_t round) {
    world *world = context;
    char line[40];
    memset(line, 'a' + (int)round, sizeof line - 1);
    line[sizeof line - 1] = '\0';
    (void)!disk_replace(world->disk, "a", text(line));
}

/* With any failure and a crash at any point: a replaced file is whole, and never older than the last success. */
static void a_replaced_file_is_always_whole(void **state) {
    uint64_t failed = 0;
    for (uint64_t seed = 1; seed <= 400; seed++) {
        world *world = world_open(seed);
        assert_int_equal(disk_replace(world->disk, "a", text("0")), MR_OK);
        sim_disk_conditions bad = sim_disk_calm;
        bad.write_error = bad.sync_error = bad.full = bad.crash = 0.1;
        sim_disk_set(sim_node_disk(world->node), &bad);
        int last = -1;
        for (uint64_t round = 0; round < 8; round++) {
            uint32_t process = sim_node_process(world->node);
            sim_enter(world->node);
            in_node_replace(world, round);
            sim_leave(world->node);
            if (!sim_node_up(world->node)) sim_node_start(world->node);
            buffer content;
            buffer_init(&content, 100);
            assert_int_equal(disk_read_all(world->disk, "a", 100, &content), MR_OK);
            assert_true(content.size == 1 || content.size == 39);
            int now = content.size == 1 ? -1 : content.data[0] - 'a';
            for (size_t i = 1; i < content.size; i++) assert_int_equal(content.data[i], content.data[0]);
            assert_true(now >= last && now <= (int)round);
            failed += now != (int)round || process != sim_node_process(world->node);
            last = now;
            buffer_fini(&content);
        }
        world_close(world);
    }
    assert_in_range(failed, 400, 2800);
}

/* After a failed sync the process sees bytes that are not on the medium, and another sync does not write them. */
static void a_failed_sync_cannot_be_repeated(void **state) {
    int lost = 0;
    for (uint64_t seed = 1; seed <= 50; seed++) {
        world *world = world_open(seed);
        disk disk = world->disk;
        assert_int_equal(disk_replace(disk, "a", text("old")), MR_OK);
        sim_disk_conditions bad = sim_disk_calm;
        bad.sync_error = 1;
        sim_disk_set(sim_node_disk(world->node), &bad);
        assert_int_equal(disk.ops->write(disk.self, "a", 0, text("new")), MR_OK);
        assert_int_equal(disk.ops->sync_data(disk.self, "a"), MR_IO);
        assert_true(holds(world, "a", "new"));
        sim_disk_set(sim_node_disk(world->node), &sim_disk_calm);
        assert_int_equal(disk.ops->sync_data(disk.self, "a"), MR_OK);
        reboot(world);
        lost += !holds(world, "a", "new");
        world_close(world);
    }
    assert_in_range(lost, 10, 45);
}

static void errors_come_as_asked_for(void **state) {
    world *world = world_open(1);
    disk disk = world->disk;
    assert_int_equal(disk_replace(disk, "a", text("x")), MR_OK);
    sim_disk_conditions bad = sim_disk_calm;
    bad.full = 1;
    sim_disk_set(sim_node_disk(world->node), &bad);
    assert_int_equal(disk.ops->write(disk.self, "b", 0, text("x")), MR_NOMEM);
    bad = sim_disk_calm;
    bad.read_error = 1;
    sim_disk_set(sim_node_disk(world->node), &bad);
    char byte;
    size_t got;
    assert_int_equal(disk.ops->read(disk.self, "a", 0, &byte, 1, &got), MR_IO);
    sim_node_crash(world->node, false);
    assert_int_equal(disk.ops->read(disk.self, "a", 0, &byte, 1, &got), MR_CLOSED);
    world_close(world);
}

static void a_sync_takes_the_nodes_time(void **state) {
    world *world = world_open(1);
    int64_t before_us = sim_node_now_us(world->node);
    assert_int_equal(disk_replace(world->disk, "a", text("x")), MR_OK);
    assert_in_range(sim_node_now_us(world->node) - before_us, 2 * sim_disk_calm.delay_min_us,
                    3 * sim_disk_calm.delay_max_us);
    world_close(world);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_write_is_readable_at_once),
        cmocka_unit_test(synced_writes_survive_a_crash),
        cmocka_unit_test(a_lost_disk_is_empty_and_works),
        cmocka_unit_test(one_bit_rots_and_stays_so),
        cmocka_unit_test(unsynced_writes_may_survive_be_lost_or_torn),
        cmocka_unit_test(a_rename_without_a_sync_can_lose_the_content),
        cmocka_unit_test(a_replaced_file_is_always_whole),
        cmocka_unit_test(a_failed_sync_cannot_be_repeated),
        cmocka_unit_test(errors_come_as_asked_for),
        cmocka_unit_test(a_sync_takes_the_nodes_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
