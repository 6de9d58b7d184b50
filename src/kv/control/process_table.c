/* process_table.c — see process_table.h. */
#include "kv/control/process_table.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/binary_search.h"
#include "base/error.h"

enum {
    RATES = 0
#define X(name) +1
    PROCESS_TABLE_RATES(X)
#undef X
        ,
    ROW_HEAD = 4 + 8 + 8 + 1 + 8 + RATES * 8 + 4,
    ROW_MAX = ROW_HEAD + PROCESS_STATE_SIZE_MAX + MR_PS_METRICS_MAX * 8
};

void process_table_fini(process_table *table) {
    for (size_t i = 0; i < table->count; i++) free(table->rows[i]);
    free(table->rows);
    *table = (struct process_table){0};
}

static uint64_t key_of(uint8_t role, uint32_t number) { return (uint64_t)role << 32 | number; }

static int by_key(const void *key, const void *row) {
    const process_state *state = &(*(process_table_row *const *)row)->now;
    uint64_t a = *(const uint64_t *)key, b = key_of(state->role, state->number);
    return (a > b) - (a < b);
}

static size_t seek(const process_table *table, uint64_t key) {
    return binary_search_first(&key, table->rows, table->count, sizeof(process_table_row *), by_key);
}

static process_table_row *find(const process_table *table, uint64_t key) {
    size_t at = seek(table, key);
    return at < table->count && by_key(&key, &table->rows[at]) == 0 ? table->rows[at] : NULL;
}

const process_table_row *process_table_find(const process_table *table, uint8_t role, uint32_t number) {
    return find(table, key_of(role, number));
}

static process_table_row *add(process_table *table, uint64_t key) {
    size_t at = seek(table, key);
    table->rows = xrealloc(table->rows, (table->count + 1) * sizeof(process_table_row *));
    memmove(&table->rows[at + 1], &table->rows[at], (table->count - at) * sizeof(process_table_row *));
    table->count++;
    return table->rows[at] = xcalloc(1, sizeof(process_table_row));
}

/* ---- Rates. */

static double per_second(uint64_t now, uint64_t base, int64_t us) {
    return now < base ? 0 : (double)(now - base) * 1e6 / (double)us;
}

static double report_rate(const process_table_row *row, const process_state_report *report, int64_t us) {
    for (uint32_t i = 0; i < row->base.report_count; i++)
        if (strcmp(row->base.reports[i].key, report->key) == 0)
            return (report->value - row->base.reports[i].value) * 1e6 / (double)us;
    return 0;
}

static void measure(process_table_row *row, int64_t now_us) {
    int64_t us = now_us - row->base_us;
    if (us < PROCESS_TABLE_RATE_US) return;
#define X(name) row->rates.name = per_second(row->now.name, row->base.name, us);
    PROCESS_TABLE_RATES(X)
#undef X
    for (uint32_t i = 0; i < row->now.report_count; i++)
        row->rates.reports[i] = report_rate(row, &row->now.reports[i], us);
    row->base = row->now;
    row->base_us = now_us;
}

void process_table_take(process_table *table, const process_state *state, int64_t now_us) {
    uint64_t key = key_of(state->role, state->number);
    process_table_row *row = find(table, key);
    bool is_new = row == NULL || row->now.incarnation < state->incarnation;
    if (row == NULL) row = add(table, key);
    if (!is_new && row->now.incarnation > state->incarnation) return;
    if (is_new) *row = (process_table_row){.base = *state, .base_us = now_us};
    row->now = *state;
    row->heard_us = now_us;
    row->broken_us = 0;
    measure(row, now_us);
}

/* Only the first break counts: a sender that retries breaks again each time. */
void process_table_broken(process_table *table, const char *address, int64_t now_us) {
    for (size_t i = 0; i < table->count; i++) {
        process_table_row *row = table->rows[i];
        if (row->broken_us == 0 && strcmp(row->now.address, address) == 0) row->broken_us = now_us;
    }
}

bool process_table_is_here(const process_table_row *row, int64_t now_us) {
    bool broken = row->broken_us != 0 && now_us - row->broken_us >= PROCESS_TABLE_BROKEN_US;
    return !broken && now_us - row->heard_us < PROCESS_TABLE_SILENT_US;
}

uint32_t process_table_servers_here(const process_table *table, int64_t now_us) {
    uint32_t here = 0;
    for (size_t i = 0; i < table->count; i++)
        here += table->rows[i]->now.role == MR_PS_SERVERS && process_table_is_here(table->rows[i], now_us);
    return here;
}

/* ---- Pages. */

static void write_row(writer *writer, const process_table_row *row, int64_t now_us) {
    uint8_t bytes[PROCESS_STATE_SIZE_MAX];
    bool here = process_table_is_here(row, now_us);
    writer_u32(writer, row->now.number);
    writer_u64(writer, row->now.incarnation);
    writer_u64(writer, row->now.map);
    writer_u8(writer, here);
    writer_u64(writer, (uint64_t)(now_us - row->heard_us));
#define X(name) writer_f64(writer, here ? row->rates.name : 0);
    PROCESS_TABLE_RATES(X)
#undef X
    writer_span32(writer, span_of(bytes, process_state_encode(&row->now, bytes)));
    for (uint32_t i = 0; i < row->now.report_count; i++) writer_f64(writer, here ? row->rates.reports[i] : 0);
}

uint8_t *process_table_page(const process_table *table, size_t from, int64_t now_us, size_t *size) {
    uint8_t *bytes = xmalloc(CONTROL_MESSAGE_VALUE_MAX);
    writer writer = writer_of(bytes, CONTROL_MESSAGE_VALUE_MAX);
    uint32_t count = 0;
    writer_u32(&writer, (uint32_t)table->count);
    writer_u32(&writer, 0);
    for (size_t i = from; i < table->count && writer_size(&writer) + ROW_MAX <= CONTROL_MESSAGE_VALUE_MAX; i++, count++)
        write_row(&writer, table->rows[i], now_us);
    MR_ASSERT(!writer.failed);
    memcpy(bytes + sizeof count, &count, sizeof count);
    *size = writer_size(&writer);
    return bytes;
}

static mr_status corrupt(uint32_t left) { return error_set(MR_CORRUPT, "malformed process table (%u left)", left); }

mr_status process_table_read(span page, process_table_reading *out) {
    process_table_reading reading = {.reader = reader_of(page.data, page.size)};
    reading.total = reader_u32(&reading.reader);
    reading.count = reader_u32(&reading.reader);
    if (reading.reader.failed || reading.count > reading.total) return corrupt(reading.count);
    *out = reading;
    return MR_OK;
}

mr_status process_table_next(process_table_reading *reading, process_table_line *line) {
    reader *reader = &reading->reader;
    if (reading->count == 0) return reader_left(reader) == 0 ? MR_END : corrupt(reading->count);
    reading->count--;
    uint32_t number = reader_u32(reader);
    uint64_t incarnation = reader_u64(reader), map = reader_u64(reader);
    uint8_t here = reader_u8(reader);
    uint64_t silent_us = reader_u64(reader);
    process_table_rates rates = {0};
#define X(name) rates.name = reader_f64(reader);
    PROCESS_TABLE_RATES(X)
#undef X
    span bytes = reader_span32(reader);
    if (reader->failed || here > 1 || process_state_decode(bytes, &line->state) != MR_OK)
        return corrupt(reading->count);
    for (uint32_t i = 0; i < line->state.report_count; i++) rates.reports[i] = reader_f64(reader);
    if (reader->failed) return corrupt(reading->count);
    line->state.number = number;
    line->state.incarnation = incarnation;
    line->state.map = map;
    line->here = here;
    line->silent_us = (int64_t)(silent_us & INT64_MAX);
    line->rates = rates;
    return MR_OK;
}

/* ---- Lists. */

enum { ENTRY_MAX = 4 + 8 + 1 + MR_PS_ADDRESS_MAX };

static bool is_asked(const process_table_row *row, uint8_t role, uint32_t number, int64_t now_us) {
    if (row->now.role != role) return false;
    return number == PROCESS_TABLE_EVERY ? process_table_is_here(row, now_us) : row->now.number == number;
}

uint8_t *process_table_list(const process_table *table, uint8_t role, uint32_t number, int64_t now_us, size_t *size) {
    uint8_t *bytes = xmalloc(CONTROL_MESSAGE_VALUE_MAX);
    writer writer = writer_of(bytes, CONTROL_MESSAGE_VALUE_MAX);
    uint32_t count = 0;
    writer_u32(&writer, 0);
    for (size_t i = 0; i < table->count && writer_size(&writer) + ENTRY_MAX <= CONTROL_MESSAGE_VALUE_MAX; i++) {
        const process_table_row *row = table->rows[i];
        if (!is_asked(row, role, number, now_us)) continue;
        writer_u32(&writer, row->now.number);
        writer_u64(&writer, row->now.incarnation);
        writer_u8(&writer, process_table_is_here(row, now_us));
        writer_text8(&writer, row->now.address);
        count++;
    }
    MR_ASSERT(!writer.failed);
    memcpy(bytes, &count, sizeof count);
    *size = writer_size(&writer);
    return bytes;
}

static mr_status no_list(uint32_t at) { return error_set(MR_CORRUPT, "malformed process list (entry %u)", at); }

mr_status process_table_list_read(span bytes, reader *out, uint32_t *count) {
    *out = reader_of(bytes.data, bytes.size);
    *count = reader_u32(out);
    return out->failed ? no_list(0) : MR_OK;
}

mr_status process_table_list_next(reader *reader, process_table_entry *entry) {
    entry->number = reader_u32(reader);
    entry->incarnation = reader_u64(reader);
    entry->here = reader_flag(reader);
    if (!reader_text8(reader, entry->address, sizeof entry->address)) return no_list(entry->number);
    return MR_OK;
}
