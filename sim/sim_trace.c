/* sim_trace.c — see sim_trace.h. */
#include "sim/sim_trace.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

void sim_trace_init(sim_trace *trace, uint64_t seed, bool listens) {
    *trace = (struct sim_trace){.hash = seed, .listens = listens};
}

void sim_trace_record(sim_trace *trace, int64_t now_us, uint32_t node, sim_trace_kind kind, uint64_t a, uint64_t b) {
    const uint64_t record[5] = {(uint64_t)now_us, node, (uint64_t)kind, a, b};
    trace->hash = XXH3_64bits_withSeed(record, sizeof record, trace->hash);
    trace->count++;
}

void sim_trace_bytes(sim_trace *trace, span bytes) {
    trace->hash = XXH3_64bits_withSeed(bytes.data, bytes.size, trace->hash);
}

void sim_trace_tell(const sim_trace *trace, int64_t now_us, const char *who, const char *format, ...) {
    if (!trace->listens) return;
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    printf("%6" PRId64 ".%06" PRId64 "  %-8s %s\n", now_us / 1000000, now_us % 1000000, who == NULL ? "" : who, text);
}
