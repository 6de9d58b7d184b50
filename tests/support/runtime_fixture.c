/* runtime_fixture.c — see runtime_fixture.h. */
#include "tests/support/runtime_fixture.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "tests/support/process_dump.h"
#include "tests/support/program_tasks.h"

/* ---- Tasks of workers. */

MR_TASK(add) {
    int64_t a, b;
    MR_TRY(mr_arg_int(call, 0, &a));
    MR_TRY(mr_arg_int(call, 1, &b));
    return mr_return(call, mr_int(a + b));
}

MR_TASK(pause_ms) {
    int64_t ms;
    MR_TRY(mr_arg_int(call, 0, &ms));
    poll(NULL, 0, (int)ms);
    return mr_return(call, mr_int(ms));
}

MR_CREATE(Sleeper) { return MR_OK; }
MR_METHOD(Sleeper, sleep) {
    poll(NULL, 0, RUNTIME_FIXTURE_LONG_MS);
    return MR_OK;
}
MR_METHOD(Sleeper, hello) { return mr_return(call, mr_int(1)); }

/* ---- The folder. */

int runtime_fixture_make(void **state) {
    runtime_fixture *fixture = calloc(1, sizeof *fixture);
    *state = fixture;
    return !temp_dir_folder(fixture->folder) || pipe2(fixture->ready, O_CLOEXEC) != 0;
}

/* Fails if a file was left in the folder. */
int runtime_fixture_unmake(void **state) {
    runtime_fixture *fixture = *state;
    int failed = temp_dir_remove_empty(fixture->folder) ? 0 : -1;
    if (failed != 0) print_message("%s is not empty\n", fixture->folder);
    close(fixture->ready[0]);
    close(fixture->ready[1]);
    free(fixture);
    return failed;
}

static bool have_in_environment(const char *pid, const char *text, const char *also) {
    char path[300];
    static char bytes[1 << 17];
    snprintf(path, sizeof path, "/proc/%s/environ", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    size_t size = 0;
    for (ssize_t got; size < sizeof bytes && (got = read(fd, bytes + size, sizeof bytes - size)) > 0;)
        size += (size_t)got;
    close(fd);
    return memmem(bytes, size, text, strlen(text)) != NULL && memmem(bytes, size, also, strlen(also)) != NULL;
}

size_t runtime_fixture_find(const runtime_fixture *fixture, const char *also, int *pids, size_t room) {
    char text[TEMP_DIR_FOLDER_MAX + 8];
    snprintf(text, sizeof text, "TMPDIR=%s", fixture->folder);
    DIR *folder = opendir("/proc");
    size_t count = 0;
    for (struct dirent *entry; count < room && (entry = readdir(folder)) != NULL;)
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' && have_in_environment(entry->d_name, text, also))
            pids[count++] = atoi(entry->d_name);
    closedir(folder);
    return count;
}

size_t runtime_fixture_processes(const runtime_fixture *fixture) {
    int pids[4096];
    return runtime_fixture_find(fixture, "", pids, sizeof pids / sizeof pids[0]);
}

int64_t runtime_fixture_now_ms(void) { return clock_ns() / 1000000; }

static void remove_logs(const char *run) {
    DIR *folder = opendir(run);
    for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;)
        if (strstr(entry->d_name, ".log") != NULL) unlinkat(dirfd(folder), entry->d_name, 0);
    if (folder != NULL) closedir(folder);
    rmdir(run);
}

/* Removes the file that a process leaves if it is killed while ThreadSanitizer starts. */
static void remove_sanitizers(const char *path) {
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;)
        if (strncmp(entry->d_name, "tsan.rodata.", 12) == 0) unlinkat(dirfd(folder), entry->d_name, 0);
    if (folder != NULL) closedir(folder);
}

bool runtime_fixture_is_empty(const runtime_fixture *fixture) {
    char base[TEMP_DIR_FOLDER_MAX + 32], run[TEMP_DIR_FOLDER_MAX + 300];
    remove_sanitizers(fixture->folder);
    if (temp_dir_is_empty(fixture->folder)) return true;
    if (runtime_fixture_processes(fixture) > 0) return false;
    snprintf(base, sizeof base, "%s/miniray-%u", fixture->folder, (unsigned)geteuid());
    DIR *folder = opendir(base);
    for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
        if (entry->d_name[0] == '.') continue;
        snprintf(run, sizeof run, "%s/%s", base, entry->d_name);
        remove_logs(run);
    }
    if (folder != NULL) closedir(folder);
    rmdir(base);
    return temp_dir_is_empty(fixture->folder);
}

void runtime_fixture_tell(const runtime_fixture *fixture) {
    int pids[16];
    size_t count = runtime_fixture_find(fixture, "", pids, sizeof pids / sizeof pids[0]);
    print_message("left: %zu processes, %zu files\n", runtime_fixture_processes(fixture),
                  temp_dir_entries(fixture->folder) - 2);
    for (size_t i = 0; i < count; i++) process_dump_print(pids[i]);
}

int64_t runtime_fixture_gone_after_ms(const runtime_fixture *fixture, int64_t start) {
    for (;;) {
        bool gone = runtime_fixture_processes(fixture) == 0 && runtime_fixture_is_empty(fixture);
        int64_t took = runtime_fixture_now_ms() - start;
        if (gone) return took;
        if (took > RUNTIME_FIXTURE_GONE_MS) {
            runtime_fixture_tell(fixture);
            return -1;
        }
        poll(NULL, 0, 2);
    }
}

void runtime_fixture_gone_since(const runtime_fixture *fixture, int64_t start, const char *after) {
    int64_t took = runtime_fixture_gone_after_ms(fixture, start);
    assert_true(took >= 0);
    print_message("    all gone %lld ms after %s\n", (long long)took, after);
}

void runtime_fixture_gone(const runtime_fixture *fixture, const char *after) {
    runtime_fixture_gone_since(fixture, runtime_fixture_now_ms(), after);
}

void runtime_fixture_await(const runtime_fixture *fixture) {
    struct pollfd wait = {.fd = fixture->ready[0], .events = POLLIN};
    char byte;
    assert_int_equal(poll(&wait, 1, RUNTIME_FIXTURE_CHILD_MS), 1);
    assert_int_equal(read(fixture->ready[0], &byte, 1), 1);
}

bool runtime_fixture_ready(const runtime_fixture *fixture) { return write(fixture->ready[1], "r", 1) == 1; }

/* Directs sanitizer reports of the node and the workers into the folder, so that the test finds them. */
static void report_into(const char *folder, const char *variable) {
    char options[512];
    const char *before = getenv(variable);
    if (before != NULL && strstr(before, folder) != NULL) return;
    snprintf(options, sizeof options, "%s:symbolize=0:log_path=%s/report", before == NULL ? "" : before, folder);
    setenv(variable, options, 1);
}

void runtime_fixture_enter(const runtime_fixture *fixture) {
    setenv("TMPDIR", fixture->folder, 1);
    report_into(fixture->folder, "ASAN_OPTIONS");
    report_into(fixture->folder, "UBSAN_OPTIONS");
    report_into(fixture->folder, "TSAN_OPTIONS");
}

mr_status runtime_fixture_open(const runtime_fixture *fixture, mr_context **out) {
    runtime_fixture_enter(fixture);
    mr_status status = mr_init(&MR_OPTIONS(mr_options, .num_workers = 2, .store_bytes = 64 << 20), out);
    if (status != MR_OK) fprintf(stderr, "mr_init: %s\n", mr_last_error());
    return status;
}

bool runtime_gives(mr_context *of, mr_ref ref, int64_t expected) {
    mr_value value;
    int64_t number = 0;
    mr_status status = mr_get(of, ref, RUNTIME_FIXTURE_PATIENCE_US, &value);
    mr_release(of, ref);
    if (status != MR_OK) {
        fprintf(stderr, "%s: %s\n", mr_status_name(status), mr_last_error());
        return false;
    }
    bool same = mr_value_int(&value, &number) == MR_OK && number == expected;
    mr_value_release(&value);
    return same;
}

bool runtime_works(mr_context *of) {
    mr_ref ref;
    return mr_call_task(of, "add", &ref, mr_int(2), mr_int(3)) == MR_OK && runtime_gives(of, ref, 5);
}
