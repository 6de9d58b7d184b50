/* file_lock_test.c — locks of a file, of each kind: exclusive, released, and taken over after a kill. */
#include "net/file_lock.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/temp_dir.h"
#include "tests/support/test_child.h"

typedef struct place {
    char path[TEMP_DIR_FOLDER_MAX];
    int folder;
    file_lock_kind kind;
} place;

static int open_place(void **state) {
    static place place;
    if (!temp_dir_folder(place.path)) return -1;
    place.folder = open(place.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    *state = &place;
    return place.folder < 0;
}

static int close_place(void **state) {
    place *place = *state;
    (void)!unlinkat(place->folder, "lock", 0);
    (void)!unlinkat(place->folder, "lock.owner", 0);
    close(place->folder);
    return temp_dir_remove_empty(place->path) ? 0 : -1;
}

static mr_status take(const place *place, file_lock *out) {
    return file_lock_take(place->folder, "lock", place->kind, out);
}

static int take_in_vain(void *argument) {
    const place *place = argument;
    file_lock lock;
    char holder[60];
    snprintf(holder, sizeof holder, "'lock' is locked by process %d", (int)getppid());
    TEST_CHILD_CHECK(take(place, &lock) == MR_BUSY);
    TEST_CHILD_CHECK(strncmp(mr_last_error(), holder, strlen(holder)) == 0);
    return 0;
}

static int take_and_die(void *argument) {
    file_lock lock;
    TEST_CHILD_CHECK(take(argument, &lock) == MR_OK);
    return raise(SIGKILL);
}

static void each_kind_is_exclusive(void **state) {
    place *place = *state;
    for (place->kind = FILE_LOCK_FLOCK; place->kind <= FILE_LOCK_OWNER; place->kind++) {
        file_lock lock, second = {.fd = -1};
        assert_int_equal(test_child_run(take_and_die, place, 60000), -SIGKILL);
        assert_int_equal(take(place, &lock), MR_OK); /* the killed process does not have the lock any more */
        assert_int_equal(lock.owner[0] != '\0', place->kind == FILE_LOCK_OWNER);
        assert_int_equal(test_child_run(take_in_vain, place, 60000), 0);
        assert_int_equal(take(place, &second), MR_BUSY);
        file_lock_release(&second);
        file_lock_release(&lock);
        assert_int_equal(take(place, &lock), MR_OK);
        file_lock_release(&lock);
    }
}

static void write_owner(const place *place, const char *text) {
    int fd = openat(place->folder, "lock.owner", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

/* The owner file of this process with a field replaced. */
static void write_changed(const place *place, int changed, const char *value) {
    char text[400] = "", out[400] = "", *rest;
    file_lock lock;
    assert_int_equal(take(place, &lock), MR_OK);
    int fd = openat(place->folder, "lock.owner", O_RDONLY | O_CLOEXEC), field = 0;
    assert_true(read(fd, text, sizeof text - 1) > 0);
    close(fd);
    file_lock_release(&lock);
    for (char *word = strtok_r(text, " \n", &rest); word != NULL; word = strtok_r(NULL, " \n", &rest), field++)
        snprintf(out + strlen(out), sizeof out - strlen(out), "%s ", field == changed ? value : word);
    assert_int_equal(field, 5);
    write_owner(place, out);
}

/* Only the machine and the pid namespace of the owner can tell that it has ended. */
static void an_owner_elsewhere_is_believed(void **state) {
    enum { HOST, BOOT, NAMESPACE, PROCESS, START };
    place *place = *state;
    file_lock lock;
    place->kind = FILE_LOCK_OWNER;
    static const struct {
        int field;
        const char *value;
        mr_status status;
    } cases[] = {{START, "1", MR_OK},       {PROCESS, "4194305", MR_OK}, {BOOT, "another", MR_BUSY},
                 {NAMESPACE, "7", MR_BUSY}, {HOST, "another", MR_BUSY},  {START, "0", MR_BUSY}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_changed(place, cases[i].field, cases[i].value);
        assert_int_equal(take(place, &lock), cases[i].status);
        if (cases[i].status == MR_OK) file_lock_release(&lock);
        assert_true(cases[i].status == MR_OK || strstr(mr_last_error(), "remove 'lock.owner'") != NULL);
        (void)!unlinkat(place->folder, "lock.owner", 0);
    }
    write_owner(place, ""); /* of a process that is about to write it */
    assert_int_equal(take(place, &lock), MR_BUSY);
    assert_non_null(strstr(mr_last_error(), "remove 'lock.owner'"));
}

/* A link at the name of the owner file is not followed. */
static void a_planted_link_is_not_followed(void **state) {
    place *place = *state;
    file_lock lock;
    place->kind = FILE_LOCK_OWNER;
    assert_int_equal(symlinkat("elsewhere", place->folder, "lock.owner"), 0);
    assert_int_equal(take(place, &lock), MR_BUSY);
    assert_int_equal(faccessat(place->folder, "elsewhere", F_OK, 0), -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_kind_is_exclusive, open_place, close_place),
        cmocka_unit_test_setup_teardown(an_owner_elsewhere_is_believed, open_place, close_place),
        cmocka_unit_test_setup_teardown(a_planted_link_is_not_followed, open_place, close_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
