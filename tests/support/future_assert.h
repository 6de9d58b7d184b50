/* future_assert.h — results of futures, for tests: waits without limit, asserts, and releases the future. */
#pragma once
#include "miniray/runtime.h"

mr_value future_assert_value(mr_context *mr, mr_ref ref); /* the caller releases it */
int64_t future_assert_int(mr_context *mr, mr_ref ref);
double future_assert_float(mr_context *mr, mr_ref ref);
mr_status future_assert_failure(mr_context *mr, mr_ref ref); /* MR_OK: the future did not fail */
