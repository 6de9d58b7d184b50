/* runtime_fixture.h — environment for tests of a driver's whole life: a folder, and a list of all processes and files
 * in it.
 *
 * Every test has a folder of its own, which the driver under test has as TMPDIR. Its node and workers inherit the
 * variable, by which the fixture finds them; the runtime's session folder is below that folder. The drivers are forked
 * from the test, which never opens the runtime itself and so has no threads.
 *
 * Workers have, besides the test's own tasks: add(a, b); pause_ms(ms), which returns ms; the actor Sleeper with
 * hello(), which returns 1, and sleep(), which never returns. */
#pragma once
#include "miniray/runtime.h"
#include "tests/support/temp_dir.h"

enum {
    RUNTIME_FIXTURE_PATIENCE_US = 120 * 1000 * 1000, /* timeout of expected events */
    RUNTIME_FIXTURE_CHILD_MS = 200 * 1000,
    RUNTIME_FIXTURE_GONE_MS = 10 * 1000, /* ten times the bar */
    RUNTIME_FIXTURE_LONG_MS = 600 * 1000,
    RUNTIME_FIXTURE_LASTING = 2, /* processes that stay: a standalone node and its reaper */
};

typedef struct runtime_fixture {
    char folder[TEMP_DIR_FOLDER_MAX];
    int ready[2]; /* pipe by which the driver reports that it is ready */
} runtime_fixture;

/* ---- For the test. */

int runtime_fixture_make(void **state);                     /* for cmocka: *state is the fixture */
int runtime_fixture_unmake(void **state);                   /* fails if a file was left in the folder */
void runtime_fixture_await(const runtime_fixture *fixture); /* waits until the driver is ready */

/* Asserts that no process and no file is left soon after now, or soon after `start`. */
void runtime_fixture_gone(const runtime_fixture *fixture, const char *after);
void runtime_fixture_gone_since(const runtime_fixture *fixture, int64_t start, const char *after);
/* Returns the milliseconds until then; -1: something is left, and was printed. */
int64_t runtime_fixture_gone_after_ms(const runtime_fixture *fixture, int64_t start);
void runtime_fixture_tell(const runtime_fixture *fixture); /* prints remaining processes and files */

/* ---- For the test and the driver. */

/* Whether no file is left except the output of workers, which this function removes. */
bool runtime_fixture_is_empty(const runtime_fixture *fixture);
size_t runtime_fixture_processes(const runtime_fixture *fixture); /* number of nodes and workers */
/* Finds at most `room` processes that have `also` in their environment, such as "MINIRAY_BOOT=worker". */
size_t runtime_fixture_find(const runtime_fixture *fixture, const char *also, int *pids, size_t room);
int64_t runtime_fixture_now_ms(void);

/* ---- For the driver. */

void runtime_fixture_enter(const runtime_fixture *fixture);
/* enters the folder, and calls mr_init with two workers */
mr_status runtime_fixture_open(const runtime_fixture *fixture, mr_context **out);
bool runtime_fixture_ready(const runtime_fixture *fixture);
bool runtime_gives(mr_context *mr, mr_ref ref, int64_t expected); /* checks the result, and releases the reference */
bool runtime_works(mr_context *mr);                               /* whether a task returns the right result */
