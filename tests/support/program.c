/* program.c — see program.h. */
#include "tests/support/program.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define CHOSEN "MINIRAY_TEST_PROGRAM"

static const char *chosen(void) {
    const char *name = getenv(CHOSEN);
    return name != NULL ? name : program_invocation_short_name;
}

/* Whether this is the program to run; `program` may end in a star. */
static bool runs(const char *program) {
    size_t size = strcspn(program, "*");
    return strncmp(program, chosen(), program[size] == '*' ? size : size + 1) == 0;
}

void test_program_task(const char *program, const char *name, mr_body_fn *body) {
    if (runs(program)) mr_register_task(name, body);
}

void test_program_method(const char *program, const char *class_name, const char *method, mr_body_fn *body) {
    if (runs(program)) mr_register_method(class_name, method, body);
}
