/* program.h — many test programs in one executable.
 *
 * Linking a program for each test file takes longer than running most of them. So the files of a kind are linked into
 * one executable, each with its own main under another name (tools/test-programs writes the files that rename it). The
 * environment selects the program that runs, MINIRAY_TEST_PROGRAM=net-frame-test, and so do symbolic links of that
 * name; processes that a test starts (a node, a worker, the test's own program) inherit the variable and run the same
 * program.
 *
 * Tasks and classes (MR_TASK, MR_METHOD) are registered before main, by every file. Those of other programs are left
 * out, since two programs may use the same name. */
#pragma once
#include "miniray/runtime.h"

typedef struct test_program {
    const char *name;
    int (*plain)(void); /* exactly one of the two is set */
    int (*full)(int argc, char **argv);
} test_program;

#define TEST_PROGRAM(id, text)                                                  \
    extern const test_program id;                                               \
    const test_program id = {.name = text,                                      \
                             .plain = _Generic(&id##_main, int (*)(void)        \
                                               : &id##_main, default            \
                                               : (int (*)(void))0),             \
                             .full = _Generic(&id##_main, int (*)(int, char **) \
                                              : &id##_main, default             \
                                              : (int (*)(int, char **))0)};

void test_program_task(const char *program, const char *name, mr_body_fn *body);
void test_program_method(const char *program, const char *class_name, const char *method, mr_body_fn *body);

/* All programs linked here, NULL after the last; written by tools/test-programs. */
extern const test_program *const test_programs[];
