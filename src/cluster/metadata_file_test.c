/* metadata_file_test.c — saved values survive the end of the process at any time; a file of another format is
 * rejected. */
#include "cluster/metadata_file.h"

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
#include "base/format.h"
#include "cluster/metadata_db.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_child.h"

typedef struct world {
    char folder[TEMP_DIR_FOLDER_MAX];
    rng rng;
    metadata_file file;
    metadata_db *db;
} world;

static span text(const char *text) { return span_of(text, strlen(text)); }

static mr_status open_metadata(world *world) {
    world->file = (metadata_file){0};
    MR_TRY(disk_open(world->folder, &world->file.disk));
    return metadata_db_open(metadata_file_storage(&world->file), &world->rng, 0, &world->db);
}

static void close_metadata(world *world) {
    if (world->db != NULL) metadata_db_close(world->db);
    if (world->file.disk.ops != NULL) disk_close(world->file.disk);
    world->db = NULL;
    world->file.disk.ops = NULL;
}

static int setup(void **state) {
    world *world = xcalloc(1, sizeof *world);
    if (!temp_dir_folder(world->folder)) return -1;
    rng_init(&world->rng, 3);
    *state = world;
    return 0;
}

static int teardown(void **state) {
    world *world = *state;
    disk disk;
    close_metadata(world);
    if (disk_open(world->folder, &disk) != MR_OK) return -1;
    (void)disk.ops->remove(disk.self, METADATA_FILE_FILE);
    disk_close(disk);
    int left = rmdir(world->folder);
    free(world);
    return left;
}

static uint64_t version_of(world *world, const char *key, span *value) {
    uint64_t version;
    metadata_db_get(world->db, text(key), &version, value);
    return version;
}

static int swap_and_die(void *argument) {
    world *world = argument;
    TEST_CHILD_CHECK(open_metadata(world) == MR_OK);
    span value;
    uint64_t begin = version_of(world, "a", &value);
    TEST_CHILD_CHECK(metadata_db_swap(world->db, text("a"), begin, text("one"), 0) == MR_OK);
    TEST_CHILD_CHECK(failpoint_arm("image.saved=kill") == MR_OK);
    return metadata_db_swap(world->db, text("a"), begin + 1, text("two"), 0) == MR_OK ? 0 : 1; /* no answer is sent */
}

/* The process dies between the save and the answer: the swap is decided, and that version cannot be decided again. */
static void a_crash_between_save_and_reply(void **state) {
    world *world = *state;
    if (failpoint_count() == 0) skip();
    assert_int_equal(test_child_run(swap_and_die, world, 60000), -SIGKILL);
    assert_int_equal(open_metadata(world), MR_OK);
    span value;
    uint64_t version = version_of(world, "a", &value);
    assert_int_equal(metadata_store_count(version), 2);
    assert_memory_equal(value.data, "two", 3);
    assert_int_equal(metadata_db_swap(world->db, text("a"), version - 1, text("other"), 0), MR_STALE);
    assert_int_equal(metadata_db_swap(world->db, text("a"), version, text("three"), 0), MR_OK);
}

static void a_sync_that_fails_decides_nothing(void **state) {
    world *world = *state;
    if (failpoint_count() == 0) skip();
    assert_int_equal(open_metadata(world), MR_OK);
    span value;
    uint64_t begin = version_of(world, "a", &value);
    assert_int_equal(failpoint_arm("image.sync=error"), MR_OK);
    assert_int_equal(metadata_db_swap(world->db, text("a"), begin, text("unlucky"), 0), MR_IO);
    failpoint_disarm_all();
    assert_int_equal(metadata_store_count(version_of(world, "a", &value)), 0);
    assert_int_equal(metadata_db_swap(world->db, text("a"), begin, text("lucky"), 0), MR_OK);
    close_metadata(world);
    assert_int_equal(open_metadata(world), MR_OK);
    assert_true(version_of(world, "a", &value) == begin + 1);
    assert_memory_equal(value.data, "lucky", 5);
}

static void values_of_any_bytes_come_back(void **state) {
    world *world = *state;
    assert_int_equal(open_metadata(world), MR_OK);
    uint8_t *large = xmalloc(METADATA_DB_VALUE_MAX);
    rng_fill(&world->rng, large, METADATA_DB_VALUE_MAX);
    span value, all = span_of(large, METADATA_DB_VALUE_MAX);
    uint64_t begin = version_of(world, "a", &value);
    assert_int_equal(metadata_db_swap(world->db, span_of("a\0b", 3), begin, all, 0), MR_OK);
    assert_int_equal(metadata_db_swap(world->db, text("empty"), begin, (span){0}, 0), MR_OK);
    close_metadata(world);
    assert_int_equal(open_metadata(world), MR_OK);
    uint64_t version;
    metadata_db_get(world->db, span_of("a\0b", 3), &version, &value);
    assert_true(version == begin + 1 && value.size == METADATA_DB_VALUE_MAX);
    assert_memory_equal(value.data, large, METADATA_DB_VALUE_MAX);
    assert_true(version_of(world, "empty", &value) == begin + 1 && value.size == 0);
    assert_true(version_of(world, "a", &value) == begin);
    free(large);
}

static void a_new_generation_takes_the_place_of_all(void **state) {
    world *world = *state;
    assert_int_equal(open_metadata(world), MR_OK);
    span value;
    uint64_t begin = version_of(world, "a", &value);
    assert_int_equal(metadata_db_swap(world->db, text("a"), begin, text("one"), 0), MR_OK);
    assert_int_equal(metadata_db_heed(world->db, text("a"), begin + 9), MR_OK);
    uint64_t next = version_of(world, "a", &value);
    assert_true(metadata_store_generation(next) > metadata_store_generation(begin) && metadata_store_count(next) == 0);
    close_metadata(world);
    assert_int_equal(open_metadata(world), MR_OK);
    assert_true(version_of(world, "a", &value) == next);
}

static int write_and_die(void *argument) {
    world *world = argument;
    span value;
    TEST_CHILD_CHECK(open_metadata(world) == MR_OK);
    uint64_t begin = version_of(world, "a", &value);
    TEST_CHILD_CHECK(metadata_db_swap(world->db, text("a"), begin, text("one"), 0) == MR_OK);
    TEST_CHILD_CHECK(failpoint_arm("image.written=kill") == MR_OK);
    return metadata_db_swap(world->db, text("a"), begin + 1, text("two"), 0) == MR_OK ? 0 : 1;
}

/* The copy is complete in the page cache, but was not synced: a load makes it durable before it is used. */
static void a_copy_that_was_not_synced_is_written_anew(void **state) {
    world *world = *state;
    if (failpoint_count() == 0) skip();
    assert_int_equal(test_child_run(write_and_die, world, 60000), -SIGKILL);
    assert_int_equal(failpoint_arm("image.sync=error"), MR_OK); /* a save in place would fail */
    assert_int_equal(open_metadata(world), MR_OK);
    failpoint_disarm_all();
    span value;
    assert_int_equal(metadata_store_count(version_of(world, "a", &value)), 2);
    assert_memory_equal(value.data, "two", 3);
}

/* The file is written anew when values outgrow its room, and in place otherwise. */
static void a_file_grows_with_its_content(void **state) {
    world *world = *state;
    assert_int_equal(open_metadata(world), MR_OK);
    uint8_t *bytes = xcalloc(1, METADATA_DB_VALUE_MAX);
    span value;
    uint64_t version = version_of(world, "a", &value);
    size_t rooms = 0, room = 0;
    for (size_t size = 1; size <= METADATA_DB_VALUE_MAX; size *= 2) {
        bytes[0] = (uint8_t)size;
        assert_int_equal(metadata_db_swap(world->db, text("a"), version++, span_of(bytes, size), 0), MR_OK);
        rooms += world->file.room != room;
        room = world->file.room;
    }
    assert_true(rooms > 2 && rooms < 7);
    assert_int_equal(metadata_db_swap(world->db, text("a"), version++, text("small"), 0), MR_OK);
    assert_true(world->file.room == room);
    close_metadata(world);
    assert_int_equal(open_metadata(world), MR_OK);
    assert_true(version_of(world, "a", &value) == version && value.size == 5);
    free(bytes);
}

/* The first 16 bytes have their own checksum, in every format from 4 on. */
static void another_format_is_rejected(void **state) {
    world *world = *state;
    assert_int_equal(open_metadata(world), MR_OK);
    disk disk = world->file.disk;
    uint8_t head[16];
    size_t got;
    assert_int_equal(disk.ops->read(disk.self, METADATA_FILE_FILE, 0, head, sizeof head, &got), MR_OK);
    head[3] = '9';
    writer sum = writer_of(head + 8, 8);
    writer_u64(&sum, format_sum(span_of(head, 8)));
    assert_int_equal(disk.ops->write(disk.self, METADATA_FILE_FILE, 0, span_of(head, sizeof head)), MR_OK);
    close_metadata(world);
    assert_int_equal(open_metadata(world), MR_CORRUPT);
    assert_non_null(strstr(mr_last_error(), "has format 9; this version reads format 4: use the Miniray release"));
}

#define IN_WORLD(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_WORLD(a_crash_between_save_and_reply),
        IN_WORLD(a_sync_that_fails_decides_nothing),
        IN_WORLD(values_of_any_bytes_come_back),
        IN_WORLD(a_new_generation_takes_the_place_of_all),
        IN_WORLD(a_copy_that_was_not_synced_is_written_anew),
        IN_WORLD(a_file_grows_with_its_content),
        IN_WORLD(another_format_is_rejected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
