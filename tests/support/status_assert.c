/* status_assert.c — see status_assert.h. */
#include "tests/support/status_assert.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

void must(mr_status status) {
    if (status != MR_OK) fprintf(stderr, "%s\n", mr_last_error());
    assert_int_equal(status, MR_OK);
}

void assert_said(const char *words) {
    if (strstr(mr_last_error(), words) == NULL) fprintf(stderr, "'%s' is not in: %s\n", words, mr_last_error());
    assert_non_null(strstr(mr_last_error(), words));
}
