/* cmd_logs.c — `miniray logs [NAME]`: output of the processes of a session, running or ended.
 * Tested by src/cli/miniray_test.c. */
#include <argp.h>
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/command_line.h"
#include "cli/json_output.h"
#include "cli/node_query.h"

enum {
    LOGS_MAX = 1024,
    LINES = 20,
    LINE_MAX_BYTES = 64 * 1024,
    PATH_SIZE = 512,
    NAME_SIZE = 128,
    LOOK_EVERY_US = 100 * 1000,
    FOR_THE_NODE = 0x1e /* first byte of a line that a worker writes for its node only: not printed */
};

typedef struct logs {
    node_query query;
    const char *name; /* "" for all; the name of a file, a process id, or an id such as p4 */
    bool follow;
} logs;

typedef struct log_file {
    char name[NAME_SIZE], stream[16], path[PATH_SIZE];
    bool used; /* the file is not empty */
    long at;   /* bytes printed so far */
} log_file;

typedef struct run {
    char folder[PATH_SIZE];
    log_file files[LOGS_MAX];
    size_t count;
} run;

/* ---- The session and its log files. */

/* Writes the session directory of the chosen node. A name such as p4 becomes a pid. Returns the exit status. */
static int ask_node(const logs *logs, char folder[PATH_SIZE], char name[NAME_SIZE]) {
    node_query query = logs->query;
    mr_inspect *inspect;
    mr_value answer, row, processes;
    query.what = "status";
    int code = node_query_ask(&query, &inspect, &answer);
    if (code != COMMAND_OK) return code;
    mr_value node = node_query_field(&answer, "node");
    snprintf(folder, PATH_SIZE, "%s", node_query_text(&node, "folder"));
    processes = node_query_field(&answer, "processes");
    for (mr_iter iter = mr_value_iter(&processes); mr_iter_next(&iter, &row);)
        if (strcmp(node_query_text(&row, "id"), name) == 0)
            snprintf(name, NAME_SIZE, "%" PRId64, node_query_int(&row, "pid"));
    mr_value_release(&answer);
    mr_inspect_close(inspect);
    return COMMAND_OK;
}

/* Whether `name` is the file's name, or a word of it, as "4711" in "worker-4711"; "" matches every file. */
static bool is_named(const char *file, const char *name) {
    if (name[0] == '\0') return true;
    size_t size = strlen(name);
    for (const char *at = file; (at = strstr(at, name)) != NULL; at++) {
        bool begins = at == file || !isalnum((unsigned char)at[-1]), ends = !isalnum((unsigned char)at[size]);
        if (begins && ends) return true;
    }
    return false;
}

static void keep_files(run *run, const mr_value *row, const char *name) {
    mr_value files = node_query_field(row, "logs"), file;
    snprintf(run->folder, sizeof run->folder, "%s", node_query_text(row, "folder"));
    for (mr_iter iter = mr_value_iter(&files); mr_iter_next(&iter, &file) && run->count < LOGS_MAX;) {
        const char *found = node_query_text(&file, "name");
        if (!is_named(found, name)) continue;
        log_file *kept = &run->files[run->count++];
        snprintf(kept->name, sizeof kept->name, "%.100s", found);
        snprintf(kept->stream, sizeof kept->stream, "%s", node_query_text(&file, "stream"));
        snprintf(kept->path, sizeof kept->path, "%s", node_query_text(&file, "path"));
        kept->used = node_query_int(&file, "bytes") > 0;
        kept->at = 0;
    }
}

/* Finds the session of the running node, or else the newest one with logs. Returns the exit status. */
static int find_run(const logs *logs, run *run) {
    char folder[PATH_SIZE] = "", name[NAME_SIZE];
    mr_value all, row, nodes;
    snprintf(name, sizeof name, "%s", logs->name);
    int code = command_outcome(logs->query.title, mr_inspect_nodes(&all));
    if (code != COMMAND_OK) return code;
    nodes = node_query_field(&all, "nodes");
    if (mr_value_count(&nodes) > 0 || logs->query.address != NULL) {
        code = ask_node(logs, folder, name);
        if (code != COMMAND_OK) return mr_value_release(&all), code;
    }
    mr_value runs = node_query_field(&all, "runs");
    for (mr_iter iter = mr_value_iter(&runs); mr_iter_next(&iter, &row) && run->folder[0] == '\0';) {
        mr_value files = node_query_field(&row, "logs");
        bool is_it =
            folder[0] != '\0' ? strcmp(node_query_text(&row, "folder"), folder) == 0 : mr_value_count(&files) > 0;
        if (is_it) keep_files(run, &row, name);
    }
    mr_value_release(&all);
    return COMMAND_OK;
}

/* ---- Printing. */

/* The offset of the last `lines` lines. */
static long last_lines(FILE *file, size_t lines) {
    fseek(file, 0, SEEK_END);
    long end = ftell(file), at = end > LINE_MAX_BYTES ? end - LINE_MAX_BYTES : 0, starts[LINES];
    size_t count = 0;
    starts[count++ % LINES] = at;
    fseek(file, at, SEEK_SET);
    for (int c; (c = getc(file)) != EOF;)
        if (c == '\n' && ftell(file) < end) starts[count++ % LINES] = ftell(file);
    return count <= lines ? starts[0] : starts[count % LINES];
}

/* Prints new complete lines, after the file's name if there are several files. */
static void print_new(log_file *log, bool named, bool from_the_end) {
    FILE *file = fopen(log->path, "re");
    if (file == NULL) return;
    if (from_the_end) log->at = last_lines(file, LINES);
    fseek(file, 0, SEEK_END);
    if (ftell(file) < log->at) log->at = 0; /* the file was rotated */
    fseek(file, log->at, SEEK_SET);
    char *line = NULL;
    size_t size = 0;
    for (ssize_t length; (length = getline(&line, &size, file)) > 0; log->at += length) {
        if (line[0] == FOR_THE_NODE) continue;
        if (named) printf("[%s] ", log->name);
        fwrite(line, 1, (size_t)length, stdout);
        if (line[length - 1] != '\n') putchar('\n');
    }
    free(line);
    fclose(file);
}

/* Prints the rotated part of a log. */
static void print_older(const log_file *log, bool named) {
    log_file older = *log;
    snprintf(older.path, sizeof older.path, "%.500s.1", log->path);
    print_new(&older, named, false);
}

static mr_arg file_of(const void *item, json_output *json) {
    const log_file *file = item;
    const json_field fields[] = {
        {"name", mr_str(file->name)},
        {"stream", file->stream[0] == '\0' ? mr_nil() : mr_str(file->stream)},
        {"path", mr_str(file->path)},
    };
    return json_output_map(json, fields, sizeof fields / sizeof *fields);
}

static mr_status print_json(const run *run) {
    json_output json = {0};
    mr_arg files = json_output_rows(&json, run->files, run->count, sizeof *run->files, file_of);
    const json_field all[] = {{"folder", mr_str(run->folder)}, {"logs", files}};
    return json_output_finish(&json, all, 2);
}

static int print_logs(const logs *logs, run *run) {
    if (logs->query.as_json) return print_json(run) != MR_OK;
    if (run->count == 0 && logs->name[0] != '\0') {
        fprintf(stderr, "%s: no log of process '%s'%s%s; `miniray logs --json` lists the files\n", logs->query.title,
                logs->name, run->folder[0] != '\0' ? " in " : "", run->folder);
        return 1;
    }
    if (run->count == 0 && run->folder[0] == '\0') puts("No session of this user has left a log.");
    if (run->count == 0 && run->folder[0] != '\0') printf("There are no logs in %s.\n", run->folder);
    size_t used = 0;
    for (size_t i = 0; i < run->count; i++) used += run->files[i].used || logs->follow;
    bool whole = logs->name[0] != '\0', named = used > 1;
    for (size_t i = 0; i < run->count; i++) {
        if (whole) print_older(&run->files[i], named);
        print_new(&run->files[i], named, !whole);
    }
    while (logs->follow && access(run->folder, F_OK) == 0 && fflush(stdout) == 0) {
        usleep(LOOK_EVERY_US);
        for (size_t i = 0; i < run->count; i++) print_new(&run->files[i], named, false);
    }
    return 0;
}

static error_t parse(int key, char *text, struct argp_state *state) {
    logs *logs = state->input;
    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = &logs->query; return 0;
    case 'f': logs->follow = true; return 0;
    case ARGP_KEY_ARG:
        if (logs->name[0] != '\0') return ARGP_ERR_UNKNOWN;
        logs->name = text;
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

int command_logs(int argc, char **argv) {
    const struct argp_option options[] = {{"follow", 'f', NULL, 0, "Keep printing new lines", 0}, {0}};
    const struct argp_child children[] = {{&node_query_options, 0, NULL, 0}, {0}};
    const struct argp argp = {
        .options = options,
        .parser = parse,
        .children = children,
        .args_doc = "[NAME]",
        .doc =
            "Shows the last 20 lines that each process of a session printed, or all lines of one process. NAME is its "
            "pid, its id (p4), or node. A process has two files: 4711.out is its stdout, 4711.err its stderr; lines of "
            "several files begin with the file's name.\v"
            "The session is that of the running node (see --address), or else the newest one with logs. --json lists "
            "the files.",
    };
    logs logs = {.query = {.title = argv[0]}, .name = ""};
    command_line_parse(&argp, argc, argv, 0, &logs, "miniray logs\nminiray logs 4711 --follow");
    run *run = calloc(1, sizeof *run);
    if (run == NULL) return 1;
    int code = find_run(&logs, run);
    if (code == COMMAND_OK) code = print_logs(&logs, run);
    free(run);
    return code;
}
