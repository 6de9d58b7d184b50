/* main.c — runs one of the test programs that are linked into this executable; see tests/support/program.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/program.h"

int main(int argc, char **argv) {
    const char *name = getenv("MINIRAY_TEST_PROGRAM");
    if (name == NULL) name = program_invocation_short_name;
    for (const test_program *const *at = test_programs; *at != NULL; at++) {
        if (strcmp((*at)->name, name) != 0) continue;
        setenv("MINIRAY_TEST_PROGRAM", name, 1); /* processes that the test starts inherit the variable */
        return (*at)->plain != NULL ? (*at)->plain() : (*at)->full(argc, argv);
    }
    fprintf(stderr, "'%s' is no test program; MINIRAY_TEST_PROGRAM, or a link of that name, chooses one of:\n", name);
    for (const test_program *const *at = test_programs; *at != NULL; at++) fprintf(stderr, "%s\n", (*at)->name);
    return 2;
}
