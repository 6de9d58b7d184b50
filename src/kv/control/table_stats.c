/* table_stats.c — see table_stats.h. */
#include "kv/control/table_stats.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/binary_search.h"
#include "base/error.h"

void table_stats_fini(table_stats *stats) {
    free(stats->items);
    *stats = (table_stats){0};
}

void table_stats_add(table_stats *stats, table_stats_item item) {
    xgrow(&stats->items, &stats->room, stats->count + 1, sizeof *stats->items);
    stats->items[stats->count++] = item;
}

void table_stats_limit(table_stats *stats, uint32_t to) {
    if (stats->to == 0 || to < stats->to) stats->to = to;
}

static void add_sizes(table_stats_item *to, const table_stats_item *from) {
    to->keys += from->keys;
    to->bytes += from->bytes;
    to->left_out += from->left_out;
}

static int compare_items(const void *a, const void *b) {
    uint32_t left = ((const table_stats_item *)a)->table, right = ((const table_stats_item *)b)->table;
    return (left > right) - (left < right);
}

void table_stats_finish(table_stats *stats) {
    size_t count = 0;
    if (stats->count != 0) qsort(stats->items, stats->count, sizeof *stats->items, compare_items);
    table_stats_limit(stats, UINT32_MAX);
    for (size_t i = 0; i < stats->count; i++) {
        const table_stats_item *item = &stats->items[i];
        bool again = count != 0 && stats->items[count - 1].table == item->table;
        if (!again && count == TABLE_STATS_TABLES_MAX) table_stats_limit(stats, item->table);
        if (item->table >= stats->to) break;
        if (again)
            add_sizes(&stats->items[count - 1], item);
        else
            stats->items[count++] = *item;
    }
    stats->count = count;
}

size_t table_stats_encode(const table_stats *stats, uint8_t out[TABLE_STATS_SIZE_MAX]) {
    writer writer = writer_of(out, TABLE_STATS_SIZE_MAX);
    writer_u32(&writer, stats->from);
    writer_u32(&writer, stats->to);
    writer_u32(&writer, (uint32_t)stats->count);
    for (size_t i = 0; i < stats->count; i++) {
        const table_stats_item *item = &stats->items[i];
        writer_u32(&writer, item->table);
        writer_u64(&writer, item->keys);
        writer_u64(&writer, item->bytes);
        writer_u64(&writer, item->left_out);
    }
    MR_ASSERT(!writer.failed);
    return writer_size(&writer);
}

mr_status table_stats_decode(span bytes, table_stats *out) {
    reader reader = reader_of(bytes.data, bytes.size);
    table_stats stats = {.from = reader_u32(&reader)};
    stats.to = reader_u32(&reader);
    uint32_t count = reader_u32(&reader);
    uint64_t least = stats.from == 0 ? 1 : stats.from; /* no table has the id 0 */
    bool good = !reader.failed && count <= TABLE_STATS_TABLES_MAX && stats.from < stats.to;
    for (uint32_t i = 0; good && i < count; i++) {
        table_stats_item item = {.table = reader_u32(&reader)};
        item.keys = reader_u64(&reader);
        item.bytes = reader_u64(&reader);
        item.left_out = reader_u64(&reader);
        good = !reader.failed && item.table >= least && item.table < stats.to;
        least = (uint64_t)item.table + 1;
        table_stats_add(&stats, item);
    }
    if (good && reader_left(&reader) == 0) {
        *out = stats;
        return MR_OK;
    }
    table_stats_fini(&stats);
    return error_set(MR_CORRUPT, "malformed table sizes of %zu bytes", bytes.size);
}

/* ---- Scheduler. */

void table_stats_list_fini(table_stats_list *list) {
    for (size_t i = 0; i < CLUSTER_MAP_SERVERS_MAX; i++) free(list->rows[i].items);
}

static size_t place_of(const table_stats_row *row, uint32_t table) {
    return binary_search_first(&table, row->items, row->count, sizeof *row->items, binary_search_u32);
}

void table_stats_take(table_stats_list *list, uint32_t server, uint64_t incarnation, const table_stats *stats) {
    table_stats_row *row = &list->rows[server];
    if (incarnation < row->incarnation) return;
    if (incarnation > row->incarnation) row->count = 0;
    row->incarnation = incarnation;
    size_t before = place_of(row, stats->from), after = stats->to == UINT32_MAX ? row->count : place_of(row, stats->to);
    size_t behind = row->count - after, count = before + stats->count + behind;
    if (count > TABLE_STATS_ALL_MAX) return;
    table_stats_item *items = xcalloc(count + 1, sizeof *items);
    if (before != 0) memcpy(items, row->items, before * sizeof *items);
    if (stats->count != 0) memcpy(items + before, stats->items, stats->count * sizeof *items);
    if (behind != 0) memcpy(items + before + stats->count, row->items + after, behind * sizeof *items);
    free(row->items);
    row->items = items;
    row->count = count;
}

/* The report of a server of the cluster map; NULL: none. */
static const table_stats_row *row_of(const table_stats_list *list, const cluster_map_server *server) {
    const table_stats_row *row = &list->rows[server->id];
    return server->incarnation == row->incarnation ? row : NULL;
}

table_stats_item table_stats_sum(const table_stats_list *list, const cluster_map *map, uint32_t table) {
    table_stats_item sum = {.table = table};
    for (uint32_t i = 0; i < map->server_count; i++) {
        const table_stats_row *row = row_of(list, &map->servers[i]);
        size_t at = row == NULL ? 0 : place_of(row, table);
        if (row != NULL && at < row->count && row->items[at].table == table) add_sizes(&sum, &row->items[at]);
    }
    return sum;
}

uint32_t table_stats_reported(const table_stats_list *list, const cluster_map *map) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < map->server_count; i++) count += row_of(list, &map->servers[i]) != NULL;
    return count;
}
