/* node_state.h — the state of a node's core, for the files that are it (node_core.h says which).
 *
 * Invariants  a member is in both maps while its link is open; a lease_wait is in its member's list and under its
 *             ticket while the scheduler has the request; a pid is in `starting` from launcher.start until it joins or
 *             ends, and the scheduler counts it as starting exactly as long. */
#pragma once
#include "base/list.h"
#include "base/map.h"
#include "runtime/late.h"
#include "runtime/node_actor.h"
#include "runtime/node_core.h"
#include "runtime/scheduler.h"
#include "runtime/wire.h"

enum {
    NODE_PROGRAM = 1,       /* of a private node there is one */
    NODE_CLIENT = 0,        /* the scheduler's name for the node itself, which asks for the workers of actors */
    NODE_ANSWER_BYTES = 32, /* of the longest answer that is made of fields */
};

typedef struct node_member { /* a process that has a link to the node */
    link_id link;
    uint64_t process;
    int pid;
    bool joined;
    wire_role role;
    list lease_waits; /* of node_lease_wait */
    list answers;     /* that found no room */
} node_member;

typedef struct node_lease_wait { /* a client that waits for a worker */
    list place;
    node_member *member;
    uint64_t ticket;
    call_token token;
} node_lease_wait;

typedef struct node_starting { /* a worker's process that has not joined yet */
    int pid;
    uint32_t program;
} node_starting;

struct node_core {
    const env *env; /* borrowed */
    node_core_options options;
    launcher launcher;
    const node_annex_ops *annex; /* NULL: none */
    void *annex_self;
    calls *calls;
    scheduler *scheduler;
    node_actors actors;
    map by_link, by_process; /* of node_member */
    map lease_waits;         /* by ticket */
    map starting;            /* of node_starting, by pid */
    uint64_t next_ticket;
    uint32_t failed_starts; /* in a row */
    bool has_started;       /* a worker has joined */
    bool stopped;           /* nothing new is started */
    late late;              /* answers to NODE_LOOK that found no room */
};

/* ---- node_core.c */

node_member *node_member_by_process(node_core *core, uint64_t process); /* NULL: none */
void node_answer(node_core *core, call_token token, span fields);       /* at most NODE_ANSWER_BYTES */
void node_decide(node_core *core); /* after everything that may let the scheduler decide something */

/* ---- node_lease.c: requests answer now or later, or fail and are refused. */

mr_status node_lease(node_core *core, node_member *member, reader *reader, call_token token);
mr_status node_release(node_core *core, node_member *member, reader *reader, call_token token);
void node_lease_cancel(node_core *core, node_lease_wait *wait);
void node_lease_forget(node_core *core, node_lease_wait *wait); /* the scheduler does not have it any more */
void node_carry_out(node_core *core, const scheduler_decision *decision);
void node_worker_joined(node_core *core, node_member *member);
void node_start_failed(node_core *core, node_starting *starting); /* freed */

/* Fails if no worker will come whatever is asked for. */
mr_status node_check_hope(node_core *core);

/* ---- node_actor_host.c */

extern const node_actor_ops node_actor_host_ops;
mr_status node_handle_actor(node_core *core, reader *reader, const call_request *request); /* NODE_ACTOR_* */

/* ---- node_look.c */

mr_status node_look(node_core *core, const call_request *request); /* answers by and by */
