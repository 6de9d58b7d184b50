/* cmd_ps_checkpoint.c — `miniray ps checkpoint list|export|create`: list of the checkpoints in a scheduler's directory,
 * export of one as a safetensors file, creation of one now. Tested by tests/ps_checkpoint_test.c. */
#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cmd_ps.h"
#include "cli/command_line.h"
#include "cli/json_output.h"
#include "cli/ps_overview.h"
#include "cli/text_table.h"
#include "miniray/admin.h"

enum { DIR = 256, SCHEDULER, WORDS_MAX = 3 };

typedef struct wanted {
    const char *folder, *scheduler;
    bool as_json;
    const char *words[WORDS_MAX]; /* list; export, NUMBER, TO; or create */
    int count;
} wanted;

/* ---- list */

static void print_tables(const mr_ps_checkpoint_info *checkpoint) {
    if (checkpoint->table_count == 0) return;
    printf("\nTables of checkpoint %" PRIu64 "\n", checkpoint->number);
    text_table *rows =
        text_table_create((const char *const[]){"TABLE", "KIND", "DTYPE", ">DIM", ">ROWS", ">VALUES", NULL});
    for (uint32_t i = 0; i < checkpoint->table_count; i++) {
        const mr_ps_checkpoint_table *one = &checkpoint->tables[i];
        text_table_cell(rows, "%s", one->name);
        text_table_cell(rows, "%s", ps_kind_name(one->kind));
        text_table_cell(rows, "%s", ps_dtype_name(one->dtype));
        text_table_cell(rows, one->kind == MR_PS_SPARSE ? "%u" : "-", one->dim);
        text_table_cell(rows, "%" PRIu64, one->rows);
        text_table_cell(rows, "%s", text_table_bytes((int64_t)one->bytes));
    }
    text_table_print(rows);
}

/* Lists the tables of the newest complete checkpoint only: other checkpoints differ in the number of rows. */
static void print_people(const mr_ps_checkpoints *all) {
    const mr_ps_checkpoint_info *newest = NULL;
    text_table *rows =
        text_table_create((const char *const[]){">NUMBER", "WRITTEN", ">STEP", ">SLOTS", ">SIZE", "STATE", NULL});
    for (uint32_t i = 0; i < all->count; i++) {
        const mr_ps_checkpoint_info *one = &all->list[i];
        char when[32], number[24] = "?", step[24] = "-";
        if (one->number != 0) snprintf(number, sizeof number, "%" PRIu64, one->number);
        if (one->step >= 0) snprintf(step, sizeof step, "%" PRId64, one->step);
        if (newest == NULL && one->damage[0] == '\0') newest = one;
        text_table_cell(rows, "%s", number);
        text_table_cell(rows, "%s", ps_time_text(one->written_us, when));
        text_table_cell(rows, "%s", step);
        text_table_cell(rows, "%u", one->slots);
        text_table_cell(rows, "%s", text_table_bytes((int64_t)one->bytes));
        text_table_cell(rows, "%s", one->damage[0] == '\0' ? "whole" : one->damage);
    }
    text_table_print(rows);
    if (newest != NULL) print_tables(newest);
}

static mr_arg table_of(const void *item, json_output *json) {
    const mr_ps_checkpoint_table *one = item;
    const json_field fields[] = {
        {"name", mr_str(one->name)},
        {"kind", mr_str(ps_kind_name(one->kind))},
        {"dtype", mr_str(ps_dtype_name(one->dtype))},
        {"dim", mr_int(one->dim)},
        {"rows", mr_int((int64_t)one->rows)},
        {"bytes", mr_int((int64_t)one->bytes)},
    };
    return json_output_map(json, fields, sizeof fields / sizeof *fields);
}

static mr_arg checkpoint_of(const void *item, json_output *json) {
    const mr_ps_checkpoint_info *one = item;
    const json_field fields[] = {
        {"number", mr_int((int64_t)one->number)},
        {"written_us", mr_int(one->written_us)},
        {"step", one->step < 0 ? mr_nil() : mr_int(one->step)},
        {"slots", mr_int(one->slots)},
        {"bytes", mr_int((int64_t)one->bytes)},
        {"whole", mr_bool(one->damage[0] == '\0')},
        {"damage", mr_str(one->damage)},
        {"tables", json_output_rows(json, one->tables, one->table_count, sizeof *one->tables, table_of)},
    };
    return json_output_map(json, fields, sizeof fields / sizeof *fields);
}

static mr_status print_json(const mr_ps_checkpoints *all) {
    json_output json = {0};
    mr_arg rows = json_output_rows(&json, all->list, all->count, sizeof *all->list, checkpoint_of);
    const json_field checkpoints = {"checkpoints", rows};
    return json_output_finish(&json, &checkpoints, 1);
}

static mr_status list(const wanted *wanted) {
    mr_ps_checkpoints *all = NULL;
    mr_status status = mr_ps_checkpoints_get(wanted->folder, &all);
    if (status == MR_OK && wanted->as_json)
        status = print_json(all);
    else if (status == MR_OK)
        print_people(all);
    mr_ps_checkpoints_free(all);
    return status;
}

/* ---- create */

#define CREATE_US INT64_C(600000000)

static mr_status create(const wanted *wanted) {
    uint64_t number;
    mr_status status = mr_ps_checkpoint(wanted->scheduler, CREATE_US, &number);
    if (status == MR_OK) printf("%" PRIu64 "\n", number);
    return status;
}

/* ---- Arguments. */

static error_t parse(int key, char *text, struct argp_state *state) {
    wanted *wanted = state->input;
    switch (key) {
    case DIR: wanted->folder = text; return 0;
    case SCHEDULER: wanted->scheduler = text; return 0;
    case 'j': wanted->as_json = true; return 0;
    case ARGP_KEY_ARG:
        if (wanted->count == WORDS_MAX) command_line_error(state, "unexpected argument '%s'", text);
        wanted->words[wanted->count++] = text;
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static bool read_number(const char *text, uint64_t *out) {
    char *end;
    errno = 0;
    *out = strtoull(text, &end, 10);
    return errno == 0 && text[0] >= '0' && text[0] <= '9' && *end == '\0' && *out != 0;
}

static int wrong(const char *title, const char *text, const char *word) {
    fprintf(stderr, "%s: ", title);
    fprintf(stderr, text, word);
    fputc('\n', stderr);
    return COMMAND_USAGE;
}

int ps_checkpoint(int argc, char **argv) {
    const struct argp_option options[] = {
        {"checkpoint-dir", DIR, "PATH", 0, "list, export: directory of the scheduler (default: ./miniray-ps)", 0},
        {"scheduler", SCHEDULER, "ADDRESS", 0,
         "create: address of the scheduler (default: DMLC_PS_ROOT_URI, DMLC_PS_ROOT_PORT)", 0},
        {"json", 'j', NULL, 0, "list: print one JSON object", 0},
        {0}};
    const struct argp argp = {
        .options = options,
        .parser = parse,
        .args_doc = "list\nexport NUMBER FILE|DIR\ncreate",
        .doc = "Lists the checkpoints in a scheduler's directory (time, state, tables), exports the tables of one as a "
               "safetensors file, or creates one now, waits until it is on disk, and prints its number.\v"
               "list and export read files: the scheduler need not run. In an exported file, TABLE/keys and "
               "TABLE/values are rows by key, and TABLE/ARRAY is an array in its shape. NUMBER may be `latest`.",
    };
    wanted wanted = {.folder = "miniray-ps"};
    uint64_t number = 0;
    command_line_parse(
        &argp, argc, argv, 0, &wanted,
        "miniray ps checkpoint list --checkpoint-dir words\nminiray ps checkpoint export latest words.safetensors "
        "--checkpoint-dir words\nminiray ps checkpoint create --scheduler tcp:127.0.0.1:9000");
    const char *what = wanted.count == 0 ? "" : wanted.words[0];
    bool lists = strcmp(what, "list") == 0, creates = strcmp(what, "create") == 0;
    bool exports = strcmp(what, "export") == 0;
    if (wanted.count == 0) return wrong(argv[0], "no command is given%s: use list, export NUMBER FILE, or create", "");
    if (!lists && !creates && !exports) {
        static const char *const known[] = {"list", "export", "create"};
        char hint[COMMAND_LINE_HINT_MAX];
        fprintf(stderr, "%s: unknown command '%s': use list, export NUMBER FILE, or create%s\n", argv[0], what,
                command_line_hint(what, known, sizeof known / sizeof *known, "", hint));
        return COMMAND_USAGE;
    }
    if (!exports && wanted.count > 1) return wrong(argv[0], "unexpected argument '%s'", wanted.words[1]);
    if (exports && wanted.count < WORDS_MAX)
        return wrong(argv[0], "export needs the number of a checkpoint and a file or directory%s", "");
    if (!lists && wanted.as_json) return wrong(argv[0], "--json is an option of list, not of %s", what);
    if (!creates && wanted.scheduler != NULL)
        return wrong(argv[0], "--scheduler is an option of create, not of %s", what);
    if (exports && strcmp(wanted.words[1], "latest") != 0 && !read_number(wanted.words[1], &number))
        return wrong(argv[0], "export needs the number of a checkpoint, or `latest`, not '%s'", wanted.words[1]);
    mr_status status = lists     ? list(&wanted)
                       : creates ? create(&wanted)
                                 : mr_ps_checkpoint_export(wanted.folder, number, wanted.words[2]);
    return command_outcome(argv[0], status);
}
