/* node_internal.h — state of a node's core, for its own files (node_manager.h lists them).
 *
 * Invariants  a member is in both maps while its link is open; a lease_wait is in its member's list and under its
 *             ticket while the scheduler has the request; a pid is in `starting` from launcher.start until it joins or
 *             ends, and the scheduler counts it as starting exactly as long. A killed process dies with a delay:
 *             a doomed process is no worker of the scheduler any more, so that no detached actor is placed there. */
#pragma once
#include "base/list.h"
#include "base/map.h"
#include "runtime/common/gpus.h"
#include "runtime/node/node_actor.h"
#include "runtime/node/node_actor_args.h"
#include "runtime/node/node_events.h"
#include "runtime/node/node_manager.h"
#include "runtime/node/node_output.h"
#include "runtime/node/scheduler.h"
#include "runtime/refs/reply_queue.h"
#include "runtime/refs/wire.h"

/* The scheduler's client id for the node itself, which requests workers for a program's actors. No process has it. */
static inline uint64_t node_client_of(uint32_t program) { return UINT64_MAX - program; }

typedef struct node_job {
    uint32_t number;
    uint64_t driver;         /* its process; 0: it has not joined yet */
    char name_space[256];    /* name space of its actors */
    uint32_t actors;         /* its actors that are not dead */
    uint32_t failed_starts;  /* successive failed starts of workers */
    char start_failure[512]; /* how the last start failed */
    bool has_started;        /* a worker of it has joined */
    bool ended;              /* its driver is gone */
    node_output *output;     /* output of its workers; NULL: not wanted, or not joined */
    uint32_t native;         /* program number of its native workers; 0: none */
    uint32_t host;           /* of such a number: the program's; 0: a program itself */
} node_job;

typedef struct node_member { /* a process that has a link to the node */
    link_id link;
    uint64_t process;
    int pid;
    bool joined;
    wire_role role;
    uint32_t program;
    gpu_share gpus;     /* GPUs that it has as a worker */
    uint64_t gpus_seen; /* devices visible to it, if gpus_told */
    bool gpus_told;
    uint64_t gpu_lease;   /* lease of its GPUs; 0: none, or an actor */
    list lease_waits;     /* of node_lease_wait */
    list answers;         /* answers that found no room */
    list words;           /* one-way messages: likewise */
    const char *sentence; /* why the node kills it; NULL: it does not, or no reason */
    bool leaves;          /* exits by itself, when the scheduler lets it end */
    bool unborn;          /* the actor's creation request found no room */
    bool doomed;          /* its program is over: it is killed, and its later messages are ignored */
} node_member;

typedef struct node_lease_wait { /* a pending lease request */
    list place;
    node_member *member;
    uint64_t ticket;
    rpc_call_token token;
} node_lease_wait;

typedef struct node_starting { /* a worker's process that has not joined yet */
    int pid;
    uint32_t program;
    bool doomed; /* killed, but may still join before it dies */
} node_starting;

struct node_core {
    const env *env; /* borrowed */
    node_manager_options options;
    launcher launcher;
    const node_extension_ops *extension; /* NULL: none */
    void *extension_self;
    rpc *rpc;
    scheduler *scheduler;
    node_actors actors;
    map by_link, by_process; /* of node_member */
    map lease_waits;         /* by ticket */
    map starting;            /* of node_starting, by pid */
    map programs;            /* by number */
    node_job *own_program;   /* of a private node, while it lives */
    uint64_t next_ticket;
    uint32_t next_program;
    gpus gpus;
    map groups, groups_by_ticket; /* of node_placement; the second while it is not placed */
    map gpu_leases;               /* lease → node_member, of workers with GPUs */
    bool stopped;                 /* nothing new is started */
    reply_queue replies;          /* answers to NODE_LOOK that found no room */
    node_events events;
    node_actor_args args;
};

/* ---- node_manager.c */

node_member *node_member_by_process(node_core *core, uint64_t process); /* NULL: none */
/* Sent now or when there is room, in order. MR_OK, for handlers of requests. */
mr_status node_answer(node_core *core, rpc_call_token token, span fields);
void node_refuse(node_core *core, rpc_call_token token, mr_status status, const char *text); /* likewise */
/* The same for one-way messages about a lease or a group, sent after the answers. No-op if the process is gone. */
void node_tell(node_core *core, uint64_t process, wire_method method, uint64_t about);
void node_end_process(node_core *core, uint64_t process); /* of a worker; no-op if it is gone */
void node_decide(node_core *core);                        /* after every event that may let the scheduler decide */

/* ---- node_job.c */

node_job *node_job_of(node_core *core, uint32_t number); /* NULL: it is over */
node_job *node_job_add(node_core *core);
/* The program number of native workers, which run the node's own executable: they belong to a pseudo-program without a
 * driver and without prestarted workers. The number is freed with the program. */
MR_MUST mr_status node_job_native(node_core *core, uint32_t *program);
node_output *node_job_output(node_core *core, uint32_t number); /* output of its workers; NULL: not shown */
mr_status node_job_join(node_core *core, node_member *member, reader *reader); /* of a driver; not yet joined */
void node_job_left(node_core *core, uint32_t number);                          /* its driver is gone */
void node_job_check(node_core *core, uint32_t number);                         /* forgets one that is over */

mr_status node_drain(node_core *core, node_member *member, rpc_call_token token); /* NODE_DRAIN */

/* ---- node_lease.c: requests answer now or later, or fail and are refused. */

/* Warns in the log, and in the program's output if that is different, that `who` waits for resources the machine lacks,
 * with the remedy (NULL: the usual one). */
void node_warn_impossible(node_core *core, uint32_t program, const char *who, const resources *need,
                          const char *advice);
mr_status node_lease(node_core *core, node_member *member, reader *reader, rpc_call_token token);
mr_status node_release(node_core *core, node_member *member, reader *reader, rpc_call_token token);
void node_lease_cancel(node_core *core, node_lease_wait *wait);
void node_lease_forget(node_core *core, node_lease_wait *wait); /* the scheduler has dropped it */
void node_carry_out(node_core *core, const scheduler_decision *decision);
/* Asks a worker to exit by itself, and kills it after that time; 0: no limit. */
void node_dismiss(node_core *core, uint64_t process, int64_t timeout_us);
mr_status node_worker_join(node_core *core, node_member *member); /* not yet joined */
void node_worker_gone(node_core *core, uint32_t program);         /* a member that had joined */

/* Fails if no worker of that program will ever start. */
mr_status node_check_hope(node_core *core, uint32_t program);

/* ---- node_placement.c */

#define NODE_GROUP_GONE "its placement group was removed"

/* NODE_GROUP_* */
mr_status node_handle_group(node_core *core, node_member *member, reader *reader, const rpc_call_request *request);
void node_group_placed(node_core *core, uint64_t ticket);
void node_group_cancel(node_core *core, rpc_call_token token); /* a request for a group was cancelled */
void node_groups_end_program(node_core *core, uint32_t program);
void node_groups_fini(node_core *core);
mr_arg node_group_rows(node_core *core, struct report *report);

/* ---- node_gpu.c */

void node_lease_answer(node_core *core, rpc_call_token token, uint64_t lease, uint64_t worker);
/* Tells a worker its GPUs of a lease, or as an actor (lease 0). True: the lease's client is answered when the worker
 * knows. False: nothing to tell. */
bool node_gpus_tell(node_core *core, node_member *member, uint64_t lease, rpc_call_token token);
void node_gpus_give(node_core *core, node_member *member); /* its GPUs are free again */

/* ---- node_actor_create.c */

extern const node_actor_ops node_actor_host_ops;
void node_create_again(node_core *core, node_member *member); /* a link has room */
/* NODE_ACTOR_* */
mr_status node_handle_actor(node_core *core, node_member *member, reader *reader, const rpc_call_request *request);

/* ---- node_inspect.c */

mr_status node_look(node_core *core, const rpc_call_request *request); /* answers later */
