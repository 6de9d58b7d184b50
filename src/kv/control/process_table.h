/* process_table.h — process table of the scheduler: the last reported state of every process (process_state.h), and its
 * rates.
 *
 *  process state ──► process_table_take ──► row: the newest state, its time, and the changes per second
 *  question for a page ──► process_table_page ──► rows, as many as fit into a control message
 *
 * A rate is measured over PROCESS_TABLE_RATE_US or a little more, between two states of the same process. A process
 * counts as gone after PROCESS_TABLE_SILENT_US without a message, or PROCESS_TABLE_BROKEN_US if its link broke.
 *
 *   bytes    a page
 *   -------  ----------------------------------------------------------------------------------
 *   4 4  rows of the process table, rows of this page; each:
 *   4 8 8  number, incarnation, cluster map
 *   1 8      1: alive; µs since its last message
 *   8 …  PROCESS_TABLE_RATES, per second
 *   4 + n    the process state; then for each of its reports 8: change per second
 *
 * Bounds      one row for each process number and role. Pure. */
#pragma once
#include "kv/control/process_state.h"

#define PROCESS_TABLE_RATE_US   INT64_C(1000000)
#define PROCESS_TABLE_SILENT_US INT64_C(3000000)
#define PROCESS_TABLE_BROKEN_US INT64_C(600000)

#define PROCESS_TABLE_RATES(X) X(step) X(pushes) X(pulls) X(bytes_in) X(bytes_out)

typedef struct process_table_rates {
#define X(name) double name;
    PROCESS_TABLE_RATES(X)
#undef X
    double reports[MR_PS_METRICS_MAX]; /* in the order of the process state's reports */
} process_table_rates;

typedef struct process_table_row {
    process_state now, base; /* base: start of the rate measurement */
    int64_t heard_us, base_us;
    int64_t broken_us; /* since the last message; 0: not broken */
    process_table_rates rates;
} process_table_row;

typedef struct process_table { /* zero-initialized: empty */
    process_table_row **rows;  /* owned, with its elements; by role, then number */
    size_t count;
} process_table;

void process_table_fini(process_table *table);
/* Records a reported state. Messages of an earlier process with the same number are ignored. */
void process_table_take(process_table *table, const process_state *state, int64_t now_us);
/* the link to this address broke */
void process_table_broken(process_table *table, const char *address, int64_t now_us);
/* NULL: no report yet */
const process_table_row *process_table_find(const process_table *table, uint8_t role, uint32_t number);
bool process_table_is_here(const process_table_row *row, int64_t now_us);
uint32_t process_table_servers_here(const process_table *table, int64_t now_us);

/* Page from row `from` on, at most CONTROL_MESSAGE_VALUE_MAX bytes; the caller frees them. */
uint8_t *process_table_page(const process_table *table, size_t from, int64_t now_us, size_t *size);

/* Addresses of the processes of one role: all live ones, or one process, alive or gone. The caller frees the bytes.
 *
 *   4        number of processes; each: 4 number, 8 incarnation, 1 here, 1 + n address */
#define PROCESS_TABLE_EVERY UINT32_MAX
uint8_t *process_table_list(const process_table *table, uint8_t role, uint32_t number, int64_t now_us, size_t *size);

typedef struct process_table_entry {
    uint32_t number;
    uint64_t incarnation;
    bool here;
    char address[MR_PS_ADDRESS_MAX];
} process_table_entry;
MR_MUST mr_status process_table_list_read(span bytes, reader *out, uint32_t *count);   /* MR_CORRUPT */
MR_MUST mr_status process_table_list_next(reader *reader, process_table_entry *entry); /* MR_CORRUPT */

typedef struct process_table_line { /* a decoded row */
    process_state state;
    bool here;
    int64_t silent_us;
    process_table_rates rates;
} process_table_line;

typedef struct process_table_reading {
    reader reader;
    uint32_t total, count; /* rows of the process table; unread rows of this page */
} process_table_reading;

MR_MUST mr_status process_table_read(span page, process_table_reading *out);                    /* MR_CORRUPT */
MR_MUST mr_status process_table_next(process_table_reading *reading, process_table_line *line); /* MR_END; MR_CORRUPT */
