/* future_assert.c — see future_assert.h. */
#include "tests/support/future_assert.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { PATIENCE_US = 60 * 1000 * 1000 };

mr_value future_assert_value(mr_context *mr, mr_ref ref) {
    mr_value value;
    mr_status status = mr_get(mr, ref, PATIENCE_US, &value);
    if (status != MR_OK) print_message("%s: %s\n", mr_status_name(status), mr_last_error());
    assert_int_equal(status, MR_OK);
    mr_release(mr, ref);
    return value;
}

int64_t future_assert_int(mr_context *mr, mr_ref ref) {
    mr_value value = future_assert_value(mr, ref);
    int64_t number = INT64_MIN;
    assert_int_equal(mr_value_int(&value, &number), MR_OK);
    mr_value_release(&value);
    return number;
}

double future_assert_float(mr_context *mr, mr_ref ref) {
    mr_value value = future_assert_value(mr, ref);
    double number = -1;
    assert_int_equal(mr_value_float(&value, &number), MR_OK);
    mr_value_release(&value);
    return number;
}

mr_status future_assert_failure(mr_context *mr, mr_ref ref) {
    mr_value value;
    mr_status status = mr_get(mr, ref, PATIENCE_US, &value);
    if (status == MR_OK) mr_value_release(&value);
    mr_release(mr, ref);
    return status;
}
