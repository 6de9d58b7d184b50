/* ps_coverage.h — how often the mechanisms of the parameter protocol were exercised: messages and log entries.
 *
 * A checker sees nothing of a path that no seed takes. So every kind of slot message, every status with an effect, and
 * every kind of entry is counted where it arrives or is applied, and a test (protocol_test.c) fails if the seeds of
 * `make test` leave one of them out. */
#pragma once
#include "ps/replica_log.h"
#include "ps/slot_message.h"
#include "sim/sim.h"

typedef struct ps_coverage { /* zero-initialized it is ready */
    uint64_t parts[SLOT_MESSAGE_KIND_COUNT][SLOT_MESSAGE_STATUS_COUNT], entries[REPLICA_LOG_KIND_COUNT];
} ps_coverage;

void ps_coverage_batch(ps_coverage *coverage, span bytes);      /* these messages were sent */
void ps_coverage_report(const ps_coverage *coverage, sim *sim); /* as counters of the run, at its end */
const char *ps_coverage_name(size_t index);                     /* of each of those counters in turn; NULL: no more */
