/* idle_bench.c — benchmark of waiting: the CPU time and the wake-ups of a driver, its node, idle workers and workers
 * that are blocked in mr_get; and a chain of tasks of which each waits for the next. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "bench/suites.h"
#include "miniray/runtime.h"

enum {
    IDLE = 8,
    BLOCKED = 8,
    PROCESSES_MAX = 64,
    SETTLE_US = 2 * 1000 * 1000,
    WATCH_US = 10 * 1000 * 1000,
    CHAIN = 300
};

static const mr_task_options on_the_moon = {.size = sizeof(mr_task_options),
                                            .resources = "moon=1"}; /* no node has this resource: the task waits */

MR_TASK(bench_never) { return MR_OK; }

MR_TASK(bench_blocked) {
    mr_ref ref;
    mr_value value;
    MR_TRY(mr_task_submit(mr_call_context(call), "bench_never", &on_the_moon, NULL, 0, &ref));
    return mr_get(mr_call_context(call), ref, MR_FOREVER, &value);
}

MR_TASK(bench_chain) {
    int64_t depth, below = 0;
    mr_ref ref;
    mr_value value;
    MR_TRY(mr_arg_int(call, 0, &depth));
    if (depth > 1) {
        MR_TRY(mr_call_task(mr_call_context(call), "bench_chain", &ref, mr_int(depth - 1)));
        MR_TRY(mr_get(mr_call_context(call), ref, MR_FOREVER, &value));
        MR_TRY(mr_value_int(&value, &below));
        mr_value_release(&value);
        mr_release(mr_call_context(call), ref);
    }
    return mr_return(call, mr_int(below + 1));
}

static void must(mr_status status) {
    if (status != MR_OK) bench_fail("%s: %s", mr_status_name(status), mr_last_error());
}

/* ---- Processes. */

typedef struct usage {
    int pid;
    double cpu_ns;
    long switches; /* voluntary ones, of all threads */
} usage;

static usage usage_of(int pid) {
    usage usage = {.pid = pid};
    char path[300], line[128];
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *folder = opendir(path);
    if (folder == NULL) bench_fail("process %d has ended", pid);
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        double cpu_ns;
        long count;
        snprintf(path, sizeof path, "/proc/%d/task/%.20s/schedstat", pid, entry->d_name);
        FILE *file = entry->d_name[0] == '.' ? NULL : fopen(path, "r");
        if (file == NULL) continue;
        if (fscanf(file, "%lf", &cpu_ns) == 1) usage.cpu_ns += cpu_ns;
        fclose(file);
        snprintf(path, sizeof path, "/proc/%d/task/%.20s/status", pid, entry->d_name);
        file = fopen(path, "r");
        while (file != NULL && fgets(line, sizeof line, file) != NULL)
            if (sscanf(line, "voluntary_ctxt_switches: %ld", &count) == 1) usage.switches += count;
        if (file != NULL) fclose(file);
    }
    closedir(folder);
    return usage;
}

static int parent_of(int pid) {
    char path[64], text[512] = "";
    int parent = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "r");
    if (file == NULL) return 0;
    const char *end = fgets(text, sizeof text, file) == NULL ? NULL : strrchr(text, ')');
    if (end != NULL && sscanf(end, ") %*c %d", &parent) != 1) parent = 0;
    fclose(file);
    return parent;
}

/* This process, its node, and the children of both. */
static int find_processes(usage *out) {
    int count = 0;
    DIR *folder = opendir("/proc");
    if (folder == NULL) bench_fail("no /proc");
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        int pid = atoi(entry->d_name), parent = pid == 0 ? 0 : parent_of(pid);
        bool ours = pid != 0 && (pid == getpid() || parent == getpid() || parent_of(parent) == getpid());
        if (ours && count < PROCESSES_MAX) out[count++] = usage_of(pid);
    }
    closedir(folder);
    return count;
}

/* ---- Measurements. */

static void idle_cost(const bench_run *run, const void *argument, double *values) {
    mr_context *mr;
    mr_ref refs[BLOCKED], never;
    mr_value value;
    usage before[PROCESSES_MAX];
    int64_t watch_us = run->quick ? WATCH_US / 10 : WATCH_US;
    must(mr_init(&MR_OPTIONS(mr_options, .num_workers = IDLE, .store_bytes = 64 << 20), &mr));
    for (int i = 0; i < BLOCKED; i++) must(mr_call_task(mr, "bench_blocked", &refs[i]));
    must(mr_task_submit(mr, "bench_never", &on_the_moon, NULL, 0, &never));
    if (mr_get(mr, never, SETTLE_US, &value) != MR_TIMEOUT) bench_fail("a task ran on the moon");
    mr_ref shorts[IDLE]; /* as many workers again, which are idle afterwards */
    for (int i = 0; i < IDLE; i++) must(mr_call_task(mr, "bench_pause", &shorts[i], mr_int(SETTLE_US / 4)));
    for (int i = 0; i < IDLE; i++) must(mr_get(mr, shorts[i], -1, &value));
    if (mr_get(mr, never, SETTLE_US, &value) != MR_TIMEOUT) bench_fail("a task ran on the moon");
    int count = find_processes(before);
    if (count < 1 + 1 + IDLE + BLOCKED) bench_fail("only %d processes", count);
    int64_t begun_ns = clock_ns();
    if (mr_get(mr, never, watch_us, &value) != MR_TIMEOUT) bench_fail("a task ran on the moon");
    double ns = (double)(clock_ns() - begun_ns), cpu_ns = 0, most = 0;
    for (int i = 0; i < count; i++) {
        usage after = usage_of(before[i].pid);
        double rate = (double)(after.switches - before[i].switches) * 1e9 / ns;
        cpu_ns += after.cpu_ns - before[i].cpu_ns;
        if (rate > most) most = rate;
    }
    values[0] = 100 * cpu_ns / ns;
    values[1] = most;
    mr_shutdown(mr);
}

static void nested(const bench_run *run, const void *argument, double *values) {
    int64_t depth = run->quick ? CHAIN / 10 : CHAIN, found;
    mr_context *mr;
    mr_ref ref;
    mr_value value;
    must(mr_init(&MR_OPTIONS(mr_options, .num_workers = 2, .store_bytes = 64 << 20), &mr));
    int64_t begun_ns = clock_ns();
    must(mr_call_task(mr, "bench_chain", &ref, mr_int(depth)));
    must(mr_get(mr, ref, 120 * 1000 * 1000, &value));
    must(mr_value_int(&value, &found));
    if (found != depth) bench_fail("%lld of %lld tasks", (long long)found, (long long)depth);
    values[0] = (double)(clock_ns() - begun_ns) / 1e9;
    mr_shutdown(mr);
}

void idle_bench(bench *b) {
    const bench_row idle[] = {
        {.name = "8 idle and 8 blocked workers, CPU", .unit = "%", .bar = {BENCH_VALUE_AT_MOST, 1}},
        {.name = "8 idle and 8 blocked workers, wake-ups of any process",
         .unit = "/s",
         .value = 1,
         .bar = {BENCH_VALUE_AT_MOST, 2}}};
    bench_measure(b, &(bench_pair){.ours = idle_cost}, idle, 2);
    bench_measure(b, &(bench_pair){.ours = nested},
                  &(bench_row){.name = "300 nested tasks", .unit = "s", .bar = {BENCH_VALUE_AT_MOST, 3}}, 1);
}
