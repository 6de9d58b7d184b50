/* waiting_test.c — waiting: processes that wait sleep, waits for several futures end at the first failure, and the
 * thread that asked for it is interrupted. */
#include <dirent.h>
#include <pthread.h>
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

#include "base/tsan.h"
#include "miniray/runtime.h"
#include "tests/support/runtime_main.h"
#include "tests/support/temp_dir.h"

enum {
    PATIENCE_US = 20 * 1000 * 1000,
    WATCHED_US = 3 * 1000 * 1000,
    SWITCHES_MAX = 10 * 2 * 3 + TSAN * 40 * 3, /* ten times the bar: two per second; and ThreadSanitizer's own thread */
    LATER_US = 100 * 1000,
};

/* ---- Bodies. */

MR_TASK(pid_after_ms) {
    int64_t ms;
    MR_TRY(mr_arg_int(call, 0, &ms));
    usleep((useconds_t)ms * 1000);
    return mr_return(call, mr_int(getpid()));
}

MR_TASK(fails_after_ms) {
    int64_t ms;
    MR_TRY(mr_arg_int(call, 0, &ms));
    usleep((useconds_t)ms * 1000);
    return mr_fail(call, "on purpose");
}

MR_TASK(never_ends) {
    while (!mr_call_cancelled(call)) usleep(10 * 1000);
    return MR_OK;
}

/* Writes its process id to a file, then waits for the task that never ends. */
MR_TASK(waits_for_ever) {
    mr_span path;
    mr_ref ref;
    mr_value value;
    char name[256];
    MR_TRY(mr_arg_str(call, 0, &path));
    snprintf(name, sizeof name, "%.*s", (int)path.size, (const char *)path.data);
    FILE *file = fopen(name, "w");
    if (file == NULL) return mr_fail(call, "no file");
    fprintf(file, "%d\n", (int)getpid());
    fclose(file);
    MR_TRY(mr_call_task(mr_call_context(call), "never_ends", &ref));
    return mr_get(mr_call_context(call), ref, MR_FOREVER, &value);
}

/* Returns its process id and the future of a task that runs for so many ms. */
MR_TASK(leaves_a_task_behind) {
    mr_arg ms;
    mr_ref ref;
    mr_value given;
    MR_TRY(mr_arg_value(call, 0, &given));
    ms = mr_value_arg(&given);
    MR_TRY(mr_task_submit(mr_call_context(call), "pid_after_ms", NULL, &ms, 1, &ref));
    const mr_arg both[] = {mr_int(getpid()), mr_future(ref)};
    mr_status status = mr_return(call, mr_list(both, 2));
    mr_release(mr_call_context(call), ref);
    return status;
}

MR_CREATE(Idle) { return MR_OK; }
MR_METHOD(Idle, pid) { return mr_return(call, mr_int(getpid())); }

/* ---- Processes that wait. */

/* Voluntary context switches of all threads of a process so far. */
static long switches(int pid) {
    char path[300], line[128];
    long total = 0, count;
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *folder = opendir(path);
    assert_non_null(folder);
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        snprintf(path, sizeof path, "/proc/%d/task/%.20s/status", pid, entry->d_name);
        FILE *file = entry->d_name[0] == '.' ? NULL : fopen(path, "r");
        while (file != NULL && fgets(line, sizeof line, file) != NULL)
            if (sscanf(line, "voluntary_ctxt_switches: %ld", &count) == 1) total += count;
        if (file != NULL) fclose(file);
    }
    closedir(folder);
    return total;
}

static int64_t int_of(mr_ref ref) {
    mr_value value;
    int64_t number;
    assert_int_equal(mr_get(mr, ref, PATIENCE_US, &value), MR_OK);
    assert_int_equal(mr_value_int(&value, &number), MR_OK);
    mr_value_release(&value);
    mr_release(mr, ref);
    return number;
}

static int pid_in(const char *path) {
    int pid = 0;
    for (int64_t waited_us = 0; pid == 0 && waited_us < PATIENCE_US; waited_us += 1000) {
        FILE *file = fopen(path, "r");
        if (file != NULL && fscanf(file, "%d\n", &pid) != 1) pid = 0;
        if (file != NULL) fclose(file);
        usleep(1000);
    }
    assert_int_not_equal(pid, 0);
    return pid;
}

static void processes_that_wait_sleep(void **state) {
    enum { DRIVER, ACTOR, WORKER, BLOCKED, COUNT };
    static const char *const names[] = {"the driver, blocked in mr_get", "an idle actor", "an idle worker",
                                        "a worker, blocked in mr_get"};
    int pids[COUNT] = {[DRIVER] = (int)getpid()};
    long before[COUNT];
    char folder[TEMP_DIR_FOLDER_MAX], path[TEMP_DIR_FOLDER_MAX + 8];
    mr_actor actor;
    mr_ref ref, blocked, pending;
    mr_value value;
    assert_true(temp_dir_folder(folder));
    snprintf(path, sizeof path, "%s/pid", folder);
    assert_int_equal(mr_new_actor(mr, "Idle", &actor), MR_OK);
    assert_int_equal(mr_call_actor(mr, actor, "pid", &ref), MR_OK);
    pids[ACTOR] = (int)int_of(ref);
    assert_int_equal(mr_call_task(mr, "pid_after_ms", &ref, mr_int(0)), MR_OK);
    pids[WORKER] = (int)int_of(ref);
    assert_int_equal(mr_call_task(mr, "waits_for_ever", &blocked, mr_str(path)), MR_OK);
    pids[BLOCKED] = pid_in(path);
    assert_int_equal(mr_call_task(mr, "never_ends", &pending), MR_OK);
    for (int i = 0; i < COUNT; i++) before[i] = switches(pids[i]);
    assert_int_equal(mr_get(mr, blocked, WATCHED_US, &value), MR_TIMEOUT);
    for (int i = 0; i < COUNT; i++) {
        long count = switches(pids[i]) - before[i];
        print_message("    %s: %ld switches in %d s\n", names[i], count, WATCHED_US / 1000000);
        assert_in_range(count, 0, SWITCHES_MAX);
    }
    assert_int_equal(mr_cancel(mr, pending), MR_OK);
    assert_int_equal(mr_cancel(mr, blocked), MR_OK);
    mr_release(mr, pending);
    mr_release(mr, blocked);
    mr_actor_release(mr, actor);
    unlink(path);
    rmdir(folder);
}

/* A worker that is to leave (max_calls) stays for the task that it has submitted, and ends after that. */
static void a_worker_that_leaves_sleeps_while_it_is_needed(void **state) {
    mr_ref ref;
    mr_value value, item;
    int64_t pid;
    const mr_arg ms = mr_int(WATCHED_US / 1000 + 500);
    assert_int_equal(
        mr_task_submit(mr, "leaves_a_task_behind", &MR_OPTIONS(mr_task_options, .max_calls = 1), &ms, 1, &ref), MR_OK);
    assert_int_equal(mr_get(mr, ref, PATIENCE_US, &value), MR_OK);
    assert_int_equal(mr_value_item(&value, 0, &item), MR_OK);
    assert_int_equal(mr_value_int(&item, &pid), MR_OK);
    usleep(LATER_US);
    long before = switches((int)pid);
    usleep(WATCHED_US);
    long count = switches((int)pid) - before;
    print_message("    a worker that leaves: %ld switches in %d s\n", count, WATCHED_US / 1000000);
    assert_in_range(count, 0, SWITCHES_MAX);
    mr_value_release(&value);
    mr_release(mr, ref);
    for (int64_t waited_us = 0; kill((pid_t)pid, 0) == 0 && waited_us < PATIENCE_US; waited_us += 1000) usleep(1000);
    assert_int_not_equal(kill((pid_t)pid, 0), 0);
}

/* ---- Waits for several futures. */

static void a_wait_for_all_ends_with_the_last(void **state) {
    mr_ref refs[4];
    size_t failed = 7;
    for (int i = 0; i < 4; i++)
        assert_int_equal(mr_call_task(mr, "pid_after_ms", &refs[i], mr_int(10 * (4 - i))), MR_OK);
    assert_int_equal(mr_wait_all(mr, refs, 4, PATIENCE_US, &failed), MR_OK);
    assert_int_equal(failed, 4);
    for (int i = 0; i < 4; i++) {
        mr_value value;
        assert_int_equal(mr_get(mr, refs[i], 0, &value), MR_OK);
        mr_value_release(&value);
    }
    assert_int_equal(mr_wait_all(mr, refs, 4, 0, &failed), MR_OK);
    assert_int_equal(mr_wait_all(mr, NULL, 0, 0, &failed), MR_OK);
    assert_int_equal(failed, 0);
    assert_int_equal(mr_wait_all(mr, NULL, 1, 0, &failed), MR_INVALID);
    for (int i = 0; i < 4; i++) mr_release(mr, refs[i]);
    assert_int_equal(mr_wait_all(mr, refs, 4, 0, &failed), MR_NOT_FOUND);
}

static void a_wait_for_all_ends_with_a_failure(void **state) {
    mr_ref refs[3];
    size_t failed = 7;
    assert_int_equal(mr_call_task(mr, "never_ends", &refs[0]), MR_OK);
    assert_int_equal(mr_call_task(mr, "fails_after_ms", &refs[1], mr_int(50)), MR_OK);
    assert_int_equal(mr_wait_all(mr, refs, 1, 20 * 1000, &failed), MR_TIMEOUT);
    assert_non_null(strstr(mr_last_error(), "timed out after 0.02 s waiting for task 'never_ends'"));
    refs[2] = refs[1]; /* the same future twice */
    assert_int_equal(mr_wait_all(mr, refs, 3, PATIENCE_US, &failed), MR_OK);
    assert_int_equal(failed, 1);
    assert_int_equal(mr_cancel(mr, refs[0]), MR_OK);
    mr_release(mr, refs[0]);
    mr_release(mr, refs[1]);
}

/* ---- Interrupts. */

typedef struct alarm_clock {
    int fds[2];
    pthread_t thread;
    int calls, rings; /* calls of the function, and those with a byte to read */
    int ends_at;      /* the wait ends at this ring; 0: never */
} alarm_clock;

static bool answer(void *user) {
    alarm_clock *clock = user;
    struct timeval none = {0};
    fd_set set;
    char byte;
    clock->calls++;
    FD_ZERO(&set);
    FD_SET(clock->fds[0], &set);
    if (select(clock->fds[0] + 1, &set, NULL, NULL, &none) != 1 || read(clock->fds[0], &byte, 1) != 1) return false;
    return ++clock->rings == clock->ends_at;
}

static void *ring_later(void *argument) {
    const alarm_clock *clock = argument;
    usleep(LATER_US);
    return write(clock->fds[1], "r", 1) == 1 ? NULL : argument;
}

static void begin(alarm_clock *clock, int ends_at) {
    *clock = (alarm_clock){.ends_at = ends_at};
    assert_int_equal(pipe(clock->fds), 0);
    assert_int_equal(mr_on_interrupt(mr, clock->fds[0], answer, clock), MR_OK);
    assert_int_equal(pthread_create(&clock->thread, NULL, ring_later, clock), 0);
}

static void end(alarm_clock *clock) {
    void *failed;
    pthread_join(clock->thread, &failed);
    assert_null(failed);
    assert_int_equal(mr_on_interrupt(mr, -1, NULL, NULL), MR_OK);
    close(clock->fds[0]);
    close(clock->fds[1]);
}

static void an_interrupt_ends_a_wait(void **state) {
    alarm_clock clock;
    mr_ref ref;
    mr_value value;
    unsigned char ready;
    size_t count;
    assert_int_equal(mr_on_interrupt(mr, -1, answer, NULL), MR_INVALID);
    assert_int_equal(mr_call_task(mr, "never_ends", &ref), MR_OK);
    begin(&clock, 1);
    assert_int_equal(mr_get(mr, ref, PATIENCE_US, &value), MR_CANCELLED);
    assert_int_equal(clock.rings, 1);
    end(&clock);
    begin(&clock, 1);
    assert_int_equal(mr_wait(mr, &ref, 1, 1, MR_FOREVER, &ready, &count), MR_CANCELLED);
    end(&clock);
    begin(&clock, 1);
    assert_int_equal(mr_wait_all(mr, &ref, 1, MR_FOREVER, &count), MR_CANCELLED);
    end(&clock);
    assert_int_equal(mr_cancel(mr, ref), MR_OK);
    mr_release(mr, ref);
}

/* The timeout is the whole one. */
static void an_interrupted_wait_continues(void **state) {
    alarm_clock clock;
    mr_ref ref;
    mr_value value;
    assert_int_equal(mr_call_task(mr, "never_ends", &ref), MR_OK);
    begin(&clock, 0);
    assert_int_equal(mr_get(mr, ref, 3 * LATER_US, &value), MR_TIMEOUT);
    assert_non_null(strstr(mr_last_error(), "timed out after 0.3 s waiting for task 'never_ends'"));
    assert_int_equal(clock.rings, 1);
    assert_int_equal(clock.calls, 2); /* the first one is the beginning of the long wait */
    end(&clock);
    begin(&clock, 0);
    assert_int_equal(mr_get(mr, ref, 5000, &value), MR_TIMEOUT);
    assert_int_equal(clock.calls, 0); /* it is a short wait */
    end(&clock);
    assert_int_equal(mr_cancel(mr, ref), MR_OK);
    mr_release(mr, ref);
}

typedef struct other {
    mr_ref ref;
    mr_status status;
    _Atomic bool waits;
} other;

static void *wait_too(void *argument) {
    other *other = argument;
    mr_value value;
    other->waits = true;
    other->status = mr_get(mr, other->ref, PATIENCE_US, &value);
    if (other->status == MR_OK) mr_value_release(&value);
    return NULL;
}

/* The interrupted thread waits in line, while another one drives. */
static void an_interrupt_reaches_its_thread(void **state) {
    alarm_clock clock;
    other other = {0};
    pthread_t thread;
    mr_ref ref;
    mr_value value;
    assert_int_equal(mr_call_task(mr, "never_ends", &ref), MR_OK);
    assert_int_equal(mr_call_task(mr, "pid_after_ms", &other.ref, mr_int(10 * LATER_US / 1000)), MR_OK);
    assert_int_equal(pthread_create(&thread, NULL, wait_too, &other), 0);
    while (!other.waits) usleep(1000);
    usleep(1000);
    begin(&clock, 1);
    assert_int_equal(mr_get(mr, ref, PATIENCE_US, &value), MR_CANCELLED);
    pthread_join(thread, NULL);
    assert_int_equal(other.status, MR_OK);
    end(&clock);
    assert_int_equal(mr_cancel(mr, ref), MR_OK);
    mr_release(mr, ref);
    mr_release(mr, other.ref);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(processes_that_wait_sleep),
        cmocka_unit_test(a_worker_that_leaves_sleeps_while_it_is_needed),
        cmocka_unit_test(a_wait_for_all_ends_with_the_last),
        cmocka_unit_test(a_wait_for_all_ends_with_a_failure),
        cmocka_unit_test(an_interrupt_ends_a_wait),
        cmocka_unit_test(an_interrupted_wait_continues),
        cmocka_unit_test(an_interrupt_reaches_its_thread),
    };
    return runtime_main_with(tests, .num_workers = 4);
}
