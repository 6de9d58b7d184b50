/* ps_bench_cluster.h — parameter server processes for a measurement: a scheduler, servers and ranks, all children of
 * the measuring process.
 *
 *  ps_bench_cluster_start(&host, &(ps_bench_cluster_options){.wire = LIMIT_TCP}, &MR_OPTIONS(mr_ps_table_options, .dim
 *  = 4));
 *     mr_ps_push(host.table, …);                                   // the measuring process is rank 0
 *  ps_bench_cluster_stop(&host);
 *
 * With more than one rank the others are children that are forked before this process has threads: they connect, open
 * the table, and run the function `rank`. All ranks begin together, after a barrier.
 *
 * The measuring process and the scheduler are on CPU 0; servers on CPU 1; further ranks and servers on the remaining
 * CPUs. A failure ends the measurement (bench_fail). */
#pragma once
#include "bench/limits.h"
#include "miniray/admin.h"

#define PS_BENCH_CLUSTER_PATIENCE_US INT64_C(20000000)
enum { PS_BENCH_CLUSTER_SLOTS = 16, PS_BENCH_CLUSTER_SERVERS_MAX = 4, PS_BENCH_CLUSTER_RANKS_MAX = 4 };

typedef struct ps_bench_cluster ps_bench_cluster;
typedef void ps_bench_cluster_rank_fn(ps_bench_cluster *cluster, uint32_t rank, void *argument);

typedef struct ps_bench_cluster_options { /* 0 in a field means one, or the first */
    limit_wire wire;                      /* LIMIT_TCP; LIMIT_UNIX: through shared memory */
    mr_ps_consistency consistency;
    uint32_t servers, ranks, copies, slots; /* slots: PS_BENCH_CLUSTER_SLOTS */
    ps_bench_cluster_rank_fn *rank;         /* runs in each rank but 0; then that process ends */
    void *argument;
} ps_bench_cluster_options;

struct ps_bench_cluster {
    ps_bench_cluster_options options;
    const mr_ps_table_options *table_options; /* borrowed */
    int ready_fd;
    uint32_t number; /* index of the server or rank that a child is */
    char folder[BENCH_FOLDER_MAX], address[MR_PS_ADDRESS_MAX];
    pid_t scheduler, server[PS_BENCH_CLUSTER_SERVERS_MAX], ranks[PS_BENCH_CLUSTER_RANKS_MAX];
    mr_ps *ps;          /* connection of this process */
    mr_ps_table *table; /* table of this process; a step is open */
};

void ps_bench_cluster_must(mr_status status, const char *what); /* a failure ends the measurement with its message */

/* Starts all processes. On return this process is rank 0, with the table open and a step begun. */
void ps_bench_cluster_start(ps_bench_cluster *cluster, const ps_bench_cluster_options *options,
                            const mr_ps_table_options *table);
void ps_bench_cluster_stop(ps_bench_cluster *cluster); /* waits for the other ranks before it stops them */

/* Starts all processes, with all ranks as children: this process has no threads and may start and kill servers. */
void ps_bench_cluster_start_apart(ps_bench_cluster *cluster, const ps_bench_cluster_options *options,
                                  const mr_ps_table_options *table);
void ps_bench_cluster_start_server(ps_bench_cluster *cluster, uint32_t number); /* returns when the server listens */

/* Helpers for code that runs as a rank. */
void ps_bench_cluster_next_step(const ps_bench_cluster *cluster); /* the number of pushes of a step is limited */
void ps_bench_cluster_meet(const ps_bench_cluster *cluster, const char *name);
