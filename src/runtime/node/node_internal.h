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
#include "runtime/node/node_state.h"
#include "runtime/node/scheduler.h"
#include "runtime/refs/reply_queue.h"
#include "runtime/refs/wire.h"

/* The scheduler's client id of the node itself, which requests workers for a job's actors. No process has it. */
static inline uint64_t node_client_of(uint32_t program) { return UINT64_MAX - program; }

typedef struct node_job {
    uint32_t number;
    uint64_t driver;         /* process of the driver; 0: not joined yet */
    char name_space[256];    /* name space of its actors */
    uint32_t actors;         /* actors of the job that are not dead */
    uint32_t failed_starts;  /* successive failures to start workers */
    int64_t failed_us;       /* time of the last one */
    int64_t retry_us;        /* no worker is started before; 0: no such limit */
    char start_failure[512]; /* how the last start failed */
    bool has_started;        /* a worker of the job has joined */
    bool ended;              /* the driver is gone */
    bool output_lost;        /* its driver was warned that output is lost */
    node_output *output;     /* output of the workers; NULL: not wanted, or the driver has not joined */
    uint32_t native;         /* number of the job's native workers; 0: none */
    uint32_t host;           /* of a number of native workers: the job's own number; 0: a job */
} node_job;

typedef struct node_member { /* a process that has a link to the node */
    link_id link;
    uint64_t process;
    int pid;
    bool joined;
    wire_role role;
    uint32_t program;
    gpu_share gpus;     /* GPUs assigned to the worker */
    uint64_t gpus_seen; /* devices visible to the worker, if gpus_told */
    bool gpus_told;
    uint64_t gpu_lease; /* lease that its GPUs belong to; 0: none, or an actor's */
    list lease_waits;   /* of node_lease_wait */
    list answers;       /* answers that wait for room on the link */
    list words;         /* one-way messages that wait for room */
    char *sentence;     /* owned: why the node kills it; NULL: not killed, or no reason */
    mr_status fate;     /* MR_EVICTED, MR_NOMEM: the memory monitor kills it, and its task is retried or not */
    bool retriable;     /* the tasks of its lease may be retried */
    int64_t given_us;   /* when it got its lease or its actor */
    bool leaves;        /* the scheduler's END asks it to exit instead of killing it */
    bool unborn;        /* the actor's creation request waits for room */
    bool doomed;        /* the job is over: the process is killed, and its later messages are ignored */
} node_member;

typedef struct node_lease_wait { /* a pending lease request */
    list place;
    node_member *member;
    uint64_t ticket;
    rpc_call_token token;
    bool retriable; /* the tasks may be retried */
} node_lease_wait;

typedef struct node_starting { /* a worker's process that has not joined yet */
    int pid;
    uint32_t program;
    int64_t begun_us;
    bool doomed; /* killed, but may still join before its death */
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
    node_job *own_program;   /* job of a private node, until its driver ends */
    uint64_t next_ticket;
    uint32_t next_program;
    int64_t retry_us; /* the earliest retry_us of a job, or before it; CLOCK_NEVER_US: none */
    gpus gpus;
    map groups, groups_by_ticket; /* of node_placement; by ticket only while not placed */
    map gpu_leases;               /* lease → node_member, of workers with GPUs */
    bool stopped;                 /* node_manager_stop was called: nothing new is started */
    reply_queue replies;          /* answers to NODE_LOOK that wait for room */
    node_events events;
    node_actor_args args;
    node_states states;
};

/* ---- node_manager.c */

node_member *node_member_by_process(node_core *core, uint64_t process); /* NULL: none */
/* Sends an answer now, or when the link has room, in order. Returns MR_OK, for handlers of requests. */
mr_status node_answer(node_core *core, rpc_call_token token, span fields);
void node_refuse(node_core *core, rpc_call_token token, mr_status status, const char *text); /* likewise */
/* Sends a one-way message about a lease or a group likewise, after the answers. No-op if the process is gone. */
void node_tell(node_core *core, uint64_t process, wire_method method, uint64_t about);
void node_end_process(node_core *core, uint64_t process); /* kills a worker; no-op for other processes */
void node_decide(node_core *core);                        /* call after every event that may allow a decision */

/* ---- node_job.c */

node_job *node_job_of(node_core *core, uint32_t number); /* NULL: the job is over */
node_job *node_job_add(node_core *core);
/* Replaces a job number by the number of the job's native workers, which run the node's own executable: a pseudo-job
 * without a driver and without prestarted workers. The number is freed with the job. */
MR_MUST mr_status node_job_native(node_core *core, uint32_t *program);
node_output *node_job_output(node_core *core, uint32_t number); /* output of the job's workers; NULL: not shown */
mr_status node_job_join(node_core *core, node_member *member, reader *reader); /* of a driver that has not joined yet */
void node_job_left(node_core *core, uint32_t number);                          /* the driver is gone */
void node_job_check(node_core *core, uint32_t number);                         /* frees the job if it is over */

mr_status node_drain(node_core *core, node_member *member, rpc_call_token token); /* NODE_DRAIN */
mr_status node_output_lost(node_core *core, node_member *member, reader *reader, rpc_call_token token);

/* ---- node_lease.c. A request is answered now or later, or fails and is refused. */

/* Warns in the log, and in the driver's output if that is different. */
void node_warn(node_core *core, uint32_t program, const char *text);
/* Warns likewise that `who` waits for resources the machine lacks, with the remedy (NULL: the usual one) and the
 * command that shows more. */
void node_warn_impossible(node_core *core, uint32_t program, const char *who, const resources *need, const char *advice,
                          const char *more);
mr_status node_lease(node_core *core, node_member *member, reader *reader, rpc_call_token token);
mr_status node_release(node_core *core, node_member *member, reader *reader, rpc_call_token token);
void node_lease_cancel(node_core *core, node_lease_wait *wait);
void node_lease_forget(node_core *core, node_lease_wait *wait); /* frees a request that the scheduler no longer has */
void node_carry_out(node_core *core, const scheduler_decision *decision);
/* Asks a worker to exit by itself, and kills it after `timeout_us`; 0: no limit. */
void node_dismiss(node_core *core, uint64_t process, int64_t timeout_us);
mr_status node_worker_join(node_core *core, node_member *member); /* of a worker that has not joined yet */
void node_retry_starts(node_core *core, int64_t now_us);          /* after a failure: jobs whose wait is over */

/* Fails if no worker of that job will ever start. */
mr_status node_check_hope(node_core *core, uint32_t program);

/* ---- node_placement.c */

#define NODE_GROUP_GONE "its placement group was removed"

/* NODE_GROUP_* */
mr_status node_handle_group(node_core *core, node_member *member, reader *reader, const rpc_call_request *request);
void node_group_placed(node_core *core, uint64_t ticket);
void node_group_cancel(node_core *core, rpc_call_token token); /* cancels a wait for a group */
void node_groups_end_program(node_core *core, uint32_t program);
void node_groups_fini(node_core *core);
mr_arg node_group_rows(node_core *core, struct report *report);

/* ---- node_gpu.c */

void node_lease_answer(node_core *core, rpc_call_token token, uint64_t lease, uint64_t worker);
/* Sends a worker the GPUs of a lease, or of its actor (lease 0). True: the request for the lease is answered when the
 * worker has answered. False: nothing was sent. */
bool node_gpus_tell(node_core *core, node_member *member, uint64_t lease, rpc_call_token token);
void node_gpus_give(node_core *core, node_member *member); /* frees the GPUs of a worker */

/* ---- node_actor_create.c */

extern const node_actor_ops node_actor_host_ops;
void node_create_again(node_core *core, node_member *member); /* call when the link has room */
/* NODE_ACTOR_* */
mr_status node_handle_actor(node_core *core, node_member *member, reader *reader, const rpc_call_request *request);

/* ---- node_inspect.c */

mr_status node_look(node_core *core, const rpc_call_request *request); /* answers later */
