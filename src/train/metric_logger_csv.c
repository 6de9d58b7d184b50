/* metric_logger_csv.c — metric logger for CSV files (RFC 4180).
 *
 * A column is added when its field appears for the first time. All rows are kept in memory: when an epoch has a new
 * field, the file is written again with one more column. Tested by src/train/metric_logger_test.c. */
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/json.h"
#include "train/epoch_result.h"
#include "train/metric_logger.h"

typedef struct row {
    char *text; /* owned: the cells of the row with commas, without a newline */
    size_t cells;
} row;

typedef struct table {
    char **columns; /* owned */
    size_t column_count;
    row *rows; /* owned */
    size_t row_count;
} table;

typedef struct line { /* the row of the current epoch */
    table *table;
    buffer *cells; /* one for each column found so far */
    size_t count;
} line;

static mr_status put_text(buffer *out, const char *text, size_t size) {
    bool quoted = false;
    for (size_t i = 0; i < size; i++) quoted |= strchr(",\"\r\n", text[i]) != NULL;
    if (!quoted) return buffer_append(out, text, size);
    MR_TRY(buffer_append(out, "\"", 1));
    for (size_t i = 0; i < size; i++) {
        if (text[i] == '"') MR_TRY(buffer_append(out, "\"", 1));
        MR_TRY(buffer_append(out, &text[i], 1));
    }
    return buffer_append(out, "\"", 1);
}

static mr_status put_value(buffer *out, const mr_value *value) {
    double number;
    char text[JSON_DOUBLE_MAX];
    bool flag;
    mr_span words;
    if (mr_value_kind(value) == MR_KIND_STR && mr_value_str(value, &words) == MR_OK)
        return put_text(out, words.data, words.size);
    if (mr_value_kind(value) == MR_KIND_BOOL && mr_value_bool(value, &flag) == MR_OK)
        return buffer_append(out, flag ? "true" : "false", flag ? 4 : 5);
    if (!epoch_result_number(value, &number)) return MR_OK;
    if (number != number) return buffer_append(out, "nan", 3);
    if (number - number != 0) return number > 0 ? buffer_append(out, "inf", 3) : buffer_append(out, "-inf", 4);
    return buffer_append(out, text, json_double_text(number, text));
}

static mr_status find_column(table *table, const char *name, size_t *out) {
    for (size_t i = 0; i < table->column_count; i++)
        if (strcmp(table->columns[i], name) == 0) return *out = i, MR_OK;
    MR_TRY(alloc_try_resize(&table->columns, (table->column_count + 1) * sizeof *table->columns));
    table->columns[table->column_count] = xstrdup(name);
    *out = table->column_count++;
    return MR_OK;
}

static bool has_column(const mr_value *value) {
    double ignored;
    mr_kind kind = mr_value_kind(value);
    return kind == MR_KIND_STR || kind == MR_KIND_BOOL || epoch_result_number(value, &ignored);
}

static mr_status add_cell(void *user, const char *name, const mr_value *value) {
    line *line = user;
    size_t column;
    if (!has_column(value) || strcmp(name, "epoch") == 0) return MR_OK;
    MR_TRY(find_column(line->table, name, &column));
    if (column >= line->count) {
        MR_TRY(alloc_try_resize(&line->cells, (column + 1) * sizeof *line->cells));
        while (line->count <= column) buffer_init(&line->cells[line->count++], METRIC_LOGGER_SIZE_MAX);
    }
    buffer_clear(&line->cells[column]); /* of two fields with the same name the last one counts */
    return put_value(&line->cells[column], value);
}

/* ---- The file. */

static mr_status put_row(mr_metric_logger *logger, const table *table, const row *row) {
    MR_TRY(buffer_append(&logger->record, row->text, strlen(row->text)));
    for (size_t i = row->cells; i < table->column_count; i++) MR_TRY(buffer_append(&logger->record, ",", 1));
    return buffer_append(&logger->record, "\n", 1);
}

static mr_status put_everything(mr_metric_logger *logger, const table *table) {
    if (ftruncate(logger->fd, 0) != 0 || lseek(logger->fd, 0, SEEK_SET) != 0)
        return error_errno("cannot truncate the metric log (fd %d)", logger->fd);
    MR_TRY(buffer_append(&logger->record, "epoch", 5));
    for (size_t i = 0; i < table->column_count; i++) {
        MR_TRY(buffer_append(&logger->record, ",", 1));
        MR_TRY(put_text(&logger->record, table->columns[i], strlen(table->columns[i])));
    }
    MR_TRY(buffer_append(&logger->record, "\n", 1));
    for (size_t i = 0; i < table->row_count; i++) MR_TRY(put_row(logger, table, &table->rows[i]));
    return MR_OK;
}

static mr_status keep_row(table *table, buffer *text, size_t cells) {
    MR_TRY(buffer_append(text, "", 1)); /* terminating zero */
    MR_TRY(alloc_try_resize(&table->rows, (table->row_count + 1) * sizeof *table->rows));
    table->rows[table->row_count++] = (row){xstrdup((char *)text->data), cells};
    return MR_OK;
}

static mr_status add_row(mr_metric_logger *logger, int64_t epoch, const line *line, bool is_wider) {
    table *table = line->table;
    buffer text;
    buffer_init(&text, METRIC_LOGGER_SIZE_MAX);
    mr_status status = buffer_print(&text, "%lld", (long long)epoch);
    for (size_t i = 0; status == MR_OK && i < table->column_count; i++) {
        status = buffer_append(&text, ",", 1);
        if (status == MR_OK && i < line->count) status = buffer_append(&text, line->cells[i].data, line->cells[i].size);
    }
    if (status == MR_OK) status = keep_row(table, &text, table->column_count);
    buffer_fini(&text);
    MR_TRY(status);
    MR_TRY(is_wider || table->row_count == 1 ? put_everything(logger, table)
                                             : put_row(logger, table, &table->rows[table->row_count - 1]));
    return metric_logger_flush(logger);
}

static mr_status write_row(mr_metric_logger *logger, int64_t epoch, const mr_value *result) {
    table *table = logger->state;
    line line = {.table = table};
    size_t columns = table->column_count;
    mr_status status = metric_logger_walk(result, add_cell, &line);
    if (status == MR_OK) status = add_row(logger, epoch, &line, table->column_count > columns);
    for (size_t i = 0; i < line.count; i++) buffer_fini(&line.cells[i]);
    free(line.cells);
    return status;
}

static mr_status open_table(mr_metric_logger *logger, const char *path) {
    MR_TRY(alloc_try(sizeof(table), &logger->state));
    return metric_logger_create_file(logger, path);
}

static void close_table(mr_metric_logger *logger) {
    table *table = logger->state;
    if (table == NULL) return;
    for (size_t i = 0; i < table->column_count; i++) free(table->columns[i]);
    for (size_t i = 0; i < table->row_count; i++) free(table->rows[i].text);
    free(table->columns);
    free(table->rows);
    free(table);
}

const metric_logger_ops metric_logger_csv = {
    .kind = "csv", .open = open_table, .write = write_row, .close = close_table};
