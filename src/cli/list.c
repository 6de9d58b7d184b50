/* list.c — `miniray list tasks|actors|objects|workers`. */
#include <argp.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "cli/look.h"
#include "cli/table.h"

/* What a task or call waits for, in a few words. */
static void waits_cell(table *table, const mr_value *row) {
    const char *state = look_text(row, "state"), *worker = look_text(row, "worker");
    mr_value ids = look_field(row, "waits_for"), id;
    if (strcmp(state, "sent") == 0) {
        table_cell(table, "runs in, or is in line at, %s", worker);
    } else if (strcmp(state, "arguments") == 0) {
        char text[256] = "waits for";
        size_t used = strlen(text), shown = 0;
        for (mr_iter iter = mr_value_iter(&ids); mr_iter_next(&iter, &id) && shown < 3; shown++) {
            mr_span span;
            if (mr_value_str(&id, &span) != MR_OK) continue;
            used += (size_t)snprintf(text + used, sizeof text - used, "%s %.*s", shown == 0 ? "" : ",", (int)span.size,
                                     (const char *)span.data);
        }
        table_cell(table, "%s%s", text, mr_value_count(&ids) > shown ? ", …" : "");
    } else if (strcmp(look_text(row, "kind"), "call") == 0) {
        table_cell(table, "waits for its actor %s: %s", look_text(row, "actor"), look_text(row, "actor_state"));
    } else {
        table_cell(table, "waits for a worker with %s", look_text(row, "needs"));
    }
}

static void print_tasks(const mr_value *answer) {
    static const char *const headings[] = {"ID", "NAME", "STATE", ">AGE", "WHERE IT IS", NULL};
    mr_value rows = look_field(answer, "tasks"), silent = look_field(answer, "silent"), row;
    int64_t total = look_int(answer, "total");
    if (total == 0) puts("No task and no call waits for a result.");
    if (mr_value_count(&rows) > 0) {
        table *table = table_create(headings);
        for (mr_iter iter = mr_value_iter(&rows); mr_iter_next(&iter, &row);) {
            table_cell(table, "%s", look_text(&row, "id"));
            table_cell(table, "%s", look_text(&row, "name"));
            table_cell(table, "%s", look_text(&row, "state"));
            table_cell(table, "%s", table_time(look_int(&row, "age_us")));
            waits_cell(table, &row);
        }
        table_print(table);
    }
    look_print_rest(mr_value_count(&rows), total);
    look_print_silent(&silent);
}

static void print_actors(const mr_value *answer) {
    static const char *const headings[] = {"ID", "CLASS", "NAME", "STATE", "WORKER", ">STARTS", "NEEDS", NULL};
    mr_value rows = look_field(answer, "actors"), row;
    if (mr_value_count(&rows) == 0) puts("There are no actors.");
    if (mr_value_count(&rows) > 0) {
        table *table = table_create(headings);
        for (mr_iter iter = mr_value_iter(&rows); mr_iter_next(&iter, &row);) {
            const char *failure = look_text(&row, "failure");
            table_cell(table, "%s", look_text(&row, "id"));
            table_cell(table, "%s", look_text(&row, "class"));
            table_cell(table, "%s", look_text(&row, "name"));
            table_cell(table, "%s", look_text(&row, "state"));
            table_cell(table, "%s", look_text(&row, "worker"));
            table_cell(table, "%" PRId64, look_int(&row, "starts"));
            table_cell(table, "%s", failure[0] != '\0' ? failure : look_text(&row, "needs"));
        }
        table_print(table);
    }
    look_print_rest(mr_value_count(&rows), look_int(answer, "total"));
}

static void print_objects(const mr_value *answer) {
    static const char *const headings[] = {"ID", "STATE", ">SIZE", ">HOLDS", "HELD BY", "FAILURE", NULL};
    mr_value rows = look_field(answer, "objects"), silent = look_field(answer, "silent"), row;
    int64_t total = look_int(answer, "total");
    if (total == 0) puts("No program holds an object.");
    if (mr_value_count(&rows) > 0) {
        table *table = table_create(headings);
        for (mr_iter iter = mr_value_iter(&rows); mr_iter_next(&iter, &row);) {
            table_cell(table, "%s", look_text(&row, "id"));
            table_cell(table, "%s", look_text(&row, "state"));
            table_cell(table, "%s", table_bytes(look_int(&row, "bytes")));
            table_cell(table, "%" PRId64, look_int(&row, "holds"));
            table_cell(table, "%s", look_text(&row, "held_by"));
            table_cell(table, "%s", look_text(&row, "failure"));
        }
        table_print(table);
    }
    look_print_rest(mr_value_count(&rows), total);
    look_print_silent(&silent);
}

/* What a process is busy with. */
static void doing_cell(table *table, const mr_value *row) {
    mr_value running = look_field(row, "running"), waiting = look_field(row, "waiting"), first;
    const char *silent = look_text(row, "silent");
    mr_span id;
    if (mr_value_count(&waiting) > 0 && mr_value_item(&waiting, 0, &first) == MR_OK &&
        mr_value_str(&first, &id) == MR_OK)
        table_cell(table, "waits for %.*s%s", (int)id.size, (const char *)id.data,
                   mr_value_count(&waiting) > 1 ? ", …" : "");
    else if (mr_value_count(&running) > 0 && mr_value_item(&running, 0, &first) == MR_OK)
        table_cell(table, "%s, for %s", look_text(&first, "name"), table_time(look_int(&first, "age_us")));
    else
        table_cell(table, "%s", silent);
}

static void print_workers(const mr_value *answer) {
    static const char *const headings[] = {"ID", ">PID", "STATE", "FOR", ">MEMORY", ">QUEUED", "DOING", NULL};
    mr_value rows = look_field(answer, "workers"), row;
    if (mr_value_count(&rows) == 0) puts("No process has joined this node.");
    if (mr_value_count(&rows) > 0) {
        table *table = table_create(headings);
        for (mr_iter iter = mr_value_iter(&rows); mr_iter_next(&iter, &row);) {
            const char *actor = look_text(&row, "actor"), *client = look_text(&row, "for");
            table_cell(table, "%s", look_text(&row, "id"));
            table_cell(table, "%" PRId64, look_int(&row, "pid"));
            table_cell(table, "%s", look_text(&row, "state"));
            table_cell(table, "%s", actor[0] != '\0' ? actor : client);
            table_cell(table, "%s", table_bytes(look_int(&row, "resident_bytes")));
            table_cell(table, "%" PRId64, look_int(&row, "queued"));
            doing_cell(table, &row);
        }
        table_print(table);
    }
    look_print_rest(mr_value_count(&rows), look_int(answer, "total"));
}

/* "cpu=1, gpu=1; cpu=1" */
static void bundles_cell(table *table, const mr_value *row) {
    mr_value bundles = look_field(row, "bundles"), bundle;
    char text[256] = "";
    size_t used = 0;
    for (mr_iter iter = mr_value_iter(&bundles); mr_iter_next(&iter, &bundle) && used < sizeof text;) {
        mr_span span;
        if (mr_value_str(&bundle, &span) != MR_OK) continue;
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%.*s", used == 0 ? "" : "; ", (int)span.size,
                                 (const char *)span.data);
    }
    table_cell(table, "%s", text);
}

static void print_groups(const mr_value *answer) {
    static const char *const headings[] = {"ID", "NAME", "STATE", "BUNDLES", NULL};
    mr_value rows = look_field(answer, "groups"), row;
    if (mr_value_count(&rows) == 0) puts("No placement group is there.");
    if (mr_value_count(&rows) > 0) {
        table *table = table_create(headings);
        for (mr_iter iter = mr_value_iter(&rows); mr_iter_next(&iter, &row);) {
            table_cell(table, "%s", look_text(&row, "id"));
            table_cell(table, "%s", look_text(&row, "name"));
            table_cell(table, "%s", look_text(&row, "state"));
            bundles_cell(table, &row);
        }
        table_print(table);
    }
    look_print_rest(mr_value_count(&rows), look_int(answer, "total"));
}

static const struct {
    const char *what;
    look_print_fn *print;
} lists[] = {{"tasks", print_tasks},
             {"actors", print_actors},
             {"objects", print_objects},
             {"workers", print_workers},
             {"groups", print_groups}};
enum { LISTS = sizeof lists / sizeof *lists };

static error_t parse(int key, char *text, struct argp_state *state) {
    look *look = state->input;
    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = look; return 0;
    case ARGP_KEY_ARG:
        if (look->what != NULL) return ARGP_ERR_UNKNOWN;
        for (size_t i = 0; i < LISTS; i++)
            if (strcmp(lists[i].what, text) == 0) look->what = lists[i].what;
        if (look->what == NULL)
            argp_error(state, "'%s' is no list: there are tasks, actors, objects, workers and groups", text);
        return 0;
    case ARGP_KEY_END:
        if (look->what == NULL) argp_error(state, "say what to list: tasks, actors, objects, workers or groups");
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

int command_list(int argc, char **argv) {
    const struct argp_child children[] = {{&look_options, 0, NULL, 0}, {0}};
    const struct argp argp = {
        .parser = parse,
        .children = children,
        .args_doc = "tasks|actors|objects|workers|groups",
        .doc = "Lists what a node and its processes have: tasks and calls without a result, actors, objects that "
               "programs hold (the largest first), processes, placement groups.\v"
               "The ids can be asked about: miniray why ID.",
    };
    look look = {.title = argv[0]};
    argp_parse(&argp, argc, argv, 0, NULL, &look);
    for (size_t i = 0; i < LISTS; i++)
        if (strcmp(lists[i].what, look.what) == 0) return look_run(&look, lists[i].print);
    return 1;
}
