/* supervisor_test.c — the end of a supervisor is noticed with its cause, before and after it; what only looks like one
 * is not believed. */
#include "net/socket/supervisor.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "tests/support/temp_dir.h"

enum { PATIENCE_US = 10 * 1000 * 1000 };

typedef struct place {
    event_loop *loop;
    char folder[TEMP_DIR_FOLDER_MAX], address[TEMP_DIR_FOLDER_MAX + 8], file[TEMP_DIR_FOLDER_MAX + 16];
} place;

static int open_place(void **state) {
    place *place = calloc(1, sizeof *place);
    assert_int_equal(event_loop_create(&place->loop), MR_OK);
    assert_true(temp_dir_folder(place->folder));
    snprintf(place->address, sizeof place->address, "unix:%s/s", place->folder);
    snprintf(place->file, sizeof place->file, "%s/supervisor", place->folder);
    *state = place;
    return 0;
}

static int close_place(void **state) {
    place *place = *state;
    unlink(place->file);
    assert_true(temp_dir_remove_empty(place->folder));
    event_loop_destroy(place->loop);
    free(place);
    return 0;
}

/* A process that waits for its end. */
static pid_t start(void) {
    pid_t pid = fork();
    if (pid == 0) {
        pause();
        _exit(1);
    }
    assert_true(pid > 0);
    return pid;
}

static void kill_and_reap(pid_t pid) {
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static mr_status await_end(const place *place, const supervisor_watch *watch) {
    int64_t until_us = clock_now_us(clock_real()) + PATIENCE_US;
    while (supervisor_watch_check(watch) == MR_OK && clock_now_us(clock_real()) < until_us)
        event_loop_run_once(place->loop, 100 * 1000);
    return supervisor_watch_check(watch);
}

static void its_end_is_noticed_with_the_cause(void **state) {
    place *place = *state;
    char expected[256];
    pid_t pid = start();
    assert_int_equal(supervisor_write(place->folder, pid, "the node"), MR_OK);
    supervisor_watch *watch = supervisor_watch_open(place->loop, place->address);
    event_loop_run_once(place->loop, 0);
    assert_int_equal(supervisor_watch_check(watch), MR_OK);
    kill(pid, SIGKILL);
    assert_int_equal(await_end(place, watch), MR_PEER_DIED);
    snprintf(expected, sizeof expected,
             "the parameter server at %s has ended: the node (process %d), which runs it, was killed by signal 9 "
             "(SIGKILL); start another one",
             place->address, (int)pid);
    assert_string_equal(mr_last_error(), expected);
    supervisor_watch *zombie =
        supervisor_watch_open(place->loop, place->address); /* its parent has not waited for it */
    assert_int_equal(supervisor_watch_check(zombie), MR_PEER_DIED);
    assert_string_equal(mr_last_error(), expected);
    kill_and_reap(pid);
    supervisor_watch *late = supervisor_watch_open(place->loop, place->address);
    assert_int_equal(supervisor_watch_check(late), MR_PEER_DIED);
    assert_non_null(strstr(mr_last_error(), ", which runs it, has ended; start another one"));
    supervisor_watch_close(watch);
    supervisor_watch_close(zombie);
    supervisor_watch_close(late);
}

/* A number that another process has by now, as after a reboot or a long time. */
static void another_process_of_its_number_is_not_taken_for_it(void **state) {
    place *place = *state;
    char name[32], boot[64];
    unsigned long long namespace, began;
    int number;
    pid_t pid = start();
    assert_int_equal(supervisor_write(place->folder, pid, "the node"), MR_OK);
    FILE *file = fopen(place->file, "r+");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%31[^\n] %63s %llu %d %llu", name, boot, &namespace, &number, &began), 5);
    assert_int_equal(number, pid);
    rewind(file);
    fprintf(file, "%s\n%s %llu %d %llu\n", name, boot, namespace, number, began + 1);
    fclose(file);
    supervisor_watch *watch = supervisor_watch_open(place->loop, place->address);
    assert_int_equal(supervisor_watch_check(watch), MR_PEER_DIED);
    supervisor_watch_close(watch);

    file = fopen(place->file, "w"); /* of another pid namespace: not known */
    fprintf(file, "%s\n%s %llu %d %llu\n", name, boot, namespace + 1, number, began);
    fclose(file);
    watch = supervisor_watch_open(place->loop, place->address);
    kill_and_reap(pid);
    event_loop_run_once(place->loop, 50 * 1000);
    assert_int_equal(supervisor_watch_check(watch), MR_OK);
    supervisor_watch_close(watch);
}

static void what_is_no_supervisor_is_ignored(void **state) {
    place *place = *state;
    const char *const texts[] = {"", "\n", "the node", "the node\n", "the node\n? 1 2", "the node\nx y z w"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        FILE *file = fopen(place->file, "w");
        assert_non_null(file);
        fputs(texts[i], file);
        fclose(file);
        supervisor_watch *watch = supervisor_watch_open(place->loop, place->address);
        assert_int_equal(supervisor_watch_check(watch), MR_OK);
        supervisor_watch_close(watch);
    }
    unlink(place->file);
    pid_t pid = start();
    assert_int_equal(supervisor_write(place->folder, pid, "the node"), MR_OK);
    assert_int_not_equal(supervisor_write(place->folder, pid, "the node"), MR_OK); /* there is one */
    kill_and_reap(pid);
    if (geteuid() == 0) { /* another user's file */
        assert_int_equal(chown(place->file, 65534, 65534), 0);
        supervisor_watch *watch = supervisor_watch_open(place->loop, place->address);
        assert_int_equal(supervisor_watch_check(watch), MR_OK);
        supervisor_watch_close(watch);
    }
}

static void a_directory_that_is_gone_says_so(void **state) {
    const place *place = *state;
    const struct {
        const char *address;
        mr_status status;
    } cases[] = {{"unix:/tmp/ps-Xy7_q9/s", MR_PEER_DIED}, /* nothing creates this name but mkdtemp */
                 {"unix:/tmp/ps-server/s", MR_OK},
                 {"unix:/tmp/ps-longer-name/s", MR_OK},
                 {"unix:/nowhere/s", MR_OK},
                 {"unix:/s", MR_OK},
                 {"tcp:127.0.0.1:7", MR_OK},
                 {"unix:relative", MR_OK},
                 {"", MR_OK}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        supervisor_watch *watch = supervisor_watch_open(place->loop, cases[i].address);
        assert_int_equal(supervisor_watch_check(watch), cases[i].status);
        supervisor_watch_close(watch);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(its_end_is_noticed_with_the_cause, open_place, close_place),
        cmocka_unit_test_setup_teardown(another_process_of_its_number_is_not_taken_for_it, open_place, close_place),
        cmocka_unit_test_setup_teardown(what_is_no_supervisor_is_ignored, open_place, close_place),
        cmocka_unit_test_setup_teardown(a_directory_that_is_gone_says_so, open_place, close_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
