/* shutdown_error.h — error of calls after mr_shutdown. */
#pragma once
#include "base/error.h"

#define SHUTDOWN_ERROR_TEXT "the runtime was shut down"

static inline mr_status shutdown_error_error(void) { return error_set(MR_CLOSED, SHUTDOWN_ERROR_TEXT); }
