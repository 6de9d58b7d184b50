/* context.h — a process of the runtime on a real machine: its port, and who drives it.
 *
 * What it asks and answers is its client (core_worker.h); everything of that is done with the lock of the poller held
 * (context_lock). A thread that waits for something drives the port meanwhile, or sleeps until the one that drives has
 * its answer (net/shm/poller.h). While no thread of the program waits, the progress thread drives (progress_thread.h).
 */
#pragma once
#include <stdatomic.h>

#include "miniray/runtime.h"
#include "net/shm/poller.h"
#include "net/shm/shm_transport.h"
#include "runtime/client/core_worker.h"
#include "runtime/common/gpus.h"
#include "runtime/common/session_dir.h"
#include "runtime/process/describe.h"
#include "runtime/process/progress_thread.h"
#include "runtime/refs/attachment.h"

/* In this order; context.c has the diagram. */
typedef enum context_state {
    CONTEXT_FORKED,   /* this process is a forked child, whose copy of the context has no part in the runtime */
    CONTEXT_JOINING,  /* until the node has answered; the opening thread alone knows the context */
    CONTEXT_OPEN,     /* calls are made and served; the progress thread runs */
    CONTEXT_CLOSING,  /* threads that wait leave with MR_CLOSED; the node still answers */
    CONTEXT_STOPPING, /* the progress thread ends, then everything under way */
    CONTEXT_DETACHED, /* the port is closed or being closed: no messages, no waiting */
    CONTEXT_CLOSED,   /* what remains are views of values; the last one that is released frees the context */
} context_state;

struct mr_context {
    poller poller;
    _Atomic uint32_t *state; /* context_state, in a page that a forked child finds zeroed; changed with the lock held */
    uintptr_t owner;         /* the thread that began: a program mostly calls from there, and a worker serves there */
    env env;
    rng rng;
    shm_transport *transport;
    core_worker_host host;
    core_worker worker;
    list store_server_waits; /* line of threads that wait for the store server to answer */
    list groups;             /* of mr_batch: not submitted yet */
    list peers;              /* of guest: what higher layers keep with it */
    list notices;            /* of notice: due, called by the progress thread */
    list watches; /* of futures that the program wants to be told of: the progress thread drives at once (callback.c) */
    slab views;   /* what values of mr_get hold; see future_api.c */
    size_t view_count;
    bool kept;                /* never freed: threads waited when it closed, and may still release what they have */
    mr_context *kept_before;  /* the next of those */
    uint32_t waiting;         /* threads that wait for something to come */
    _Atomic uint32_t packing; /* and those that pack a value outside of the lock */
    uint64_t submitted;       /* tasks and calls */
    list idle;                /* line of threads of a worker that wait for work */
    uint32_t blocked;         /* threads of a worker that wait in mr_get, for long */
    bool serving;             /* a worker's first thread is there */
    void (*loop)(void *user); /* of an actor: waits for calls instead of us (mr_set_loop); NULL: none */
    void *loop_user;
    bool loop_woken;          /* somebody said mr_serve_wake */
    bool makes_way;           /* who waits sleeps at once, until something has come (mr_yield_cpu) */
    bool lends;               /* the node was told that all of them do */
    uint64_t placements;      /* groups that it has made */
    char gpus[GPUS_TEXT_MAX]; /* that a worker has, as WORKER_GPUS said */
    description *description; /* of what it does, under way; NULL: none */
    mr_interrupt_fn *give_up; /* asked while somebody waits for memory; NULL: nobody is */
    void *give_up_user;
    int64_t asked_us;   /* when it was, last */
    mr_print_fn *print; /* shows what workers print; NULL: nobody but us */
    void *print_user;

    progress_thread progress; /* from CONTEXT_OPEN to CONTEXT_STOPPING */

    char address[SESSION_DIR_MAX + 8]; /* of the node */
    int lifeline_fd;                   /* of a private node: it ends when this closes; -1 */
    int node_pid;
    session_dir run; /* of a private node */
};

static inline void context_lock(mr_context *mr) { poller_lock(&mr->poller); }
static inline void context_unlock(mr_context *mr) { poller_unlock(&mr->poller); }
/* Unlocks after the last step of a function, and returns the status of that step. */
static inline mr_status context_done(mr_context *mr, mr_status status) {
    context_unlock(mr);
    return status;
}
static inline context_state context_state_of(const mr_context *mr) {
    return (context_state)atomic_load_explicit(mr->state, memory_order_relaxed);
}

/* For functions that cannot fail: false: there is no context, or it is another process's, and nothing is done. */
static inline bool context_is_ours(const mr_context *mr) {
    return mr != NULL && context_state_of(mr) != CONTEXT_FORKED;
}
/* Checks the arguments of a public function. MR_INVALID, with the reason: there is no context, it is another process's,
 * or `out`, where the answer goes, is NULL (a function without an answer passes any pointer). */
MR_MUST mr_status context_refuse(const mr_context *mr);
static inline mr_status context_check(const mr_context *mr, const void *out) {
    return context_is_ours(mr) && out != NULL ? MR_OK : context_refuse(mr);
}

typedef struct context_entry { /* who joins */
    wire_role role;
    span about;         /* as in core_worker_host; borrowed for the call */
    mr_print_fn *print; /* as in mr_options */
    void *print_user;
} context_entry;

/* Joins the node whose broker is at `path`. */
MR_MUST mr_status context_open(const char *path, const context_entry *entry, mr_context **out);
/* Enters CONTEXT_CLOSING: threads that wait are woken, and have left when this returns. */
void context_see_others_out(mr_context *mr);
/* Enters CONTEXT_CLOSED. Values that the program still has stay as they are. `alone`: the node and all its processes
 * have ended. */
void context_close(mr_context *mr, bool alone);
void context_left(mr_context *mr); /* locked; unlocks: a view was released, perhaps the last one of a closed context */

/* Locked: a thread of a worker begins (+1) or ends (-1) to wait for long, or (0) has begun a call: when all that run
 * wait, the node may lend the slot to others. */
__attribute__((noinline)) void context_blocked(mr_context *mr, int change);

/* Locked: waits until the waiter is finished. MR_TIMEOUT; MR_CLOSED and the like when the node is gone. */
MR_MUST mr_status context_wait(mr_context *mr, poller_waiter *waiter, int64_t timeout_us);
/* The same for a call of the program. MR_CLOSED also when the context closes. A worker that waits long lends its slot
 * meanwhile, so that the awaited task can run. */
MR_MUST mr_status context_wait_lending(mr_context *mr, poller_waiter *waiter, int64_t timeout_us);
/* Likewise for an object, which the caller holds, to be there (future_api.c). */
MR_MUST mr_status context_wait_object(mr_context *mr, object *object, int64_t timeout_us);
/* Locked: waits as context_wait in a line of threads; context_wake ends the wait of the first or of all in it. */
MR_MUST mr_status context_wait_in(mr_context *mr, list *line, int64_t timeout_us);
void context_wake(mr_context *mr, const list *line, bool all);

void context_views_init(mr_context *mr); /* future_api.c's own part of it */

/* Locked: one look at what has come, if nobody drives. For programs that submit and never wait. */
void context_look(mr_context *mr);

/* For the thread that drives: one look at what has come; whether anything had. */
static inline bool context_poll(mr_context *mr) {
    if (shm_transport_poll(mr->transport) == 0) return false;
    mr->progress.activity++;
    mr->makes_way = false;
    return true;
}
/* For the thread that drives: waits until something may have come. *deadline_us is 0 at first, and computed from the
 * timeout when it is needed. False: the deadline has passed. */
bool context_await_more(mr_context *mr, int64_t timeout_us, int64_t *deadline_us);

/* Locked: drives for a moment, after MR_BUSY. */
void context_pause(mr_context *mr);

/* Locked: asks the node and waits for the answer, but no longer than this (< 0: without a limit). The answer is copied
 * to `out` (at most `room` bytes); `size` may be NULL. */
MR_MUST mr_status context_call_node(mr_context *mr, wire_method method, span fields, int64_t timeout_us, void *out,
                                    size_t room, size_t *size);
