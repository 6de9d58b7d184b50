/* memory_monitor.c — see memory_monitor.h. Tested by tests/memory_monitor_test.c; the decisions by
 * src/runtime/node/oom_policy_test.c. */
#include "runtime/node/memory_monitor.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text_file.h"
#include "net/shm/memory_headroom.h"

enum { TOP = 3, NAME_MAX_SHOWN = 24, REASON_MAX = 400 };

struct memory_monitor {
    node_core *core;
    broker *broker;
    const config *config;
    event_loop_timer *timer;
    bool ticks;               /* the timer is set */
    event_loop_watch *stalls; /* of stall_fd; NULL: the kernel reports no stalls */
    int stall_fd;             /* -1: none */
};

typedef struct usage {
    uint64_t used, limit;
    const char *what; /* what has the limit */
} usage;

/* ---- Sizes. */

/* Memory of a process that its end frees: its resident pages except shared ones; 0: it has ended. */
static uint64_t size_of(int pid) {
    char path[64], text[128];
    unsigned long long resident, shared;
    snprintf(path, sizeof path, "/proc/%d/statm", pid);
    if (!text_file_read(path, text, sizeof text) || sscanf(text, "%*u %llu %llu", &resident, &shared) != 2) return 0;
    return resident > shared ? (resident - shared) * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

static void take_sizes(oom_worker *workers, size_t count) {
    for (size_t i = 0; i < count; i++) workers[i].bytes = size_of(workers[i].pid);
}

/* The usage that is nearest to its limit. The workers count only for the option memory_limit. */
static usage usage_now(const memory_monitor *monitor, const oom_worker *workers, size_t count) {
    memory_headroom machine = memory_headroom_now();
    usage usage = {machine.used, machine.limit, "memory"};
    uint64_t limit = (uint64_t)monitor->config->memory_limit;
    if (limit == 0) return usage;
    uint64_t used = broker_stats_now(monitor->broker).backed;
    for (size_t i = 0; i < count; i++) used += workers[i].bytes;
    bool nearer = usage.limit == 0 || (double)used / (double)limit > (double)usage.used / (double)usage.limit;
    return nearer ? (struct usage){used, limit, "the memory of MINIRAY_MEMORY_LIMIT"} : usage;
}

/* ---- The reason, for the error and the log. */

static const char *size_text(uint64_t bytes, char out[24]) {
    bool large = bytes >= UINT64_C(1) << 30;
    snprintf(out, 24, large ? "%.2f GB" : "%.0f MB", (double)bytes / (large ? 1 << 30 : 1 << 20));
    return out;
}

typedef struct top { /* the largest processes, the largest first */
    int pids[TOP];
    uint64_t bytes[TOP];
} top;

static void top_add(top *top, int pid, uint64_t bytes) {
    int at = TOP;
    while (at > 0 && bytes > top->bytes[at - 1]) at--;
    if (at == TOP) return;
    memmove(&top->pids[at + 1], &top->pids[at], (size_t)(TOP - 1 - at) * sizeof top->pids[0]);
    memmove(&top->bytes[at + 1], &top->bytes[at], (size_t)(TOP - 1 - at) * sizeof top->bytes[0]);
    top->pids[at] = pid;
    top->bytes[at] = bytes;
}

static void top_find(top *top) {
    DIR *folder = opendir("/proc");
    for (const struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
        int pid = atoi(entry->d_name);
        if (pid > 0) top_add(top, pid, size_of(pid));
    }
    if (folder != NULL) closedir(folder);
}

/* The name of what the process runs, else of its executable. */
static void name_of(const memory_monitor *monitor, int pid, char out[NAME_MAX_SHOWN + 1]) {
    char path[64], text[64] = "";
    node_manager_name(monitor->core, pid, out, NAME_MAX_SHOWN + 1);
    if (out[0] != '\0') return;
    snprintf(path, sizeof path, "/proc/%d/comm", pid);
    if (!text_file_read(path, text, sizeof text)) snprintf(text, sizeof text, "?");
    snprintf(out, NAME_MAX_SHOWN + 1, "%.*s", (int)strcspn(text, "\n"), text);
}

static void write_reason(const memory_monitor *monitor, const usage *usage, const oom_worker *worker, bool retry,
                         char out[REASON_MAX]) {
    char used[24], limit[24], own[24], name[NAME_MAX_SHOWN + 1];
    name_of(monitor, worker->pid, name);
    bool single = worker->role == OOM_TASK && worker->retriable && !retry;
    int size = snprintf(out, REASON_MAX,
                        "%s is nearly used up: %s of %s (threshold %lld %%), %s by this worker (%s)%s; run fewer tasks "
                        "at a time (give each more num_cpus) or raise MINIRAY_MEMORY_USAGE_THRESHOLD; largest: ",
                        usage->what, size_text(usage->used, used), size_text(usage->limit, limit),
                        (long long)monitor->config->memory_usage_threshold, size_text(worker->bytes, own), name,
                        single ? ", not retried as the only task of its caller" : "");
    top top = {0};
    top_find(&top);
    for (int i = 0; i < TOP && top.pids[i] != 0; i++) {
        char entry[96];
        name_of(monitor, top.pids[i], name);
        int more = snprintf(entry, sizeof entry, "%s%s process %d (%s)", i > 0 ? ", " : "",
                            size_text(top.bytes[i], own), top.pids[i], name);
        if (size + more >= REASON_MAX) break;
        memcpy(out + size, entry, (size_t)more + 1);
        size += more;
    }
}

/* ---- Checks. */

static void end_one(const memory_monitor *monitor, const usage *usage, const oom_worker *workers, size_t count) {
    oom_choice choice;
    char reason[REASON_MAX];
    if (!oom_policy_choose(workers, count, &choice)) return;
    const oom_worker *worker = &workers[choice.index];
    if (worker->bytes == 0) return; /* it has just ended */
    write_reason(monitor, usage, worker, choice.retry, reason);
    node_manager_evict(monitor->core, worker->process, choice.retry, reason);
}

/* Returns when to check again. */
static int64_t check(const memory_monitor *monitor, bool tasks_run) {
    const config *config = monitor->config;
    uint32_t percent = (uint32_t)config->memory_usage_threshold;
    oom_worker *workers;
    size_t count;
    if (!node_manager_workers(monitor->core, &workers, &count)) return config->memory_check_us;
    if (config->memory_limit > 0) take_sizes(workers, count);
    usage usage = usage_now(monitor, workers, count);
    if (oom_policy_is_over(usage.used, usage.limit, percent)) {
        take_sizes(workers, count);
        end_one(monitor, &usage, workers, count);
    }
    free(workers);
    return oom_policy_interval_us(usage.used, usage.limit, percent, config->memory_check_us, tasks_run);
}

static void tick(void *context) {
    memory_monitor *monitor = context;
    bool tasks_run;
    monitor->ticks = node_manager_has_work(monitor->core, &tasks_run);
    event_loop_timer_set(monitor->timer, monitor->ticks ? check(monitor, tasks_run) : -1);
}

void memory_monitor_stir(memory_monitor *monitor) {
    bool tasks_run;
    if (monitor == NULL || monitor->ticks || !node_manager_has_work(monitor->core, &tasks_run)) return;
    monitor->ticks = true;
    event_loop_timer_set(monitor->timer, monitor->config->memory_check_us);
}

/* Asks the kernel to report when processes wait for memory for 100 ms within 2 s (the window that needs no
 * privilege). Without PSI the interval alone decides. */
static void watch_stalls(memory_monitor *monitor, event_loop *loop) {
    static const char trigger[] = "some 100000 2000000";
    monitor->stall_fd = open("/proc/pressure/memory", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (monitor->stall_fd >= 0 && write(monitor->stall_fd, trigger, sizeof trigger) == (ssize_t)sizeof trigger &&
        event_loop_watch_add(loop, monitor->stall_fd, tick, monitor, &monitor->stalls) == MR_OK) {
        event_loop_watch_urgent(monitor->stalls);
        return;
    }
    error_clear();
    if (monitor->stall_fd >= 0) close(monitor->stall_fd);
    monitor->stall_fd = -1;
}

memory_monitor *memory_monitor_open(event_loop *loop, node_core *core, broker *broker, const config *config) {
    if (config->memory_check_us == 0 || config->memory_usage_threshold == 100) return NULL;
    memory_monitor *monitor = XNEW(memory_monitor, .core = core, .broker = broker, .config = config);
    monitor->timer = event_loop_timer_create(loop, tick, monitor);
    watch_stalls(monitor, loop);
    return monitor;
}

void memory_monitor_close(memory_monitor *monitor) {
    if (monitor == NULL) return;
    event_loop_watch_remove(monitor->stalls);
    if (monitor->stall_fd >= 0) close(monitor->stall_fd);
    event_loop_timer_destroy(monitor->timer);
    free(monitor);
}
