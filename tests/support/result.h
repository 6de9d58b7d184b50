/* result.h — results of futures, for tests: waits without limit, asserts, and releases the future. */
#pragma once
#include "miniray/runtime.h"

mr_value result_value(mr_context *mr, mr_ref ref); /* the caller's */
int64_t result_int(mr_context *mr, mr_ref ref);
double result_float(mr_context *mr, mr_ref ref);
mr_status result_failure(mr_context *mr, mr_ref ref); /* MR_OK: it did not fail */
