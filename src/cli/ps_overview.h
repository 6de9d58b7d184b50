/* ps_overview.h — tables, dataset, checkpoints and stall of `miniray ps status`, as text and as JSON. */
#pragma once
#include "cli/json_output.h"
#include "miniray/admin.h"
#include "miniray/ps.h"

const char *ps_kind_name(mr_ps_kind kind);          /* static: "sparse" */
const char *ps_dtype_name(mr_dtype dtype);          /* static: "fp32" */
const char *ps_time_text(int64_t us, char out[32]); /* in UTC; "-" for 0 */

void ps_overview_print_stall(const mr_ps_overview *overview);       /* several lines; none without a stall */
void ps_overview_print_checkpoints(const mr_ps_overview *overview); /* one line; more after a failure */
void ps_overview_print_tables(const mr_ps_overview *overview);      /* a table; empty without tables */

void ps_overview_print_data(const mr_ps_overview *overview); /* a line and a table; empty without a dataset */

/* The same as JSON: a map, or nil if there is nothing to report; the tables are a list of maps. */
mr_arg ps_overview_stall_json(const mr_ps_overview *overview, json_output *json);
mr_arg ps_overview_checkpoints_json(const mr_ps_overview *overview, json_output *json);
mr_arg ps_overview_tables_json(const mr_ps_overview *overview, json_output *json);
mr_arg ps_overview_data_json(const mr_ps_overview *overview, json_output *json);
