/* process_state.h — state that a process reports to the scheduler every PROCESS_STATE_US and on a change: address,
 * progress, counters, metrics of its program.
 *
 *   bytes    content
 *   -------  ---------------------------------------------------------------------------------
 *   1        role: one of MR_PS_SCHEDULER, MR_PS_SERVERS, MR_PS_WORKERS, MR_PS_READERS
 *   1 + n    address
 *   8 …  PROCESS_STATE_NUMBERS
 *   1        reports; each: 1 + n key, 8 value, 8 number of reports
 *
 * The stamp of its control message (CONTROL_HERE) has the newest cluster map known to the process, and the process's
 * number and incarnation.
 *
 * Bounds      MR_PS_METRICS_MAX reports. Pure. */
#pragma once
#include "cluster/control_message.h"
#include "miniray/admin.h"

#define PROCESS_STATE_US INT64_C(200000)
enum { PROCESS_STATE_SIZE_MAX = 2 + MR_PS_ADDRESS_MAX + 16 * 8 + MR_PS_METRICS_MAX * (MR_PS_NAME_MAX + 16) };

bool process_state_is_role(uint8_t role); /* one of them */

/* Of a worker: generation, first step in the generation, current step, whether the rank is ready. Of a server: requests
 * since its start, bytes of their values, used memory, memory limit, contributions that were repeated with different
 * bytes, what it can decompress (compressor_available). */
#define PROCESS_STATE_NUMBERS(X) \
    X(generation)                \
    X(first)                     \
    X(step)                      \
    X(ready)                     \
    X(pushes)                    \
    X(pulls)                     \
    X(bytes_in)                  \
    X(bytes_out)                 \
    X(memory)                    \
    X(memory_max)                \
    X(disputes)                  \
    X(compressors)

typedef struct process_state_report {
    char key[MR_PS_NAME_MAX];
    double value;
    uint64_t count;
} process_state_report;

typedef struct process_state {
    uint8_t role;
    uint32_t number;
    uint64_t incarnation, map;
    char address[MR_PS_ADDRESS_MAX];
#define X(name) uint64_t name;
    PROCESS_STATE_NUMBERS(X)
#undef X
    uint32_t report_count;
    process_state_report reports[MR_PS_METRICS_MAX];
} process_state;

typedef struct process_sender { /* a process as sender of control messages; all fields are borrowed by their user */
    const char *scheduler;      /* address */
    process_state *state;
    void (*send)(void *context, const char *address, const control_message *message);
    void *context;
} process_sender;

/* Replaces the report of this key. MR_INVALID: invalid key; MR_TOO_LARGE: too many reports. */
MR_MUST mr_status process_state_report_set(process_state *state, const char *key, double value);

/* Encodes into PROCESS_STATE_SIZE_MAX bytes, without role and stamp; returns the size. */
size_t process_state_encode(const process_state *state, uint8_t *out);
MR_MUST mr_status process_state_decode(span bytes, process_state *out); /* MR_CORRUPT. The fields of the stamp are 0 */

mr_status process_state_check_name(const char *what, const char *name); /* MR_INVALID: empty or too long */
