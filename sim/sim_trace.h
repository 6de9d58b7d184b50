/* sim_trace.h — trace of a run: a hash of all events and, for readers, their text.
 *
 * Every event goes through the hash in the order in which it happens, with its time, its node and every byte that is
 * delivered. Two runs with the same hash were the same run. Text is formatted only for a reader. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

typedef enum sim_trace_kind {
    SIM_TRACE_NOTE,
    SIM_TRACE_START,
    SIM_TRACE_CRASH,
    SIM_TRACE_PAUSE,
    SIM_TRACE_TICK,
    SIM_TRACE_OPEN,
    SIM_TRACE_OPENED,
    SIM_TRACE_SEND,
    SIM_TRACE_RECEIVE,
    SIM_TRACE_BODY,
    SIM_TRACE_ROOM,
    SIM_TRACE_CLOSED,
    SIM_TRACE_LOST,
    SIM_TRACE_DISK,
} sim_trace_kind;

typedef struct sim_trace {
    uint64_t hash;
    uint64_t count; /* records */
    bool listens;   /* print the text */
} sim_trace;

void sim_trace_init(sim_trace *trace, uint64_t seed, bool listens);

/* Adds one record. The kind defines `a` and `b` (a link and a size, say). */
void sim_trace_record(sim_trace *trace, int64_t now_us, uint32_t node, sim_trace_kind kind, uint64_t a, uint64_t b);
void sim_trace_bytes(sim_trace *trace, span bytes);

/* Adds a line of text, for readers only: it is not hashed. `who` may be NULL. */
void sim_trace_tell(const sim_trace *trace, int64_t now_us, const char *who, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
