/* scheduling_bench.c — benchmark of scheduling fairness: long tasks over the workers of a driver that has just run
 * short ones, and one node shared by two drivers of which one floods it. Tasks sleep, so the rows measure the policy
 * and not the CPUs. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "bench/suites.h"
#include "miniray/admin.h"
#include "miniray/runtime.h"

enum { WORKERS = 8, SHORT = 5000, ROUNDS = 10, LONG_US = 10 * 1000, PAUSE_US = 1000, FLOOD = 2000, FEW = 16 };

MR_TASK(bench_short) { return MR_OK; }

MR_TASK(bench_pause) {
    int64_t us;
    MR_TRY(mr_arg_int(call, 0, &us));
    usleep((useconds_t)us);
    return MR_OK;
}

static void must(mr_status status) {
    if (status != MR_OK) bench_fail("%s: %s", mr_status_name(status), mr_last_error());
}

static void finish(mr_context *mr, mr_ref ref) {
    mr_value value;
    must(mr_get(mr, ref, 20 * 1000 * 1000, &value));
    mr_value_release(&value);
    mr_release(mr, ref);
}

/* ---- Parallelism: sum of the task durations, divided by the elapsed time. */

static void long_after_short(const bench_run *run, const void *argument, double *values) {
    static mr_ref refs[SHORT];
    const int count = ROUNDS * WORKERS;
    mr_context *mr;
    must(mr_init(&MR_OPTIONS(mr_options, .num_workers = WORKERS, .store_bytes = 64 << 20), &mr));
    for (int i = 0; i < SHORT; i++) must(mr_call_task(mr, "bench_short", &refs[i]));
    for (int i = 0; i < SHORT; i++) finish(mr, refs[i]);
    int64_t before_ns = clock_ns();
    for (int i = 0; i < count; i++) must(mr_call_task(mr, "bench_pause", &refs[i], mr_int(LONG_US)));
    for (int i = 0; i < count; i++) finish(mr, refs[i]);
    values[0] = (double)count * LONG_US * 1e3 / (double)(clock_ns() - before_ns);
    mr_shutdown(mr);
}

/* ---- Two drivers. */

typedef struct rival {
    const char *node;
    int ready[2], start[2], counts[2];
    int in_flight;
    double seconds;
} rival;

/* Keeps `count` tasks in flight, and reports the number of completed ones. */
static void compete(void *argument) {
    const rival *rival = argument;
    static mr_ref refs[FLOOD];
    mr_context *mr;
    char byte;
    int count = 0;
    must(mr_init(&MR_OPTIONS(mr_options, .address = rival->node), &mr));
    must(mr_call_task(mr, "bench_short", &refs[0]));
    finish(mr, refs[0]);
    if (write(rival->ready[1], "r", 1) != 1 || read(rival->start[0], &byte, 1) != 1) bench_fail("no start");
    for (int i = 0; i < rival->in_flight; i++) must(mr_call_task(mr, "bench_pause", &refs[i], mr_int(PAUSE_US)));
    for (int64_t end_ns = clock_ns() + (int64_t)(rival->seconds * 1e9); clock_ns() < end_ns; count++) {
        mr_ref *ref = &refs[count % rival->in_flight];
        finish(mr, *ref);
        must(mr_call_task(mr, "bench_pause", ref, mr_int(PAUSE_US)));
    }
    if (write(rival->counts[1], &count, sizeof count) != sizeof count) bench_fail("no count");
    mr_shutdown(mr);
}

static void beside_a_flood(const bench_run *run, const void *argument, double *values) {
    char folder[BENCH_FOLDER_MAX], node[BENCH_FOLDER_MAX + 8], byte;
    mr_node_info info;
    rival rivals[2] = {{.in_flight = FLOOD}, {.in_flight = FEW}};
    int counts[2], ready[2], start[2];
    pid_t pids[2];
    bench_folder(folder);
    snprintf(node, sizeof node, "%s/node", folder);
    must(mr_node_start(&MR_OPTIONS(mr_node_options, .num_cpus = 2, .address = node, .store_bytes = 64 << 20), &info));
    if (pipe(ready) != 0 || pipe(start) != 0) bench_fail("no pipe");
    for (int i = 0; i < 2; i++) {
        rival *rival = &rivals[i];
        if (pipe(rival->counts) != 0) bench_fail("no pipe");
        rival->node = node;
        rival->seconds = 2 * run->seconds;
        for (int end = 0; end < 2; end++) rival->ready[end] = ready[end], rival->start[end] = start[end];
        pids[i] = bench_child(compete, rival);
    }
    for (int i = 0; i < 2; i++)
        if (read(ready[0], &byte, 1) != 1) bench_fail("a program did not start");
    if (write(start[1], "ss", 2) != 2) bench_fail("no start");
    for (int i = 0; i < 2; i++) {
        if (read(rivals[i].counts[0], &counts[i], sizeof counts[i]) != sizeof counts[i]) bench_fail("no count");
        bench_join(pids[i]);
    }
    must(mr_node_stop(node, NULL));
    rmdir(folder);
    values[0] = (double)counts[1] / (counts[0] + counts[1]);
}

void scheduling_bench(bench *b) {
    bench_measure(b, &(bench_pair){.ours = long_after_short},
                  &(bench_row){.name = "10 ms tasks after short ones, at once",
                               .unit = "x",
                               .reference = "workers",
                               .known_reference = WORKERS,
                               .bar = {BENCH_RATIO_AT_LEAST, 0.75}},
                  1);
    bench_measure(b, &(bench_pair){.ours = beside_a_flood},
                  &(bench_row){.name = "a program's share beside a flood",
                               .unit = "",
                               .reference = "half",
                               .known_reference = 0.5,
                               .bar = {BENCH_RATIO_AT_LEAST, 0.8}},
                  1);
}
