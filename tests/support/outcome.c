/* outcome.c — see outcome.h. */
#include "tests/support/outcome.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

void outcome_done(void *argument, const coordinator_answer *answer) {
    outcome *outcome = argument;
    outcome->count++;
    outcome->status = answer->status;
    outcome->version = answer->version;
    assert_true(answer->value.size < sizeof outcome->value);
    memset(outcome->value, 0, sizeof outcome->value);
    if (answer->value.size != 0) memcpy(outcome->value, answer->value.data, answer->value.size);
}
