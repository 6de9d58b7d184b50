/* ps_overview.h — tables, dataset, checkpoints and stall of `miniray ps status`, as text and as JSON. */
#pragma once
#include "miniray/admin.h"
#include "miniray/ps.h"

const char *ps_kind_name(mr_ps_kind kind);          /* static: "sparse" */
const char *ps_dtype_name(mr_dtype dtype);          /* static: "fp32" */
const char *ps_time_text(int64_t us, char out[32]); /* in UTC; "-": 0 */

void ps_overview_print_awaited(const mr_ps_overview *overview);     /* lines, if it is stalled */
void ps_overview_print_checkpoints(const mr_ps_overview *overview); /* a line; more if one failed */
void ps_overview_print_tables(const mr_ps_overview *overview);      /* a table; nothing if there is none */

void ps_overview_print_data(const mr_ps_overview *overview); /* a line and a table; nothing if there is none */

typedef struct ps_overview_pages ps_overview_pages; /* opaque: memory of the JSON's values until it is written */
/* A map of each of the four, or nil. NULL: no memory. */
ps_overview_pages *ps_overview_json(const mr_ps_overview *overview, mr_arg *awaited, mr_arg *checkpoints,
                                    mr_arg *tables, mr_arg *data);
void ps_overview_pages_free(ps_overview_pages *pages); /* NULL: no-op */
