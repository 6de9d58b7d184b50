/* ps_overview.c — see ps_overview.h. Tested by tests/ps_status_test.c. */
#include "cli/ps_overview.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/text_table.h"

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

/* ---- Text. */

/* The time since `us`; not negative, because the scheduler's machine may have another clock. */
static const char *time_since(int64_t us) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    int64_t past_us = (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000 - us;
    return text_table_time(past_us > 0 ? past_us : 0);
}

void ps_overview_print_stall(const mr_ps_overview *overview) {
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
        printf("A checkpoint is created every %s, in %s\n", text_table_time(overview->every_us), overview->folder);
    else
        printf("Checkpoints are created on demand only (`miniray ps checkpoint create`), in %s\n", overview->folder);
    if (overview->checkpoint_error[0] == '\0') return;
    printf("%s checkpoint failed %s ago: %s\n", overview->checkpoint_failed ? "The last" : "An earlier",
           time_since(overview->checkpoint_error_us), overview->checkpoint_error);
}

void ps_overview_print_tables(const mr_ps_overview *overview) {
    if (overview->table_count == 0) return;
    putchar('\n');
    if (overview->counted < overview->servers)
        printf("Rows and memory count %u of %s; the others have not reported\n", overview->counted,
               text_table_count(overview->servers, "server"));
    text_table *rows = text_table_create((const char *const[]){"TABLE", "KIND", ">DIM", "DTYPE", ">ROWS", ">MEMORY",
                                                               "SYNC", "OPTIMIZER", "CODEC", NULL});
    for (uint32_t i = 0; i < overview->table_count; i++) {
        const mr_ps_table_state *one = &overview->tables[i];
        text_table_cell(rows, "%s", one->name);
        text_table_cell(rows, "%s", ps_kind_name(one->kind));
        text_table_cell(rows, one->kind == MR_PS_SPARSE ? "%u" : "-", one->dim);
        text_table_cell(rows, "%s", ps_dtype_name(one->dtype));
        text_table_cell(rows, "%" PRIu64, one->rows);
        text_table_cell(rows, "%s", text_table_bytes((int64_t)one->bytes));
        text_table_cell(rows, "%s", one->consistency);
        text_table_cell(rows, "%s", one->optimizer);
        text_table_cell(rows, "%s", one->compression);
    }
    text_table_print(rows);
    for (uint32_t i = 0; i < overview->table_count; i++)
        if (overview->tables[i].nonfinite != 0)
            printf("Table '%s' has skipped %" PRIu64 " of the pushed rows, vectors and blocks: not finite\n",
                   overview->tables[i].name, overview->tables[i].nonfinite);
}

void ps_overview_print_data(const mr_ps_overview *overview) {
    const mr_ps_dataset_state *data = &overview->data;
    if (data->shards == 0) return;
    printf("\nDataset: epoch %" PRIu64 ", %" PRIu64 " of %s and %u of %s claimed\n", data->epoch, data->items_given,
           text_table_count((int64_t)data->items, "item"), data->shards_done, text_table_count(data->shards, "shard"));
    if (data->items_back != 0)
        printf("%s returned for the next worker that claims\n", text_table_count((int64_t)data->items_back, "item"));
    if (data->reader_count == 0) puts("No worker reads the dataset now");
    if (data->reader_count == 0) return;
    text_table *rows = text_table_create((const char *const[]){">RANK", ">SHARDS", ">ITEMS LEFT", NULL});
    for (uint32_t i = 0; i < data->reader_count; i++) {
        text_table_cell(rows, "%u", data->readers[i].rank);
        text_table_cell(rows, "%u", data->readers[i].shards);
        text_table_cell(rows, "%" PRIu64, data->readers[i].items);
    }
    text_table_print(rows);
}

/* ---- JSON. */

static mr_arg seconds(int64_t us) { return us == 0 ? mr_nil() : mr_float((double)us / 1e6); }
static mr_arg text_or_none(const char *text) { return text[0] == '\0' ? mr_nil() : mr_str(text); }

/* A list with a text for each line that is not empty. */
static mr_arg hints_of(const mr_ps_overview *overview, json_output *json) {
    enum { HINTS_MAX = 16 };
    mr_arg *hints = json_output_list(json, HINTS_MAX);
    size_t count = 0, size;
    for (const char *line = overview->stall_hint; *line != '\0' && count < HINTS_MAX; line += size) {
        size = strcspn(line, "\n");
        if (size != 0) hints[count++] = mr_text(line, size);
        size += line[size] == '\n';
    }
    return mr_list(hints, count);
}

mr_arg ps_overview_stall_json(const mr_ps_overview *overview, json_output *json) {
    const json_field fields[] = {
        {"what", mr_str(overview->stall)},
        {"since", seconds(overview->stall_us)},
        {"hint", hints_of(overview, json)},
    };
    if (overview->stall[0] == '\0') return mr_nil();
    return json_output_map(json, fields, sizeof fields / sizeof *fields);
}

mr_arg ps_overview_checkpoints_json(const mr_ps_overview *overview, json_output *json) {
    const json_field fields[] = {
        {"dir", mr_str(overview->folder)},
        {"newest", overview->checkpoint == 0 ? mr_nil() : mr_int((int64_t)overview->checkpoint)},
        {"written", seconds(overview->checkpoint_us)},
        {"every_s", seconds(overview->every_us)},
        {"creating", mr_bool(overview->making != 0)},
        {"failed", mr_bool(overview->checkpoint_failed != 0)},
        {"error", text_or_none(overview->checkpoint_error)},
        {"error_at", seconds(overview->checkpoint_error_us)},
    };
    return json_output_map(json, fields, sizeof fields / sizeof *fields);
}

static mr_arg table_of(const void *item, json_output *json) {
    const mr_ps_table_state *table = item;
    const json_field fields[] = {
        {"name", mr_str(table->name)},
        {"kind", mr_str(ps_kind_name(table->kind))},
        {"dtype", mr_str(ps_dtype_name(table->dtype))},
        {"dim", mr_int(table->dim)},
        {"arrays", mr_int(table->arrays)},
        {"optimizer", mr_str(table->optimizer)},
        {"codec", mr_str(table->compression)},
        {"consistency", mr_str(table->consistency)},
        {"rows", mr_int((int64_t)table->rows)},
        {"bytes", mr_int((int64_t)table->bytes)},
        {"nonfinite", mr_int((int64_t)table->nonfinite)},
    };
    return json_output_map(json, fields, sizeof fields / sizeof *fields);
}

mr_arg ps_overview_tables_json(const mr_ps_overview *overview, json_output *json) {
    return json_output_rows(json, overview->tables, overview->table_count, sizeof *overview->tables, table_of);
}

static mr_arg reader_of(const void *item, json_output *json) {
    const mr_ps_data_reader *reader = item;
    const json_field fields[] = {
        {"rank", mr_int(reader->rank)},
        {"shards", mr_int(reader->shards)},
        {"items", mr_int((int64_t)reader->items)},
    };
    return json_output_map(json, fields, sizeof fields / sizeof *fields);
}

mr_arg ps_overview_data_json(const mr_ps_overview *overview, json_output *json) {
    const mr_ps_dataset_state *data = &overview->data;
    const json_field fields[] = {
        {"epoch", mr_int((int64_t)data->epoch)},
        {"shards", mr_int(data->shards)},
        {"shards_done", mr_int(data->shards_done)},
        {"items", mr_int((int64_t)data->items)},
        {"items_claimed", mr_int((int64_t)data->items_given)},
        {"items_returned", mr_int((int64_t)data->items_back)},
        {"workers", mr_int(data->workers)},
        {"readers", json_output_rows(json, data->readers, data->reader_count, sizeof *data->readers, reader_of)},
    };
    return data->shards == 0 ? mr_nil() : json_output_map(json, fields, sizeof fields / sizeof *fields);
}
