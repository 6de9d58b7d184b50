/* metadata_answer.c — see metadata_answer.h. */
#include "tests/support/metadata_answer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

void metadata_answer_done(void *argument, const metadata_store_answer *answer) {
    metadata_answer *metadata_answer = argument;
    metadata_answer->count++;
    metadata_answer->status = answer->status;
    metadata_answer->version = answer->version;
    assert_true(answer->value.size < sizeof metadata_answer->value);
    memset(metadata_answer->value, 0, sizeof metadata_answer->value);
    if (answer->value.size != 0) memcpy(metadata_answer->value, answer->value.data, answer->value.size);
}
