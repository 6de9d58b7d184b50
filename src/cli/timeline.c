/* timeline.c — `miniray timeline FILE`: trace of the workers' latest calls (mr_inspect_trace), for
 * https://ui.perfetto.dev and chrome://tracing. */
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
        printf("No worker has recorded a call: %s has no events. (MINIRAY_EVENTS_KEPT=0 turns recording off.)\n",
               timeline->path);
    } else {
        printf("Wrote %zu calls of %zu workers to %s; open it at https://ui.perfetto.dev\n", trace->calls,
               trace->workers, timeline->path);
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
        if (timeline->path == NULL) argp_error(state, "no output file is given, such as: miniray timeline out.json");
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
            "Writes the latest calls of the workers as a trace for https://ui.perfetto.dev; FILE - is stdout.\v"
            "Each worker records its last calls (MINIRAY_EVENTS_KEPT); at most --limit of them are written. The last "
            "16 workers that died are included. --json prints the numbers of calls and workers.",
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
