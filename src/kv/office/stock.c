/* stock.c — see stock.h. */
#include "kv/office/stock.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/search.h"

static size_t seek(const stock *stock, uint32_t table) {
    return search_first(&table, stock->items, stock->count, sizeof *stock->items, search_u32);
}

const stock_item *stock_find(const stock *stock, uint32_t table) {
    size_t at = seek(stock, table);
    return at < stock->count && stock->items[at].table == table ? &stock->items[at] : NULL;
}

void stock_add(stock *stock, stock_item item) {
    size_t at = seek(stock, item.table);
    bool there = at < stock->count && stock->items[at].table == item.table;
    if (!there && stock->count == STOCK_TABLES_MAX) return;
    if (!there) {
        memmove(&stock->items[at + 1], &stock->items[at], (stock->count - at) * sizeof *stock->items);
        stock->count++;
        stock->items[at] = (stock_item){.table = item.table};
    }
    stock->items[at].keys += item.keys;
    stock->items[at].bytes += item.bytes;
    stock->items[at].left_out += item.left_out;
}

size_t stock_encode(const stock *stock, uint8_t out[STOCK_SIZE_MAX]) {
    writer writer = writer_of(out, STOCK_SIZE_MAX);
    writer_u32(&writer, stock->count);
    for (uint32_t i = 0; i < stock->count; i++) {
        const stock_item *item = &stock->items[i];
        writer_u32(&writer, item->table);
        writer_u64(&writer, item->keys);
        writer_u64(&writer, item->bytes);
        writer_u64(&writer, item->left_out);
    }
    MR_ASSERT(!writer.failed);
    return writer_size(&writer);
}

mr_status stock_decode(span bytes, stock *out) {
    reader reader = reader_of(bytes.data, bytes.size);
    uint32_t before = 0;
    out->count = reader_u32(&reader);
    bool good = !reader.failed && out->count <= STOCK_TABLES_MAX;
    for (uint32_t i = 0; good && i < out->count; i++) {
        stock_item *item = &out->items[i];
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

/* ---- The scheduler's. */

void stocks_fini(stocks *stocks) {
    for (size_t i = 0; i < CHART_SERVERS_MAX; i++) free(stocks->rows[i].items);
}

void stocks_take(stocks *stocks, uint32_t server, uint64_t incarnation, const stock *stock) {
    stocks_row *row = &stocks->rows[server];
    if (incarnation < row->incarnation) return;
    row->incarnation = incarnation;
    row->count = stock->count;
    row->items = xrealloc(row->items, (stock->count + 1) * sizeof *row->items);
    memcpy(row->items, stock->items, stock->count * sizeof *stock->items);
}

uint32_t stocks_sum(const stocks *stocks, const chart *chart, stock *out) {
    uint32_t said = 0;
    out->count = 0;
    for (uint32_t i = 0; i < CHART_SERVERS_MAX; i++) {
        const stocks_row *row = &stocks->rows[i];
        const chart_server *server = chart_find(chart, i);
        if (server == NULL || server->incarnation != row->incarnation) continue;
        for (uint32_t k = 0; k < row->count; k++) stock_add(out, row->items[k]);
        said++;
    }
    return said;
}
