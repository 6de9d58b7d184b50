/* encode_bench.c — benchmark of encoding and decoding messages and values, without sending them. One thread that never
 * waits: rates are per second of CPU time. */
#include <string.h>
#include <time.h>

#include "bench/suites.h"
#include "net/frame.h"
#include "net/value.h"

enum { BATCH = 256, OUT_OF_LINE_MIN = 4096 };

static double cpu_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Calls of `fn` per second; the clock is read after each `batch` calls. */
static double rate(const bench_run *run, size_t batch, void (*fn)(void *argument), void *argument) {
    bench_pin(BENCH_TWO_CPUS, 0);
    fn(argument);
    double start = cpu_seconds(), end, count = 0;
    do {
        for (size_t i = 0; i < batch; i++) fn(argument);
        count += (double)batch;
        end = cpu_seconds();
    } while (end - start < run->seconds);
    return count / (end - start);
}

/* ---- Frames, by the size of their head: many of them in turn, so that none is decoded right after it was encoded. */

typedef struct stream {
    size_t head_size, at;
    uint8_t bytes[BATCH][FRAME_HEADER_SIZE + 256];
} stream;

static void encode_one(void *argument) {
    stream *stream = argument;
    uint8_t *bytes = stream->bytes[stream->at++ % BATCH];
    frame_encode_header(bytes,
                        &(frame){.kind = FRAME_MESSAGE, .head = span_of(bytes + FRAME_HEADER_SIZE, stream->head_size)});
}

static void decode_one(void *argument) {
    static const frame_limits limits = {.head_max = 4096};
    stream *stream = argument;
    span bytes = span_of(stream->bytes[stream->at++ % BATCH], FRAME_HEADER_SIZE + stream->head_size);
    frame frame;
    size_t need;
    if (frame_decode(bytes, &limits, &frame, &need) != MR_OK || need != 0) bench_fail("frame: %s", mr_last_error());
}

static void frames(const bench_run *run, const void *argument, double *values) {
    stream *stream = bench_memory(sizeof *stream);
    const bench_run half = {.seconds = run->seconds / 2, .quick = run->quick};
    stream->head_size = *(const size_t *)argument;
    double encode = rate(&half, BATCH, encode_one, stream);
    for (int i = 0; i < BATCH; i++) encode_one(stream);
    double decode = rate(&half, BATCH, decode_one, stream);
    values[0] = 1e-6 / (1 / encode + 1 / decode);
}

static void frame_rows(bench *b) {
    static const size_t head_sizes[] = {64, 256};
    static const char *const names[] = {"frames of 64 B, encoded and decoded", "frames of 256 B, encoded and decoded"};
    for (size_t i = 0; i < 2; i++)
        bench_measure(
            b, &(bench_pair){.ours = frames, .argument = &head_sizes[i]},
            &(bench_row){.name = names[i], .unit = "M/s", .bar = {i == 0 ? BENCH_VALUE_AT_LEAST : BENCH_NO_BAR, 20}},
            1);
}

/* ---- The checksum of a body, compared with a copy of the body. */

typedef struct body {
    size_t size;
    uint8_t *bytes, *copy;
    uint64_t checksum;
} body;

static void sum_one(void *argument) {
    body *body = argument;
    body->checksum += frame_body_checksum(span_of(body->bytes, body->size));
}

static void copy_one(void *argument) {
    body *body = argument;
    memcpy(body->copy, body->bytes, body->size);
    __asm__ volatile("" : : "r"(body->copy) : "memory"); /* keeps the compiler from removing it */
}

static double body_rate(const bench_run *run, size_t size, void (*fn)(void *argument)) {
    body body = {.size = size, .bytes = bench_memory(size), .copy = bench_memory(size)};
    double bytes = rate(run, 1 + (1 << 20) / size, fn, &body) * (double)size;
    __asm__ volatile("" : : "r"(body.checksum));
    return bytes / 1e9;
}

static void checksum(const bench_run *run, const void *argument, double *values) {
    values[0] = body_rate(run, *(const size_t *)argument, sum_one);
}

static void copy(const bench_run *run, const void *argument, double *values) {
    values[0] = body_rate(run, *(const size_t *)argument, copy_one);
}

static void checksum_rows(bench *b) {
    static const size_t sizes[] = {64 << 10, 1 << 20, 64 << 20};
    static const char *const names[] = {"checksum of a 64 KB body", "checksum of a 1 MB body",
                                        "checksum of a 64 MB body"};
    for (size_t i = 0; i < 3; i++)
        bench_measure(
            b,
            &(bench_pair){.ours = checksum, .argument = &sizes[i], .reference = copy, .reference_argument = &sizes[i]},
            &(bench_row){.name = names[i], .unit = "GB/s", .reference = "memcpy"}, 1);
}

/* ---- Values. */

typedef struct payload {
    mr_arg arg;
    value_plan plan;
    uint8_t *bytes;
} payload;

static void write_one(void *argument) {
    payload *payload = argument;
    if (value_measure(&payload->arg, OUT_OF_LINE_MIN, &payload->plan) != MR_OK)
        bench_fail("value: %s", mr_last_error());
    value_write(&payload->arg, &payload->plan, payload->bytes, NULL);
}

/* Opens the value and reads every item of the outermost container. */
static void read_one(void *argument) {
    payload *payload = argument;
    value_doc doc;
    mr_value root;
    if (value_open(&doc, span_of(payload->bytes, payload->plan.size), span_of(NULL, 0), &root) != MR_OK)
        bench_fail("value: %s", mr_last_error());
    mr_iter iter = mr_value_iter(&root);
    for (mr_value item; mr_iter_next(&iter, &item);) __asm__ volatile("" : : "m"(item));
    value_close(&doc);
}

static void values_of(const bench_run *run, mr_arg arg, size_t batch, double *values) {
    payload payload = {.arg = arg, .bytes = bench_memory(1 << 20)};
    const bench_run half = {.seconds = run->seconds / 2, .quick = run->quick};
    values[0] = rate(&half, batch, write_one, &payload);
    values[1] = rate(&half, batch, read_one, &payload);
}

static void small_arguments(const bench_run *run, const void *argument, double *values) {
    const mr_arg options[] = {mr_str("lr"), mr_float(0.5), mr_str("steps"), mr_int(100)};
    const mr_arg args[] = {mr_int(7), mr_str("layer"), mr_float(2.5), mr_map(options, 2)};
    values_of(run, mr_list(args, 4), BATCH, values);
    values[0] /= 1e6;
    values[1] /= 1e6;
}

static void many_refs(const bench_run *run, const void *argument, double *values) {
    mr_arg *refs = bench_memory(10000 * sizeof *refs);
    for (uint64_t i = 0; i < 10000; i++) refs[i] = mr_future((mr_ref){{i, i}});
    values_of(run, mr_list(refs, 10000), 1, values);
}

static void value_rows(bench *b) {
    const bench_row small[] = {
        {.name = "4 small arguments, written", .unit = "M/s"},
        {.name = "4 small arguments, checked and read", .unit = "M/s", .value = 1},
    };
    const bench_row refs[] = {
        {.name = "10 k refs, written", .unit = "/s"},
        {.name = "10 k refs, checked and read", .unit = "/s", .value = 1, .bar = {BENCH_VALUE_AT_LEAST, 1000}},
    };
    bench_measure(b, &(bench_pair){.ours = small_arguments}, small, 2);
    bench_measure(b, &(bench_pair){.ours = many_refs}, refs, 2);
}

void encode_bench(bench *b) {
    frame_rows(b);
    checksum_rows(b);
    value_rows(b);
}
