/* main.c — `make bench`: measures, prints a table, writes a JSON file. */
#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "bench/bench_report.h"
#include "bench/suites.h"

static const struct {
    const char *name;
    void (*run)(bench *b);
} suites[] = {
    {"limits", limits_bench},
    {"ring", ring_bench},
    {"shm", shm_bench},
    {"encode", encode_bench},
    {"rpc", rpc_bench},
    {"socket", socket_bench},
    {"store", store_bench},
    {"runtime", runtime_bench},
    {"scheduling", scheduling_bench},
    {"idle", idle_bench},
    {"object", object_bench},
    {"events", events_bench},
    {"aggregate", aggregate_bench},
    {"train", train_bench},
    {"sync", sync_bench},
    {"table", ps_table_bench},
    {"engine", ps_engine_bench},
    {"ps", ps_bench},
    {"codec", ps_codec_bench},
    {"topology", ps_topology_bench},
    {"scale", ps_scale_bench},
    {"recovery", ps_recovery_bench},
};
enum { SUITES = sizeof suites / sizeof suites[0] };

typedef struct arguments {
    bench_options options;
    const char *json;
    bool wanted[SUITES];
    bool some; /* suites given on the command line */
} arguments;

enum { KEY_QUICK = 256, KEY_SUITE, KEY_ROW, KEY_JSON, KEY_REPEATS, KEY_SECONDS, KEY_LIST };

static const struct argp_option option_list[] = {
    {"quick", KEY_QUICK, NULL, 0, "Measure each row for a moment only", 0},
    {"suite", KEY_SUITE, "NAME", 0, "Only this suite (may be given several times)", 0},
    {"row", KEY_ROW, "PATTERN", 0, "Only rows whose name contains or matches this", 0},
    {"json", KEY_JSON, "FILE", 0, "Write the rows to this file", 0},
    {"repeats", KEY_REPEATS, "N", 0, "Measure each row N times (5)", 0},
    {"seconds", KEY_SECONDS, "S", 0, "Length of one measurement (0.4; 0.08 with --quick)", 0},
    {"list", KEY_LIST, NULL, 0, "Name the rows, measure nothing", 0},
    {0},
};

static void want_suite(arguments *arguments, struct argp_state *state, const char *name) {
    arguments->some = true;
    for (size_t i = 0; i < SUITES; i++) {
        if (strcmp(suites[i].name, name) != 0) continue;
        arguments->wanted[i] = true;
        return;
    }
    argp_error(state, "no suite is called '%s'", name);
}

static double positive(struct argp_state *state, const char *text, double max) {
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end != 0 || !(value > 0) || value > max)
        argp_error(state, "'%s' is not a number between 0 and %g", text, max);
    return value;
}

static error_t parse(int key, char *text, struct argp_state *state) {
    arguments *arguments = state->input;
    switch (key) {
    case KEY_QUICK: arguments->options.quick = true; return 0;
    case KEY_SUITE: want_suite(arguments, state, text); return 0;
    case KEY_ROW: arguments->options.rows = text; return 0;
    case KEY_JSON: arguments->json = text; return 0;
    case KEY_REPEATS: arguments->options.repeats = (unsigned)positive(state, text, BENCH_REPEATS_MAX); return 0;
    case KEY_SECONDS: arguments->options.seconds = positive(state, text, 60); return 0;
    case KEY_LIST: arguments->options.list = true; return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

typedef struct printer {
    const char *suite; /* suite whose heading was printed last */
} printer;

static void print_row(void *context, const bench_outcome *row) {
    printer *printer = context;
    if (row->suite != printer->suite) bench_report_suite(stdout, row->suite);
    printer->suite = row->suite;
    bench_report_row(stdout, row);
}

static int write_json(const char *path, const bench *b) {
    FILE *file = fopen(path, "we");
    if (file == NULL) {
        perror(path);
        return 1;
    }
    mr_status status = bench_report_json(file, b);
    if (fclose(file) != 0 || status != MR_OK) {
        fprintf(stderr, "%s: %s\n", path, mr_last_error());
        return 1;
    }
    return 0;
}

static int failed_rows(const bench *b) {
    int failed = 0;
    for (size_t i = 0; i < bench_count(b); i++) failed += bench_at(b, i)->failed;
    return failed;
}

int main(int argc, char **argv) {
    runtime_bench_serve();
    arguments arguments = {0};
    const struct argp argp = {option_list, parse, NULL, "Measures Miniray beside the limits of this machine.",
                              NULL,        NULL,  NULL};
    argp_parse(&argp, argc, argv, 0, NULL, &arguments);

    bench *b = bench_create(&arguments.options);
    printer printer = {NULL};
    if (!arguments.options.list) {
        bench_report_machine(stdout);
        bench_on_row(b, print_row, &printer);
    }
    for (size_t i = 0; i < SUITES; i++) {
        if (arguments.some && !arguments.wanted[i]) continue;
        bench_suite(b, suites[i].name);
        suites[i].run(b);
    }
    int code = failed_rows(b) > 0;
    if (arguments.options.list) {
        bench_report_names(stdout, b);
    } else {
        bench_report_summary(stdout, b);
        if (arguments.json != NULL && write_json(arguments.json, b) != 0) code = 1;
    }
    bench_destroy(b);
    return code;
}
