/* ps_process_list.h — processes of a parameter server in `miniray ps status`, as text and as JSON. */
#pragma once
#include <stdbool.h>

#include "cli/json_output.h"
#include "miniray/admin.h"
#include "miniray/ps.h"

const mr_ps_process *ps_process_list_find(const mr_ps_processes *process_table, int role,
                                          uint32_t number); /* NULL: no such process */

/* A line with the slowest and the fastest connected rank; nothing if there is none. */
void ps_process_list_print_steps(const mr_ps_processes *process_table);
void ps_process_list_print_disputes(const mr_ps_processes *process_table); /* a line, if a server reports conflicts */
/* A table of the metrics of scheduler and servers; nothing if there are none. */
void ps_process_list_print_others(const mr_ps_processes *process_table);
void ps_process_list_print_ranks(const mr_ps_processes *process_table);
void ps_process_list_print_readers(const mr_ps_processes *process_table); /* a table of ranks with their metrics */

mr_arg ps_process_list_json(const mr_ps_processes *process_table,
                            json_output *json); /* a list, one map for each process */
