/* core_worker.h — core worker: a process's part of the runtime, its requests to other processes, and its answers to
 * theirs.
 *
 * The core worker has a link to the node and links to other processes, the objects, tasks and actors of its program,
 * and in a worker the requests of other processes. Pure over `rpc`: no thread, no clock but the env's, no system calls.
 * So the same code runs over shared memory, where context.h drives it with the lock held, and in the simulator.
 *
 *  core_worker_start ──► link to the node opens ──► NODE_JOIN ──► joined ──► over
 *                           └───────────────────────┴──────────────────────┘
 * The core worker is over when the node has ended or has refused it: pending and later requests fail. */
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
#include "runtime/common/session_dir.h"
#include "runtime/refs/actor_handle.h"
#include "runtime/refs/attachment.h"
#include "runtime/refs/object.h"
#include "runtime/refs/reply_queue.h"
#include "runtime/refs/store_provider.h"
#include "runtime/refs/wire.h"

typedef struct worker worker;

/* Host that drives a core worker. Borrowed as long as the core worker exists; its operations are called from the core
 * worker's functions and events. */
typedef struct core_worker_host {
    void *context;
    struct mr_context *mr;                         /* passed to bodies; may be NULL */
    const char *node;                              /* the node's address */
    span about;                                    /* last fields of a driver's NODE_JOIN: about its program */
    uint32_t cpus;                                 /* CPUs that the processes of this machine share; 0: not counted */
    void (*see_gpus)(void *context, span devices); /* sets the devices of WORKER_GPUS; NULL: ignored */
    /* Shows worker output of this program, and answers the token when the text was written; NULL: output is not
     * shown. */
    void (*print)(void *context, std_stream std_stream, span text, rpc_call_token token);
    /* Bytes that this process has written to the stream; NULL: not counted. */
    uint64_t (*printed)(void *context, std_stream std_stream);
    /* true: inspect_query_tell follows; NULL: no description */
    bool (*describe)(void *context, rpc_call_token token);
    peer_link_address_fn *address;                        /* address of any other process */
    void (*stirred)(void *context);                       /* called when pending work has to be driven */
    void (*called)(void *context);                        /* called when the worker has a call to run, or is over */
    void (*end)(void *context);                           /* ends this process at once; NULL: never requested */
    void (*cancelled)(void *context, mr_call *call);      /* a body with a callback was cancelled; NULL: no callbacks */
    mr_status (*wait)(void *context, int64_t timeout_us); /* as store_provider_host; NULL: no thread waits */
    void (*answered)(void *context);                      /* as store_provider_host */
    /* Lock and unlock, called around accesses by bodies, which run without the lock. NULL: there is one thread. */
    void (*lock)(void *context);
    void (*unlock)(void *context);
    /* Writes what else is known about the end of the node, to be appended to the cause; NULL: nothing. */
    void (*explain_end)(void *context, const cause *why, char *out, size_t size);
    mr_status (*check)(void *context); /* MR_INVALID: a forked child, which cannot use the runtime; NULL: no forks */
} core_worker_host;

/* Part of a worker process that runs requested tasks and methods (worker.h). All operations are called from the core
 * worker's functions and events. */
typedef struct core_worker_worker_ops {
    void (*destroy)(worker *worker);
    void *(*body_room)(worker *worker, uint64_t size); /* as wire_body_room */
    void (*request)(worker *worker, const rpc_call_request *request);
    void (*cancel)(worker *worker, rpc_call_token token);
    void (*spare_children)(worker *worker, rpc_call_token token); /* from a later cancellation */
    /* Queues a method that the actor in this process calls on itself: actors_answer_here follows, unless `cancel` is
     * called first with this number and no link. The invocation is borrowed for the call. */
    mr_status (*call_here)(worker *worker, const invocation *invocation, mr_actor actor, uint64_t number);
    void (*room)(worker *worker);
    void (*link_closed)(worker *worker, link_id link);
    void (*over)(worker *worker); /* the node is gone: no further call is run */
    bool (*is_actor)(const worker *worker);
    size_t (*queued)(const worker *worker); /* number of calls that have not begun */
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
    reply_queue replies;          /* answers for which a ring had no room: to queries, and about borrowed references */
    char folder[SESSION_DIR_MAX]; /* session directory of a standalone node; "": a private one */
    list deferrals;               /* messages to the node for which its ring had no room; owned */
    event_writer writer;          /* event ring of the calls that this process runs or submits */

    link_id node;
    wire_call joining;
    bool joined;
    failure *over;          /* why the core worker is over; NULL: it is not */
    uint32_t workers;       /* tasks that the machine runs concurrently; from the node */
    uint64_t run;           /* run number of the only running body; 0: none, or several */
    uint64_t cancelled_run; /* last cancelled run: its later submissions are cancelled, too; 0: none */
    uint32_t memory_waits;  /* threads that wait for the store: for memory, or for an object from disk */
    int64_t now_us;         /* time of the last tick, every few milliseconds; 0: no ticks */
    uint32_t program;       /* number of this program at the node */
    wire_role role;
    int pid;
    char origin[96]; /* "process 4711": origin of this process's failures */
} core_worker;

/* env->transport may be filled in afterwards; its context is the core worker's rpc, its events `rpc_events`. */
void core_worker_init(core_worker *worker, const env *env, const core_worker_host *host, wire_role role, int pid);
/* Begins to join. `process` is this process's id; `arena` (borrowed) contains the objects, NULL: none. Later `joined`
 * or `over` is set. */
MR_MUST mr_status core_worker_start(core_worker *worker, uint64_t process, const arena *arena);
/* Pending and later requests fail with `why`, a reference to which is taken over. */
void core_worker_end(core_worker *worker, failure *why);
/* Called before the transport is closed: releases shared memory, except memory of shown values. As
 * store_provider_close. */
void core_worker_leave(core_worker *worker, bool alone);
/* Called after the transport was closed: every link has ended. */
void core_worker_fini(core_worker *worker);

/* Handles deadlines and idle leases. Returns the time of the next tick. */
int64_t core_worker_tick(core_worker *worker, int64_t now_us);
/* Current time to a few milliseconds, without reading the clock. */
static inline int64_t core_worker_about_now(core_worker *worker) {
    return worker->now_us != 0 ? worker->now_us : (worker->now_us = clock_now_us(worker->env->clock));
}
/* Packer for values packed without the lock (attachment.h). */
static inline attachment_packer core_worker_packer(core_worker *worker) {
    const core_worker_host *host = worker->host;
    return (attachment_packer){.objects = &worker->objects,
                               .may_wait = host->lock != NULL,
                               .lock = host->lock,
                               .unlock = host->unlock,
                               .context = host->context};
}
static inline void core_worker_stir(core_worker *worker) { worker->host->stirred(worker->host->context); }

/* Uses a link as peer_links_use; fails with the cause when the core worker is over. */
MR_MUST mr_status core_worker_use(core_worker *worker, uint64_t process, peer_link_user *user, peer_link **out);

/* Sends a request to the node, after earlier messages. MR_BUSY: retry later. Fails with the cause when over. */
MR_MUST mr_status core_worker_ask_node(core_worker *worker, wire_method method, const wire_message *message,
                                       wire_call *call);
/* Sends a message without an answer to the node, in order, now or when there is room. The caller does not learn whether
 * the node has ended. */
void core_worker_tell_node(core_worker *worker, wire_method method, span fields);
