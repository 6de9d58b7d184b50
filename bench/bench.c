/* bench.c — see bench.h. */
#include "bench/bench.h"

#include <errno.h>
#include <fnmatch.h>
#include <math.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"

struct bench {
    bench_options options;
    const char *suite;
    bench_outcome *rows; /* owned */
    size_t count;
    double *values; /* shared with the measuring process: BENCH_VALUES_MAX values */
    bench_report_fn *report;
    void *report_context;
};

/* ---- Statistics. */

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_percentile(const double *sorted, size_t count, double percent) {
    if (count == 0) return NAN;
    double place = percent / 100 * (double)(count - 1);
    size_t below = (size_t)place;
    if (below + 1 >= count) return sorted[count - 1];
    double part = place - (double)below;
    return sorted[below] * (1 - part) + sorted[below + 1] * part;
}

void bench_samples_init(bench_samples *samples, size_t limit) {
    *samples = (bench_samples){.values = xmalloc(limit * sizeof(double)), .limit = limit};
    memset(samples->values, 0, limit * sizeof(double)); /* avoids page faults while it is filled */
}

void bench_samples_fini(bench_samples *samples) { free(samples->values); }

double bench_samples_percentile(bench_samples *samples, double percent) {
    qsort(samples->values, samples->count, sizeof(double), compare_doubles);
    return bench_percentile(samples->values, samples->count, percent);
}

typedef struct summary {
    double median, spread;
} summary;

static summary summarize(double *values, size_t count) {
    qsort(values, count, sizeof(double), compare_doubles);
    double median = bench_percentile(values, count, 50);
    double width = bench_percentile(values, count, 90) - bench_percentile(values, count, 10);
    return (summary){median, median != 0 ? width / fabs(median) : 0};
}

/* ---- Inside a measurement. */

void bench_fail(const char *format, ...) {
    char text[512];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    fprintf(stderr, "  measurement failed: %s\n", text);
    _exit(1);
}

static unsigned allowed_cpus(int *cpus, unsigned limit) {
    cpu_set_t set;
    unsigned count = 0;
    if (sched_getaffinity(0, sizeof set, &set) != 0) return 0;
    for (int cpu = 0; cpu < CPU_SETSIZE && count < limit; cpu++)
        if (CPU_ISSET(cpu, &set)) cpus[count++] = cpu;
    return count;
}

unsigned bench_cpu_count(void) {
    int cpus[CPU_SETSIZE];
    return allowed_cpus(cpus, CPU_SETSIZE);
}

void bench_pin(bench_place place, unsigned side) {
    if (place == BENCH_FREE) return;
    int cpus[2];
    unsigned count = allowed_cpus(cpus, 2);
    if (count == 0 || (place == BENCH_TWO_CPUS && count < 2)) return; /* this machine has fewer CPUs */
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpus[place == BENCH_TWO_CPUS ? side % 2 : 0], &one);
    if (sched_setaffinity(0, sizeof one, &one) != 0) bench_fail("pin to a cpu: %s", strerror(errno));
}

pid_t bench_child(bench_child_fn *fn, void *argument) {
    fflush(NULL);
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid < 0) bench_fail("fork: %s", strerror(errno));
    if (pid > 0) return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1); /* the parent died before prctl was called */
    fn(argument);
    fflush(NULL);
    _exit(0);
}

typedef struct server {
    bench_server_fn *fn;
    void *argument;
    int ready_fd;
} server;

static void run_server(void *argument) {
    const server *server = argument;
    server->fn(server->argument, server->ready_fd);
}

pid_t bench_server(bench_server_fn *fn, void *argument, void *said, size_t size) {
    int ready[2];
    if (pipe(ready) != 0) bench_fail("pipe: %s", strerror(errno));
    server server = {fn, argument, ready[1]};
    pid_t pid = bench_child(run_server, &server);
    close(ready[1]);
    if (read(ready[0], said, size) != (ssize_t)size) bench_fail("a server did not come");
    close(ready[0]);
    return pid;
}

void bench_ready(int ready_fd, const void *said, size_t size) {
    if (write(ready_fd, said, size) != (ssize_t)size) bench_fail("cannot say that the server is there");
    close(ready_fd);
}

void bench_folder(char folder[BENCH_FOLDER_MAX]) {
    const char *base = getenv("TMPDIR");
    if (base == NULL || base[0] == '\0') base = "/tmp";
    if (snprintf(folder, BENCH_FOLDER_MAX, "%s/miniray-bench-XXXXXX", base) >= BENCH_FOLDER_MAX)
        bench_fail("$TMPDIR is too long for the paths of sockets: %s", base);
    if (mkdtemp(folder) == NULL) bench_fail("%s: %s", folder, strerror(errno));
}

static int wait_for(pid_t pid) {
    int status = -1;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
    return status;
}

void bench_join(pid_t pid) {
    int status = wait_for(pid);
    if (status != 0) bench_fail("a child ended with wait status 0x%x", status);
}

void bench_end(pid_t pid) {
    kill(pid, SIGKILL);
    wait_for(pid);
}

static void *map_backed(size_t size, int flags) {
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory == MAP_FAILED) bench_fail("map %zu bytes: %s", size, strerror(errno));
    memset(memory, 0, size);
    return memory;
}

void *bench_shared(size_t size) { return map_backed(size, MAP_SHARED); }
void *bench_memory(size_t size) { return map_backed(size, MAP_PRIVATE); }

/* ---- Running measurements. */

/* Waits for the measuring process; false if it had to be killed. */
static bool wait_bounded(pid_t pid, double timeout_s) {
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (fd < 0) return true; /* waitpid blocks as long as needed */
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    int ready;
    do ready = poll(&wait, 1, (int)(timeout_s * 1000));
    while (ready < 0 && errno == EINTR);
    close(fd);
    return ready != 0;
}

/* One measurement in a fresh process group. True if it ended well; values[] are then set. */
static bool measure_once(bench *b, bench_fn *fn, const void *argument) {
    for (size_t i = 0; i < BENCH_VALUES_MAX; i++) b->values[i] = NAN;
    bench_run run = {b->options.seconds, b->options.quick};
    fflush(NULL);
    pid_t parent = getpid();
    pid_t pid = fork();
    MR_ASSERT(pid >= 0);
    if (pid == 0) {
        setpgid(0, 0);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) _exit(1);
        fn(&run, argument, b->values);
        fflush(NULL);
        _exit(0);
    }
    setpgid(pid, pid); /* parent and child both call setpgid: the first call takes effect */
    bool in_time = wait_bounded(pid, b->options.timeout_s);
    if (!in_time) {
        fprintf(stderr, "  measurement failed: not done after %.0f s\n", b->options.timeout_s);
        kill(pid, SIGKILL);
    }
    /* The process is not reaped yet, so the number of its group is not reused: kill all remaining processes of the
     * measurement. */
    siginfo_t info;
    while (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) < 0 && errno == EINTR) {}
    kill(-pid, SIGKILL);
    return wait_for(pid) == 0 && in_time;
}

typedef struct series { /* the values of all repeats, by index of the value */
    double values[BENCH_VALUES_MAX][BENCH_REPEATS_MAX];
    bool failed;
} series;

static void series_measure(bench *b, series *series, bench_fn *fn, const void *argument, unsigned repeat) {
    if (fn == NULL || series->failed) return;
    series->failed = !measure_once(b, fn, argument);
    for (size_t i = 0; i < BENCH_VALUES_MAX; i++) series->values[i][repeat] = b->values[i];
}

static bool is_wanted(const bench *b, const char *name) {
    const char *pattern = b->options.rows;
    return pattern == NULL || strstr(name, pattern) != NULL || fnmatch(pattern, name, 0) == 0;
}

static void add_outcome(bench *b, const bench_outcome *outcome) {
    b->rows = xrealloc(b->rows, (b->count + 1) * sizeof *b->rows);
    b->rows[b->count++] = *outcome;
    if (b->report != NULL) b->report(b->report_context, &b->rows[b->count - 1]);
}

static bench_outcome outcome_of(bench *b, const bench_row *row) {
    return (bench_outcome){
        .suite = b->suite,
        .name = xstrdup(row->name),
        .unit = xstrdup(row->unit),
        .reference = row->reference != NULL ? xstrdup(row->reference) : NULL,
        .bar = row->bar,
    };
}

static void judge(bench *b, const bench_pair *pair, const bench_row *row, series *ours, series *reference) {
    MR_ASSERT(row->value < BENCH_VALUES_MAX && row->ref_value < BENCH_VALUES_MAX);
    unsigned repeats = b->options.repeats;
    bench_outcome outcome = outcome_of(b, row);
    outcome.repeats = repeats;
    outcome.failed = ours->failed || reference->failed;
    if (!outcome.failed) {
        summary mine = summarize(ours->values[row->value], repeats);
        summary other = {row->known_reference, 0};
        if (pair->reference != NULL) other = summarize(reference->values[row->ref_value], repeats);
        outcome.value = mine.median;
        outcome.spread = mine.spread;
        outcome.has_reference = row->reference != NULL;
        if (outcome.has_reference) {
            outcome.reference_value = other.median;
            outcome.reference_spread = other.spread;
            outcome.ratio = mine.median / other.median;
        }
        outcome.failed = !isfinite(mine.median) || (outcome.has_reference && !isfinite(outcome.ratio));
    }
    add_outcome(b, &outcome);
}

void bench_measure(bench *b, const bench_pair *pair, const bench_row *rows, size_t count) {
    size_t wanted = 0;
    for (size_t i = 0; i < count; i++) wanted += is_wanted(b, rows[i].name);
    if (wanted == 0) return;
    series *both = xcalloc(2, sizeof *both);
    series *ours = &both[0], *reference = &both[1];
    for (unsigned r = 0; r < b->options.repeats && !b->options.list; r++) {
        if (r % 2 == 0) series_measure(b, ours, pair->ours, pair->argument, r);
        series_measure(b, reference, pair->reference, pair->reference_argument, r);
        if (r % 2 == 1) series_measure(b, ours, pair->ours, pair->argument, r);
    }
    for (size_t i = 0; i < count; i++) {
        if (!is_wanted(b, rows[i].name)) continue;
        if (b->options.list) {
            bench_outcome outcome = outcome_of(b, &rows[i]);
            add_outcome(b, &outcome);
        } else {
            judge(b, pair, &rows[i], ours, reference);
        }
    }
    free(both);
}

/* ---- The bench. */

bench *bench_create(const bench_options *options) {
    bench *b = xcalloc(1, sizeof *b);
    b->options = *options;
    b->suite = "";
    if (b->options.repeats == 0) b->options.repeats = BENCH_REPEATS;
    if (b->options.repeats > BENCH_REPEATS_MAX) b->options.repeats = BENCH_REPEATS_MAX;
    if (b->options.seconds == 0) b->options.seconds = b->options.quick ? 0.08 : 0.4;
    if (b->options.timeout_s == 0) b->options.timeout_s = 30 + 20 * b->options.seconds;
    b->values = map_backed(BENCH_VALUES_MAX * sizeof(double), MAP_SHARED);
    return b;
}

void bench_destroy(bench *b) {
    for (size_t i = 0; i < b->count; i++) {
        free(b->rows[i].name);
        free(b->rows[i].unit);
        free(b->rows[i].reference);
    }
    free(b->rows);
    munmap(b->values, BENCH_VALUES_MAX * sizeof(double));
    free(b);
}

void bench_suite(bench *b, const char *name) { b->suite = name; }
size_t bench_count(const bench *b) { return b->count; }

const bench_outcome *bench_at(const bench *b, size_t index) {
    MR_ASSERT(index < b->count);
    return &b->rows[index];
}

void bench_on_row(bench *b, bench_report_fn *report, void *context) {
    b->report = report;
    b->report_context = context;
}

bool bench_holds(const bench_outcome *row) {
    if (row->failed) return false;
    switch (row->bar.kind) {
    case BENCH_NO_BAR: return true;
    case BENCH_RATIO_AT_LEAST: return row->ratio >= row->bar.limit;
    case BENCH_RATIO_AT_MOST: return row->ratio <= row->bar.limit;
    case BENCH_VALUE_AT_LEAST: return row->value >= row->bar.limit;
    case BENCH_VALUE_AT_MOST: return row->value <= row->bar.limit;
    }
    MR_UNREACHABLE();
}
