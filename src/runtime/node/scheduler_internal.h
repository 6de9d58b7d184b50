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
    bool never;    /* can never be placed: its bundles must be on different machines */
    resources sum; /* sum of the bundles */
    uint32_t count;
    pool bundles[];
} group;

typedef struct program {
    list place; /* in scheduler.programs */
    uint32_t number;
    uint32_t clients, starting;
    uint32_t workers; /* workers without an actor, and not about to end */
    uint32_t others;  /* other workers */
    list idle;        /* of worker: most recently used first, its caches are warm */
    uint32_t idle_count;
    bool barred, ended;
} program;

typedef struct client {
    list place; /* in scheduler.asking while the client has requests, else in scheduler.quiet */
    uint64_t id;
    program *program;
    uint32_t lease_count;
    list requests; /* in order of arrival */
} client;

typedef struct request {
    list place;
    client *client;
    uint64_t ticket, order;
    uint32_t passed; /* grants to younger requests while the client had none of the resources */
    bool comes;      /* in a reclaim decision: free and returning resources are enough */
    resources need;
    group *group; /* group of its resources, or group to place; NULL: the machine */
    bool places;  /* needs no worker: its grant places the group */
} request;

typedef struct worker {
    list place; /* in its program's idle list while idle, in scheduler.endings before its END, else in no list */
    uint64_t id;
    program *program;
    struct granted_lease *lease; /* NULL: idle, kept or spent */
    bool kept;                   /* an actor has the worker permanently */
    bool blocked;                /* a body waits: the worker's resources are free for others */
    bool spent;                  /* will end */
    bool is_idle;
    bool evicted; /* will end because its group was removed */
    resources kept_need;
    pool *kept_pool; /* pool of kept_need */
} worker;

typedef struct granted_lease {
    list place; /* in scheduler.leases */
    uint64_t id;
    client *client;
    worker *worker;
    resources need;
    pool *pool;     /* pool of `need` */
    bool reclaimed; /* the client was asked to return the lease */
} granted_lease;

struct scheduler {
    pool machine;
    uint64_t count; /* see pool.counted */
    uint32_t prestart, starting;
    list asking, quiet; /* of client */
    list leases, programs, endings;
    list refused;                               /* of request: their groups were removed */
    map clients, workers, leases_by_id, groups; /* by id */
    uint64_t next_lease, next_order;
};

program *scheduler_program_of(const scheduler *scheduler, uint32_t number); /* NULL: none */
void scheduler_enqueue(scheduler *scheduler, request *request); /* appends to the client's requests; moved */
void scheduler_drop_request(scheduler *scheduler, request *request);
void scheduler_end_lease(scheduler *scheduler, granted_lease *lease);
void scheduler_spend(scheduler *scheduler, worker *worker); /* ends its lease; the worker is not used again */
/* Updates the idle list; call after a change of what scheduler_can_grant reads. */
void scheduler_settle(worker *worker);
/* A blocked worker without a lease still works for a client that is gone. */
bool scheduler_can_grant(const worker *worker);
