/* node_actor.h — the node's table of actors: their state, their process, and their restarts.
 *
 *   PENDING ── a worker is granted ──► STARTING ── created ──► ALIVE
 *      ▲                                  │  └── creating failed ──► DEAD
 *      └── restarts left ── process died ─┴───────────┘
 *                              └── none left, or killed ──► DEAD ── NODE_ACTORS_DEAD_MAX others died ──► forgotten
 *
 * The table keeps the last state that the actor's process has set (mr_state_set) as long as the actor may be created
 * again; the next process gets it before the creation request.
 *
 * A process that has a handle holds the actor. An actor that has lost its last holder ends, unless it is detached; an
 * ALIVE actor gets time to exit (node_actor_ops.dismiss). The end of a process releases its handles. The actor itself
 * holds the handles among its arguments until its death: its process may not have reported them yet, and a restarted
 * process gets them again. The host keeps everything else that the arguments need (node_actor_args.h) until the actor
 * is ALIVE and will not be restarted. A worker that cannot receive the creation request is replaced by another, which
 * does not count as a restart. While no worker can be started, a PENDING actor uses a restart from time to time
 * (node_lease.c); max_restarts -1, MR_NO_LIMIT, has no end.
 *
 * Pure over its host (node_actor_ops). A query for the location of an actor is answered when the actor is ALIVE or
 * DEAD. */
#pragma once
#include "base/list.h"
#include "base/map.h"
#include "base/nearest_name.h"
#include "net/rpc/rpc.h"
#include "runtime/common/resources.h"
#include "runtime/refs/failure.h"
#include "runtime/refs/value_pack.h"

typedef enum node_actor_state {
    NODE_ACTOR_PENDING,
    NODE_ACTOR_STARTING,
    NODE_ACTOR_ALIVE,
    NODE_ACTOR_DEAD
} node_actor_state;

enum { NODE_ACTORS_DEAD_MAX = 256 };

typedef struct node_actor {
    list place;                             /* among all, in order of creation */
    struct node_actor *same_id, *same_name; /* next actor with the same hash in by_id, in by_name */
    mr_actor id;
    char class_name[256], name[256], name_space[256];
    uint32_t program; /* number of the actor's job */
    bool detached;    /* survives the end of its job */
    node_actor_state state;
    uint32_t restarts;     /* left; MR_NO_LIMIT: as many as needed */
    uint32_t restarts_max; /* max_restarts */
    uint32_t threads;      /* threads that run the actor's methods */
    resources need;
    value_pack *args;             /* NULL: the actor will not be created again */
    struct node_kept *kept;       /* objects that the arguments need, kept by the host */
    value_pack *saved;            /* state that its next process gets (mr_state_set); NULL: none */
    struct node_kept *saved_kept; /* objects that the saved state needs */
    uint8_t *about;               /* owned: description given by the creator */
    size_t about_size;
    uint64_t ticket;  /* while PENDING */
    uint64_t process; /* while STARTING and ALIVE */
    uint32_t starts;  /* number of starts: fences answers of old creations */
    failure *dead;
    list waiting;   /* pending queries for the location */
    list holds;     /* processes and actors that hold a handle */
    uint64_t keeps; /* holder id under which the actor holds the handles among its arguments */
} node_actor;

typedef struct node_actor_ops {
    uint64_t (*request)(void *host, node_actor *actor); /* requests a worker for the actor; returns the ticket */
    void (*forget)(void *host, node_actor *actor, uint64_t ticket);    /* cancels that request */
    void (*start)(void *host, node_actor *actor);                      /* creates the actor in actor->process */
    void (*kill)(void *host, uint64_t process);                        /* kills that worker */
    void (*dismiss)(void *host, uint64_t process);                     /* asks that worker to exit by itself, soon */
    void (*tell)(void *host, rpc_call_token token, node_actor *actor); /* answers a query: the actor is ALIVE or DEAD */
    void (*died)(void *host, node_actor *actor);                       /* called after all queries were answered */
    void (*let_go)(void *host, struct node_kept *kept);                /* releases what the arguments needed */
} node_actor_ops;

typedef struct node_actors {
    list list; /* actors that are not dead */
    list dead; /* dead actors, oldest death first */
    uint32_t dead_count;
    uint64_t last_holder;      /* last number given to an actor as a holder */
    map holders;               /* holder id → actors it holds */
    map by_id, by_name;        /* keys are hashes: chains of actors */
    map by_ticket, by_process; /* actors that wait for a worker, and actors that have one */
    const node_actor_ops *ops;
    void *host;
} node_actors;

void node_actors_init(node_actors *actors, const node_actor_ops *ops, void *host);
void node_actors_fini(node_actors *actors);

typedef struct node_actor_plan {
    mr_actor id;
    span class_name, name, name_space, about;
    uint32_t program;
    bool detached;
    uint32_t restarts;
    uint32_t threads;
    resources need;
    value_pack *args;       /* a reference is taken */
    struct node_kept *kept; /* objects that the arguments need: owned by the actor after success */
} node_actor_plan;

MR_MUST mr_status node_actor_create(node_actors *actors, const node_actor_plan *plan); /* MR_EXISTS */
node_actor *node_actor_find(node_actors *actors, mr_actor id);
node_actor *node_actor_named(node_actors *actors, span name_space, span name); /* an actor that is not dead */
/* "; did you mean boss?" for the name of no actor of the name space, or "". */
const char *node_actor_hint(const node_actors *actors, span name_space, span name, char out[NEAREST_NAME_HINT_MAX]);
node_actor *node_actor_ticket(node_actors *actors, uint64_t ticket);
node_actor *node_actor_in(node_actors *actors, uint64_t process); /* NULL: no actor runs in that process */

/* Replaces the state that the actor's next process gets: takes a reference to it, and takes over `kept` in any case.
 * The state of an actor that will not be created again is dropped. */
void node_actor_set_state(node_actors *actors, node_actor *actor, value_pack *saved, struct node_kept *kept);

/* Adds or removes a process as a holder of the actor. Adding a holder twice is a no-op. */
void node_actor_hold(node_actors *actors, node_actor *actor, uint64_t process);
void node_actor_drop(node_actors *actors, node_actor *actor, uint64_t process);

void node_actor_granted(node_actors *actors, node_actor *actor, uint64_t process);
void node_actor_created(node_actors *actors, mr_actor id, uint32_t start,
                        failure *failed); /* NULL: the actor is ALIVE; borrowed */
/* Called in `start` or later: the worker could not receive the creation request. The actor gets another worker. */
void node_actor_not_told(node_actors *actors, mr_actor id, uint32_t start);
void node_actor_process_gone(node_actors *actors, uint64_t process, const cause *why);
void node_actor_kill(node_actors *actors, node_actor *actor);
/* Kills the actor's process; node_actor_process_gone follows as for any other death. */
void node_actor_restart(node_actors *actors, node_actor *actor);
/* No worker of that job can be started: its actors that wait for one die. `spares`: an actor that has restarts left
 * uses one and waits longer. Returns the number of actors that wait. */
uint32_t node_actors_give_up(node_actors *actors, uint32_t program, bool spares, const char *why);
/* The job is over: its actors die, except detached ones. */
void node_actors_evict(node_actors *actors, uint64_t group,
                       const char *why); /* actors placed or to be placed in that group */
void node_actors_end_program(node_actors *actors, uint32_t program);
void node_actor_where(node_actors *actors, node_actor *actor, rpc_call_token token);
