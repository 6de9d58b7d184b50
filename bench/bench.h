/* bench.h — measurement framework.
 *
 * A suite is a function that takes measurements and adds rows:
 *
 *     static void ring_rate(const bench_run *run, const void *argument, double *values) { … values[0] = rate; }
 *
 *     void ring_bench(bench *b) {
 *         bench_measure(b, &(bench_pair){.ours = ring_rate, .reference = bare_rate},
 *                       &(bench_row){.name = "8 B messages", .unit = "M/s", .reference = "bare ring",
 *                                    .bar = {BENCH_VALUE_AT_LEAST, 10}}, 1);
 *     }
 *
 * Ours and its reference are measured in turns, in the same run: repeat 1 ours first, repeat 2 the reference first, and
 * so on, each in a fresh process (and process group, which is ended with it). A row is the median of the repeats; its
 * ratio is the median of ours over the median of the reference; its spread is the distance from the 10th to the 90th
 * percentile of the repeats, relative to the median. Every measurement is bounded in time: one that hangs is killed and
 * its rows are reported as failed.
 *
 * Functions inside a measurement return no status: a failure ends the measurement through bench_fail. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct bench bench;

/* ---- Rows. */

enum { BENCH_VALUES_MAX = 16, BENCH_REPEATS_MAX = 101, BENCH_REPEATS = 5 };

typedef struct bench_run { /* parameters of a measurement */
    double seconds;        /* duration of the measurement, without set-up */
    bool quick;            /* short run: may use smaller sizes, but must take the same code paths */
} bench_run;

/* One measurement, in a process of its own. Sets values[0] and, if its rows name them, further ones. */
typedef void bench_fn(const bench_run *run, const void *argument, double *values);

typedef struct bench_pair {
    bench_fn *ours;
    const void *argument; /* borrowed for the call, as `reference` is */
    bench_fn *reference;  /* NULL: no reference, or a number that is known already */
    const void *reference_argument;
} bench_pair;

typedef enum bench_bar_kind {
    BENCH_NO_BAR, /* reported without a bar */
    BENCH_RATIO_AT_LEAST,
    BENCH_RATIO_AT_MOST,
    BENCH_VALUE_AT_LEAST,
    BENCH_VALUE_AT_MOST,
} bench_bar_kind;

typedef struct bench_bar {
    bench_bar_kind kind;
    double limit;
} bench_bar;

typedef struct bench_row {
    const char *name; /* unique within its suite */
    const char *unit;
    unsigned value;         /* index of the value set by `ours`; 0 is the first */
    const char *reference;  /* name of the reference; NULL: none */
    unsigned ref_value;     /* index of the value set by `reference` */
    double known_reference; /* used where bench_pair has no reference function */
    bench_bar bar;
} bench_row;

/* Measures the pair and adds its rows (one each for p50 and p99, say). Does nothing if no row is selected. */
void bench_measure(bench *b, const bench_pair *pair, const bench_row *rows, size_t count);

/* ---- Helpers for measurements: to be called inside a bench_fn. */

/* Ends the measurement; its rows fail with this text. */
void bench_fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn, cold));

/* CPUs of the two sides of a measurement. */
typedef enum bench_place { BENCH_FREE, BENCH_TWO_CPUS, BENCH_ONE_CPU } bench_place;
void bench_pin(bench_place place, unsigned side); /* pins this thread to the CPU of side 0 or 1 */
unsigned bench_cpu_count(void);                   /* number of CPUs this process may use */

/* Forks a process of the measurement. The process dies with the measuring process, and exits with 0 when fn returns. */
typedef void bench_child_fn(void *argument);
pid_t bench_child(bench_child_fn *fn, void *argument);

/* Forks a server process. Returns when the server has reported that it is ready, with the bytes it reported (its
 * address, say). */
typedef void bench_server_fn(void *argument, int ready_fd);
pid_t bench_server(bench_server_fn *fn, void *argument, void *said, size_t size);
void bench_ready(int ready_fd, const void *said, size_t size); /* for the server: sends the expected bytes */

void bench_join(pid_t pid); /* waits for the child; if the child failed, the measurement fails */
void bench_end(pid_t pid);  /* kills the child and waits for its end: for servers that never return */

enum { BENCH_FOLDER_MAX = 64 };                   /* short enough that a unix socket's path fits below it */
void bench_folder(char folder[BENCH_FOLDER_MAX]); /* creates a folder below $TMPDIR; the measurement removes it */

void *bench_shared(size_t size); /* zeroed, populated memory that children share; never freed */
void *bench_memory(size_t size); /* private, page-aligned, populated memory; never freed */

/* Durations of single operations, for percentiles. Keeps the first `limit` of them. */
typedef struct bench_samples {
    double *values; /* owned */
    size_t count, limit;
} bench_samples;

void bench_samples_init(bench_samples *samples, size_t limit);
void bench_samples_fini(bench_samples *samples);
static inline void bench_samples_add(bench_samples *samples, double value) {
    if (samples->count < samples->limit) samples->values[samples->count++] = value;
}
double bench_samples_percentile(bench_samples *samples, double percent); /* sorts the samples; p is 0…100 */

/* Any percentile of sorted values, interpolated linearly. */
double bench_percentile(const double *sorted, size_t count, double percent);

/* ---- Running suites: for main.c. */

typedef struct bench_options {
    bool quick, list; /* list: print the names of rows, measure nothing */
    unsigned repeats; /* 0: BENCH_REPEATS */
    double seconds;   /* seconds of one measurement; 0: 0.4, or 0.08 if quick */
    double timeout_s; /* seconds after which a measurement is killed; 0: 30 + 20 × seconds */
    const char *rows; /* a shell pattern or a part of the name; NULL: all */
} bench_options;

bench *bench_create(const bench_options *options); /* the pattern is borrowed for the life of the bench */
void bench_destroy(bench *b);
void bench_suite(bench *b, const char *name); /* begins a suite; its name is borrowed for the bench's life */

typedef struct bench_outcome { /* a row after its measurement */
    const char *suite;
    char *name, *unit, *reference; /* owned; reference may be NULL */
    bool failed, has_reference;
    double value, reference_value, ratio, spread, reference_spread;
    unsigned repeats;
    bench_bar bar;
} bench_outcome;

size_t bench_count(const bench *b);
const bench_outcome *bench_at(const bench *b, size_t index);
bool bench_holds(const bench_outcome *row); /* the row meets its bar or has none; false if it failed */

/* Called with each row as soon as it is measured. */
typedef void bench_report_fn(void *context, const bench_outcome *row);
void bench_on_row(bench *b, bench_report_fn *report, void *context);
