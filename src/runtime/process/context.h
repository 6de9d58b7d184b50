/* context.h — context: a process of the runtime on a real machine, with its transport, lock and threads.
 *
 * The core worker (core_worker.h) sends and answers requests, always with the poller's lock held (context_lock). A
 * waiting thread drives the transport, or sleeps until the driving thread has its answer (net/shm/poller.h). While no
 * thread of the program waits, the progress thread drives (progress_thread.h). */
#pragma once
#include <stdatomic.h>

#include "miniray/runtime.h"
#include "net/shm/poller.h"
#include "net/shm/shm_transport.h"
#include "runtime/client/core_worker.h"
#include "runtime/common/gpus.h"
#include "runtime/common/session_dir.h"
#include "runtime/process/describe.h"
#include "runtime/process/node_end.h"
#include "runtime/process/progress_thread.h"
#include "runtime/refs/attachment.h"

/* States in their order; context.c has the diagram. */
typedef enum context_state {
    CONTEXT_FORKED,   /* a forked child, whose copy of the context is unusable */
    CONTEXT_JOINING,  /* until the node has answered; only the opening thread has the context */
    CONTEXT_OPEN,     /* calls are made and served; the progress thread runs */
    CONTEXT_CLOSING,  /* threads that wait leave with MR_CLOSED; the node still answers */
    CONTEXT_STOPPING, /* the progress thread ends, then all pending calls */
    CONTEXT_DETACHED, /* the transport is closed or being closed: no messages, no waiting */
    CONTEXT_CLOSED,   /* only views of values remain; the release of the last one frees the context */
} context_state;

typedef struct context_interrupt { /* mr_on_interrupt; the fields are the thread's, but for `due`, which others set */
    int fd;                        /* -1: none */
    mr_interrupt_fn *fn;
    void *user;
    uintptr_t thread;      /* whose waits are interrupted; 0: none */
    poller_waiter *waiter; /* of its present wait; NULL: it does not wait */
    bool due;              /* the descriptor was readable, and fn was not called yet */
    bool is_resumed;       /* the present wait continues one in which fn was called */
    bool is_lent;          /* the interrupted wait lent the worker's resources, and still does */
    uint64_t event;        /* of that wait in the event ring */
    int64_t left_us;       /* rest of the timeout of the interrupted wait; < 0: no limit */
    int64_t waited_us;     /* by the present call before its last interrupt */
} context_interrupt;

struct mr_context {
    poller poller;
    _Atomic uint32_t *state; /* context_state, in a page that a forked child finds zeroed; changed with the lock held */
    uintptr_t owner; /* the opening thread: most calls of a program come from it, and a worker runs its calls in it */
    env env;
    rng rng;
    shm_transport *transport;
    core_worker_host host;
    core_worker worker;
    list store_server_waits; /* queue of threads that wait for the store server */
    list groups;             /* elements: mr_batch, not submitted yet */
    list peers;              /* elements: context_extension, data of higher layers */
    list notices;            /* elements: callback, due, called by the progress thread */
    list watches;            /* futures with a callback: the progress thread drives at once (callback.c) */
    slab views;              /* records held by values of mr_get; see future_api.c */
    size_t view_count;
    bool kept;                /* never freed: threads waited when it closed, and may still release values */
    mr_context *kept_before;  /* next context that is kept */
    uint32_t waiting;         /* threads that wait for a message */
    _Atomic uint32_t packing; /* threads that pack a value without the lock */
    uint64_t submitted;       /* number of submitted tasks and calls */
    list idle;                /* queue of worker threads that wait for work */
    uint32_t blocked;         /* worker threads that wait long in mr_get */
    bool serving;             /* a worker's first thread has started */
    bool drains;              /* a worker that leaves waits until it is not needed (worker_loop_out) */
    void (*loop)(void *user); /* event loop of an actor, which waits for calls (mr_set_loop); NULL: none */
    void *loop_user;
    bool loop_woken;          /* mr_serve_wake was called */
    bool makes_way;           /* waiting threads sleep at once, until a message arrives (mr_yield_cpu) */
    bool lends;               /* the node was informed that all running threads wait */
    bool output_lost;         /* the node was informed that this worker cannot write its output */
    uint64_t placements;      /* placement groups created */
    char gpus[GPUS_TEXT_MAX]; /* GPUs of a worker, from WORKER_GPUS */
    description *description; /* running description hook; NULL: none */
    mr_interrupt_fn *give_up; /* called while a thread waits for memory; NULL: none */
    void *give_up_user;
    int64_t asked_us; /* time of the last call of give_up */
    context_interrupt interrupt;
    mr_print_fn *print; /* shows worker output; NULL: written by this library */
    void *print_user;

    progress_thread progress; /* works from CONTEXT_OPEN to CONTEXT_STOPPING */

    char address[SESSION_DIR_MAX + 8]; /* address of the node */
    int lifeline_fd;                   /* lifeline of a private node, which ends when this is closed; -1: none */
    int node_pid;
    session_dir run; /* session directory of a private node */
    node_end end;    /* of a driver: facts for the error after the node's end */
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

/* For functions that cannot fail. False: there is no context, or it belongs to another process; the function does
 * nothing. */
static inline bool context_is_ours(const mr_context *mr) {
    return mr != NULL && context_state_of(mr) != CONTEXT_FORKED;
}
/* Checks the arguments of a public function. MR_INVALID, with the reason: there is no context, it belongs to another
 * process, or `out`, the place of the result, is NULL (a function without an answer passes any pointer). */
MR_MUST mr_status context_refuse(const mr_context *mr);
static inline mr_status context_check(const mr_context *mr, const void *out) {
    return context_is_ours(mr) && out != NULL ? MR_OK : context_refuse(mr);
}

typedef struct context_entry { /* parameters of a joining process */
    wire_role role;
    span about;         /* as in core_worker_host; borrowed for the call */
    mr_print_fn *print; /* as in mr_options */
    void *print_user;
} context_entry;

/* Joins the node whose broker's socket is at `path`. */
MR_MUST mr_status context_open(const char *path, const context_entry *entry, mr_context **out);
/* Enters CONTEXT_CLOSING: threads that wait are woken, and have left when this returns. `keeps`: the context is never
 * freed if there were such threads, since they may still use it. */
void context_see_others_out(mr_context *mr, bool keeps);
/* Enters CONTEXT_CLOSED. Values that the program still has stay readable. `alone`: the node and all its processes have
 * ended. */
void context_close(mr_context *mr, bool alone);
void context_left(mr_context *mr); /* locked; unlocks: a view was released, perhaps the last one of a closed context */

/* Locked: a worker thread begins (+1) or ends (-1) a long wait, or (0) has begun a call: when all running threads wait,
 * the node may grant the worker's resources to others. */
__attribute__((noinline)) void context_blocked(mr_context *mr, int change);

/* Locked: waits until the waiter is finished. MR_TIMEOUT; MR_CLOSED or a similar status when the node is gone. */
typedef mr_status context_wait_fn(mr_context *mr, poller_waiter *waiter, int64_t timeout_us);
MR_MUST mr_status context_wait(mr_context *mr, poller_waiter *waiter, int64_t timeout_us);
/* The same for a call of the program. MR_CLOSED also when the context closes. A worker that waits long releases its
 * resources meanwhile, so that the awaited task can run. */
MR_MUST mr_status context_wait_lending(mr_context *mr, poller_waiter *waiter, int64_t timeout_us);
/* The same for a call that context_resume repeats. CONTEXT_INTERRUPTED: without an error text. */
MR_MUST mr_status context_wait_answering(mr_context *mr, poller_waiter *waiter, int64_t timeout_us);
#define CONTEXT_INTERRUPTED ((mr_status)-1)
/* Unlocked, after a step of a public function has returned CONTEXT_INTERRUPTED: calls the function of mr_on_interrupt
 * and repeats the step, with the lock, until it returns something else. MR_CANCELLED: the function ended the wait; the
 * context may be gone. */
typedef mr_status context_step_fn(mr_context *mr, void *what, int64_t timeout_us);
MR_MUST mr_status context_resume(mr_context *mr, context_step_fn *step, void *what, int64_t timeout_us);
int64_t
context_waited_us(const mr_context *mr); /* time before the last interrupt, part of the timeout in error texts */
/* Waits as context_wait_answering until an object, which the caller holds, is ready (future_api.c). */
MR_MUST mr_status context_wait_object(mr_context *mr, object *object, int64_t timeout_us);
/* Locked: waits as context_wait in a queue of threads; context_wake ends the wait of its first thread or of all. */
MR_MUST mr_status context_wait_in(mr_context *mr, list *line, int64_t timeout_us);
/* The same for a call that context_resume repeats; MR_CLOSED also when the context closes. */
MR_MUST mr_status context_wait_in_answering(mr_context *mr, list *line, int64_t timeout_us);
void context_wake(mr_context *mr, const list *line, bool all);

void context_views_init(mr_context *mr); /* initializes `views` (future_api.c) */
/* Locked: opens a value of a value pack, which the view holds (future_api.c). */
MR_MUST mr_status context_keep(mr_context *mr, value_pack *owner, uint32_t index, mr_value *out);
/* The object of a value that mr_get, mr_arg_keep or context_keep opened; borrowed from the value. NULL: another value,
 * or a part of one. */
object *context_object_of(const mr_value *value);

/* Locked: polls the transport once, if no thread drives. For programs that submit and never wait. */
void context_look(mr_context *mr);

/* For the driving thread: polls once; true: messages arrived. */
static inline bool context_poll(mr_context *mr) {
    if (shm_transport_poll(mr->transport) == 0) return false;
    mr->progress.activity++;
    mr->makes_way = false;
    return true;
}
/* For the driving thread: waits until a message may have arrived. *deadline_us is 0 at first, and computed from the
 * timeout when it is needed. False: the deadline has passed. */
bool context_await_more(mr_context *mr, int64_t timeout_us, int64_t *deadline_us);

/* Locked: waits for a millisecond, after MR_BUSY. */
void context_pause(mr_context *mr);

/* Locked: sends a request to the node and waits for the answer, at most `timeout_us` (< 0: no limit). The answer is
 * copied to `out` (at most `room` bytes); `size` may be NULL. */
MR_MUST mr_status context_call_node(mr_context *mr, wire_method method, span fields, int64_t timeout_us, void *out,
                                    size_t room, size_t *size);
/* The same for an answer without content, with a wait as context_wait_answering. */
MR_MUST mr_status context_call_node_answering(mr_context *mr, wire_method method, span fields, int64_t timeout_us);
