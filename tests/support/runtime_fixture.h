/* runtime_fixture.h — where tests of a program's whole life run: a folder, and a view of everything that is in it.
 *
 * Every test has a folder of its own, which the program under test has as TMPDIR. Its node and workers have that in
 * their environment, by which they are found; the runtime's own folder lies in it. The programs are forked from the
 * test, which never opens the runtime itself and so has no threads.
 *
 * Workers know, besides what the test defines: add(a, b); pause_ms(ms), which gives ms; the actor Sleeper with hello(),
 * which gives 1, and sleep(), which does not end. */
#pragma once
#include "miniray/runtime.h"
#include "tests/support/temp_dir.h"

enum {
    RUNTIME_FIXTURE_PATIENCE_US = 120 * 1000 * 1000, /* for what must come */
    RUNTIME_FIXTURE_CHILD_MS = 200 * 1000,
    RUNTIME_FIXTURE_GONE_MS = 10 * 1000, /* ten times the bar */
    RUNTIME_FIXTURE_LONG_MS = 600 * 1000,
    RUNTIME_FIXTURE_LASTING = 2, /* processes: a lasting node and its reaper */
};

typedef struct runtime_fixture {
    char folder[TEMP_DIR_FOLDER_MAX];
    int ready[2]; /* the program says here that it is where the test wants it */
} runtime_fixture;

/* ---- For the test. */

int runtime_fixture_make(void **state);                     /* for cmocka: *state is the world */
int runtime_fixture_unmake(void **state);                   /* fails if anything was left in the folder */
void runtime_fixture_await(const runtime_fixture *fixture); /* until the program is ready */

/* Asserts that no process and no file is left soon after now, or after `start`. */
void runtime_fixture_gone(const runtime_fixture *fixture, const char *after);
void runtime_fixture_gone_since(const runtime_fixture *fixture, int64_t start, const char *after);
int64_t runtime_fixture_gone_after_ms(const runtime_fixture *fixture,
                                      int64_t start);      /* how soon that was; -1: it is not so, and said */
void runtime_fixture_tell(const runtime_fixture *fixture); /* what is left, and what it does just now */

/* ---- For both. */

/* No file is left but what workers printed, which is removed by this. */
bool runtime_fixture_is_empty(const runtime_fixture *fixture);
size_t runtime_fixture_processes(const runtime_fixture *fixture); /* how many nodes and workers there are */
/* Those that have `also` in their environment, such as "MINIRAY_BOOT=worker"; at most `room`. */
size_t runtime_fixture_find(const runtime_fixture *fixture, const char *also, int *pids, size_t room);
int64_t runtime_fixture_now_ms(void);

/* ---- For the program. */

void runtime_fixture_enter(const runtime_fixture *fixture);
/* enters, and opens with two workers */
mr_status runtime_fixture_open(const runtime_fixture *fixture, mr_context **out);
bool runtime_fixture_ready(const runtime_fixture *fixture);
bool runtime_gives(mr_context *mr, mr_ref ref, int64_t expected); /* and releases it */
bool runtime_works(mr_context *mr);                               /* a task gives what it should */
