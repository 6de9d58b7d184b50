/* timeline.c — `miniray timeline FILE`: what the workers ran lately, as a trace that https://ui.perfetto.dev and
 * chrome://tracing show (mr_inspect_trace). */
#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/json_output.h"
#include "cli/look.h"

enum { RECORDS = 100 * 1000 };

typedef struct timeline {
    look look;
    const char *path;
} timeline;

/* ---- The file. */

static int complain(const timeline *timeline, const char *what) {
    fprintf(stderr, "%s: %s: %s\n", timeline->look.title, timeline->path, what);
    return 1;
}

static int write_trace(const timeline *timeline, const mr_trace *trace) {
    FILE *file = strcmp(timeline->path, "-") == 0 ? stdout : fopen(timeline->path, "we");
    if (file == NULL) return complain(timeline, strerror(errno));
    fwrite(trace->json, 1, trace->size, file);
    bool good = fflush(file) == 0 && !ferror(file);
    if (file != stdout && fclose(file) != 0) good = false;
    return good ? 0 : complain(timeline, strerror(errno));
}

static void print_summary(const timeline *timeline, const mr_trace *trace) {
    if (timeline->look.as_json) {
        printf("{\"format\":%d,\"calls\":%zu,\"workers\":%zu}\n", JSON_OUTPUT_FORMAT, trace->calls, trace->workers);
    } else if (trace->workers == 0) {
        printf("No worker has run anything yet: %s is empty. (MINIRAY_EVENTS_KEPT=0 turns recording off.)\n",
               timeline->path);
    } else {
        printf("%zu calls of %zu workers are in %s; open it at https://ui.perfetto.dev\n", trace->calls, trace->workers,
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
    mr_trace trace;
    argp_parse(&argp, argc, argv, 0, NULL, &timeline);
    if (!look_open(&timeline.look, &inspect)) return 1;
    if (mr_inspect_trace(inspect, timeline.look.limit, &trace) != MR_OK) {
        fprintf(stderr, "%s: %s\n", timeline.look.title, mr_last_error());
        mr_inspect_close(inspect);
        return 1;
    }
    int code = write_trace(&timeline, &trace);
    if (code == 0 && strcmp(timeline.path, "-") != 0) print_summary(&timeline, &trace);
    free(trace.json);
    mr_inspect_close(inspect);
    return code;
}
