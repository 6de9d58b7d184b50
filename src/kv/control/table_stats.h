/* table_stats.h — table sizes that a server reports every TABLE_STATS_US, for the slots whose head it is, so that all
 * servers together count each row once.
 *
 *  server: table_stats_add for each slot and table ──► TABLE_STATS ──► table_stats_take ──►
 *  table_stats_sum, over the servers of a cluster map
 *
 *   bytes      content
 *   ---------  ---------------------------------------------------------------------------
 *   4          tables, ids ascending; each:
 *   4 8 8 8   id, keys (rows, vectors or blocks), bytes of memory, left-out pushes (payload_look)
 *
 * The stamp of the control message (CONTROL_TABLE_STATS) has the cluster map of the count, and the server's number and
 * incarnation. While slots move a slot may be counted twice or not at all; the numbers are for display.
 *
 * Bounds  TABLE_STATS_TABLES_MAX tables, more than a catalog holds; servers as in a cluster map. Pure. */
#pragma once
#include "cluster/control_message.h"
#include "ps/cluster_map.h"

#define TABLE_STATS_US INT64_C(1000000)
enum {
    TABLE_STATS_TABLES_MAX = 1024,
    TABLE_STATS_ITEM_SIZE = 28,
    TABLE_STATS_SIZE_MAX = 4 + TABLE_STATS_TABLES_MAX * TABLE_STATS_ITEM_SIZE
};

typedef struct table_stats_item {
    uint32_t table;
    uint64_t keys, bytes, left_out;
} table_stats_item;

typedef struct table_stats {
    uint32_t count;
    table_stats_item items[TABLE_STATS_TABLES_MAX]; /* ids ascending */
} table_stats;

/* Adds to the sizes of its table; a table beyond the limit is left out. */
void table_stats_add(table_stats *stats, table_stats_item item);
const table_stats_item *table_stats_find(const table_stats *stats, uint32_t table); /* NULL: not found */

size_t table_stats_encode(const table_stats *stats, uint8_t out[TABLE_STATS_SIZE_MAX]);
MR_MUST mr_status table_stats_decode(span bytes, table_stats *out); /* MR_CORRUPT */

/* ---- Scheduler. */

typedef struct table_stats_row {
    uint64_t incarnation; /* 0: the server has not reported */
    uint32_t count;
    table_stats_item *items; /* owned */
} table_stats_row;

typedef struct table_stats_list {                  /* zero-initialized: no reports */
    table_stats_row rows[CLUSTER_MAP_SERVERS_MAX]; /* by server */
} table_stats_list;

void table_stats_fini(table_stats_list *list);
/* `server` is below CLUSTER_MAP_SERVERS_MAX; the stats are copied. */
void table_stats_take(table_stats_list *list, uint32_t server, uint64_t incarnation, const table_stats *stats);
/* Sum of the reports of the servers of this cluster map. Returns how many of these servers have reported. */
uint32_t table_stats_sum(const table_stats_list *list, const cluster_map *map, table_stats *out);
