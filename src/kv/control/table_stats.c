/* table_stats.c — see table_stats.h. */
#include "kv/control/table_stats.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/binary_search.h"
#include "base/error.h"

static size_t seek(const table_stats *stats, uint32_t table) {
    return binary_search_first(&table, stats->items, stats->count, sizeof *stats->items, binary_search_u32);
}

const table_stats_item *table_stats_find(const table_stats *stats, uint32_t table) {
    size_t at = seek(stats, table);
    return at < stats->count && stats->items[at].table == table ? &stats->items[at] : NULL;
}

void table_stats_add(table_stats *stats, table_stats_item item) {
    size_t at = seek(stats, item.table);
    bool there = at < stats->count && stats->items[at].table == item.table;
    if (!there && stats->count == TABLE_STATS_TABLES_MAX) return;
    if (!there) {
        memmove(&stats->items[at + 1], &stats->items[at], (stats->count - at) * sizeof *stats->items);
        stats->count++;
        stats->items[at] = (table_stats_item){.table = item.table};
    }
    stats->items[at].keys += item.keys;
    stats->items[at].bytes += item.bytes;
    stats->items[at].left_out += item.left_out;
}

size_t table_stats_encode(const table_stats *stats, uint8_t out[TABLE_STATS_SIZE_MAX]) {
    writer writer = writer_of(out, TABLE_STATS_SIZE_MAX);
    writer_u32(&writer, stats->count);
    for (uint32_t i = 0; i < stats->count; i++) {
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
    uint32_t before = 0;
    out->count = reader_u32(&reader);
    bool good = !reader.failed && out->count <= TABLE_STATS_TABLES_MAX;
    for (uint32_t i = 0; good && i < out->count; i++) {
        table_stats_item *item = &out->items[i];
        item->table = reader_u32(&reader);
        item->keys = reader_u64(&reader);
        item->bytes = reader_u64(&reader);
        item->left_out = reader_u64(&reader);
        good = !reader.failed && item->table > before;
        before = item->table;
    }
    if (!good || reader_left(&reader) != 0)
        return error_set(MR_CORRUPT, "malformed table sizes of %zu bytes", bytes.size);
    return MR_OK;
}

/* ---- Scheduler. */

void table_stats_fini(table_stats_list *list) {
    for (size_t i = 0; i < CLUSTER_MAP_SERVERS_MAX; i++) free(list->rows[i].items);
}

void table_stats_take(table_stats_list *list, uint32_t server, uint64_t incarnation, const table_stats *stats) {
    table_stats_row *row = &list->rows[server];
    if (incarnation < row->incarnation) return;
    row->incarnation = incarnation;
    row->count = stats->count;
    row->items = xrealloc(row->items, (stats->count + 1) * sizeof *row->items);
    memcpy(row->items, stats->items, stats->count * sizeof *stats->items);
}

uint32_t table_stats_sum(const table_stats_list *list, const cluster_map *map, table_stats *out) {
    uint32_t said = 0;
    out->count = 0;
    for (uint32_t i = 0; i < CLUSTER_MAP_SERVERS_MAX; i++) {
        const table_stats_row *row = &list->rows[i];
        const cluster_map_server *server = cluster_map_find(map, i);
        if (server == NULL || server->incarnation != row->incarnation) continue;
        for (uint32_t k = 0; k < row->count; k++) table_stats_add(out, row->items[k]);
        said++;
    }
    return said;
}
