/* standing.h — state that a process reports to the scheduler every STANDING_US and on a change: address, progress,
 * counters, metrics of its program.
 *
 *   bytes    what
 *   -------  ---------------------------------------------------------------------------------
 *   1        role: one of MR_PS_SCHEDULER, MR_PS_SERVERS, MR_PS_WORKERS
 *   1 + n    address
 *   8 …      STANDING_NUMBERS
 *   1        reports; each: 1 + n key, 8 value, 8 how often it was reported
 *
 * The stamp of its letter (DESK_HERE) has the newest chart that it knows, its number and its incarnation.
 *
 * Bounds      MR_PS_METRICS_MAX reports. Pure. */
#pragma once
#include "cluster/letter.h"
#include "miniray/admin.h"

#define STANDING_US INT64_C(200000)
enum { STANDING_SIZE_MAX = 2 + MR_PS_ADDRESS_MAX + 16 * 8 + MR_PS_METRICS_MAX * (MR_PS_NAME_MAX + 16) };

/* Of a worker: the generation, the step with which it came into it, the step that it is at, and whether its rank is
 * ready. Of a server: what it was asked since it began, bytes of values with that, what the process has and may have,
 * contributions that were repeated with other bytes. */
#define STANDING_NUMBERS(X) \
    X(generation)           \
    X(first)                \
    X(step)                 \
    X(ready)                \
    X(pushes)               \
    X(pulls)                \
    X(bytes_in)             \
    X(bytes_out)            \
    X(memory)               \
    X(memory_max)           \
    X(disputes)

typedef struct standing_report {
    char key[MR_PS_NAME_MAX];
    double value;
    uint64_t count;
} standing_report;

typedef struct standing {
    uint8_t role;
    uint32_t number;
    uint64_t incarnation, chart;
    char address[MR_PS_ADDRESS_MAX];
#define X(name) uint64_t name;
    STANDING_NUMBERS(X)
#undef X
    uint32_t report_count;
    standing_report reports[MR_PS_METRICS_MAX];
} standing;

/* Takes the place of what was reported by that key. MR_INVALID: not a key; MR_TOO_LARGE: there are too many. */
MR_MUST mr_status standing_report_set(standing *standing, const char *key, double value);

/* What it is written to is of STANDING_SIZE_MAX bytes; gives how many it has. Role and stamp aside. */
size_t standing_encode(const standing *standing, uint8_t *out);
MR_MUST mr_status standing_decode(span bytes, standing *out); /* MR_CORRUPT; what the stamp has is 0 */

mr_status standing_check_name(const char *what, const char *name); /* MR_INVALID: none, or too long a one */
