/* scheduler_internal.h — state of a scheduler, for its own files (scheduler.h lists them). */
#pragma once
#include "base/list.h"
#include "base/map.h"
#include "runtime/node/scheduler.h"

/* Names have no prefix: only the scheduler's files include this header. */

typedef struct pool { /* source of resources: the machine, or a bundle of a placed group */
    resources total, free;
    resources beside_actors; /* the total less resources of actors and, of the machine, less placed groups */
    resources left;          /* scratch of a decision: see scheduler_decide.c */
    uint64_t counted;        /* the count that `left` belongs to */
    struct group *group;     /* NULL: the machine */
} pool;

typedef struct group {
    bool placed;
    bool never;    /* its bundles are to be on different machines: this is one */
    resources sum; /* of its bundles */
    uint32_t count;
    pool bundles[];
} group;

typedef struct program {
    list place; /* in scheduler.programs */
    uint32_t number;
    uint32_t clients, starting;
    uint32_t workers; /* workers without an actor, and not about to end */
    uint32_t others;  /* other workers */
    list idle;        /* of worker: the longest idle last, their caches are cold */
    uint32_t idle_count;
    bool barred, ended;
} program;

typedef struct client {
    list place; /* in scheduler.asking while it has requests, else in scheduler.quiet */
    uint64_t id;
    program *program;
    uint32_t lease_count;
    list requests; /* in order of arrival */
} client;

typedef struct request {
    list place;
    client *client;
    uint64_t ticket, order;
    uint32_t passed; /* grants to younger requests, while its client had nothing of what it needs */
    bool comes;      /* during a reclaim decision: returned leases are enough for it */
    resources need;
    group *group; /* group of its resources, or group to place; NULL: the machine */
    bool places;  /* wants no worker: its grant places the group */
} request;

typedef struct worker {
    list place; /* in its program's idle while it is, in scheduler.endings before its END, else alone */
    uint64_t id;
    program *program;
    struct granted_lease *lease; /* NULL: idle, kept or spent */
    bool kept;                   /* an actor has it permanently */
    bool blocked;                /* it waits inside a body: its resources are free for others */
    bool spent;                  /* it is to end */
    bool is_idle;
    bool evicted; /* it is to end, for its group was removed */
    resources kept_need;
    pool *kept_pool; /* from which */
} worker;

typedef struct granted_lease {
    list place; /* in scheduler.leases */
    uint64_t id;
    client *client;
    worker *worker;
    resources need;
    pool *pool;     /* from which */
    bool reclaimed; /* its client was asked to return it */
} granted_lease;

struct scheduler {
    pool machine;
    uint64_t count; /* see pool.counted */
    uint32_t prestart, starting;
    list asking, quiet; /* of client */
    list leases, programs, endings;
    list refused;                               /* of request: their group was removed */
    map clients, workers, leases_by_id, groups; /* by id */
    uint64_t next_lease, next_order;
};

program *scheduler_program_of(const scheduler *scheduler, uint32_t number); /* NULL: none */
void scheduler_enqueue(scheduler *scheduler, request *request);             /* with its client's others; moved */
void scheduler_drop_request(scheduler *scheduler, request *request);
void scheduler_end_lease(scheduler *scheduler, granted_lease *lease);
void scheduler_spend(scheduler *scheduler, worker *worker); /* its lease ends, and it is not used again */
/* After a change of the input of scheduler_can_grant. */
void scheduler_settle(worker *worker);
/* A worker that blocks without a lease still works for a client that is gone. */
bool scheduler_can_grant(const worker *worker);
