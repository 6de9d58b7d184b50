/* ps_actor.h — the scheduler or a server of a parameter server as a native actor: a service thread runs it, while the
 * thread of the worker answers the runtime.
 *
 *   create ── listens ──► serves ── "stop", or the last handle is released: leaves in order ──► over
 *      │                    └── the service ends by itself: the process prints why and ends; the node restarts it
 *      └── the service fails before it listens: "address" of a new scheduler fails with a ps_actor_refusal as the
 *          detail; a server, or a restarted scheduler, dies
 *
 * A SIGTERM to the service thread ends the service in order, as in a process of mr_ps_run_server. A SIGTERM to the
 * process ends the process at once, as with any worker.
 *
 * The library registers both classes, so the workers of every program have them.
 *
 *   PS_ACTOR_SCHEDULER  create(name of the process, options as ps_actor_scheduler_args writes them)
 *   PS_ACTOR_SERVER     create(name of the process, options as ps_actor_server_args writes them)
 *   both                "address", "pid", "stop" */
#pragma once
#include "miniray/admin.h"
#include "miniray/runtime.h"

#define PS_ACTOR_SCHEDULER "miniray.PsScheduler"
#define PS_ACTOR_SERVER    "miniray.PsServer"

enum { PS_ACTOR_NAME_MAX = 16, PS_ACTOR_SCHEDULER_ARGS = 18, PS_ACTOR_SERVER_ARGS = 5, PS_ACTOR_WHY_MAX = 512 };

typedef struct ps_actor_refusal { /* why the service could not start, or ended */
    int32_t status;
    char why[PS_ACTOR_WHY_MAX];
} ps_actor_refusal;

/* Write the arguments of a creation; texts are borrowed. */
void ps_actor_scheduler_args(const char *name, const mr_ps_scheduler_options *options,
                             mr_arg out[PS_ACTOR_SCHEDULER_ARGS]);
void ps_actor_server_args(const char *name, const mr_ps_server_options *options, mr_arg out[PS_ACTOR_SERVER_ARGS]);
