/* stock.h — table sizes that a server reports every STOCK_US, of the slots that it leads, so that all servers together
 * count each row once.
 *
 *   server: stock_add for each slot and table ──► STOCK, a letter ──► stocks_take ──► stocks_sum, of those in a chart
 *
 *   bytes      what
 *   ---------  ---------------------------------------------------------------------------
 *   4          tables, ids ascending; each:
 *   4 8 8 8    id, keys (rows, vectors or blocks), bytes of memory, what was left out (parcel_look)
 *
 * The stamp of the letter (DESK_STOCK) has the chart by which it was counted, the server's number and its incarnation.
 * While slots move one may be counted twice, or by nobody, for a moment: these are numbers for people.
 *
 * Bounds      STOCK_TABLES_MAX tables, more than a catalogue has room for; servers as a chart has them. Pure. */
#pragma once
#include "cluster/letter.h"
#include "ps/chart.h"

#define STOCK_US INT64_C(1000000)
enum { STOCK_TABLES_MAX = 1024, STOCK_ITEM_SIZE = 28, STOCK_SIZE_MAX = 4 + STOCK_TABLES_MAX * STOCK_ITEM_SIZE };

typedef struct stock_item {
    uint32_t table;
    uint64_t keys, bytes, left_out;
} stock_item;

typedef struct stock {
    uint32_t count;
    stock_item items[STOCK_TABLES_MAX]; /* ids ascending */
} stock;

void stock_add(stock *stock, stock_item item); /* to what is there of its table; one too many is left out */
const stock_item *stock_find(const stock *stock, uint32_t table); /* NULL: nothing of it */

size_t stock_encode(const stock *stock, uint8_t out[STOCK_SIZE_MAX]);
MR_MUST mr_status stock_decode(span bytes, stock *out); /* MR_CORRUPT */

/* ---- The scheduler's. */

typedef struct stocks_row {
    uint64_t incarnation; /* 0: the server has said nothing */
    uint32_t count;
    stock_item *items; /* owned */
} stocks_row;

typedef struct stocks {                 /* zeros: no server has said anything */
    stocks_row rows[CHART_SERVERS_MAX]; /* by server */
} stocks;

void stocks_fini(stocks *stocks);
/* `server` is below CHART_SERVERS_MAX; the stock is copied. */
void stocks_take(stocks *stocks, uint32_t server, uint64_t incarnation, const stock *stock);
/* What servers of this chart have said, added up. Gives how many of them have said anything. */
uint32_t stocks_sum(const stocks *stocks, const chart *chart, stock *out);
