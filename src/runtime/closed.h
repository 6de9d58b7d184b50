/* closed.h — error of calls after mr_shutdown. */
#pragma once
#include "base/error.h"

#define CLOSED_TEXT "the runtime was shut down"

static inline mr_status closed_error(void) { return error_set(MR_CLOSED, CLOSED_TEXT); }
