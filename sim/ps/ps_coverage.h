/* ps_coverage.h — counts how often the seeds exercise the mechanisms of the parameter protocol: messages and log
 * entries.
 *
 * A checker cannot check a path that no seed takes. So every kind of slot message, every status with an effect, and
 * every kind of entry is counted where it arrives or is applied, and a test (protocol_test.c) fails if the seeds of
 * `make test` miss one of them. */
#pragma once
#include "ps/replica_log.h"
#include "ps/slot_message.h"
#include "sim/sim.h"

typedef struct ps_coverage { /* ready when zero-initialized */
    uint64_t parts[SLOT_MESSAGE_KIND_COUNT][SLOT_MESSAGE_STATUS_COUNT], entries[REPLICA_LOG_KIND_COUNT];
} ps_coverage;

void ps_coverage_batch(ps_coverage *coverage, span bytes);      /* counts the messages of a sent packet */
void ps_coverage_report(const ps_coverage *coverage, sim *sim); /* adds them to the counters of the run, at its end */
const char *ps_coverage_name(size_t index);                     /* name of the counter at this index; NULL: none */
