/* object_bench.c — large values in a C driver: put, get, as an argument of a task and as its result, compared with
 * memcpy in the same run. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "bench/limits.h"
#include "bench/suites.h"
#include "miniray/runtime.h"
#include "net/shm/memory_headroom.h"

#define MB ((uint64_t)1 << 20)
enum { PATIENCE_US = 30 * 1000 * 1000, WINDOW = 64, REFS = 10000 };

MR_TASK(bench_size) { /* reads the first and the last byte of its argument */
    mr_value value;
    mr_span bytes;
    MR_TRY(mr_arg_value(call, 0, &value));
    MR_TRY(mr_value_bytes(&value, &bytes));
    return mr_return(call, mr_int(((const uint8_t *)bytes.data)[0] + ((const uint8_t *)bytes.data)[bytes.size - 1]));
}

MR_TASK(bench_back) { /* returns a value of the same size as its argument */
    mr_value value;
    MR_TRY(mr_arg_value(call, 0, &value));
    return mr_return(call, mr_value_arg(&value));
}

static void must(mr_status status) {
    if (status != MR_OK) bench_fail("%s: %s", mr_status_name(status), mr_last_error());
}

static mr_context *start(uint64_t store_bytes) {
    mr_context *mr;
    must(mr_init(&MR_OPTIONS(mr_options, .num_workers = 1, .store_bytes = (size_t)store_bytes), &mr));
    return mr;
}

static uint8_t *source(uint64_t size) {
    uint8_t *data = bench_memory(size);
    memset(data, 7, size);
    return data;
}

/* ---- Putting: GB/s. */

static void put_once(mr_context *mr, const uint8_t *data, uint64_t size) {
    mr_ref ref;
    must(mr_put(mr, mr_bytes(data, size), &ref));
    mr_release(mr, ref);
}

static void put(const bench_run *run, const void *argument, double *values) {
    uint64_t size = ((const limit_copy *)argument)->size, count = 0;
    mr_context *mr = start(2 * size + 64 * MB);
    uint8_t *data = source(size);
    for (int i = 0; i < 3; i++) put_once(mr, data, size); /* warm-up */
    int64_t begun = clock_ns(), end = begun + (int64_t)(run->seconds * 1e9), now;
    do {
        put_once(mr, data, size);
        count++;
    } while ((now = clock_ns()) < end || count < 3);
    values[0] = (double)count * (double)size / (double)(now - begun);
    mr_shutdown(mr);
}

/* ---- Getting a local object: µs, including a read of its first byte. */

static void get(const bench_run *run, const void *argument, double *values) {
    uint64_t size = ((const limit_copy *)argument)->size;
    mr_context *mr = start(size + 64 * MB);
    uint8_t *data = source(size);
    mr_ref ref;
    must(mr_put(mr, mr_bytes(data, size), &ref));
    bench_samples samples;
    bench_samples_init(&samples, 1 << 16);
    volatile uint8_t sink = 0;
    for (int64_t now = clock_ns(), end = now + (int64_t)(run->seconds * 1e9); now < end;) {
        mr_value value;
        mr_span bytes;
        int64_t before = clock_ns();
        must(mr_get(mr, ref, 0, &value));
        must(mr_value_bytes(&value, &bytes));
        sink = *(const uint8_t *)bytes.data;
        bench_samples_add(&samples, (double)(clock_ns() - before) / 1e3);
        mr_value_release(&value);
        now = clock_ns();
    }
    (void)sink;
    values[0] = bench_samples_percentile(&samples, 50);
    bench_samples_fini(&samples);
    mr_shutdown(mr);
}

/* ---- To a task and back: ms for both copies (one in this process, one in the task). */

static void there_and_back(const bench_run *run, const void *argument, double *values) {
    uint64_t size = ((const limit_copy *)argument)->size;
    mr_context *mr = start(4 * size + 64 * MB);
    uint8_t *data = source(size);
    bench_samples samples;
    bench_samples_init(&samples, 1024);
    int64_t end = 0;
    for (int i = 0; i < 4 || clock_ns() < end; i++) {
        if (i == 2) end = clock_ns() + (int64_t)(run->seconds * 1e9);
        mr_ref ref;
        mr_value value;
        int64_t before = clock_ns();
        must(mr_call_task(mr, "bench_back", &ref, mr_bytes(data, size)));
        must(mr_get(mr, ref, PATIENCE_US, &value));
        if (i >= 2) bench_samples_add(&samples, (double)(clock_ns() - before) / 1e6);
        mr_value_release(&value);
        mr_release(mr, ref);
    }
    values[0] = bench_samples_percentile(&samples, 50);
    bench_samples_fini(&samples);
    mr_shutdown(mr);
}

/* Copies the same number of bytes twice with memcpy. */
static void two_copies(const bench_run *run, const void *argument, double *values) {
    uint64_t size = ((const limit_copy *)argument)->size;
    limit_memcpy_fn(run, argument, values);
    values[0] = 2 * (double)size / values[0] / 1e6;
}

/* ---- Arguments of 1 MB by value, WINDOW at a time: k/s. */

static void feed(const bench_run *run, const void *argument, double *values) {
    uint64_t size = ((const limit_copy *)argument)->size, count = 0;
    mr_context *mr = start(256 * MB);
    uint8_t *data = source(size);
    mr_ref refs[WINDOW];
    for (int i = 0; i < WINDOW; i++) must(mr_call_task(mr, "bench_size", &refs[i], mr_bytes(data, size)));
    int64_t begun = clock_ns(), end = begun + (int64_t)(run->seconds * 1e9);
    while (clock_ns() < end)
        for (int i = 0; i < WINDOW; i++, count++) {
            mr_value value;
            must(mr_get(mr, refs[i], PATIENCE_US, &value));
            mr_value_release(&value);
            mr_release(mr, refs[i]);
            must(mr_call_task(mr, "bench_size", &refs[i], mr_bytes(data, size)));
        }
    values[0] = (double)count * 1e6 / (double)(clock_ns() - begun);
    mr_shutdown(mr);
}

/* ---- A list of REFS references: resolved in this process, and passed to a task that resolves all of them: /s, ms. */

MR_TASK(bench_refs) {
    mr_value list;
    int64_t total = 0, number;
    MR_TRY(mr_arg_value(call, 0, &list));
    mr_iter iter = mr_value_iter(&list);
    for (mr_value item, value; mr_iter_next(&iter, &item);) {
        mr_ref ref;
        MR_TRY(mr_value_ref(&item, &ref));
        MR_TRY(mr_get(mr_call_context(call), ref, PATIENCE_US, &value));
        MR_TRY(mr_value_int(&value, &number));
        mr_value_release(&value);
        total += number;
    }
    return mr_return(call, mr_int(total));
}

static mr_ref list_of_refs(mr_context *mr) {
    mr_ref *refs = bench_memory(REFS * sizeof *refs), list;
    mr_arg *args = bench_memory(REFS * sizeof *args);
    for (int i = 0; i < REFS; i++) {
        must(mr_put(mr, mr_int(i), &refs[i]));
        args[i] = mr_future(refs[i]);
    }
    must(mr_put(mr, mr_list(args, REFS), &list));
    for (int i = 0; i < REFS; i++) mr_release(mr, refs[i]);
    return list;
}

static void get_refs(const bench_run *run, const void *argument, double *values) {
    mr_context *mr = start(64 * MB);
    mr_ref list = list_of_refs(mr);
    uint64_t count = 0;
    int64_t begun = clock_ns(), end = begun + (int64_t)(run->seconds * 1e9), now;
    do {
        mr_value value;
        must(mr_get(mr, list, 0, &value));
        mr_value_release(&value);
        count++;
    } while ((now = clock_ns()) < end);
    values[0] = (double)count * 1e9 / (double)(now - begun);
    mr_shutdown(mr);
}

static void pass_refs(const bench_run *run, const void *argument, double *values) {
    mr_context *mr = start(64 * MB);
    mr_ref list = list_of_refs(mr);
    bench_samples samples;
    bench_samples_init(&samples, 1024);
    int64_t end = clock_ns() + (int64_t)(run->seconds * 1e9);
    for (int i = 0; i < 4 || clock_ns() < end; i++) {
        mr_ref ref;
        mr_value value;
        int64_t before = clock_ns();
        must(mr_call_task(mr, "bench_refs", &ref, mr_future(list)));
        must(mr_get(mr, ref, PATIENCE_US, &value));
        if (i > 0) bench_samples_add(&samples, (double)(clock_ns() - before) / 1e6);
        mr_value_release(&value);
        mr_release(mr, ref);
    }
    values[0] = bench_samples_percentile(&samples, 50);
    bench_samples_fini(&samples);
    mr_shutdown(mr);
}

void object_bench(bench *b) {
    static const limit_copy tiny = {16 << 10, 1}, small = {40 << 10, 1}, medium = {100 << 10, 1}, one = {1 << 20, 1};
    static const limit_copy quarter = {256 << 20, 1}, whole = {1u << 30, 1}, hundred = {100 << 20, 1};
    bool roomy = memory_headroom_bytes() > 8 * 1024 * MB;
    const limit_copy *large = roomy ? &whole : &quarter;
    const bench_bar copying = {BENCH_RATIO_AT_LEAST, 0.85};
    bench_measure(
        b, &(bench_pair){.ours = put, .argument = large, .reference = limit_memcpy_fn, .reference_argument = large},
        &(bench_row){.name = "put gigabytes", .unit = "GB/s", .reference = "memcpy of as much", .bar = copying}, 1);
    bench_measure(
        b, &(bench_pair){.ours = put, .argument = &one, .reference = limit_memcpy_fn, .reference_argument = &one},
        &(bench_row){.name = "put 1 MB", .unit = "GB/s", .reference = "memcpy 1 MB"}, 1);
    bench_measure(b, &(bench_pair){.ours = get, .argument = large, .reference = get, .reference_argument = &one},
                  &(bench_row){.name = roomy ? "get 1 GB" : "get 256 MB",
                               .unit = "us",
                               .reference = "get 1 MB",
                               .bar = {BENCH_RATIO_AT_MOST, 1.5}},
                  1);
    bench_measure(
        b,
        &(bench_pair){
            .ours = there_and_back, .argument = &hundred, .reference = two_copies, .reference_argument = &hundred},
        &(bench_row){.name = "100 MB to a task and back", .unit = "ms", .reference = "memcpy, twice"}, 1);
    static const struct {
        const limit_copy *size;
        const char *name;
    } feeds[] = {{&tiny, "tasks with 16 KB"},
                 {&small, "tasks with 40 KB"},
                 {&medium, "tasks with 100 KB"},
                 {&one, "tasks with 1 MB"}};
    for (size_t i = 0; i < sizeof feeds / sizeof feeds[0]; i++)
        bench_measure(b, &(bench_pair){.ours = feed, .argument = feeds[i].size},
                      &(bench_row){.name = feeds[i].name, .unit = "k/s"}, 1);
    bench_measure(b, &(bench_pair){.ours = get_refs},
                  &(bench_row){.name = "get a list of 10 k refs", .unit = "/s", .bar = {BENCH_VALUE_AT_LEAST, 1000}},
                  1);
    bench_measure(b, &(bench_pair){.ours = pass_refs},
                  &(bench_row){.name = "10 k refs to a task that gets them all", .unit = "ms"}, 1);
}
