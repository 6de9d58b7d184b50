/* scheduler_machine.h — a machine for the scheduler scenario: a node, its clients and its workers, as a model.
 *
 * The node is the real scheduler and actor table behind their two checkers, used as in sim_runtime_node.c. Processes
 * are models: a client has work of a few shapes, requests leases, gives each leased worker one job (machine_job) at a
 * time, and returns the lease when the node asks for it or when there is no more work; a worker runs its jobs, one at a
 * time. A job may need another one: then its worker is a client itself, and blocks until that job is done.
 *
 * Requests of clients reach the node at once; messages to clients and workers take a while, in order for each receiver.
 * So grants cross cancellations, reclaims cross releases, and jobs reach workers that are dead. A process may end
 * between any two of these; the node learns it later, and the processes that wait for it later still.
 *
 *   job: sent ──► queued in the worker ──► running ──► done
 *                                            │  ▲
 *                                 submits and blocks, the other job is done */
#pragma once
#include "sim/runtime/actor_checker.h"
#include "sim/runtime/scheduler_checker.h"

enum { MACHINE_GROUPS_MAX = CHECKER_GROUPS_MAX };
enum {
    MACHINE_PROCESSES_MAX = 512,
    MACHINE_SHAPES_MAX = 3,
    MACHINE_JOBS_MAX = 12,
    MACHINE_LEASES_MAX = 24,
    MACHINE_ALIVE_MAX = 40
};

typedef struct machine_lease { /* state of a lease as its client knows it */
    uint64_t id, worker;
    size_t shape;
    bool running, reclaimed;
} machine_lease;

typedef struct machine_shape {
    resources need;
    uint32_t backlog;   /* waiting jobs */
    uint32_t requested; /* requested leases */
    uint64_t tickets[4];
    bool cancelled[4]; /* a grant that still arrives is returned at once */
} machine_shape;

typedef struct machine_job {
    uint64_t owner, lease; /* lease 0: a call to the actor in this process */
} machine_job;

typedef struct machine_process {
    uint64_t id; /* 0: none */
    uint32_t program;
    bool alive, is_worker;
    bool joined;     /* the node knows the process as alive */
    int64_t told_us; /* arrival time of the last message to it */
    machine_shape shapes[MACHINE_SHAPES_MAX];
    size_t shape_count;
    machine_lease leases[MACHINE_LEASES_MAX];
    size_t lease_count;
    machine_job jobs[MACHINE_JOBS_MAX]; /* of a worker; the first one runs */
    size_t job_count;
    bool blocked;
} machine_process;

typedef struct machine_group { /* a placement group; it ends with the process that created it, unless it is detached */
    uint64_t id, owner, ticket;
    bool detached;
} machine_group;

typedef struct machine {
    sim *sim;
    scheduler_checker scheduler;
    actor_checker actors;
    resources total;
    machine_process *processes; /* owned: indexed by number */
    size_t process_count;
    list notices; /* owned: messages in flight */
    machine_group groups[MACHINE_GROUPS_MAX];
    uint64_t next_ticket, next_group;
    uint32_t program_count;
    bool faulty; /* processes end by themselves, workers fail to start */
    double nesting, spawn_failures, creation_failures;
    int64_t job_us;
} machine;

void machine_init(machine *machine, sim *sim, const resources *total, uint32_t prestart, uint32_t program_count);
void machine_fini(machine *machine);

machine_process *machine_driver(machine *machine, uint32_t program); /* one more driver joins */
machine_process *machine_process_of(machine *machine, uint64_t id);
size_t machine_alive_count(const machine *machine);

void machine_add_work(machine *machine, machine_process *process, size_t shape, uint32_t count);
void machine_drop_work(machine *machine, machine_process *process); /* work not begun; its requests are cancelled */
/* Creates a placement group of that driver; no-op if there are enough. */
void machine_group_add(machine *machine, machine_process *driver, const resources *bundles, uint32_t count, bool apart,
                       bool detached);
void machine_group_remove(machine *machine, machine_group *group); /* no-op without a group */
/* Puts the driver's work of that shape into the placement group, into that bundle (0: any), if it has none at the
 * moment. */
void machine_use_group(machine *machine, machine_process *process, size_t shape, const machine_group *group,
                       const resources *need);
void machine_call_actor(machine *machine, size_t index);      /* a job for the actor, in its present process */
void machine_end(machine *machine, machine_process *process); /* the process dies */
void machine_decide(machine *machine);                        /* carries out the scheduler's decisions */
/* No process has work or waits; else `why` names one that does. */
bool machine_is_at_rest(const machine *machine, char *why, size_t size);
