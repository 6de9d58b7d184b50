/* assert.c — see assert.h. */
#include "base/assert.h"

#include <stdio.h>
#include <stdlib.h>

void assert_failed(const char *condition, const char *file, int line, const char *function) {
    fprintf(stderr,
            "miniray: internal error: %s:%d: in %s: %s does not hold\n"
            "miniray: this is a bug in miniray, not in your program; please report it with the line above\n",
            file, line, function, condition);
    fflush(stderr);
    abort();
}
