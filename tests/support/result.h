/* result.h — what became of a future, for tests: asserts, releases it, and waits for as long as it takes. */
#pragma once
#include "miniray/runtime.h"

mr_value result_value(mr_context *mr, mr_ref ref); /* the caller's */
int64_t result_int(mr_context *mr, mr_ref ref);
double result_float(mr_context *mr, mr_ref ref);
mr_status result_failure(mr_context *mr, mr_ref ref); /* MR_OK: it did not fail */
