/* inspect_api.h — the connection of an observer (runtime/inspect): that of a process which only inspects a node, or of
 * a process that has joined it anyway. */
#pragma once
#include "runtime/inspect/inspect.h"

/* An observer within a process, for one use: nothing is to be closed. */
mr_inspect inspect_api_borrow(mr_context *mr, int64_t until_us);
