/* sim_runtime.h — the processes of the runtime scenario: real core workers, workers and a real node manager over the
 * simulated network, and a launcher of simulated processes.
 *
 *   node    runtime/node/node_manager with a launcher that starts simulated machines as workers
 *   driver  runtime/client/core_worker: submits tasks, calls, joins and batches, some of which take results of others
 *           as arguments; cancels works, drops results; takes items from streams (sim_stream.h)
 *   worker  runtime/client/core_worker with worker/worker: begins its tasks and calls, one at a time; a body takes a
 *           while, may start tasks of its own and wait for them, and then returns the checker's value, or fails
 *
 * A machine hosts one process in its life, so that an address identifies one process, as on a real machine. A process
 * that the node kills continues for a while: its messages until then reach the node. */
#pragma once
#include "base/list.h"
#include "runtime/client/core_worker.h"
#include "runtime/node/launcher.h"
#include "runtime/node/node_manager.h"
#include "sim/runtime/runtime_checker.h"
#include "sim/runtime/sim_store.h"

enum {
    SIM_RUNTIME_SITES = 72,
    SIM_RUNTIME_DRIVERS = 6,
    SIM_RUNTIME_KEPT = 16,
    SIM_RUNTIME_GROUP = 3,
    SIM_RUNTIME_LARGE = 80000
};

struct sim_runtime_world;

typedef struct sim_runtime_site { /* a machine for one worker */
    struct sim_runtime_world *world;
    sim_node *node;
    int pid;          /* 0: not used yet */
    uint64_t process; /* its name in the network */
    uint32_t program;
    bool ended;
    bool killed;    /* by the node, or it ended by itself: not by a fault */
    bool evicted;   /* ended by the node to free memory, and its tasks are retried */
    bool condemned; /* ended by the node to free memory, and the task that it runs fails */
} sim_runtime_site;

typedef struct sim_runtime { /* a driver or a worker */
    struct sim_runtime_world *world;
    sim_node *node;
    sim_runtime_site *site; /* NULL: a driver */
    uint64_t process;
    core_worker worker;
    core_worker_host host;
    int64_t tick_at_us;
    bool stopping;
    uint8_t about[16];              /* data that the process joins with */
    list births;                    /* actors that the node has not confirmed yet; owned */
    list place_waits;               /* waits for placement groups; owned */
    list watches;                   /* submitted works that are not settled; owned */
    list takers;                    /* readers of streams (sim_stream.h); owned */
    object *kept[SIM_RUNTIME_KEPT]; /* of a driver: results that the driver still has, with their works */
    size_t kept_works[SIM_RUNTIME_KEPT];
    list group; /* of a driver: a batch that was not submitted yet; its works: */
    runtime_work *grouped[SIM_RUNTIME_GROUP];
    size_t grouped_count;
    /* Of a worker: the work that it runs. */
    mr_call *call;
    runtime_work *work;
    size_t waits;                       /* number of works that the running work waits for */
    int64_t nested[RUNTIME_NESTED_MAX]; /* values of these works */
    mr_status failed;                   /* failure of one of these works */
    uint32_t given;                     /* items of a stream given in this run */
    sim_fn *then;                       /* next action of its body */
} sim_runtime;

typedef struct sim_runtime_world {
    sim *sim;
    runtime_checker checker;
    sim_node *node, *drivers[SIM_RUNTIME_DRIVERS];
    size_t driver_count;
    sim_runtime_site sites[SIM_RUNTIME_SITES];
    size_t site_count; /* used */
    int next_pid;
    bool faulty; /* starts fail, workers die */
    uint64_t strikes;
    bool quiet; /* drivers submit nothing new */
    double start_failures;
    int64_t outage_us[2]; /* no worker starts from the first time until the second */
    int64_t kill_us;      /* a process that the node kills is dead by then */
    double detached;      /* share of actors that outlive their job */
    double places;        /* share of placement groups among acts on actors, and of tasks in one */
    uint32_t cancels;     /* per hundred acts of a driver */
    int64_t body_us;
    uint32_t workers_wanted;
    resources total;
    arena arena; /* memory of large values, if the checker has any */
    bool resets; /* links between drivers and workers break */
    bool memory; /* memory is nearly used up at times */
} sim_runtime_world;

extern const sim_program runtime_node_program, runtime_driver_program, runtime_worker_program;

void sim_runtime_world_init(sim_runtime_world *world, sim *sim);
node_core *sim_runtime_world_core(const sim_runtime_world *world); /* NULL: the node is down */
/* NULL: the node is down, or has none */
runtime_store_server *sim_runtime_world_store_server(const sim_runtime_world *world);
size_t sim_runtime_world_workers(const sim_runtime_world *world); /* alive */
/* its process ends by itself, or by the node's order */
void sim_runtime_world_end(sim_runtime_world *world, sim_runtime_site *site);
void sim_runtime_world_lose(sim_runtime_world *world, sim_runtime_site *site); /* its process dies */
void sim_runtime_world_evict(sim_runtime_world *world); /* the node ends a worker to free memory, if there is one */
/* compares actors with the node's actor table */
void sim_runtime_world_check_actors(sim_runtime_world *world);
void sim_runtime_world_fini(sim_runtime_world *world); /* after the simulation */

void sim_runtime_work(sim_runtime *runtime); /* of a worker: begins the next work, if none runs */

/* Functions for code inside a driver's process. */
bool sim_runtime_is_ready(sim_runtime *runtime); /* the process has joined, and has its store client */
void sim_runtime_submit(sim_runtime *runtime);
void sim_runtime_join(sim_runtime *runtime);
void sim_runtime_group(sim_runtime *runtime); /* opens a batch, and submits or drops it a while later */
void sim_runtime_cancel(sim_runtime *runtime);
void sim_runtime_drop(sim_runtime *runtime, size_t index); /* drops a result that it has; no-op if there is none */
void sim_runtime_actor(sim_runtime *runtime);              /* creates an actor, or kills one */
void sim_runtime_kill_actors(sim_runtime *runtime);        /* those of this driver, and those whose job is over */
void sim_runtime_place(sim_runtime *runtime);              /* creates a placement group, waits for or removes one */
void sim_runtime_remove_places(sim_runtime *runtime);      /* those of this driver, and those whose job is over */
bool sim_runtime_is_idle(const sim_runtime *runtime);      /* the process has no task, lease or object */

/* ---- Internal to sim_runtime.c, runtime_workload.c, sim_actor.c, sim_placement.c and sim_body.c. */

typedef struct watch { /* a wait for a work that was submitted here */
    object_waiter waiter;
    list place;
    sim_runtime *runtime;
    runtime_work *work;
    bool is_nested;
    uint32_t index; /* of a nested work: index in its parent */
} watch;

#define SIM_RUNTIME_JOIN ".join" /* runtime/process/join.c */

static inline rng *sim_runtime_rng(const sim_runtime *runtime) { return sim_rng(runtime->world->sim); }

/* A value is a number, many bytes that begin and end with it, or (of a join) a list of these. */
/* A placement group of its own: a group of another process may not exist yet. SIZE_MAX: none. */
size_t sim_runtime_draw_place(sim_runtime *runtime);
mr_status sim_runtime_read_value(const mr_value *value, int64_t *out);
mr_status sim_runtime_outcome(const object *object, int64_t *value); /* of a finished or failed object */
uint8_t *sim_runtime_large_of(int64_t value);                        /* SIM_RUNTIME_LARGE bytes; freed by the caller */
/* Submits the work; the creator's hold on the result goes with it. */
mr_status sim_runtime_send(sim_runtime *runtime, runtime_work *work, const mr_arg *args, object *result);
watch *sim_runtime_watch(sim_runtime *runtime, runtime_work *work, object *object);
/* Settles a work for which no process waits. */
mr_status sim_runtime_settle_now(sim_runtime *runtime, runtime_work *work, object *result);
void sim_runtime_nested_ended(sim_runtime *runtime, const watch *watch, mr_status status, int64_t value);
void sim_runtime_work_later(void *context, uint64_t unused); /* sim_runtime_work, as an event */
void sim_runtime_forget_births(sim_runtime *runtime);
