/* miniray/deployment.h — a parameter server (miniray/ps.h) whose scheduler and servers are actors of the runtime
 * (miniray/runtime.h): native code in workers of the node, which starts a replacement for whoever dies.
 *
 *     mr_ps_start_options options = {.scheduler = {.servers = 3, .copies = 2, .workers = 4, .slots = 16}};
 *     mr_ps_start(mr, &options, timeout_us, &deployment);
 *     mr_ps_connect(mr_ps_address(deployment), rank, timeout_us, &ps);         // here, or in tasks and actors
 *     ...
 *     mr_ps_stop(mr, deployment);
 *
 * A server that dies is started again under its number, and is filled by the others; the scheduler goes on from its
 * folder. `miniray list actors`, `status`, `why` and `logs` show them as any other actor; the name of one is that of
 * the deployment's folder and its role: ps-a1B2c3/server-0. Everything ends with the program, whatever ends it. */
#pragma once
#include "miniray/ps.h"
#include "miniray/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mr_ps_deployment mr_ps_deployment; /* opaque */

enum { MR_PS_SERVERS_MAX = 1024, MR_PS_THE_SCHEDULER = -1 };

typedef struct mr_ps_start_options {
    /* `servers` is how many are started, at least one. `listen` NULL: a socket in a folder of the deployment's own;
     * `folder` NULL: there, too, and it goes when the deployment does. on_listening and apps are for processes that a
     * program starts itself: MR_INVALID. */
    mr_ps_scheduler_options scheduler;
    uint64_t memory_bytes; /* of each server, as mr_ps_server_options has it */
    /* Of each server: num_cpus, num_gpus, resources, placement and bundle are what the node sets aside for it (none by
     * default); max_restarts is how often it is started again (0: any number of times, < 0 never). The rest is not
     * looked at. NULL: the default. */
    const mr_task_options *server;
} mr_ps_start_options;

/* Waits until the scheduler listens, not for the servers: mr_ps_connect does. Who calls it has the handles of the
 * actors; in a worker the deployment ends with that. MR_INVALID: which option cannot be. MR_TIMEOUT. */
MR_API MR_MUST mr_status mr_ps_start(mr_context *mr, const mr_ps_start_options *options, int64_t timeout_us,
                                     mr_ps_deployment **out);
MR_API const char *mr_ps_address(const mr_ps_deployment *deployment); /* of the scheduler; borrowed */
/* The process of a server, or of the scheduler (MR_PS_THE_SCHEDULER), which is waited for while it is started. */
MR_API MR_MUST mr_status mr_ps_pid(mr_context *mr, const mr_ps_deployment *deployment, int server, int64_t timeout_us,
                                   int *out);
/* Ends them: the scheduler in order, so that what it knows is in its folder. With `mr` NULL the runtime has ended, and
 * they with it. The deployment is freed; NULL is a no-op. */
MR_API void mr_ps_stop(mr_context *mr, mr_ps_deployment *deployment);

#ifdef __cplusplus
}
#endif
