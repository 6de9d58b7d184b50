/* party.h — the processes of the runtime scenario: real clients, workers and a node's core over the simulated
 * network, and a launcher of simulated processes.
 *
 *   node    runtime/node/node_core with a launcher that starts simulated machines as workers
 *   driver  runtime/client: submits tasks, calls, joins and groups, some of which take others' results, cancels, drops;
 *           takes from streams (stream.h)
 *   worker  runtime/client with worker/worker: begins what it is given, one at a time; a body takes a while, may start
 *           tasks of its own and wait for them, and then gives what the ledger says, or fails
 *
 * A machine hosts one process in its life, so that an address means one process, as on a real one. A process that the
 * node kills goes on for a while: what it says until then reaches the node. */
#pragma once
#include "base/list.h"
#include "runtime/client.h"
#include "runtime/node/launcher.h"
#include "runtime/node/node_core.h"
#include "sim/runtime/ledger.h"
#include "sim/runtime/vault.h"

enum { PARTY_SEATS = 72, PARTY_DRIVERS = 6, PARTY_KEPT = 16, PARTY_GROUP = 3, PARTY_LARGE = 80000 };

struct runtime_world;

typedef struct seat { /* a machine for one worker */
    struct runtime_world *world;
    sim_node *node;
    int pid;          /* 0: not used yet */
    uint64_t process; /* its name in the network */
    uint32_t program;
    bool ended;
    bool killed; /* by the node, or it ended by itself: no fault's doing */
} seat;

typedef struct party { /* a driver or a worker */
    struct runtime_world *world;
    sim_node *node;
    seat *seat; /* NULL: a driver */
    uint64_t process;
    client client;
    client_host host;
    int64_t tick_at_us;
    bool stopping;
    uint8_t about[16];        /* what it joins with */
    list births;              /* of actors that the node has not answered for; owned */
    list place_waits;         /* of those for placement groups; owned */
    list watches;             /* of works that it has submitted and that are not settled; owned */
    list takers;              /* of streams (stream.h); owned */
    object *kept[PARTY_KEPT]; /* of a driver: results that it still has; with their works */
    size_t kept_works[PARTY_KEPT];
    list group; /* of a driver: requests that were not submitted yet; their works: */
    runtime_work *grouped[PARTY_GROUP];
    size_t grouped_count;
    /* Of a worker: what it runs. */
    mr_call *call;
    runtime_work *work;
    size_t waits;                       /* for so many works of its own */
    int64_t nested[RUNTIME_NESTED_MAX]; /* their values */
    mr_status failed;                   /* of one of them */
    uint32_t given;                     /* items of a stream, in this run */
    sim_fn *then;                       /* what its body does after them */
} party;

typedef struct runtime_world {
    sim *sim;
    runtime_ledger ledger;
    sim_node *node, *drivers[PARTY_DRIVERS];
    size_t driver_count;
    seat seats[PARTY_SEATS];
    size_t seat_count; /* used */
    int next_pid;
    bool faulty; /* starts fail, workers die */
    uint64_t strikes;
    bool quiet; /* drivers submit nothing new */
    double start_failures;
    int64_t kill_us;  /* a process that the node kills is dead by then */
    double detached;  /* of the actors, those that outlive their programs */
    double places;    /* of the acts on actors, those on placement groups, and of the tasks those in one */
    uint32_t cancels; /* of a hundred acts of a driver */
    int64_t body_us;
    uint32_t workers_wanted;
    resources total;
    arena arena; /* where large values lie, if the ledger has any */
    bool resets; /* links between programs and workers break */
} runtime_world;

extern const sim_program runtime_node_program, runtime_driver_program, runtime_worker_program;

void runtime_world_init(runtime_world *world, sim *sim);
node_core *runtime_world_core(const runtime_world *world);      /* NULL: the node is down */
runtime_vault *runtime_world_vault(const runtime_world *world); /* NULL: likewise, or there is none */
size_t runtime_world_workers(const runtime_world *world);       /* alive */
void runtime_world_end(runtime_world *world, seat *seat);       /* its process ends by itself, or as it is told to */
void runtime_world_lose(runtime_world *world, seat *seat);      /* it dies */
void runtime_world_check_actors(runtime_world *world);          /* what the node's book says of them, and may say */
void runtime_world_fini(runtime_world *world);                  /* after the simulation */

void party_work(party *party); /* of a worker: begins what is next, if it runs nothing */

/* Inside a driver's process. */
bool party_is_ready(party *party); /* it has joined, and has its store */
void party_submit(party *party);
void party_join(party *party);
void party_group(party *party); /* opens one, and submits or drops it a while later */
void party_cancel(party *party);
void party_drop(party *party, size_t index); /* a result that it has; no-op if there is none */
void party_actor(party *party);              /* makes one, or kills one */
void party_kill_actors(party *party);        /* its own, and those whose program is over */
void party_place(party *party);              /* makes a placement group, waits for one, or removes one */
void party_remove_places(party *party);      /* its own, and those whose program is over */
bool party_is_idle(const party *party);      /* it has no task, lease or object */

/* ---- Among the files that are it: party.c, work.c, actor.c, placement.c and
 * body.c. */

typedef struct watch { /* of a work that was submitted here */
    object_waiter waiter;
    list place;
    party *party;
    runtime_work *work;
    bool is_nested;
    uint32_t index; /* of a nested one: among its parent's */
} watch;

#define PARTY_JOIN ".join" /* runtime/join.c */

static inline rng *party_rng(const party *party) { return sim_rng(party->world->sim); }

/* A value is a number, many bytes that begin and end with it, or (of a join) a list of such. */
/* A placement group of its own: of others' it would not know whether they are there yet. SIZE_MAX: none. */
size_t party_draw_place(party *party);
mr_status party_read_value(const mr_value *value, int64_t *out);
mr_status party_outcome(const object *object, int64_t *value); /* of an object that is there, or failed */
uint8_t *party_large_of(int64_t value);                        /* PARTY_LARGE bytes; the caller's */
/* Sends the work off; its maker's hold on the result goes with it. */
mr_status party_send(party *party, runtime_work *work, const mr_arg *args, object *result);
watch *party_watch(party *party, runtime_work *work, object *object);
/* What came of a work without anybody waiting for it. */
mr_status party_settle_now(party *party, runtime_work *work, object *result);
void party_nested_ended(party *party, const watch *watch, mr_status status, int64_t value);
void party_work_later(void *context, uint64_t unused); /* party_work, as an event */
void party_forget_births(party *party);
