/* ps_overview.c — see ps_overview.h. Tested by tests/ps_status_test.c. */
#include "cli/ps_overview.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/table.h"

const char *ps_kind_name(mr_ps_kind kind) {
    static const char *const names[] = {"sparse", "vectors", "dense"};
    return names[kind];
}

const char *ps_dtype_name(mr_dtype dtype) {
    switch (dtype) {
    case MR_F16: return "fp16";
    case MR_BF16: return "bf16";
    case MR_I64: return "int64";
    default: return "fp32";
    }
}

const char *ps_time_text(int64_t us, char out[32]) {
    time_t seconds = (time_t)(us / 1000000);
    struct tm parts;
    if (us == 0 || gmtime_r(&seconds, &parts) == NULL || strftime(out, 32, "%Y-%m-%dT%H:%M:%SZ", &parts) == 0)
        snprintf(out, 32, "-");
    return out;
}

/* ---- For people. */

/* The scheduler may be another machine's, with another clock. */
static const char *time_since(int64_t us) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    int64_t past_us = (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000 - us;
    return table_time(past_us > 0 ? past_us : 0);
}

void ps_overview_print_awaited(const mr_ps_overview *overview) {
    if (overview->stall[0] == '\0') return;
    printf("Stalled for %s: %s\n", time_since(overview->stall_us), overview->stall);
    for (const char *line = overview->stall_hint; *line != '\0';) {
        size_t size = strcspn(line, "\n");
        printf("  try: %.*s\n", (int)size, line);
        line += size + (line[size] == '\n');
    }
}

void ps_overview_print_checkpoints(const mr_ps_overview *overview) {
    char when[32];
    if (overview->checkpoint != 0)
        printf("The newest whole checkpoint is %" PRIu64 ", written %s ago (%s)\n", overview->checkpoint,
               time_since(overview->checkpoint_us), ps_time_text(overview->checkpoint_us, when));
    else
        puts("There is no checkpoint");
    if (overview->every_us != 0)
        printf("A checkpoint is created every %s, in %s\n", table_time(overview->every_us), overview->folder);
    else
        printf("Checkpoints are created on demand only (`miniray ps checkpoint create`), in %s\n", overview->folder);
    if (overview->checkpoint_error[0] == '\0') return;
    if (overview->checkpoint_failed)
        printf("The last checkpoint failed %s ago: %s\n", time_since(overview->checkpoint_error_us),
               overview->checkpoint_error);
    else
        printf("An earlier checkpoint failed %s ago: %s\n", time_since(overview->checkpoint_error_us),
               overview->checkpoint_error);
}

static bool any_left_out(const mr_ps_overview *overview) {
    for (uint32_t i = 0; i < overview->table_count; i++)
        if (overview->tables[i].nonfinite != 0) return true;
    return false;
}

void ps_overview_print_tables(const mr_ps_overview *overview) {
    if (overview->table_count == 0) return;
    putchar('\n');
    if (overview->counted < overview->servers)
        printf("Rows and memory count %u of %u servers; the others have not reported\n", overview->counted,
               overview->servers);
    table *rows = table_create((const char *const[]){"TABLE", "KIND", ">DIM", "DTYPE", ">ROWS", ">MEMORY", "SYNC",
                                                     "OPTIMIZER", "CODEC", NULL});
    for (uint32_t i = 0; i < overview->table_count; i++) {
        const mr_ps_table_state *one = &overview->tables[i];
        table_cell(rows, "%s", one->name);
        table_cell(rows, "%s", ps_kind_name(one->kind));
        table_cell(rows, one->kind == MR_PS_SPARSE ? "%u" : "-", one->dim);
        table_cell(rows, "%s", ps_dtype_name(one->dtype));
        table_cell(rows, "%" PRIu64, one->rows);
        table_cell(rows, "%s", table_bytes((int64_t)one->bytes));
        table_cell(rows, "%s", one->consistency);
        table_cell(rows, "%s", one->optimizer);
        table_cell(rows, "%s", one->compression);
    }
    table_print(rows);
    for (uint32_t i = 0; any_left_out(overview) && i < overview->table_count; i++)
        if (overview->tables[i].nonfinite != 0)
            printf("%" PRIu64
                   " rows, vectors and blocks pushed to table '%s' were skipped: their values were not finite\n",
                   overview->tables[i].nonfinite, overview->tables[i].name);
}

void ps_overview_print_data(const mr_ps_overview *overview) {
    const mr_ps_dataset_state *data = &overview->data;
    if (data->shards == 0) return;
    printf("\nDataset: epoch %" PRIu64 ", %" PRIu64 " of %" PRIu64 " items and %u of %u shards are claimed\n",
           data->epoch, data->items_given, data->items, data->shards_done, data->shards);
    if (data->items_back != 0)
        printf("%" PRIu64 " items were returned and go to the next worker that claims\n", data->items_back);
    if (data->reader_count == 0) puts("No worker reads the dataset now");
    if (data->reader_count == 0) return;
    table *rows = table_create((const char *const[]){">RANK", ">SHARDS", ">ITEMS LEFT", NULL});
    for (uint32_t i = 0; i < data->reader_count; i++) {
        table_cell(rows, "%u", data->readers[i].rank);
        table_cell(rows, "%u", data->readers[i].shards);
        table_cell(rows, "%" PRIu64, data->readers[i].items);
    }
    table_print(rows);
}

/* ---- For programs. */

enum { AWAITED_FIELDS = 3, CHECKPOINT_FIELDS = 8, TABLE_FIELDS = 11, DATA_FIELDS = 8, HOLDER_FIELDS = 3 };

struct ps_overview_pages {
    mr_arg awaited[2 * AWAITED_FIELDS], checkpoints[2 * CHECKPOINT_FIELDS];
    mr_arg help[16]; /* a text for each line: */
    char lines[MR_PS_PATH_MAX];
    mr_arg *rows, *fields;
    mr_arg data[2 * DATA_FIELDS], *holders, *held;
};

void ps_overview_pages_free(ps_overview_pages *pages) {
    if (pages == NULL) return;
    free(pages->rows);
    free(pages->fields);
    free(pages->holders);
    free(pages->held);
    free(pages);
}

static mr_arg seconds(int64_t us) { return us == 0 ? mr_nil() : mr_float((double)us / 1e6); }
static mr_arg text_or_none(const char *text) { return text[0] == '\0' ? mr_nil() : mr_str(text); }

static mr_arg help_of(const mr_ps_overview *overview, ps_overview_pages *pages) {
    size_t count = 0, most = sizeof pages->help / sizeof *pages->help;
    char *rest = pages->lines;
    memcpy(pages->lines, overview->stall_hint, sizeof pages->lines);
    for (char *line; count < most && (line = strsep(&rest, "\n")) != NULL;)
        if (line[0] != '\0') pages->help[count++] = mr_str(line);
    return mr_list(pages->help, count);
}

static mr_arg awaited_of(const mr_ps_overview *overview, ps_overview_pages *pages) {
    const mr_arg own[] = {mr_str("what"), mr_str(overview->stall), mr_str("since"), seconds(overview->stall_us),
                          mr_str("hint"), help_of(overview, pages)};
    _Static_assert(sizeof own == sizeof pages->awaited, "one entry per field");
    memcpy(pages->awaited, own, sizeof own);
    return overview->stall[0] == '\0' ? mr_nil() : mr_map(pages->awaited, AWAITED_FIELDS);
}

static mr_arg checkpoints_of(const mr_ps_overview *overview, ps_overview_pages *pages) {
    const mr_arg own[] = {
        mr_str("dir"),      mr_str(overview->folder),
        mr_str("newest"),   overview->checkpoint == 0 ? mr_nil() : mr_int((int64_t)overview->checkpoint),
        mr_str("written"),  seconds(overview->checkpoint_us),
        mr_str("every_s"),  seconds(overview->every_us),
        mr_str("creating"), mr_bool(overview->making != 0),
        mr_str("failed"),   mr_bool(overview->checkpoint_failed != 0),
        mr_str("error"),    text_or_none(overview->checkpoint_error),
        mr_str("error_at"), seconds(overview->checkpoint_error_us),
    };
    _Static_assert(sizeof own == sizeof pages->checkpoints, "one entry per field");
    memcpy(pages->checkpoints, own, sizeof own);
    return mr_map(pages->checkpoints, CHECKPOINT_FIELDS);
}

static mr_arg table_of(const mr_ps_table_state *table, mr_arg *fields) {
    const mr_arg own[] = {
        mr_str("name"),        mr_str(table->name),
        mr_str("kind"),        mr_str(ps_kind_name(table->kind)),
        mr_str("dtype"),       mr_str(ps_dtype_name(table->dtype)),
        mr_str("dim"),         mr_int(table->dim),
        mr_str("arrays"),      mr_int(table->arrays),
        mr_str("optimizer"),   mr_str(table->optimizer),
        mr_str("codec"),       mr_str(table->compression),
        mr_str("consistency"), mr_str(table->consistency),
        mr_str("rows"),        mr_int((int64_t)table->rows),
        mr_str("bytes"),       mr_int((int64_t)table->bytes),
        mr_str("nonfinite"),   mr_int((int64_t)table->nonfinite),
    };
    _Static_assert(sizeof own / sizeof *own == 2 * TABLE_FIELDS, "one entry per field");
    memcpy(fields, own, sizeof own);
    return mr_map(fields, TABLE_FIELDS);
}

static mr_arg holders_of(const mr_ps_dataset_state *data, ps_overview_pages *pages) {
    for (uint32_t i = 0; i < data->reader_count; i++) {
        mr_arg *fields = pages->held + i * 2 * (size_t)HOLDER_FIELDS;
        const mr_arg own[] = {mr_str("rank"),   mr_int(data->readers[i].rank),
                              mr_str("shards"), mr_int(data->readers[i].shards),
                              mr_str("items"),  mr_int((int64_t)data->readers[i].items)};
        _Static_assert(sizeof own / sizeof *own == 2 * HOLDER_FIELDS, "one entry per field");
        memcpy(fields, own, sizeof own);
        pages->holders[i] = mr_map(fields, HOLDER_FIELDS);
    }
    return mr_list(pages->holders, data->reader_count);
}

static mr_arg data_of(const mr_ps_dataset_state *data, ps_overview_pages *pages) {
    const mr_arg own[] = {
        mr_str("epoch"),          mr_int((int64_t)data->epoch),
        mr_str("shards"),         mr_int(data->shards),
        mr_str("shards_done"),    mr_int(data->shards_done),
        mr_str("items"),          mr_int((int64_t)data->items),
        mr_str("items_claimed"),  mr_int((int64_t)data->items_given),
        mr_str("items_returned"), mr_int((int64_t)data->items_back),
        mr_str("workers"),        mr_int(data->workers),
        mr_str("readers"),        holders_of(data, pages),
    };
    _Static_assert(sizeof own == sizeof pages->data, "one entry per field");
    memcpy(pages->data, own, sizeof own);
    return data->shards == 0 ? mr_nil() : mr_map(pages->data, DATA_FIELDS);
}

ps_overview_pages *ps_overview_json(const mr_ps_overview *overview, mr_arg *awaited, mr_arg *checkpoints,
                                    mr_arg *tables, mr_arg *data) {
    const size_t count = overview->table_count;
    ps_overview_pages *pages = calloc(1, sizeof *pages);
    if (pages == NULL) return NULL;
    pages->rows = calloc(count + 1, sizeof(mr_arg));
    pages->fields = calloc((count + 1) * 2 * TABLE_FIELDS, sizeof(mr_arg));
    pages->holders = calloc(overview->data.reader_count + 1, sizeof(mr_arg));
    pages->held = calloc((overview->data.reader_count + 1) * 2 * (size_t)HOLDER_FIELDS, sizeof(mr_arg));
    if (pages->rows == NULL || pages->fields == NULL || pages->holders == NULL || pages->held == NULL) {
        ps_overview_pages_free(pages);
        return NULL;
    }
    for (size_t i = 0; i < count; i++)
        pages->rows[i] = table_of(&overview->tables[i], pages->fields + i * 2 * TABLE_FIELDS);
    *awaited = awaited_of(overview, pages);
    *checkpoints = checkpoints_of(overview, pages);
    *tables = mr_list(pages->rows, count);
    *data = data_of(&overview->data, pages);
    return pages;
}
