/* kv_deployment.h — a whole parameter server on simulated machines: scheduler, servers and workers are the processes of
 * src/kv, from kv_process to their files. A van carries their messages over the simulated network instead of sockets,
 * and the scheduler's files are on a simulated disk. Workers run a workload. */
#pragma once
#include "kv/scheduler/kv_scheduler.h"
#include "sim/kv/kv_data_checker.h"
#include "sim/kv/kv_workload.h"
#include "sim/sim.h"

enum { KV_DEPLOYMENT_SERVERS_MAX = 5, KV_DEPLOYMENT_WORKERS_MAX = KV_DATA_CHECKER_RANKS };
#define KV_DEPLOYMENT_SCHEDULER "tcp:10.0.0.1:1"

struct kv_deployment;

typedef struct kv_deployment_site { /* argument of a program */
    struct kv_deployment *deployment;
    uint32_t number; /* number of a server, or a rank */
    sim_node *node;
    int64_t since_us; /* start of its process */
} kv_deployment_site;

typedef struct kv_deployment_acked { /* steps of which a rank knows that all its pushes were counted */
    uint64_t generation, steps;
} kv_deployment_acked;

typedef struct kv_deployment {
    sim *sim;
    kv_scheduler_options scheduler; /* without env and addresses */
    uint32_t servers, workers;      /* numbers of processes */
    uint64_t steps;
    int64_t step_us;            /* maximal compute time of a step */
    double hurry_chance;        /* without rounds: probability that a step neither pulls first nor waits */
    double leave_chance;        /* probability that a rank gives up its data after a step, and returns later */
    const sim_program *further; /* a further process, whose argument is its site; NULL: none */
    kv_workload workload;
    kv_data_checker checker;
    kv_deployment_site scheduler_site, server_sites[KV_DEPLOYMENT_SERVERS_MAX], worker_sites[KV_DEPLOYMENT_WORKERS_MAX],
        further_site;
    bool done[KV_DEPLOYMENT_WORKERS_MAX]; /* the rank has seen the right weights at the end */
    kv_workload_weights end;              /* weights that were seen */
    kv_deployment_acked acked;            /* of the newest generation, the most of any rank */
} kv_deployment;

/* adds and starts all nodes; the caller fills in the fields up to `workload` */
void kv_deployment_build(kv_deployment *deployment);
/* Stops the scheduler on purpose, as SIGTERM does, and starts it after `down_us` (0: not); no-op if it is down. */
void kv_deployment_stop_scheduler(kv_deployment *deployment, int64_t down_us);
/* The first server of the map that has been up for at least `us`; NULL: none. */
const kv_deployment_site *kv_deployment_serving(const kv_deployment *deployment, const cluster_map *map, int64_t us);
/* The first step from which on no live server has applied a push of the rank, in the history of the map. */
uint64_t kv_deployment_begun(const kv_deployment *deployment, const cluster_map *map, uint32_t rank);
bool kv_deployment_is_done(const kv_deployment *deployment);
/* returns the first rank that is not done, and writes the reason */
uint32_t kv_deployment_why(const kv_deployment *deployment, char *text, size_t size);
/* as kv_worker_check_end, for the worker on this node */
mr_status kv_deployment_worker_end(const sim_node *node);
void kv_deployment_worker_why(const kv_deployment_site *site, char *text, size_t size);

extern const sim_program kv_deployment_scheduler_program, kv_deployment_server_program, kv_deployment_worker_program;
