/* table_stats.h — table sizes that a server reports every TABLE_STATS_US, for the slots whose head it is, so that all
 * servers together count each row once.
 *
 *  server: table_stats_add for each slot and table, table_stats_finish ──► TABLE_STATS ──►
 *  scheduler: table_stats_take ──► table_stats_sum, over the servers of a cluster map
 *
 * A report is about a range of ids, with at most TABLE_STATS_TABLES_MAX tables; the next report continues after it. A
 * report replaces what was reported of its range, so a lost one is made up for by a later one.
 *
 *   bytes      content
 *   ---------  ---------------------------------------------------------------------------
 *   4 4       first id of the range, first id after it; UINT32_MAX: no table follows
 *   4          tables, ids ascending; each:
 *   4 8 8 8   id, keys (rows, vectors or blocks), bytes of memory, left-out pushes (payload_look)
 *
 * The stamp of the control message (CONTROL_TABLE_STATS) has the cluster map of the count, and the server's number and
 * incarnation. While slots move a slot may be counted twice or not at all; the numbers are for display.
 *
 * Bounds  TABLE_STATS_TABLES_MAX tables of a report, TABLE_STATS_ALL_MAX of a server; servers as in a cluster map.
 * Ownership  a report owns its items. Pure. */
#pragma once
#include "cluster/control_message.h"
#include "ps/cluster_map.h"

#define TABLE_STATS_US INT64_C(1000000)
enum {
    TABLE_STATS_TABLES_MAX = 4096,
    TABLE_STATS_ALL_MAX = 100 * 1000,
    TABLE_STATS_ITEM_SIZE = 28,
    TABLE_STATS_SIZE_MAX = 12 + TABLE_STATS_TABLES_MAX * TABLE_STATS_ITEM_SIZE
};
_Static_assert((int)TABLE_STATS_SIZE_MAX <= (int)CONTROL_MESSAGE_VALUE_MAX, "a report fits into a control message");

typedef struct table_stats_item {
    uint32_t table;
    uint64_t keys, bytes, left_out;
} table_stats_item;

typedef struct table_stats { /* zero-initialized: about all tables, none yet */
    uint32_t from, to;       /* range of ids; `to` 0: not limited yet */
    size_t count, room;
    table_stats_item *items; /* owned; after table_stats_finish ids ascending */
} table_stats;

void table_stats_fini(table_stats *stats);
void table_stats_add(table_stats *stats, table_stats_item item); /* the sizes of a table in one slot */
void table_stats_limit(table_stats *stats, uint32_t to);         /* a slot has not told its tables from this id on */
/* Adds up the items of each table, and limits the range to TABLE_STATS_TABLES_MAX of them. */
void table_stats_finish(table_stats *stats);

size_t table_stats_encode(const table_stats *stats, uint8_t out[TABLE_STATS_SIZE_MAX]);
MR_MUST mr_status table_stats_decode(span bytes, table_stats *out); /* MR_CORRUPT */

/* ---- Scheduler. */

typedef struct table_stats_row {
    uint64_t incarnation; /* 0: the server has not reported */
    size_t count;
    table_stats_item *items; /* owned; ids ascending */
} table_stats_row;

typedef struct table_stats_list {                  /* zero-initialized: no reports */
    table_stats_row rows[CLUSTER_MAP_SERVERS_MAX]; /* by server */
} table_stats_list;

void table_stats_list_fini(table_stats_list *list);
/* `server` is below CLUSTER_MAP_SERVERS_MAX; the stats are copied. */
void table_stats_take(table_stats_list *list, uint32_t server, uint64_t incarnation, const table_stats *stats);
/* Sizes of a table in the reports of the servers of this cluster map. */
table_stats_item table_stats_sum(const table_stats_list *list, const cluster_map *map, uint32_t table);
uint32_t table_stats_reported(const table_stats_list *list, const cluster_map *map); /* servers that have reported */
