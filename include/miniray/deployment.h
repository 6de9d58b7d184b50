/* miniray/deployment.h — a parameter server (miniray/ps.h) whose scheduler and servers are actors of the runtime
 * (miniray/runtime.h): native code in workers of the node, which restarts them when they die.
 *
 *     mr_ps_scheduler_options scheduler = MR_OPTIONS(mr_ps_scheduler_options, .num_servers = 3, .replicas = 2,
 *                                                    .num_workers = 4, .slots = 16);
 *     mr_ps_start(mr, &MR_OPTIONS(mr_ps_start_options, .scheduler = &scheduler), timeout_us, &deployment);
 *     mr_ps_connect(mr_ps_address(deployment), rank, timeout_us, &ps);         // here, or in tasks and actors
 *     ...
 *     mr_ps_stop(mr, deployment);
 *
 * A server that dies is restarted with its number, and the other replicas fill it; the scheduler continues from its
 * folder. `miniray list actors`, `status`, `why` and `logs` show them like other actors, under the name of the
 * deployment's folder and their role: ps-a1B2c3/server-0. They end with the program, however it ends. */
#pragma once
#include "miniray/admin.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mr_ps_deployment mr_ps_deployment; /* opaque */

enum { MR_PS_SERVERS_MAX = 1024, MR_PS_THE_SCHEDULER = -1 };

typedef struct mr_ps_start_options {
    size_t size;
    /* Required. num_servers is the number of servers to start, at least 1. listen [a socket in the deployment's own
     * folder]; checkpoint_dir [in that folder, removed with the deployment]. on_listening and apps must not be set
     * (MR_INVALID): they are for processes that a program runs itself. */
    const mr_ps_scheduler_options *scheduler;
    uint64_t memory_bytes; /* of each server, as in mr_ps_server_options */
    /* Of each server: num_cpus, num_gpus, resources, placement_group and bundle [none]; max_restarts [MR_NO_LIMIT],
     * negative: never. Any other field is MR_INVALID. */
    const mr_actor_options *server;
} mr_ps_start_options;

/* Waits until the scheduler listens, not for the servers: mr_ps_connect does. The caller's process owns the actors;
 * in a worker they end with that worker. MR_INVALID: the error names the option. MR_TIMEOUT. */
MR_API MR_MUST mr_status mr_ps_start(mr_context *mr, const mr_ps_start_options *options, int64_t timeout_us,
                                     mr_ps_deployment **out);
MR_API const char *mr_ps_address(const mr_ps_deployment *deployment); /* of the scheduler; borrowed */
/* The process of a server, or of the scheduler (MR_PS_THE_SCHEDULER); waits while it starts. */
MR_API MR_MUST mr_status mr_ps_pid(mr_context *mr, const mr_ps_deployment *deployment, int server, int64_t timeout_us,
                                   int *out);
/* Ends the processes, the scheduler first, which makes a last checkpoint if it has a checkpoint_dir
 * (mr_ps_scheduler_options.final_checkpoint_us). `mr` NULL: the runtime has ended, and
 * the processes with it. Frees the deployment. */
MR_API void mr_ps_stop(mr_context *mr, mr_ps_deployment *deployment);

#ifdef __cplusplus
}
#endif
