/* sqlite_test.c — what was committed is there, whenever the process ends; what was not is not; nobody else gets in. */
#include "cluster/sqlite.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/failpoint.h"
#include "cluster/keeper.h"
#include "tests/support/child.h"
#include "tests/support/temp.h"

typedef struct world {
    char folder[TEMP_FOLDER_MAX], path[TEMP_FOLDER_MAX + 16];
    rng rng;
    sqlite *sqlite;
    keeper *keeper;
} world;

static span text(const char *text) { return span_of(text, strlen(text)); }

static mr_status open_keeper(world *world) {
    MR_TRY(sqlite_open(world->path, &world->sqlite));
    return keeper_open(sqlite_archive(world->sqlite), &world->rng, 0, &world->keeper);
}

static void close_keeper(world *world) {
    if (world->keeper != NULL) keeper_close(world->keeper);
    if (world->sqlite != NULL) sqlite_close(world->sqlite);
    world->keeper = NULL;
    world->sqlite = NULL;
}

static int setup(void **state) {
    world *world = xcalloc(1, sizeof *world);
    if (!temp_folder(world->folder)) return -1;
    snprintf(world->path, sizeof world->path, "%s/keeper", world->folder);
    rng_init(&world->rng, 3);
    *state = world;
    return 0;
}

static int teardown(void **state) {
    world *world = *state;
    close_keeper(world);
    (void)unlink(world->path);
    int left = rmdir(world->folder);
    free(world);
    return left;
}

static uint64_t version_of(world *world, const char *key, span *value) {
    uint64_t version;
    keeper_get(world->keeper, text(key), &version, value);
    return version;
}

static int swap_and_die(void *argument) {
    world *world = argument;
    CHILD_CHECK(open_keeper(world) == MR_OK);
    span value;
    uint64_t begin = version_of(world, "a", &value);
    CHILD_CHECK(keeper_swap(world->keeper, text("a"), begin, text("one"), 0) == MR_OK);
    CHILD_CHECK(failpoint_arm("sqlite.committed=kill") == MR_OK);
    return keeper_swap(world->keeper, text("a"), begin + 1, text("two"), 0) == MR_OK ? 0 : 1; /* nobody is told */
}

/* The keeper dies between the commit and the answer: it was decided, and nobody can decide that version again. */
static void a_crash_between_commit_and_reply(void **state) {
    world *world = *state;
    if (failpoint_count() == 0) skip();
    assert_int_equal(child_run(swap_and_die, world, 60000), -SIGKILL);
    assert_int_equal(open_keeper(world), MR_OK);
    span value;
    uint64_t version = version_of(world, "a", &value);
    assert_int_equal(coordinator_count(version), 2);
    assert_memory_equal(value.data, "two", 3);
    assert_int_equal(keeper_swap(world->keeper, text("a"), version - 1, text("other"), 0), MR_STALE);
    assert_int_equal(keeper_swap(world->keeper, text("a"), version, text("three"), 0), MR_OK);
}

static void a_commit_that_fails_decides_nothing(void **state) {
    world *world = *state;
    if (failpoint_count() == 0) skip();
    assert_int_equal(open_keeper(world), MR_OK);
    span value;
    uint64_t begin = version_of(world, "a", &value);
    assert_int_equal(failpoint_arm("sqlite.commit=error"), MR_OK);
    assert_int_equal(keeper_swap(world->keeper, text("a"), begin, text("unlucky"), 0), MR_IO);
    failpoint_disarm_all();
    assert_int_equal(coordinator_count(version_of(world, "a", &value)), 0);
    assert_int_equal(keeper_swap(world->keeper, text("a"), begin, text("lucky"), 0), MR_OK);
    close_keeper(world);
    assert_int_equal(open_keeper(world), MR_OK);
    assert_true(version_of(world, "a", &value) == begin + 1);
    assert_memory_equal(value.data, "lucky", 5);
}

static void values_of_any_bytes_come_back(void **state) {
    world *world = *state;
    assert_int_equal(open_keeper(world), MR_OK);
    uint8_t *large = xmalloc(KEEPER_VALUE_MAX);
    rng_fill(&world->rng, large, KEEPER_VALUE_MAX);
    span value, all = span_of(large, KEEPER_VALUE_MAX);
    uint64_t begin = version_of(world, "a", &value);
    assert_int_equal(keeper_swap(world->keeper, span_of("a\0b", 3), begin, all, 0), MR_OK);
    assert_int_equal(keeper_swap(world->keeper, text("empty"), begin, (span){0}, 0), MR_OK);
    close_keeper(world);
    assert_int_equal(open_keeper(world), MR_OK);
    uint64_t version;
    keeper_get(world->keeper, span_of("a\0b", 3), &version, &value);
    assert_true(version == begin + 1 && value.size == KEEPER_VALUE_MAX);
    assert_memory_equal(value.data, large, KEEPER_VALUE_MAX);
    assert_true(version_of(world, "empty", &value) == begin + 1 && value.size == 0);
    assert_true(version_of(world, "a", &value) == begin);
    free(large);
}

static void a_new_generation_takes_the_place_of_all(void **state) {
    world *world = *state;
    assert_int_equal(open_keeper(world), MR_OK);
    span value;
    uint64_t begin = version_of(world, "a", &value);
    assert_int_equal(keeper_swap(world->keeper, text("a"), begin, text("one"), 0), MR_OK);
    assert_int_equal(keeper_heed(world->keeper, text("a"), begin + 9), MR_OK);
    uint64_t next = version_of(world, "a", &value);
    assert_true(coordinator_generation(next) > coordinator_generation(begin) && coordinator_count(next) == 0);
    close_keeper(world);
    assert_int_equal(open_keeper(world), MR_OK);
    assert_true(version_of(world, "a", &value) == next);
}

static int open_again(void *argument) {
    sqlite *second;
    return sqlite_open(argument, &second) == MR_BUSY ? 0 : 1;
}

static void a_file_has_one_keeper(void **state) {
    world *world = *state;
    assert_int_equal(open_keeper(world), MR_OK);
    assert_int_equal(child_run(open_again, world->path, 60000), 0);
}

static void what_is_no_database_is_refused(void **state) {
    world *world = *state;
    FILE *file = fopen(world->path, "w");
    assert_non_null(file);
    for (int i = 0; i < 1000; i++) fputs("this is no database\n", file);
    fclose(file);
    assert_int_equal(sqlite_open(world->path, &world->sqlite), MR_CORRUPT);
}

#define IN_WORLD(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_WORLD(a_crash_between_commit_and_reply),
        IN_WORLD(a_commit_that_fails_decides_nothing),
        IN_WORLD(values_of_any_bytes_come_back),
        IN_WORLD(a_new_generation_takes_the_place_of_all),
        IN_WORLD(a_file_has_one_keeper),
        IN_WORLD(what_is_no_database_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
