/* server_query.h — a worker asks all servers whether they have the optimizer of a new table. */
#pragma once
#include "miniray/ps.h"

/* Checks that all live servers have the optimizer of this table option. MR_NOT_FOUND: a server does not, and the error
 * names it. MR_OK for a built-in optimizer. */
MR_MUST mr_status server_query_optimizer(mr_ps *ps, const char *optimizer, int64_t timeout_us);
