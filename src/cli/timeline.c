/* timeline.c — `miniray timeline FILE`: what the workers ran lately, as a trace that https://ui.perfetto.dev and
 * chrome://tracing show.
 *
 * The format is the Trace Event Format: complete events ("X") with their beginning and length in µs, one process of
 * the trace for each worker, and instants ("i") where one died. What still runs ends now. Calls that shared a record
 * (they are short and follow each other closely) are one event with their number behind the name. */
#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/look.h"

enum { RECORDS = 100 * 1000, NAME_SIZE = 320 };

typedef struct timeline {
    look look;
    const char *path;
} timeline;

typedef struct trace { /* a file that is being written */
    FILE *file;
    size_t events, calls;
    mr_status status;  /* of the first thing that went wrong */
    int64_t offset_us; /* of the calendar: monotonic + offset */
    int64_t now_us;
} trace;

/* ---- Events. */

static void put(trace *trace, const mr_arg *pairs, size_t count) {
    char *text;
    if (trace->status == MR_OK) trace->status = mr_inspect_json(mr_map(pairs, count), &text);
    if (trace->status != MR_OK) return;
    fprintf(trace->file, "%s\n%s", trace->events++ == 0 ? "" : ",", text);
    free(text);
}

#define PUT(trace, ...) put(trace, (mr_arg[]){__VA_ARGS__}, sizeof((mr_arg[]){__VA_ARGS__}) / sizeof(mr_arg) / 2)

static int64_t item_int(const mr_value *list, size_t index) {
    mr_value item;
    int64_t number = 0;
    if (mr_value_item(list, index, &item) != MR_OK || mr_value_int(&item, &number) != MR_OK) return 0;
    return number;
}

static void item_text(const mr_value *list, size_t index, char *out, size_t size) {
    mr_value item;
    mr_span text = {0};
    if (mr_value_item(list, index, &item) != MR_OK || mr_value_str(&item, &text) != MR_OK) text.size = 0;
    snprintf(out, size, "%.*s", (int)text.size, text.size == 0 ? "" : (const char *)text.data);
}

/* One record: [begun_us, ended_us, kind, name, process, call, count, lane, outcome]. */
static void put_event(trace *trace, int64_t pid, int64_t gone_us, const mr_value *row) {
    int64_t begun_us = item_int(row, 0), ended_us = item_int(row, 1), count = item_int(row, 6);
    bool over = ended_us != 0;
    char name[NAME_SIZE], shown[NAME_SIZE + 32], kind[32], caller[32];
    item_text(row, 3, name, sizeof name);
    item_text(row, 2, kind, sizeof kind);
    snprintf(caller, sizeof caller, "p%" PRId64, item_int(row, 4));
    if (count > 1)
        snprintf(shown, sizeof shown, "%s ×%" PRId64, name, count);
    else
        snprintf(shown, sizeof shown, "%s", name);
    if (!over) ended_us = gone_us != 0 ? gone_us : trace->now_us;
    const mr_arg details[] = {mr_str("caller"),
                              mr_str(caller),
                              mr_str("call"),
                              mr_int(item_int(row, 5)),
                              mr_str("calls"),
                              mr_int(count),
                              mr_str("outcome"),
                              mr_str(over           ? mr_status_name((mr_status)item_int(row, 8))
                                     : gone_us != 0 ? "its worker died"
                                                    : "running")};
    PUT(trace, mr_str("ph"), mr_str("X"), mr_str("name"), mr_str(shown), mr_str("cat"), mr_str(kind), mr_str("ts"),
        mr_int(begun_us + trace->offset_us), mr_str("dur"), mr_int(ended_us > begun_us ? ended_us - begun_us : 0),
        mr_str("pid"), mr_int(pid), mr_str("tid"), mr_int(item_int(row, 7)), mr_str("args"), mr_map(details, 4));
    trace->calls += (size_t)count;
}

static void put_ring(trace *trace, const mr_value *ring) {
    int64_t pid = look_int(ring, "pid"), gone_us = look_int(ring, "gone_us");
    const char *class_name = look_text(ring, "class");
    char title[NAME_SIZE];
    snprintf(title, sizeof title, "p%" PRId64 " %s%s", look_int(ring, "process"),
             class_name[0] != '\0' ? class_name : "worker", gone_us != 0 ? " (gone)" : "");
    const mr_arg named[] = {mr_str("name"), mr_str(title)},
                 sorted[] = {mr_str("sort_index"), mr_int(look_int(ring, "process"))};
    PUT(trace, mr_str("ph"), mr_str("M"), mr_str("name"), mr_str("process_name"), mr_str("pid"), mr_int(pid),
        mr_str("args"), mr_map(named, 1));
    PUT(trace, mr_str("ph"), mr_str("M"), mr_str("name"), mr_str("process_sort_index"), mr_str("pid"), mr_int(pid),
        mr_str("args"), mr_map(sorted, 1));
    mr_value rows = look_field(ring, "events"), row;
    for (mr_iter iter = mr_value_iter(&rows); mr_iter_next(&iter, &row);) put_event(trace, pid, gone_us, &row);
    if (gone_us == 0) return;
    const mr_arg why[] = {mr_str("why"), mr_str(look_text(ring, "why"))};
    PUT(trace, mr_str("ph"), mr_str("i"), mr_str("name"), mr_str("died"), mr_str("s"), mr_str("p"), mr_str("ts"),
        mr_int(gone_us + trace->offset_us), mr_str("pid"), mr_int(pid), mr_str("tid"), mr_int(0), mr_str("args"),
        mr_map(why, 1));
}

/* ---- The file. */

static int complain(const timeline *timeline, const char *what) {
    fprintf(stderr, "%s: %s: %s\n", timeline->look.title, timeline->path, what);
    return 1;
}

static int write_trace(const timeline *timeline, const mr_value *answer, trace *trace) {
    trace->file = strcmp(timeline->path, "-") == 0 ? stdout : fopen(timeline->path, "we");
    if (trace->file == NULL) return complain(timeline, strerror(errno));
    mr_value rings = look_field(answer, "rings"), ring;
    trace->now_us = look_int(answer, "now_us");
    trace->offset_us = look_int(answer, "wall_us") - trace->now_us;
    fputs("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[", trace->file);
    for (mr_iter iter = mr_value_iter(&rings); mr_iter_next(&iter, &ring);) put_ring(trace, &ring);
    fputs("\n]}\n", trace->file);
    bool good = fflush(trace->file) == 0 && !ferror(trace->file);
    if (trace->file != stdout && fclose(trace->file) != 0) good = false;
    if (!good) return complain(timeline, strerror(errno));
    return trace->status == MR_OK ? 0 : complain(timeline, mr_last_error());
}

static void print_summary(const timeline *timeline, const trace *trace, size_t workers) {
    if (timeline->look.as_json) {
        printf("{\"calls\":%zu,\"workers\":%zu}\n", trace->calls, workers);
    } else if (workers == 0) {
        printf("No worker has run anything yet: %s is empty. (MINIRAY_EVENTS_KEPT=0 turns recording off.)\n",
               timeline->path);
    } else {
        printf("%zu calls of %zu workers are in %s; open it at https://ui.perfetto.dev\n", trace->calls, workers,
               timeline->path);
    }
}

static error_t parse(int key, char *text, struct argp_state *state) {
    timeline *timeline = state->input;
    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = &timeline->look; return 0;
    case ARGP_KEY_ARG:
        if (timeline->path != NULL) return ARGP_ERR_UNKNOWN;
        timeline->path = text;
        return 0;
    case ARGP_KEY_END:
        if (timeline->path == NULL) argp_error(state, "say which file to write: miniray timeline out.json");
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

int command_timeline(int argc, char **argv) {
    const struct argp_child children[] = {{&look_options, 0, NULL, 0}, {0}};
    const struct argp argp = {
        .parser = parse,
        .children = children,
        .args_doc = "FILE",
        .doc =
            "Writes what the workers ran lately as a trace that https://ui.perfetto.dev shows; FILE - is stdout.\v"
            "Each worker remembers its last calls (MINIRAY_EVENTS_KEPT), --limit of them are written; of workers that "
            "died the last sixteen are there. --json tells what was written.",
    };
    timeline timeline = {.look = {.title = argv[0], .what = "timeline", .limit = RECORDS}};
    mr_inspect *inspect;
    mr_value answer;
    argp_parse(&argp, argc, argv, 0, NULL, &timeline);
    if (!look_ask(&timeline.look, &inspect, &answer)) return 1;
    trace trace = {0};
    mr_value rings = look_field(&answer, "rings");
    int code = write_trace(&timeline, &answer, &trace);
    if (code == 0 && strcmp(timeline.path, "-") != 0) print_summary(&timeline, &trace, mr_value_count(&rings));
    mr_value_release(&answer);
    mr_inspect_close(inspect);
    return code;
}
