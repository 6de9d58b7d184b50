/* scheduler_host.h — a machine for the scheduler scenario: a node, its clients and its workers, as a model.
 *
 * The node is the real policy behind the two ledgers, used as node.c uses it. Processes are made up: a client
 * has work of a few shapes, asks for leases, feeds each leased worker one job at a time and gives the lease back when
 * it is asked to or has no more work; a worker runs the jobs that reach it, one at a time. A job may need another one:
 * then its worker is a client itself, and blocks until that job is done.
 *
 * What clients ask reaches the node at once; what they and the workers are told takes a while, in order for each of
 * them. So grants cross cancellations, reclaims cross releases, jobs reach workers that are dead. A process may end
 * between any two of these; the node learns it later, and those who wait for it later still.
 *
 *   job: sent ──► queued in the worker ──► running ──► done
 *                                            │  ▲
 *                                  asks and blocks, the other job is done */
#pragma once
#include "sim/runtime/actor_ledger.h"
#include "sim/runtime/scheduler_ledger.h"

enum { HOST_GROUPS_MAX = LEDGER_GROUPS_MAX };
enum { HOST_PROCESSES_MAX = 512, HOST_SHAPES_MAX = 3, HOST_JOBS_MAX = 12, HOST_LEASES_MAX = 24, HOST_ALIVE_MAX = 40 };

typedef struct host_lease { /* as its client knows it */
    uint64_t id, worker;
    size_t shape;
    bool running, reclaimed;
} host_lease;

typedef struct host_shape {
    resources need;
    uint32_t backlog;   /* jobs that wait */
    uint32_t requested; /* leases that are asked for */
    uint64_t tickets[4];
    bool cancelled[4]; /* what is granted all the same goes back at once */
} host_shape;

typedef struct host_job {
    uint64_t owner, lease; /* lease 0: a call to the actor that lives here */
} host_job;

typedef struct host_process {
    uint64_t id; /* 0: none */
    uint32_t program;
    bool alive, is_worker;
    bool joined;     /* the node has heard of it, and not of its end */
    int64_t told_us; /* the last thing that it is told comes then */
    host_shape shapes[HOST_SHAPES_MAX];
    size_t shape_count;
    host_lease leases[HOST_LEASES_MAX];
    size_t lease_count;
    host_job jobs[HOST_JOBS_MAX]; /* of a worker; the first one runs */
    size_t job_count;
    bool blocked;
} host_process;

typedef struct host_group { /* a placement group; it goes with the process that made it, unless it is detached */
    uint64_t id, owner, ticket;
    bool detached;
} host_group;

typedef struct host {
    sim *sim;
    scheduler_ledger scheduler;
    actor_ledger actors;
    resources total;
    host_process *processes; /* owned: by number */
    size_t process_count;
    list tales; /* owned: what is on its way */
    host_group groups[HOST_GROUPS_MAX];
    uint64_t next_ticket, next_group;
    uint32_t program_count;
    bool faulty; /* processes end by themselves, workers fail to start */
    double nesting, spawn_failures, creation_failures;
    int64_t job_us;
} host;

void host_init(host *host, sim *sim, const resources *total, uint32_t prestart, uint32_t program_count);
void host_fini(host *host);

host_process *host_driver(host *host, uint32_t program); /* one more joins */
host_process *host_process_of(host *host, uint64_t id);
size_t host_alive_count(const host *host);

void host_add_work(host *host, host_process *process, size_t shape, uint32_t count);
void host_drop_work(host *host, host_process *process); /* what was not begun; its requests are cancelled */
/* A group of that driver's; no-op if there are enough. */
void host_group_add(host *host, host_process *driver, const resources *bundles, uint32_t count, bool apart,
                    bool detached);
void host_group_remove(host *host, host_group *group); /* no-op if there is none */
/* Its work of that shape is in the group from now on, in that bundle (0: any), if it has none at the moment. */
void host_use_group(host *host, host_process *process, size_t shape, const host_group *group, const resources *need);
void host_call_actor(host *host, size_t index);   /* a job for it, wherever it lives */
void host_end(host *host, host_process *process); /* the process dies */
void host_decide(host *host);                     /* carries out what the scheduler decides */
/* Nobody has work, or waits for anything; else `why` says who does. */
bool host_is_at_rest(const host *host, char *why, size_t size);
