/* server_query.h — a worker asks all servers whether they can hold a new table: its optimizer, its compression. */
#pragma once
#include "kv/codec/compress.h"
#include "miniray/ps.h"

/* Checks that all live servers have the optimizer of this table option. MR_NOT_FOUND: a server does not, and the error
 * names it. MR_OK for a built-in optimizer. */
MR_MUST mr_status server_query_optimizer(mr_ps *ps, const char *optimizer, int64_t timeout_us);

/* Checks that all live servers have the library of this compression. MR_NOT_FOUND: a server does not, and the error
 * names it. A server that joins later is checked by the scheduler (server_admission.h). */
MR_MUST mr_status server_query_compressor(mr_ps *ps, compressor_id id, int64_t timeout_us);
