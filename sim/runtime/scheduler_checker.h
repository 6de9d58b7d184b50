/* scheduler_checker.h — checkers of the scheduler scenario: a second record of the scheduler's events and decisions.
 *
 * The checker stands between the host and the scheduler (scheduler.h): every event and every decision passes through
 * it. Its records are lists of plain facts, without a policy; after each event they must agree with the scheduler's
 * visible state, and each decision must be one that the records allow.
 *
 * Checked  only free resources are granted, and no more are free than the total;
 *          a worker has one lease, or is kept by an actor, or neither; a grant answers a waiting request, with an idle
 *          worker of the same job;
 *          the grant goes to the job with the fewest leases of that kind, of those that could have it, there to the
 *          client with the fewest, among equals to the request that waits longest, and is the client's first that
 *          fits; but a request that was passed too often comes first, and its resources are kept for it;
 *          no more workers are started than requests wait, or than are to be prestarted, and few at a time;
 *          a worker is ended, once, when its client is gone or wants it to end, or its placement group was removed;
 *          a client is asked once to return a lease that it has;
 *          a placement group is placed when all its bundles are free at once; its requests are met from its bundles
 *          (any: the first that has room) and never beyond them; when it is removed, its resources return to the
 *          machine, and each request that waited for it is refused, once. */
#pragma once
#include "runtime/node/scheduler.h"
#include "sim/sim.h"

enum {
    CHECKER_CLIENTS_MAX = 96,
    CHECKER_REQUESTS_MAX = 256,
    CHECKER_WORKERS_MAX = 96,
    CHECKER_PROGRAMS_MAX = 4,
    CHECKER_GROUPS_MAX = 4,
    CHECKER_BUNDLES_MAX = 3,
};

typedef struct checker_client {
    uint64_t id;
    uint32_t program;
} checker_client;

typedef struct checker_request {
    uint64_t client, ticket;
    resources need;
    int64_t since_us;
    uint32_t passed;
    uint64_t places; /* placement group to place; 0: none; its need is the sum of the bundles */
} checker_request;

typedef struct checker_group {
    uint64_t id; /* 0: none */
    bool placed, never;
    resources bundles[CHECKER_BUNDLES_MAX];
    uint32_t count;
} checker_group;

typedef struct checker_worker {
    uint64_t id;
    uint32_t program;
    bool blocked; /* the worker waits inside a body: its resources are free meanwhile */
    bool kept;    /* an actor keeps the worker */
    bool spent;   /* the worker is to be ended */
    bool told;    /* the decision END was made */
    uint64_t lease, client;
    bool asked;     /* the client was asked to return the lease */
    resources need; /* in a placement group: with the bundle that meets the need */
} checker_worker;

typedef struct scheduler_checker {
    sim *sim;
    scheduler *scheduler; /* owned */
    resources total;
    uint32_t prestart;
    checker_client clients[CHECKER_CLIENTS_MAX];
    checker_request requests[CHECKER_REQUESTS_MAX]; /* waiting requests, the oldest first */
    checker_worker workers[CHECKER_WORKERS_MAX];
    checker_request refused[CHECKER_REQUESTS_MAX]; /* refused requests, not announced yet */
    checker_group groups[CHECKER_GROUPS_MAX];
    size_t client_count, request_count, worker_count, refused_count;
    uint32_t starting[CHECKER_PROGRAMS_MAX];
} scheduler_checker;

void scheduler_checker_init(scheduler_checker *checker, sim *sim, const resources *total, uint32_t prestart);
void scheduler_checker_fini(scheduler_checker *checker);

/* The scheduler's events, with the same meaning. */
void scheduler_checker_client_add(scheduler_checker *checker, uint64_t client, uint32_t program);
void scheduler_checker_client_gone(scheduler_checker *checker, uint64_t client);
void scheduler_checker_worker_add(scheduler_checker *checker, uint64_t worker, uint32_t program);
void scheduler_checker_worker_gone(scheduler_checker *checker, uint64_t worker);
void scheduler_checker_spawn_failed(scheduler_checker *checker, uint32_t program);
void scheduler_checker_request(scheduler_checker *checker, uint64_t client, uint64_t ticket, const resources *need);
void scheduler_checker_cancel(scheduler_checker *checker, uint64_t client, uint64_t ticket);
bool scheduler_checker_release(scheduler_checker *checker, uint64_t client, uint64_t lease, bool keep_worker);
void scheduler_checker_block(scheduler_checker *checker, uint64_t worker, bool blocked);
void scheduler_checker_keep(scheduler_checker *checker, uint64_t client, uint64_t lease, const resources *from_now_on);
/* False: no room for one more. */
bool scheduler_checker_group_add(scheduler_checker *checker, uint64_t group, const resources *bundles, uint32_t count,
                                 const scheduler_place *place);
void scheduler_checker_group_remove(scheduler_checker *checker, uint64_t group);
const checker_group *scheduler_checker_group(const scheduler_checker *checker, uint64_t group); /* NULL: none */
bool scheduler_checker_next(scheduler_checker *checker, scheduler_decision *out);

const checker_worker *scheduler_checker_worker(const scheduler_checker *checker, uint64_t worker); /* NULL: gone */
bool scheduler_checker_waits(const scheduler_checker *checker, uint64_t client, uint64_t ticket);

void scheduler_checker_check_refused(scheduler_checker *checker); /* after all decisions: all refusals were announced */

/* A client without any of its needed resources waits at most this long, if there could be enough beside the actors.
 * Zero: no client waits at all. */
void scheduler_checker_check_waiting(scheduler_checker *checker, int64_t since_us, int64_t longest_us);
