/* disk_test.c — the directory backend: reads return written data, names are checked, files are replaced atomically. */
#include "net/disk.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/temp_dir.h"
#include "tests/support/test_child.h"

typedef struct place {
    char root[TEMP_DIR_FOLDER_MAX], folder[TEMP_DIR_FOLDER_MAX + 8];
    disk disk;
} place;

static int open_place(void **state) {
    place *place = calloc(1, sizeof *place);
    if (place == NULL) return -1;
    if (!temp_dir_folder(place->root)) return -1;
    snprintf(place->folder, sizeof place->folder, "%s/files", place->root);
    *state = place;
    return disk_open(place->folder, &place->disk) == MR_OK ? 0 : -1;
}

static int close_place(void **state) {
    place *place = *state;
    static const char *const files[] = {"a", "b", "log", "a.new", "lock"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) (void)place->disk.ops->remove(place->disk.self, files[i]);
    disk_close(place->disk);
    int left = rmdir(place->folder) | rmdir(place->root);
    free(place);
    return left; /* an unexpected file makes rmdir fail */
}

static span text(const char *text) { return span_of(text, strlen(text)); }

static void assert_content(disk disk, const char *file, const char *expected) {
    buffer content;
    buffer_init(&content, 1000);
    assert_int_equal(disk_read_all(disk, file, 1000, &content), MR_OK);
    assert_int_equal(content.size, strlen(expected));
    assert_memory_equal(content.data, expected, content.size);
    buffer_fini(&content);
}

static void written_bytes_are_read_back(void **state) {
    disk disk = ((place *)*state)->disk;
    assert_int_equal(disk.ops->write(disk.self, "a", 3, text("lo")), MR_OK);
    assert_int_equal(disk.ops->write(disk.self, "a", 0, text("hel")), MR_OK);
    assert_int_equal(disk.ops->sync_data(disk.self, "a"), MR_OK);
    assert_content(disk, "a", "hello");

    char part[10];
    size_t got = 99;
    assert_int_equal(disk.ops->read(disk.self, "a", 3, part, sizeof part, &got), MR_OK);
    assert_int_equal(got, 2);
    assert_memory_equal(part, "lo", 2);
    assert_int_equal(disk.ops->read(disk.self, "a", 50, part, sizeof part, &got), MR_OK);
    assert_int_equal(got, 0);
}

static void a_gap_reads_as_zeros(void **state) {
    disk disk = ((place *)*state)->disk;
    assert_int_equal(disk.ops->write(disk.self, "a", 4, text("x")), MR_OK);
    char content[5] = "junk";
    size_t got = 0;
    assert_int_equal(disk.ops->read(disk.self, "a", 0, content, 5, &got), MR_OK);
    assert_int_equal(got, 5);
    assert_memory_equal(content, "\0\0\0\0x", 5);
}

static void missing_files_are_said_to_be(void **state) {
    disk disk = ((place *)*state)->disk;
    uint64_t size;
    size_t got;
    char byte;
    assert_int_equal(disk.ops->size(disk.self, "a", &size), MR_NOT_FOUND);
    assert_int_equal(disk.ops->read(disk.self, "a", 0, &byte, 1, &got), MR_NOT_FOUND);
    assert_int_equal(disk.ops->sync_data(disk.self, "a"), MR_NOT_FOUND);
    assert_int_equal(disk.ops->rename(disk.self, "a", "b"), MR_NOT_FOUND);
    assert_int_equal(disk.ops->remove(disk.self, "a"), MR_NOT_FOUND);
}

static void files_are_replaced_whole(void **state) {
    disk disk = ((place *)*state)->disk;
    assert_int_equal(disk.ops->write(disk.self, "a.new", 0, text("a long rest of an earlier failure")), MR_OK);
    assert_int_equal(disk_replace(disk, "a", text("first")), MR_OK);
    assert_content(disk, "a", "first");
    assert_int_equal(disk_replace(disk, "a", text("2")), MR_OK);
    assert_content(disk, "a", "2");
    uint64_t size;
    assert_int_equal(disk.ops->size(disk.self, "a.new", &size), MR_NOT_FOUND);
}

static void names_stay_in_the_folder(void **state) {
    disk disk = ((place *)*state)->disk;
    static const char *const bad[] = {
        "",    ".",       "..",         "../a",
        "a/b", ".hidden", "with space", "12345678901234567890123456789012345678901234567890123456789012345"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(disk.ops->write(disk.self, bad[i], 0, text("x")), MR_INVALID);
        assert_int_equal(disk.ops->rename(disk.self, bad[i], "a"), MR_INVALID);
        assert_int_equal(disk.ops->remove(disk.self, bad[i]), MR_INVALID);
    }
    char path[120];
    snprintf(path, sizeof path, "%s/b", ((place *)*state)->folder);
    assert_int_equal(symlink("/etc/hostname", path), 0);
    char byte;
    size_t got;
    assert_int_equal(disk.ops->read(disk.self, "b", 0, &byte, 1, &got), MR_DENIED);
    assert_int_equal(disk.ops->write(disk.self, "b", 0, text("x")), MR_DENIED);
}

/* In a directory of all users, a file that another user made first is neither read nor written. */
static void files_of_other_users_are_not_used(void **state) {
    const place *place = *state;
    disk disk = place->disk;
    char path[120], byte;
    size_t got;
    if (geteuid() != 0) skip(); /* cannot create a file of another user */
    snprintf(path, sizeof path, "%s/a", place->folder);
    assert_int_equal(disk.ops->write(disk.self, "a", 0, text("x")), MR_OK);
    assert_int_equal(chown(path, 12345, 12345), 0);
    assert_int_equal(disk.ops->read(disk.self, "a", 0, &byte, 1, &got), MR_DENIED);
    assert_non_null(strstr(mr_last_error(), "'a' belongs to user 12345"));
    assert_int_equal(disk.ops->write(disk.self, "a", 0, text("y")), MR_DENIED);
    assert_int_equal(disk_lock(disk, "a"), MR_DENIED);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(disk.ops->read(disk.self, "a", 0, &byte, 1, &got), MR_DENIED); /* and does not wait */
    assert_int_equal(chown(place->folder, 12345, 12345), 0); /* all files belong to the owner, as on a network */
    assert_int_equal(disk_open(place->folder, &disk), MR_OK);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(disk.ops->write(disk.self, "a", 0, text("x")), MR_OK);
    assert_int_equal(chown(path, 12345, 12345), 0);
    assert_int_equal(disk.ops->read(disk.self, "a", 0, &byte, 1, &got), MR_OK);
    disk_close(disk);
}

static void a_file_over_the_limit_is_not_read(void **state) {
    disk disk = ((place *)*state)->disk;
    assert_int_equal(disk.ops->write(disk.self, "a", 0, text("12345")), MR_OK);
    buffer content;
    buffer_init(&content, 100);
    assert_int_equal(disk_read_all(disk, "a", 4, &content), MR_TOO_LARGE);
    assert_int_equal(disk_read_all(disk, "a", 5, &content), MR_OK);
    buffer_fini(&content);
}

static void a_folder_that_cannot_be_is_refused(void **state) {
    disk disk;
    assert_int_equal(disk_open("/dev/null/folder", &disk), MR_IO);
}

/* ---- Locks. */

static int lock_in_vain(void *argument) {
    const place *place = argument;
    disk disk;
    char holder[40];
    snprintf(holder, sizeof holder, "'lock' is locked by process %d", (int)getppid());
    TEST_CHILD_CHECK(disk_open(place->folder, &disk) == MR_OK);
    TEST_CHILD_CHECK(disk_lock(disk, "lock") == MR_BUSY);
    TEST_CHILD_CHECK(strcmp(mr_last_error(), holder) == 0);
    disk_close(disk);
    return 0;
}

static int lock_and_die(void *argument) {
    const place *place = argument;
    disk disk;
    TEST_CHILD_CHECK(disk_open(place->folder, &disk) == MR_OK);
    TEST_CHILD_CHECK(disk_lock(disk, "lock") == MR_OK);
    return raise(SIGKILL);
}

static void a_folder_has_one_lock(void **state) {
    place *place = *state;
    disk second;
    assert_int_equal(test_child_run(lock_and_die, place, 60000), -SIGKILL);
    assert_int_equal(disk_lock(place->disk, "lock"), MR_OK); /* the same lock again succeeds at once */
    assert_int_equal(test_child_run(lock_in_vain, place, 60000), 0);
    assert_int_equal(disk_open(place->folder, &second), MR_OK);
    assert_int_equal(disk_lock(second, "lock"), MR_BUSY);
    disk_close(place->disk);
    assert_int_equal(disk_lock(second, "lock"), MR_OK);
    place->disk = second;
}

/* A program that cleans the folder removes the lock's file: the next process must not lock a new one. */
static void a_removed_lock_file_frees_nothing(void **state) {
    place *place = *state;
    disk second;
    assert_int_equal(disk_open(place->folder, &second), MR_OK);
    assert_int_equal(disk_lock(place->disk, "lock"), MR_OK);
    assert_int_equal(place->disk.ops->remove(place->disk.self, "lock"), MR_OK);
    assert_int_equal(disk_lock(second, "lock"), MR_BUSY);
    assert_non_null(strstr(mr_last_error(), "the directory is locked by another process"));
    disk_close(place->disk);
    assert_int_equal(disk_lock(second, "lock"), MR_OK);
    place->disk = second;
}

/* ---- Files in pieces. */

typedef struct made {     /* a file that is put in parts of different sizes */
    size_t size, changed; /* changed: 1 + the place of a byte that differs; 0: none */
    bool fails;           /* at its end */
} made;

static mr_status put_made(void *context, const byte_sink *out) {
    const made *made = context;
    for (size_t at = 0, part = 1; at < made->size; part = part * 7 % 300007 + 1) {
        static uint8_t bytes[300008];
        size_t size = made->size - at < part ? made->size - at : part;
        for (size_t i = 0; i < size; i++)
            bytes[i] = (uint8_t)((at + i) * 31 + (at + i) / 4099 + (at + i + 1 == made->changed));
        MR_TRY(byte_sink_put(out, span_of(bytes, size)));
        at += size;
    }
    return made->fails ? MR_NOMEM : MR_OK;
}

static void files_of_any_size_are_put_and_compared(void **state) {
    static const size_t sizes[] = {0, 1, DISK_PIECE - 1, DISK_PIECE, DISK_PIECE + 1, 3 * DISK_PIECE + 7};
    const place *place = *state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        made made = {.size = sizes[i]}, longer = {.size = sizes[i] + 1}, broken = {.size = sizes[i] / 2, .fails = true};
        uint64_t size;
        assert_int_equal(disk_replace_by(place->disk, "file", true, put_made, &longer), MR_OK);
        assert_int_equal(disk_replace_by(place->disk, "file", true, put_made, &made), MR_OK);
        assert_int_equal(place->disk.ops->size(place->disk.self, "file", &size), MR_OK);
        assert_int_equal(size, sizes[i]);
        assert_int_equal(disk_replace_by(place->disk, "file", true, put_made, &broken),
                         MR_NOMEM); /* the old one stays */
        assert_int_equal(disk_compare(place->disk, "file", size, put_made, &made), MR_OK);
        assert_int_equal(disk_compare(place->disk, "file", size + 1, put_made, &longer), MR_STALE);
        assert_int_equal(disk_compare(place->disk, "file", size, put_made, &longer), MR_STALE);
        longer.size = sizes[i] / 2;
        if (size != 0) assert_int_equal(disk_compare(place->disk, "file", size, put_made, &longer), MR_STALE);
        for (made.changed = 1; made.changed <= size; made.changed += size / 3 + 1)
            assert_int_equal(disk_compare(place->disk, "file", size, put_made, &made), MR_STALE);
    }
    assert_int_equal(disk_compare(place->disk, "none", 0, put_made, &(made){0}), MR_NOT_FOUND);
    assert_int_equal(place->disk.ops->remove(place->disk.self, "file"), MR_OK);
    assert_int_equal(place->disk.ops->remove(place->disk.self, "file.new"), MR_OK);
}

#define PLACED(test) cmocka_unit_test_setup_teardown(test, open_place, close_place)

int main(void) {
    const struct CMUnitTest tests[] = {
        PLACED(written_bytes_are_read_back),
        PLACED(a_gap_reads_as_zeros),
        PLACED(missing_files_are_said_to_be),
        PLACED(files_are_replaced_whole),
        PLACED(names_stay_in_the_folder),
        PLACED(files_of_other_users_are_not_used),
        PLACED(a_file_over_the_limit_is_not_read),
        PLACED(a_folder_has_one_lock),
        PLACED(a_removed_lock_file_frees_nothing),
        PLACED(files_of_any_size_are_put_and_compared),
        cmocka_unit_test(a_folder_that_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
