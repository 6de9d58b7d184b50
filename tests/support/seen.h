/* seen.h — a program that is looked at while it runs: the test is the program, and the onlooker too. Its workers are
 * the test's binary, started again; they know add(a, b) and hold(path), which runs until that file is there. */
#pragma once
#include "miniray/admin.h"
#include "tests/support/temp.h"

enum { SEEN_PATIENCE_US = 20 * 1000 * 1000, SEEN_TRIES = 2000 };

typedef struct seen_program {
    mr_context *mr;
    mr_inspect *inspect;
    char folder[TEMP_FOLDER_MAX]; /* everything of it is there */
    char gate[TEMP_FOLDER_MAX + 8];
    char address[512];
} seen_program;

extern seen_program seen; /* between seen_start and seen_stop */

void seen_start(int workers);
void seen_stop(void);

/* ---- Reading; what is not there or of another kind fails the test. */

mr_value seen_ask(const char *what, const char *id, size_t limit);
/* The same with everybody's answer: on a busy machine one may not come in time. */
mr_value seen_ask_all(const char *what, size_t limit);
mr_value seen_field(const mr_value *map, const char *key);
int64_t seen_number(const mr_value *map, const char *key);
const char *seen_text(const mr_value *map, const char *key); /* good for the next three calls */
/* The first row of that list whose field is this; false: none. */
bool seen_find_row(const mr_value *answer, const char *list, const char *key, const char *value, mr_value *out);
/* Looks again and again until the row is as expected: processes start and settle by and by. */
void seen_await_row(const char *what, const char *key, const char *value, const char *state, char id[32]);
/* All steps of the answer in one text: "t4:3 task hold|because|release\n…". */
void seen_why(const char *id, char out[4096]);
void seen_assert_has(const char *whole, const char *part);

/* ---- Going on. */

void seen_open_gate(void);
void seen_finish(mr_ref ref); /* it comes, and is released */
