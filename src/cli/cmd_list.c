/* cmd_list.c — `miniray list tasks|actors|objects|workers|groups`: tables whose columns are data.
 * Tested by src/cli/miniray_test.c. */
#include <argp.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "cli/node_query.h"
#include "cli/text_table.h"

/* ---- Cells: a function for each kind of column. */

typedef void cell_fn(text_table *table, const mr_value *row, const char *field);

static void text_cell(text_table *table, const mr_value *row, const char *field) {
    text_table_cell(table, "%s", node_query_text(row, field));
}

static void number_cell(text_table *table, const mr_value *row, const char *field) {
    text_table_cell(table, "%" PRId64, node_query_int(row, field));
}

static void bytes_cell(text_table *table, const mr_value *row, const char *field) {
    text_table_cell(table, "%s", text_table_bytes(node_query_int(row, field)));
}

static void time_cell(text_table *table, const mr_value *row, const char *field) {
    text_table_cell(table, "%s", text_table_time(node_query_int(row, field)));
}

/* `before`, then at most `most` texts of a list, separated by `between`. */
static void list_cell(text_table *table, const char *before, const mr_value *list, size_t most, const char *between) {
    char text[256];
    size_t used = (size_t)snprintf(text, sizeof text, "%s", before), shown = 0;
    mr_value item;
    for (mr_iter iter = mr_value_iter(list); shown < most && used < sizeof text && mr_iter_next(&iter, &item);) {
        mr_span span;
        if (mr_value_str(&item, &span) != MR_OK) continue;
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%.*s", shown++ == 0 ? "" : between, (int)span.size,
                                 (const char *)span.data);
    }
    text_table_cell(table, "%s%s", text, mr_value_count(list) > shown ? ", …" : "");
}

/* The state of a task or call, with the thing that it waits for. */
static void waits_cell(text_table *table, const mr_value *row, const char *field) {
    const char *state = node_query_text(row, "state");
    mr_value ids = node_query_field(row, field);
    if (strcmp(state, "sent") == 0)
        text_table_cell(table, "running or queued on %s", node_query_text(row, "worker"));
    else if (strcmp(state, "arguments") == 0)
        list_cell(table, "waits for ", &ids, 3, ", ");
    else if (strcmp(node_query_text(row, "kind"), "call") == 0)
        text_table_cell(table, "waits for actor %s: %s", node_query_text(row, "actor"),
                        node_query_text(row, "actor_state"));
    else
        text_table_cell(table, "waits for a worker with %s", node_query_text(row, "needs"));
}

/* Why the actor is dead, or the resources that it needs. */
static void failure_cell(text_table *table, const mr_value *row, const char *field) {
    const char *failure = node_query_text(row, "failure");
    text_table_cell(table, "%s", failure[0] != '\0' ? failure : node_query_text(row, field));
}

/* The actor of a worker process, or another field if it has none. */
static void actor_cell(text_table *table, const mr_value *row, const char *field) {
    const char *actor = node_query_text(row, "actor");
    text_table_cell(table, "%s", actor[0] != '\0' ? actor : node_query_text(row, field));
}

/* The current work of a process. */
static void doing_cell(text_table *table, const mr_value *row, const char *field) {
    mr_value running = node_query_field(row, field), waiting = node_query_field(row, "waiting"), first;
    if (mr_value_count(&waiting) > 0)
        list_cell(table, "waits for ", &waiting, 1, "");
    else if (mr_value_count(&running) > 0 && mr_value_item(&running, 0, &first) == MR_OK)
        text_table_cell(table, "%s, for %s", node_query_text(&first, "name"),
                        text_table_time(node_query_int(&first, "age_us")));
    else
        text_table_cell(table, "%s", node_query_text(row, "silent"));
}

static void bundles_cell(text_table *table, const mr_value *row, const char *field) { /* "cpu=1, gpu=1; cpu=1" */
    mr_value bundles = node_query_field(row, field);
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
    text_table *table = text_table_create(headings);
    for (mr_iter iter = mr_value_iter(rows); mr_iter_next(&iter, &row);)
        for (const column *column = listing->columns; column->heading != NULL; column++)
            column->cell(table, &row, column->field);
    text_table_print(table);
}

static void print(const node_query *query, const mr_value *answer) {
    const listing *listing = listing_of(query->what);
    if (listing == NULL) return; /* node_query_parse accepts only names of lists */
    mr_value rows = node_query_field(answer, listing->what), silent = node_query_field(answer, "silent");
    int64_t total = node_query_int(answer, "total");
    if (total == 0) puts(listing->none);
    if (mr_value_count(&rows) > 0) print_rows(listing, &rows);
    node_query_print_rest(mr_value_count(&rows), total);
    node_query_print_silent(&silent);
}

static bool is_list(const char *word) { return listing_of(word) != NULL; }

int command_list(int argc, char **argv) {
    const char *words[LISTS + 1] = {NULL};
    for (size_t i = 0; i < LISTS; i++) words[i] = lists[i].what;
    node_query query = {.title = argv[0],
                        .examples = "miniray list actors\nminiray list objects --limit 10 --json",
                        .missing = "no list is given: use tasks, actors, objects, workers or groups",
                        .knows = is_list,
                        .words = words,
                        .unknown = "unknown list '%s': use tasks, actors, objects, workers or groups%s"};
    node_query_parse(
        &query, argc, argv, "tasks|actors|objects|workers|groups",
        "Lists pending tasks and calls, actors, objects (the largest first), processes or placement groups of a "
        "node.\v"
        "`miniray why ID` explains what a listed task, call, object, actor or process waits for.");
    query.what = query.word;
    return node_query_run(&query, print);
}
