/* kv_deployment.h — a parameter server as it runs on machines, on simulated ones: its scheduler, its servers and its
 * workers are the processes of src/kv, from their kv process to their files; a van carries their control messages over
 * the simulator's network instead of sockets, and what the scheduler keeps lies on a simulated disk. Workers play a
 * workload. */
#pragma once
#include "kv/scheduler/kv_scheduler.h"
#include "sim/kv/kv_data_checker.h"
#include "sim/kv/kv_workload.h"
#include "sim/sim.h"

enum { KV_DEPLOYMENT_SERVERS_MAX = 5, KV_DEPLOYMENT_WORKERS_MAX = KV_DATA_CHECKER_RANKS };
#define KV_DEPLOYMENT_SCHEDULER "tcp:10.0.0.1:1"

struct kv_deployment;

typedef struct kv_deployment_site { /* the argument of a program */
    struct kv_deployment *deployment;
    uint32_t number; /* of a server, a rank */
    sim_node *node;
} kv_deployment_site;

typedef struct kv_deployment {
    sim *sim;
    kv_scheduler_options scheduler; /* but for its env, and where it is */
    uint32_t servers, workers;      /* processes */
    uint64_t steps;
    int64_t step_us;     /* that a rank computes in one, at most */
    double hurry_chance; /* without rounds: that a step is neither looked at first nor waited for */
    double leave_chance; /* that a rank leaves its data to others behind a step, and comes back */
    kv_workload workload;
    kv_data_checker checker;
    kv_deployment_site scheduler_site, server_sites[KV_DEPLOYMENT_SERVERS_MAX], worker_sites[KV_DEPLOYMENT_WORKERS_MAX];
    bool done[KV_DEPLOYMENT_WORKERS_MAX]; /* the rank has seen the right weights at the end */
    kv_workload_weights end;              /* that were seen */
} kv_deployment;

/* adds and starts all nodes, for what is filled in up to the workload */
void kv_deployment_build(kv_deployment *deployment);
bool kv_deployment_is_done(const kv_deployment *deployment);
/* the first rank that is not done, and why not */
uint32_t kv_deployment_why(const kv_deployment *deployment, char *text, size_t size);
void kv_deployment_worker_why(const kv_deployment_site *site, char *text, size_t size);

extern const sim_program kv_deployment_scheduler_program, kv_deployment_server_program, kv_deployment_worker_program;
