/* list.c — `miniray list tasks|actors|objects|workers|groups`: tables whose columns are data.
 * Tested by src/cli/miniray_test.c. */
#include <argp.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "cli/look.h"
#include "cli/table.h"

/* ---- Cells: one function per kind of column. */

typedef void cell_fn(table *table, const mr_value *row, const char *field);

static void text_cell(table *table, const mr_value *row, const char *field) {
    table_cell(table, "%s", look_text(row, field));
}

static void number_cell(table *table, const mr_value *row, const char *field) {
    table_cell(table, "%" PRId64, look_int(row, field));
}

static void bytes_cell(table *table, const mr_value *row, const char *field) {
    table_cell(table, "%s", table_bytes(look_int(row, field)));
}

static void time_cell(table *table, const mr_value *row, const char *field) {
    table_cell(table, "%s", table_time(look_int(row, field)));
}

/* The first few texts of a list, with this between them. */
static void list_cell(table *table, const char *before, const mr_value *list, size_t most, const char *between) {
    char text[256];
    size_t used = (size_t)snprintf(text, sizeof text, "%s", before), shown = 0;
    mr_value item;
    for (mr_iter iter = mr_value_iter(list); shown < most && used < sizeof text && mr_iter_next(&iter, &item);) {
        mr_span span;
        if (mr_value_str(&item, &span) != MR_OK) continue;
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%.*s", shown++ == 0 ? "" : between, (int)span.size,
                                 (const char *)span.data);
    }
    table_cell(table, "%s%s", text, mr_value_count(list) > shown ? ", …" : "");
}

/* The state of a task or call: the thing that it waits for. */
static void waits_cell(table *table, const mr_value *row, const char *field) {
    const char *state = look_text(row, "state");
    mr_value ids = look_field(row, field);
    if (strcmp(state, "sent") == 0)
        table_cell(table, "running or queued on %s", look_text(row, "worker"));
    else if (strcmp(state, "arguments") == 0)
        list_cell(table, "waits for ", &ids, 3, ", ");
    else if (strcmp(look_text(row, "kind"), "call") == 0)
        table_cell(table, "waits for actor %s: %s", look_text(row, "actor"), look_text(row, "actor_state"));
    else
        table_cell(table, "waits for a worker with %s", look_text(row, "needs"));
}

static void failure_cell(table *table, const mr_value *row, const char *field) { /* why it is dead, or what it needs */
    const char *failure = look_text(row, "failure");
    table_cell(table, "%s", failure[0] != '\0' ? failure : look_text(row, field));
}

static void actor_cell(table *table, const mr_value *row, const char *field) { /* that is there, or whose it is */
    const char *actor = look_text(row, "actor");
    table_cell(table, "%s", actor[0] != '\0' ? actor : look_text(row, field));
}

/* The current work of a process. */
static void doing_cell(table *table, const mr_value *row, const char *field) {
    mr_value running = look_field(row, field), waiting = look_field(row, "waiting"), first;
    if (mr_value_count(&waiting) > 0)
        list_cell(table, "waits for ", &waiting, 1, "");
    else if (mr_value_count(&running) > 0 && mr_value_item(&running, 0, &first) == MR_OK)
        table_cell(table, "%s, for %s", look_text(&first, "name"), table_time(look_int(&first, "age_us")));
    else
        table_cell(table, "%s", look_text(row, "silent"));
}

static void bundles_cell(table *table, const mr_value *row, const char *field) { /* "cpu=1, gpu=1; cpu=1" */
    mr_value bundles = look_field(row, field);
    list_cell(table, "", &bundles, SIZE_MAX, "; ");
}

/* ---- Lists. */

enum { COLUMNS_MAX = 8 };

typedef struct column {
    const char *heading;
    cell_fn *cell;
    const char *field;
} column;

typedef struct listing {
    const char *what, *none; /* field of the answer; line that is printed when that list is empty */
    column columns[COLUMNS_MAX];
} listing;

static const listing lists[] = {
    {"tasks",
     "No tasks or calls are pending.",
     {{"ID", text_cell, "id"},
      {"NAME", text_cell, "name"},
      {"STATE", text_cell, "state"},
      {">AGE", time_cell, "age_us"},
      {"WAITS FOR", waits_cell, "waits_for"}}},
    {"actors",
     "There are no actors.",
     {{"ID", text_cell, "id"},
      {"CLASS", text_cell, "class"},
      {"NAME", text_cell, "name"},
      {"STATE", text_cell, "state"},
      {"WORKER", text_cell, "worker"},
      {">STARTS", number_cell, "starts"},
      {"NEEDS", failure_cell, "needs"}}},
    {"objects",
     "No process holds an object.",
     {{"ID", text_cell, "id"},
      {"STATE", text_cell, "state"},
      {">SIZE", bytes_cell, "bytes"},
      {">HOLDS", number_cell, "holds"},
      {"HELD BY", text_cell, "held_by"},
      {"FAILURE", text_cell, "failure"}}},
    {"workers",
     "No process has joined this node.",
     {{"ID", text_cell, "id"},
      {">PID", number_cell, "pid"},
      {"STATE", text_cell, "state"},
      {"FOR", actor_cell, "for"},
      {">MEMORY", bytes_cell, "resident_bytes"},
      {">QUEUED", number_cell, "queued"},
      {"DOING", doing_cell, "running"}}},
    {"groups",
     "There are no placement groups.",
     {{"ID", text_cell, "id"},
      {"NAME", text_cell, "name"},
      {"STATE", text_cell, "state"},
      {"BUNDLES", bundles_cell, "bundles"}}},
};
enum { LISTS = sizeof lists / sizeof *lists };

static const listing *listing_of(const char *what) {
    for (size_t i = 0; i < LISTS; i++)
        if (strcmp(lists[i].what, what) == 0) return &lists[i];
    return NULL;
}

static void print_rows(const listing *listing, const mr_value *rows) {
    const char *headings[COLUMNS_MAX + 1] = {NULL};
    mr_value row;
    for (size_t i = 0; i < COLUMNS_MAX; i++) headings[i] = listing->columns[i].heading;
    table *table = table_create(headings);
    for (mr_iter iter = mr_value_iter(rows); mr_iter_next(&iter, &row);)
        for (const column *column = listing->columns; column->heading != NULL; column++)
            column->cell(table, &row, column->field);
    table_print(table);
}

static void print(const look *look, const mr_value *answer) {
    const listing *listing = listing_of(look->what);
    if (listing == NULL) return; /* look_parse sees to it that there is one */
    mr_value rows = look_field(answer, listing->what), silent = look_field(answer, "silent");
    int64_t total = look_int(answer, "total");
    if (total == 0) puts(listing->none);
    if (mr_value_count(&rows) > 0) print_rows(listing, &rows);
    look_print_rest(mr_value_count(&rows), total);
    look_print_silent(&silent);
}

static bool is_list(const char *word) { return listing_of(word) != NULL; }

int command_list(int argc, char **argv) {
    look look = {.title = argv[0],
                 .missing = "no list is given: use tasks, actors, objects, workers or groups",
                 .knows = is_list,
                 .unknown = "unknown list '%s': use tasks, actors, objects, workers or groups"};
    look_parse(&look, argc, argv, "tasks|actors|objects|workers|groups",
               "Lists pending tasks and calls, actors, objects (the largest first), processes or placement groups of a "
               "node.\v"
               "`miniray why ID` explains what a listed task, call, object, actor or process waits for.");
    look.what = look.word;
    return look_run(&look, print);
}
