/* scheduler.h — scheduling policy of one machine: assignment of workers to clients. Pure: no I/O, no clock.
 *
 * A client (a driver or a worker, by its process) requests a worker with resources; the answer is a *worker lease*,
 * which the client keeps as long as it has tasks of that scheduling class, sends them to the worker directly, and
 * returns. The scheduler's decisions come out of scheduler_next, one at a time, until there is none:
 *
 *   GRANT    this request gets that worker under this lease; its resources are taken
 *   SPAWN    start another worker process of this program
 *   RECLAIM  ask this client to return an idle lease: others wait
 *   END      end this worker: its client has ended or is done with it, and its remaining work is unknown
 *   PLACED   this request's group is placed
 *   REFUSE   this request will never be granted: its group was removed
 *
 *   request: asked ──► (resources free and a worker idle) granted ──► released │ worker gone │ client gone
 *              └── cancelled, client gone
 *
 * Fair between programs, and within one between its clients: of those whose request fits, the next grant goes to the
 * program with the fewest leases that take of the same kinds of resources now (a blocked worker's lease takes nothing),
 * there to the client with the fewest, and among equals to the client that waits longest. So a program that floods does
 * not starve another. A client's own requests are answered in their order, except that a request that does not fit does
 * not hold back another scheduling class. No client starves: a client that has none of the resources it waits for is
 * overtaken by SCHEDULER_PATIENCE younger requests at most. Then its resources are reserved, and all clients that hold
 * some of them are asked to return leases, until the request fits. (Actors keep theirs.) A worker that blocks in `get`
 * releases its resources (scheduler_block), whether it is leased or an actor's, so that nested tasks never wait for
 * their own parent; when the worker resumes, it takes them back even if that overcommits for a while: overcommitted
 * resources are not granted.
 *
 *   scheduler.c           events: clients, workers and requests that come and go
 *   scheduler_decide.c    decisions
 *   scheduler_bundles.c   placement groups: resources that are reserved together
 *   scheduler_stats.c     queries, and the check of the invariants
 *   scheduler_internal.h  state that these files share
 *
 * Invariants  free + placed groups + taken by workers that run = total, for every resource, likewise in each bundle; a
 * worker has at most one lease; a request is answered at most once; scheduler_check asserts all of them. */
#pragma once
#include "runtime/common/resources.h"

typedef struct scheduler scheduler;

enum {
    SCHEDULER_PATIENCE = 8,
    SCHEDULER_STARTING_MAX = 16, /* concurrent starts of workers: more would slow each other down */
};

typedef enum scheduler_verb {
    SCHEDULER_GRANT,
    SCHEDULER_SPAWN,
    SCHEDULER_RECLAIM,
    SCHEDULER_END,
    SCHEDULER_PLACED,
    SCHEDULER_REFUSE
} scheduler_verb;

typedef struct scheduler_decision {
    scheduler_verb verb;
    uint64_t client; /* client or worker concerned */
    uint64_t ticket; /* GRANT, PLACED, REFUSE: ticket of the request */
    uint64_t lease, worker;
    uint32_t program; /* SPAWN */
    bool evicted;     /* END: the worker's group was removed */
} scheduler_decision;

/* `prestart` workers of each program are started before the first request. */
scheduler *scheduler_create(const resources *total, uint32_t prestart);
void scheduler_destroy(scheduler *scheduler);

/* Workers of different programs run different code; the caller chooses the numbers. */
void scheduler_client_add(scheduler *scheduler, uint64_t client, uint32_t program);
void scheduler_client_gone(scheduler *scheduler, uint64_t client); /* ends the client's requests and workers */
/* Stops prestarting workers of the program, which is freed when its last client, worker and start is gone. */
void scheduler_program_ended(scheduler *scheduler, uint32_t program);

void scheduler_worker_add(scheduler *scheduler, uint64_t worker, uint32_t program); /* a spawned worker has joined */
void scheduler_worker_gone(scheduler *scheduler, uint64_t worker);                  /* ends the worker's lease */
void scheduler_spawn_failed(scheduler *scheduler, uint32_t program);                /* a spawned worker will not join */
void scheduler_bar(scheduler *scheduler, uint32_t program, bool barred);            /* no SPAWN of a barred program */

/* ---- Groups: bundles of resources that are reserved together, all or none. Until the group is removed, requests that
 * name a bundle (resources.group) take from that bundle, and the machine has that much less for others. A request that
 * names no bundle takes the first that has room. A placement is requested like a worker, waits its turn and ends with
 * PLACED. Within a group there is no SCHEDULER_PATIENCE: the next grant goes to the client with the fewest leases, then
 * to the longest waiting.
 *
 *   added ──► (its resources are free) placed ──► removed: its workers end (END), its requests are refused (REFUSE)
 *     └────────────────────────────────────────────► removed */

typedef struct scheduler_place { /* the request for a group */
    uint64_t client, ticket;
    bool apart; /* each bundle on another machine: several never fit on one */
} scheduler_place;

/* MR_EXISTS; MR_INVALID: more kinds of resources than there can be; MR_NOMEM. At least one bundle. */
MR_MUST mr_status scheduler_group_add(scheduler *scheduler, uint64_t group, const resources *bundles, uint32_t count,
                                      const scheduler_place *place);
void scheduler_group_remove(scheduler *scheduler, uint64_t group); /* no-op for an unknown group */
/* Whether the group of `need` can ever meet it. MR_NOT_FOUND, MR_INVALID. */
MR_MUST mr_status scheduler_group_fits(const scheduler *scheduler, const resources *need);

/* ---- Requests. Tickets are the caller's, unique per client. A need that names a group names an existing one. */
void scheduler_request(scheduler *scheduler, uint64_t client, uint64_t ticket, const resources *need);
void scheduler_cancel(scheduler *scheduler, uint64_t client, uint64_t ticket); /* no-op for a granted request */
/* MR_NOT_FOUND: not this client's lease (any more). `keep_worker` false: the worker ends. */
MR_MUST mr_status scheduler_release(scheduler *scheduler, uint64_t client, uint64_t lease, bool keep_worker);
void scheduler_block(scheduler *scheduler, uint64_t worker, bool blocked);

/* An actor takes a worker permanently: the lease ends, and its resources stay taken until the worker is gone. */
MR_MUST mr_status scheduler_keep(scheduler *scheduler, uint64_t client, uint64_t lease, const resources *from_now_on);

bool scheduler_next(scheduler *scheduler, scheduler_decision *out);

/* True: a machine with these total resources can never grant it. */
bool scheduler_impossible(const scheduler *scheduler, const resources *need);

typedef struct scheduler_stats {
    uint32_t clients, workers, idle, starting, leases, waiting;
    resources total, free;
} scheduler_stats;
scheduler_stats scheduler_stats_now(const scheduler *scheduler);
bool scheduler_has_leases(const scheduler *scheduler);
bool scheduler_program_runs(const scheduler *scheduler, uint32_t program); /* the program has a worker for tasks */
/* All workers of the program for tasks wait for others, and none is starting. */
bool scheduler_program_blocked(const scheduler *scheduler, uint32_t program);

typedef struct scheduler_snapshot { /* of one process */
    uint64_t client;                /* client of its lease; 0: none, or the node for an actor */
    bool kept, blocked; /* kept: an actor has it permanently; blocked: its body waits, and its resources are released */
    resources need;     /* resources of the process as a worker */
    uint32_t requests;  /* pending requests of the process as a client */
} scheduler_snapshot;
scheduler_snapshot scheduler_see(const scheduler *scheduler, uint64_t process);
void scheduler_check(const scheduler *scheduler);
