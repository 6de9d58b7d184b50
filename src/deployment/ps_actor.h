/* ps_actor.h — the scheduler or a server of a parameter server as a native actor: its process serves, on a thread of
 * its own, while the thread of the worker answers the runtime.
 *
 *   create ── it listens ──► serves ── "stop", or its last handle is gone: it leaves in order ──► over
 *      │                       └── it ends by itself: the process ends and reports why; the node starts another
 *      └── it cannot begin: "address" fails with a ps_actor_refusal as the detail; after a restart, the actor dies
 *
 * A SIGTERM to the thread ends the service, as it ends a process of mr_ps_run_server. A SIGTERM to the process ends the
 * process at once, as any worker.
 *
 * The library registers both classes, so every program's workers have them.
 *
 *   PS_ACTOR_SCHEDULER  create(name of the process, options as ps_actor_scheduler_args writes them)
 *   PS_ACTOR_SERVER     create(name of the process, options as ps_actor_server_args writes them)
 *   both                "address", "pid", "stop" */
#pragma once
#include "miniray/admin.h"
#include "miniray/runtime.h"

#define PS_ACTOR_SCHEDULER "miniray.PsScheduler"
#define PS_ACTOR_SERVER    "miniray.PsServer"

enum { PS_ACTOR_NAME_MAX = 16, PS_ACTOR_SCHEDULER_ARGS = 16, PS_ACTOR_SERVER_ARGS = 5, PS_ACTOR_WHY_MAX = 512 };

typedef struct ps_actor_refusal { /* why it could not begin */
    int32_t status;
    char why[PS_ACTOR_WHY_MAX];
} ps_actor_refusal;

/* The arguments of a creation; texts are borrowed. */
void ps_actor_scheduler_args(const char *name, const mr_ps_scheduler_options *options,
                             mr_arg out[PS_ACTOR_SCHEDULER_ARGS]);
void ps_actor_server_args(const char *name, const mr_ps_server_options *options, mr_arg out[PS_ACTOR_SERVER_ARGS]);
