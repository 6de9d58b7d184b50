/* client.h — a process of the runtime: its requests to other processes, and its answers to theirs.
 *
 * It has a link to the node and routes to other processes, the objects, tasks and actors of its program, and in a
 * worker the requests of others. Pure over `calls`: no thread, no clock but the env's, nothing of the system. So it
 * runs over shared memory, where context.h drives it with the lock held, and in the simulator.
 *
 *   client_start ──► link to the node opens ──► NODE_JOIN ──► joined ──► over
 *                           └───────────────────────┴──────────────────────┘
 * The client is over when the node has ended or has refused it: pending and later requests fail. */
#pragma once
#include "net/call.h"
#include "runtime/actor.h"
#include "runtime/flow.h"
#include "runtime/handle.h"
#include "runtime/late.h"
#include "runtime/look/diary.h"
#include "runtime/names.h"
#include "runtime/placed.h"
#include "runtime/refs/cargo.h"
#include "runtime/refs/lender.h"
#include "runtime/refs/object.h"
#include "runtime/refs/shelf.h"
#include "runtime/refs/transit.h"
#include "runtime/route.h"
#include "runtime/task.h"
#include "runtime/wire.h"

typedef struct worker worker;

/* Who drives a client. Borrowed for its life; all are called from inside the client's functions and events. */
typedef struct client_host {
    void *context;
    struct mr_context *mr;                         /* what bodies are handed; NULL where nobody asks for it */
    const char *node;                              /* the node's address */
    span about;                                    /* of a driver: its program, the last fields of NODE_JOIN */
    uint32_t cpus;                                 /* that processes of this machine share; 0: nobody counts them */
    void (*see_gpus)(void *context, span devices); /* as WORKER_GPUS; NULL: there are none */
    /* What workers of this program have printed: answers the token when it was shown; NULL: it is not. */
    void (*print)(void *context, outlet outlet, span text, call_token token);
    /* Bytes that this process has printed there; NULL: nobody counts them. */
    uint64_t (*printed)(void *context, outlet outlet);
    bool (*describe)(void *context, call_token token);    /* true: look_tell follows; NULL: it has no word for it */
    route_address_fn *address;                            /* of any other process */
    void (*stirred)(void *context);                       /* something was started that somebody must look after */
    void (*called)(void *context);                        /* the worker has something to do, or is over */
    void (*end)(void *context);                           /* ends this process at once; NULL: nobody asks for that */
    void (*cancelled)(void *context, mr_call *call);      /* a body that wants to hear of it; NULL: none does */
    mr_status (*wait)(void *context, int64_t timeout_us); /* as shelf_host; NULL: nobody waits */
    void (*answered)(void *context);                      /* likewise */
    /* For bodies, which run without the lock: taken and let go around what needs it. NULL: there is one thread. */
    void (*lock)(void *context);
    void (*unlock)(void *context);
    mr_status (*check)(void *context); /* MR_INVALID: a forked child, which has no part in the runtime; NULL: none is */
} client_host;

/* The side of a worker process that runs what others ask for (worker.h). All are called from inside the client's
 * functions and events. */
typedef struct client_worker_ops {
    void (*destroy)(worker *worker);
    void *(*body_room)(worker *worker, uint64_t size); /* as wire_body_room */
    void (*request)(worker *worker, const call_request *request);
    void (*cancel)(worker *worker, call_token token);
    void (*spare_children)(worker *worker, call_token token); /* when it is cancelled, what it submitted goes on */
    /* A method that the actor in this process calls itself: actors_answer_here follows, unless `cancel` came first with
     * this number and no link. The request is borrowed for the call. */
    mr_status (*call_here)(worker *worker, const request *request, mr_actor actor, uint64_t number);
    void (*room)(worker *worker);
    void (*link_closed)(worker *worker, link_id link);
    void (*over)(worker *worker); /* the node is gone: stop serving */
    bool (*is_actor)(const worker *worker);
    size_t (*queued)(const worker *worker); /* calls that were not begun; counts them */
} client_worker_ops;

typedef struct client {
    const env *env;          /* borrowed */
    const client_host *host; /* borrowed */
    calls *calls;            /* owned */
    routes routes;
    names names;
    objects objects;
    shelf shelf;
    lender lender;
    handles handles;
    transit transit;
    tasks tasks;
    actors actors;
    flows flows;
    placed placed;
    worker *worker; /* owned; NULL in a driver; worker_attach sets it between client_init and client_start */
    const client_worker_ops *worker_ops;
    late late;   /* what was asked about us and found no room */
    list tales;  /* likewise what we tell the node; owned */
    diary diary; /* what the worker ran lately */

    link_id node;
    wire_call joining;
    bool joined;
    failure *over;          /* why nothing goes any more; NULL: all is well */
    uint32_t workers;       /* tasks that the machine runs at once; from the node */
    uint64_t run;           /* of the body that runs in this process, if it is alone; 0: none, or several */
    uint64_t cancelled_run; /* the last run that was cancelled: what it submits from then on is, too; 0: none */
    uint32_t memory_waits;  /* threads that wait for the store: for memory, or for something to come from disk */
    int64_t now_us;         /* of the last tick, which comes every few milliseconds; 0: nobody ticks */
    uint32_t program;       /* the node's number for ours */
    wire_role role;
    int pid;
    char origin[96]; /* "process 4711": where failures happened */
} client;

/* env->transport may be filled in afterwards: it wants client->calls as its context and `calls_events`. */
void client_init(client *client, const env *env, const client_host *host, wire_role role, int pid);
/* Begins to join. The process is our own id among the others; the arena (borrowed) is where objects lie, NULL: none.
 * Then joined or over is set by and by. */
MR_MUST mr_status client_start(client *client, uint64_t process, const arena *arena);
/* Everything under way fails with this, and whatever comes later. A reference is taken over. */
void client_end(client *client, failure *why);
/* Before the transport is closed: lets go of shared memory, but for what values show. As shelf_close. */
void client_leave(client *client, bool alone);
/* The transport is closed: every link has ended. */
void client_fini(client *client);

/* Deadlines and idle leases. Returns when it wants to be called again. */
int64_t client_tick(client *client, int64_t now_us);
/* What time it is, to a few milliseconds, without looking at the clock. */
static inline int64_t client_about_now(client *client) {
    return client->now_us != 0 ? client->now_us : (client->now_us = clock_now_us(client->env->clock));
}
/* For packing values outside of the lock (cargo.h). */
static inline cargo_packer client_packer(client *client) {
    const client_host *host = client->host;
    return (cargo_packer){.objects = &client->objects,
                          .may_wait = host->lock != NULL,
                          .lock = host->lock,
                          .unlock = host->unlock,
                          .context = host->context};
}
static inline void client_stir(client *client) { client->host->stirred(client->host->context); }

/* As routes_use; when it is over, that. */
MR_MUST mr_status client_use(client *client, uint64_t process, route_user *user, route **out);

/* Asks the node, behind what it was told. MR_BUSY: again after some time. When it is over, that. */
MR_MUST mr_status client_ask_node(client *client, wire_method method, const wire_message *message, wire_call *call);
/* The same for what needs no answer: said in order, now or when there is room; a node that is gone is found out
 * otherwise. */
void client_tell_node(client *client, wire_method method, span fields);

/* Why a call that was lost with its link failed: with the node, or else `code` and `message` with the cause, of which a
 * reference is taken over. */
failure *client_lost(client *client, failure *cause, mr_status code, const char *message, const char *origin);
