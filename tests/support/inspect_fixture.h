/* inspect_fixture.h — a driver that is inspected while it runs: the test is both the driver and the inspecting process.
 * Its workers are the test's binary, started again; they have the tasks add(a, b) and hold(path), which runs until that
 * file exists. */
#pragma once
#include "miniray/admin.h"
#include "tests/support/temp_dir.h"

enum { INSPECT_FIXTURE_PATIENCE_US = 20 * 1000 * 1000, INSPECT_FIXTURE_TRIES = 2000 };

typedef struct inspect_fixture_program {
    mr_context *mr;
    mr_inspect *inspect;
    char folder[TEMP_DIR_FOLDER_MAX]; /* contains all files of the driver */
    char gate[TEMP_DIR_FOLDER_MAX + 8];
    char address[512];
} inspect_fixture_program;

extern inspect_fixture_program seen; /* between inspect_fixture_start and inspect_fixture_stop */

void inspect_fixture_start(int workers);
void inspect_fixture_stop(void);

/* ---- Reading; a missing field or a field of another kind fails the test. */

mr_value inspect_fixture_ask(const char *what, const char *id, size_t limit);
/* The same, repeated until all processes have answered, since an answer may be late on a busy machine. */
mr_value inspect_fixture_ask_all(const char *what, size_t limit);
mr_value inspect_fixture_field(const mr_value *map, const char *key);
int64_t inspect_fixture_number(const mr_value *map, const char *key);
const char *inspect_fixture_text(const mr_value *map, const char *key); /* valid for the next three calls */
/* The first row of that list whose field has this value; false: no such row. */
bool inspect_fixture_find_row(const mr_value *answer, const char *list, const char *key, const char *value,
                              mr_value *out);
/* Repeats the query until the row is as expected. */
void inspect_fixture_await_row(const char *what, const char *key, const char *value, const char *state, char id[32]);
/* All steps of the answer in one text: "t4:3 task hold|because|release\n…". */
void inspect_fixture_why(const char *id, char out[4096]);
void inspect_fixture_assert_has(const char *whole, const char *part);

/* ---- Continuing. */

void inspect_fixture_open_gate(void);
void inspect_fixture_finish(mr_ref ref); /* waits for the result, and releases it */
