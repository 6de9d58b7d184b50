/* node_actor.h — the node's table of actors: their state, their process, and their restarts.
 *
 *   PENDING ── a worker is granted ──► STARTING ── created ──► ALIVE
 *      ▲                                  │  └── creating failed ──► DEAD
 *      └── restarts left ── process died ─┴───────────┘
 *                              └── none left, or killed ──► DEAD ── NODE_ACTORS_DEAD_MAX others died ──► forgotten
 *
 * Processes that have a handle hold it. An actor that was held and is no more comes to its end, unless it is detached;
 * one that lives has a moment for that (node_actor_ops.dismiss). A process that ends holds nothing. Handles among the
 * arguments of an actor are held by the actor itself, as long as it lives: its process may not have them yet, and one
 * that is started again is given them again. What else its arguments need is kept by the host (node_actor_args.h) until
 * it lives and will not be started again. A worker that cannot be told to create it is given up for another, which
 * counts as no restart.
 *
 * Pure but for what it asks of its host (node_actor_ops). A query for the location of an actor is answered when the
 * actor is ALIVE or DEAD. */
#pragma once
#include "base/list.h"
#include "base/map.h"
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

enum { NODE_ACTORS_DEAD_MAX = 256, NODE_ACTOR_TRIES_MAX = 10 };

typedef struct node_actor {
    list place;                             /* among all, in the order they came */
    struct node_actor *same_id, *same_name; /* the next one under the same key of that map */
    mr_actor id;
    char class_name[256], name[256], name_space[256];
    uint32_t program; /* whose it is */
    bool detached;    /* outlives it */
    node_actor_state state;
    uint32_t restarts;
    uint32_t threads; /* that run its methods */
    resources need;
    value_pack *args;       /* NULL: it will not be created again */
    struct node_kept *kept; /* what they need, the host's */
    uint8_t *about;         /* owned: what its creator says of it */
    size_t about_size;
    uint64_t ticket;  /* while PENDING */
    uint64_t process; /* while STARTING and ALIVE */
    uint32_t starts;  /* how often it was started: tells an old creation's answer from a new one's */
    uint32_t tries;   /* in a row that could not even begin */
    failure *dead;
    list waiting;   /* of who wants to know where it is */
    list holds;     /* of processes that have a handle */
    uint64_t keeps; /* as what it holds the actors whose handles are among its arguments */
} node_actor;

typedef struct node_actor_ops {
    uint64_t (*request)(void *host, node_actor *actor);                /* a worker for it; gives the ticket */
    void (*forget)(void *host, node_actor *actor, uint64_t ticket);    /* not needed any more */
    void (*start)(void *host, node_actor *actor);                      /* create it in actor->process */
    void (*kill)(void *host, uint64_t process);                        /* end that worker */
    void (*dismiss)(void *host, uint64_t process);                     /* it is to come to its end by itself, soon */
    void (*tell)(void *host, rpc_call_token token, node_actor *actor); /* it is ALIVE or DEAD */
    void (*died)(void *host, node_actor *actor);                       /* after everybody was told */
    void (*let_go)(void *host, struct node_kept *kept);                /* its arguments are not needed any more */
} node_actor_ops;

typedef struct node_actors {
    list list; /* of those that are not dead */
    list dead; /* the others, the first to be forgotten in front */
    uint32_t dead_count;
    uint64_t keepers;          /* that there were */
    map holders;               /* process → what it holds */
    map by_id, by_name;        /* keys are hashes: chains of actors */
    map by_ticket, by_process; /* of those that wait for a worker, and of those that have one */
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
    struct node_kept *kept; /* what they need: the actor's from then on, if it is created */
} node_actor_plan;

MR_MUST mr_status node_actor_create(node_actors *actors, const node_actor_plan *plan); /* MR_EXISTS */
node_actor *node_actor_find(node_actors *actors, mr_actor id);
node_actor *node_actor_named(node_actors *actors, span name_space, span name); /* one that is not dead */
node_actor *node_actor_ticket(node_actors *actors, uint64_t ticket);
node_actor *node_actor_in(node_actors *actors, uint64_t process); /* NULL: that process is none */

/* A process has a handle, or has no more. Holding twice is holding once. */
void node_actor_hold(node_actors *actors, node_actor *actor, uint64_t process);
void node_actor_drop(node_actors *actors, node_actor *actor, uint64_t process);

void node_actor_granted(node_actors *actors, node_actor *actor, uint64_t process);
void node_actor_created(node_actors *actors, mr_actor id, uint32_t start,
                        failure *failed); /* NULL: it lives; borrowed */
/* In `start`, or after it: its worker could not be told. It gets another one. */
void node_actor_not_told(node_actors *actors, mr_actor id, uint32_t start);
void node_actor_process_gone(node_actors *actors, uint64_t process, const cause *why);
void node_actor_kill(node_actors *actors, node_actor *actor);
/* Its process ends, which is told as any other death of it: node_actor_process_gone. */
void node_actor_restart(node_actors *actors, node_actor *actor);
/* No worker of that program will come: those of its actors that wait for one die. */
void node_actors_give_up(node_actors *actors, uint32_t program, const char *why);
/* The program is over: its actors die, but for the detached ones. */
void node_actors_evict(node_actors *actors, uint64_t group,
                       const char *why); /* those that live in that group, or will */
void node_actors_end_program(node_actors *actors, uint32_t program);
void node_actor_where(node_actors *actors, node_actor *actor, rpc_call_token token);
