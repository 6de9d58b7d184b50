/* core_worker.h — a process of the runtime: its requests to other processes, and its answers to theirs.
 *
 * It has a link to the node and routes to other processes, the objects, tasks and actors of its program, and in a
 * worker the requests of others. Pure over `rpc`: no thread, no clock but the env's, nothing of the system. So it
 * runs over shared memory, where context.h drives it with the lock held, and in the simulator.
 *
 *  core_worker_start ──► link to the node opens ──► NODE_JOIN ──► joined ──► over
 *                           └───────────────────────┴──────────────────────┘
 * The client is over when the node has ended or has refused it: pending and later requests fail. */
#pragma once
#include "net/rpc/rpc.h"
#include "runtime/client/actor.h"
#include "runtime/client/borrow_rpc.h"
#include "runtime/client/event_writer.h"
#include "runtime/client/peer_link.h"
#include "runtime/client/placement_cache.h"
#include "runtime/client/result_holds.h"
#include "runtime/client/stream_reader.h"
#include "runtime/client/task.h"
#include "runtime/common/name_table.h"
#include "runtime/refs/actor_handle.h"
#include "runtime/refs/attachment.h"
#include "runtime/refs/object.h"
#include "runtime/refs/reply_queue.h"
#include "runtime/refs/store_provider.h"
#include "runtime/refs/wire.h"

typedef struct worker worker;

/* Who drives a client. Borrowed for its life; all are called from inside the client's functions and events. */
typedef struct core_worker_host {
    void *context;
    struct mr_context *mr;                         /* what bodies are handed; NULL where nobody asks for it */
    const char *node;                              /* the node's address */
    span about;                                    /* of a driver: its program, the last fields of NODE_JOIN */
    uint32_t cpus;                                 /* that processes of this machine share; 0: nobody counts them */
    void (*see_gpus)(void *context, span devices); /* as WORKER_GPUS; NULL: there are none */
    /* What workers of this program have printed: answers the token when it was shown; NULL: it is not. */
    void (*print)(void *context, std_stream std_stream, span text, rpc_call_token token);
    /* Bytes that this process has printed there; NULL: nobody counts them. */
    uint64_t (*printed)(void *context, std_stream std_stream);
    /* true: inspect_query_tell follows; NULL: it has no word for it */
    bool (*describe)(void *context, rpc_call_token token);
    peer_link_address_fn *address;                        /* of any other process */
    void (*stirred)(void *context);                       /* something was started that somebody must look after */
    void (*called)(void *context);                        /* the worker has something to do, or is over */
    void (*end)(void *context);                           /* ends this process at once; NULL: nobody asks for that */
    void (*cancelled)(void *context, mr_call *call);      /* a body that wants to hear of it; NULL: none does */
    mr_status (*wait)(void *context, int64_t timeout_us); /* as store_provider_host; NULL: nobody waits */
    void (*answered)(void *context);                      /* likewise */
    /* For bodies, which run without the lock: taken and let go around what needs it. NULL: there is one thread. */
    void (*lock)(void *context);
    void (*unlock)(void *context);
    mr_status (*check)(void *context); /* MR_INVALID: a forked child, which has no part in the runtime; NULL: none is */
} core_worker_host;

/* The side of a worker process that runs what others ask for (worker.h). All are called from inside the client's
 * functions and events. */
typedef struct core_worker_worker_ops {
    void (*destroy)(worker *worker);
    void *(*body_room)(worker *worker, uint64_t size); /* as wire_body_room */
    void (*request)(worker *worker, const rpc_call_request *request);
    void (*cancel)(worker *worker, rpc_call_token token);
    void (*spare_children)(worker *worker, rpc_call_token token); /* when it is cancelled, what it submitted goes on */
    /* A method that the actor in this process calls itself: actors_answer_here follows, unless `cancel` came first with
     * this number and no link. The request is borrowed for the call. */
    mr_status (*call_here)(worker *worker, const invocation *invocation, mr_actor actor, uint64_t number);
    void (*room)(worker *worker);
    void (*link_closed)(worker *worker, link_id link);
    void (*over)(worker *worker); /* the node is gone: stop serving */
    bool (*is_actor)(const worker *worker);
    size_t (*queued)(const worker *worker); /* calls that were not begun; counts them */
} core_worker_worker_ops;

typedef struct core_worker {
    const env *env;               /* borrowed */
    const core_worker_host *host; /* borrowed */
    rpc *rpc;                     /* owned */
    peer_links links;
    name_table names;
    objects objects;
    store_provider provider;
    borrow_rpc borrow_rpc;
    actor_handles handles;
    result_holds holds;
    tasks tasks;
    actors actors;
    stream_readers readers;
    placement_cache cache;
    worker *worker; /* owned; NULL in a driver; worker_attach sets it between core_worker_init and core_worker_start */
    const core_worker_worker_ops *worker_ops;
    reply_queue replies; /* what was asked about us and found no room */
    list deferrals;      /* likewise what we tell the node; owned */
    event_writer writer; /* what the worker ran lately */

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
} core_worker;

/* env->transport may be filled in afterwards: it wants client->calls as its context and `rpc_events`. */
void core_worker_init(core_worker *worker, const env *env, const core_worker_host *host, wire_role role, int pid);
/* Begins to join. The process is our own id among the others; the arena (borrowed) is where objects lie, NULL: none.
 * Then joined or over is set by and by. */
MR_MUST mr_status core_worker_start(core_worker *worker, uint64_t process, const arena *arena);
/* Everything under way fails with this, and whatever comes later. A reference is taken over. */
void core_worker_end(core_worker *worker, failure *why);
/* Before the transport is closed: lets go of shared memory, but for what values show. As store_provider_close. */
void core_worker_leave(core_worker *worker, bool alone);
/* The transport is closed: every link has ended. */
void core_worker_fini(core_worker *worker);

/* Deadlines and idle leases. Returns when it wants to be called again. */
int64_t core_worker_tick(core_worker *worker, int64_t now_us);
/* What time it is, to a few milliseconds, without looking at the clock. */
static inline int64_t core_worker_about_now(core_worker *worker) {
    return worker->now_us != 0 ? worker->now_us : (worker->now_us = clock_now_us(worker->env->clock));
}
/* For packing values outside of the lock (attachment.h). */
static inline attachment_packer core_worker_packer(core_worker *worker) {
    const core_worker_host *host = worker->host;
    return (attachment_packer){.objects = &worker->objects,
                               .may_wait = host->lock != NULL,
                               .lock = host->lock,
                               .unlock = host->unlock,
                               .context = host->context};
}
static inline void core_worker_stir(core_worker *worker) { worker->host->stirred(worker->host->context); }

/* As peer_links_use; when it is over, that. */
MR_MUST mr_status core_worker_use(core_worker *worker, uint64_t process, peer_link_user *user, peer_link **out);

/* Asks the node, behind what it was told. MR_BUSY: again after some time. When it is over, that. */
MR_MUST mr_status core_worker_ask_node(core_worker *worker, wire_method method, const wire_message *message,
                                       wire_call *call);
/* The same for what needs no answer: said in order, now or when there is room; a node that is gone is found out
 * otherwise. */
void core_worker_tell_node(core_worker *worker, wire_method method, span fields);

/* Why a call that was lost with its link failed: with the node, or else `code` and `message` with the cause, of which a
 * reference is taken over. */
failure *core_worker_lost(core_worker *worker, failure *cause, mr_status code, const char *message, const char *origin);
