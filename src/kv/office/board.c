/* board.c — see board.h. */
#include "kv/office/board.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/search.h"

enum {
    RATES = 0
#define X(name) +1
    BOARD_RATES(X)
#undef X
        ,
    ROW_HEAD = 4 + 8 + 8 + 1 + 8 + RATES * 8 + 4,
    ROW_MAX = ROW_HEAD + STANDING_SIZE_MAX + MR_PS_METRICS_MAX * 8
};

void board_fini(board *board) {
    for (size_t i = 0; i < board->count; i++) free(board->rows[i]);
    free(board->rows);
    *board = (struct board){0};
}

static uint64_t key_of(uint8_t role, uint32_t number) { return (uint64_t)role << 32 | number; }

static int by_key(const void *key, const void *row) {
    const standing *standing = &(*(board_row *const *)row)->now;
    uint64_t a = *(const uint64_t *)key, b = key_of(standing->role, standing->number);
    return (a > b) - (a < b);
}

static size_t seek(const board *board, uint64_t key) {
    return search_first(&key, board->rows, board->count, sizeof(board_row *), by_key);
}

static board_row *find(const board *board, uint64_t key) {
    size_t at = seek(board, key);
    return at < board->count && by_key(&key, &board->rows[at]) == 0 ? board->rows[at] : NULL;
}

const board_row *board_find(const board *board, uint8_t role, uint32_t number) {
    return find(board, key_of(role, number));
}

static board_row *add(board *board, uint64_t key) {
    size_t at = seek(board, key);
    board->rows = xrealloc(board->rows, (board->count + 1) * sizeof(board_row *));
    memmove(&board->rows[at + 1], &board->rows[at], (board->count - at) * sizeof(board_row *));
    board->count++;
    return board->rows[at] = xcalloc(1, sizeof(board_row));
}

/* ---- Rates. */

static double per_second(uint64_t now, uint64_t base, int64_t us) {
    return now < base ? 0 : (double)(now - base) * 1e6 / (double)us;
}

static double report_rate(const board_row *row, const standing_report *report, int64_t us) {
    for (uint32_t i = 0; i < row->base.report_count; i++)
        if (strcmp(row->base.reports[i].key, report->key) == 0)
            return (report->value - row->base.reports[i].value) * 1e6 / (double)us;
    return 0;
}

static void measure(board_row *row, int64_t now_us) {
    int64_t us = now_us - row->base_us;
    if (us < BOARD_RATE_US) return;
#define X(name) row->rates.name = per_second(row->now.name, row->base.name, us);
    BOARD_RATES(X)
#undef X
    for (uint32_t i = 0; i < row->now.report_count; i++)
        row->rates.reports[i] = report_rate(row, &row->now.reports[i], us);
    row->base = row->now;
    row->base_us = now_us;
}

void board_take(board *board, const standing *standing, int64_t now_us) {
    uint64_t key = key_of(standing->role, standing->number);
    board_row *row = find(board, key);
    bool is_new = row == NULL || row->now.incarnation < standing->incarnation;
    if (row == NULL) row = add(board, key);
    if (!is_new && row->now.incarnation > standing->incarnation) return;
    if (is_new) *row = (board_row){.base = *standing, .base_us = now_us};
    row->now = *standing;
    row->heard_us = now_us;
    row->broken_us = 0;
    measure(row, now_us);
}

/* The first time counts: whoever writes to it goes on trying, and breaks again each time. */
void board_broken(board *board, const char *address, int64_t now_us) {
    for (size_t i = 0; i < board->count; i++) {
        board_row *row = board->rows[i];
        if (row->broken_us == 0 && strcmp(row->now.address, address) == 0) row->broken_us = now_us;
    }
}

bool board_is_here(const board_row *row, int64_t now_us) {
    bool broken = row->broken_us != 0 && now_us - row->broken_us >= BOARD_BROKEN_US;
    return !broken && now_us - row->heard_us < BOARD_SILENT_US;
}

uint32_t board_servers_here(const board *board, int64_t now_us) {
    uint32_t here = 0;
    for (size_t i = 0; i < board->count; i++)
        here += board->rows[i]->now.role == MR_PS_SERVERS && board_is_here(board->rows[i], now_us);
    return here;
}

/* ---- Pages. */

static void write_row(writer *writer, const board_row *row, int64_t now_us) {
    uint8_t bytes[STANDING_SIZE_MAX];
    bool here = board_is_here(row, now_us);
    writer_u32(writer, row->now.number);
    writer_u64(writer, row->now.incarnation);
    writer_u64(writer, row->now.chart);
    writer_u8(writer, here);
    writer_u64(writer, (uint64_t)(now_us - row->heard_us));
#define X(name) writer_f64(writer, here ? row->rates.name : 0);
    BOARD_RATES(X)
#undef X
    writer_span32(writer, span_of(bytes, standing_encode(&row->now, bytes)));
    for (uint32_t i = 0; i < row->now.report_count; i++) writer_f64(writer, here ? row->rates.reports[i] : 0);
}

uint8_t *board_page(const board *board, size_t from, int64_t now_us, size_t *size) {
    uint8_t *bytes = xmalloc(LETTER_VALUE_MAX);
    writer writer = writer_of(bytes, LETTER_VALUE_MAX);
    uint32_t count = 0;
    writer_u32(&writer, (uint32_t)board->count);
    writer_u32(&writer, 0);
    for (size_t i = from; i < board->count && writer_size(&writer) + ROW_MAX <= LETTER_VALUE_MAX; i++, count++)
        write_row(&writer, board->rows[i], now_us);
    MR_ASSERT(!writer.failed);
    memcpy(bytes + sizeof count, &count, sizeof count);
    *size = writer_size(&writer);
    return bytes;
}

static mr_status corrupt(uint32_t left) { return error_set(MR_CORRUPT, "malformed process table (%u left)", left); }

mr_status board_read(span page, board_reading *out) {
    board_reading reading = {.reader = reader_of(page.data, page.size)};
    reading.total = reader_u32(&reading.reader);
    reading.count = reader_u32(&reading.reader);
    if (reading.reader.failed || reading.count > reading.total) return corrupt(reading.count);
    *out = reading;
    return MR_OK;
}

mr_status board_next(board_reading *reading, board_line *line) {
    reader *reader = &reading->reader;
    if (reading->count == 0) return reader_left(reader) == 0 ? MR_END : corrupt(reading->count);
    reading->count--;
    uint32_t number = reader_u32(reader);
    uint64_t incarnation = reader_u64(reader), chart = reader_u64(reader);
    uint8_t here = reader_u8(reader);
    uint64_t silent_us = reader_u64(reader);
    board_rates rates = {0};
#define X(name) rates.name = reader_f64(reader);
    BOARD_RATES(X)
#undef X
    span bytes = reader_span32(reader);
    if (reader->failed || here > 1 || standing_decode(bytes, &line->standing) != MR_OK) return corrupt(reading->count);
    for (uint32_t i = 0; i < line->standing.report_count; i++) rates.reports[i] = reader_f64(reader);
    if (reader->failed) return corrupt(reading->count);
    line->standing.number = number;
    line->standing.incarnation = incarnation;
    line->standing.chart = chart;
    line->here = here;
    line->silent_us = (int64_t)(silent_us & INT64_MAX);
    line->rates = rates;
    return MR_OK;
}

/* ---- Lists. */

enum { ENTRY_MAX = 4 + 8 + 1 + MR_PS_ADDRESS_MAX };

static bool is_asked(const board_row *row, uint8_t role, uint32_t number, int64_t now_us) {
    if (row->now.role != role) return false;
    return number == BOARD_EVERY ? board_is_here(row, now_us) : row->now.number == number;
}

uint8_t *board_list(const board *board, uint8_t role, uint32_t number, int64_t now_us, size_t *size) {
    uint8_t *bytes = xmalloc(LETTER_VALUE_MAX);
    writer writer = writer_of(bytes, LETTER_VALUE_MAX);
    uint32_t count = 0;
    writer_u32(&writer, 0);
    for (size_t i = 0; i < board->count && writer_size(&writer) + ENTRY_MAX <= LETTER_VALUE_MAX; i++) {
        const board_row *row = board->rows[i];
        if (!is_asked(row, role, number, now_us)) continue;
        writer_u32(&writer, row->now.number);
        writer_u64(&writer, row->now.incarnation);
        writer_u8(&writer, board_is_here(row, now_us));
        writer_text8(&writer, row->now.address);
        count++;
    }
    MR_ASSERT(!writer.failed);
    memcpy(bytes, &count, sizeof count);
    *size = writer_size(&writer);
    return bytes;
}

static mr_status no_list(uint32_t at) { return error_set(MR_CORRUPT, "malformed process list (entry %u)", at); }

mr_status board_list_read(span bytes, reader *out, uint32_t *count) {
    *out = reader_of(bytes.data, bytes.size);
    *count = reader_u32(out);
    return out->failed ? no_list(0) : MR_OK;
}

mr_status board_list_next(reader *reader, board_entry *entry) {
    entry->number = reader_u32(reader);
    entry->incarnation = reader_u64(reader);
    entry->here = reader_flag(reader);
    if (!reader_text8(reader, entry->address, sizeof entry->address)) return no_list(entry->number);
    return MR_OK;
}
