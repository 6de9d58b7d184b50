/* faults.h — schedule of faults: kinds, rates and times.
 *
 * Swarm testing: a seed first draws its kinds of faults, then a rate for each. So some seeds have only loss, some only
 * crashes, some only one bad disk; the seeds reach mixtures that fixed rates would never produce. From `from_us` to
 * `until_us` the network and the disks have the conditions that were drawn, and single faults (crashes, cuts, pauses,
 * resets, jumps of the clock) strike at random times. At `until_us` everything heals: cuts end, conditions are calm,
 * and nodes that are down start again, except those that stay dead. */
#pragma once
#include "sim/sim.h"
#include "sim/sim_disk.h"
#include "sim/sim_network.h"

#define FAULT_KINDS(X)                                                                  \
    X(LOSS, "loss")             /* messages are lost */                                 \
    X(DUPLICATE, "duplicate")   /* messages are delivered twice */                      \
    X(REORDER, "reorder")       /* messages are reordered */                            \
    X(SLOW, "slow")             /* some messages take seconds */                        \
    X(BUSY, "busy")             /* back-pressure */                                     \
    X(RESET, "reset")           /* links break */                                       \
    X(CUT, "cut")               /* one direction between two nodes */                   \
    X(PARTITION, "partition")   /* two groups, both directions */                       \
    X(CRASH, "crash")           /* crash of a process, which starts again later */      \
    X(PAUSE, "pause")           /* pause of a process, which then continues */          \
    X(CLOCK, "clock")           /* monotonic clocks drift, wall clocks jump */          \
    X(DISK_ERROR, "disk-error") /* writes, syncs and reads fail; crashes inside them */ \
    X(DISK_SLOW, "disk-slow")

/* This long after until_us no fault has an effect: all nodes are up, and each link is open or both ends know that it is
 * closed. */
#define FAULTS_HEAL_US (LINK_OPEN_US + INT64_C(500000))

typedef enum fault_kind {
#define X(name, text) FAULT_##name,
    FAULT_KINDS(X)
#undef X
        FAULT_COUNT
} fault_kind;

#define FAULT_BIT(kind) (1u << (kind))
#define FAULT_ALL       (FAULT_BIT(FAULT_COUNT) - 1)

enum { FAULTS_NODES_MAX = 64 }; /* maximal number of nodes with faults */

typedef struct fault_limits {
    uint32_t allowed; /* FAULT_BITs that this scenario allows */
    int64_t from_us, until_us;
    size_t down_max;                                  /* maximal number of nodes that are down at one time */
    size_t dead_max;                                  /* maximal number of those that may stay down for good */
    bool (*may_crash)(void *context, sim_node *node); /* whether a node may crash or pause; NULL: every node */
    bool (*may_die)(void *context, sim_node *node);   /* whether a node may stay down for good; NULL: every node */
    void *context;
} fault_limits;

typedef struct faults faults;

/* Draws the plan and schedules it; copies the limits. Freed by faults_destroy before sim_finish. */
faults *faults_create(sim *sim, const fault_limits *limits);
void faults_destroy(faults *faults);
uint32_t faults_kinds(const faults *faults);                  /* kinds of faults of this seed */
bool faults_dead(const faults *faults, const sim_node *node); /* this node stays down for good */
