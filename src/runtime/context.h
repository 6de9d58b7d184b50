/* context.h — a process of the runtime: its port, its calls, its objects, and who drives.
 *
 * Everything here is done with the lock of the baton held (context_lock). A thread that waits for something drives the
 * port meanwhile, or sleeps until the one that drives has its answer (net/shm/baton.h). When nobody waits but something
 * is under way, a helper thread drives: it looks every HELPER_TICK_US whether anybody does, and sleeps for good when
 * nothing is under way. So results arrive, dependent tasks start and links are answered while the program computes. */
#pragma once
#include <pthread.h>

#include "miniray/runtime.h"
#include "net/call.h"
#include "net/shm/baton.h"
#include "net/shm/port.h"
#include "runtime/actor.h"
#include "runtime/object.h"
#include "runtime/task.h"
#include "runtime/wire.h"

typedef struct context_peer context_peer;

/* Who uses a link to another process. */
typedef struct context_user {
    list place;
    void (*opened)(struct context_user *user);
    void (*closed)(struct context_user *user, const cause *why); /* removed before; the last call */
} context_user;

struct context_peer { /* another process, and our link to it */
    list place;
    uint64_t process;
    link_id link;
    bool open;
    list users;
};

typedef struct worker worker;

struct mr_context {
    baton baton;
    env env;
    rng rng;
    port *port;
    calls *calls;
    objects objects;
    tasks tasks;
    actors actors;
    list peers;

    link_id node;
    bool node_open;
    failure *over; /* why nothing goes any more; NULL: all is well */

    worker *worker;   /* NULL in a driver */
    char origin[96];  /* "process 4711 (worker)" */
    uint32_t workers; /* tasks that the machine runs at once */

    pthread_t helper;
    bool has_helper, stopping;
    _Atomic uint32_t helper_word; /* bumped to wake it */
    _Atomic uint32_t helper_parked;
    uint64_t activity; /* things that happened; the helper parks when it stands still */

    int lifeline_fd; /* of a private node: it ends when this closes; -1 */
    int node_pid;
    char folder[128]; /* of a private node; "" */
};

static inline void context_lock(mr_context *mr) { baton_lock(&mr->baton); }
static inline void context_unlock(mr_context *mr) { baton_unlock(&mr->baton); }

/* Joins the node whose hub is at `path`. */
MR_MUST mr_status context_open(const char *path, const char *name, wire_role role, mr_context **out);
void context_close(mr_context *mr);

/* Locked: waits until the waiter is finished. MR_TIMEOUT; MR_CLOSED and the like when the node is gone. */
MR_MUST mr_status context_wait(mr_context *mr, baton_waiter *waiter, int64_t timeout_us);

/* Locked: something was started that somebody must look after. */
void context_stir(mr_context *mr);

/* Locked: uses the link to a process, opening it if there is none. MR_CLOSED, MR_BUSY. */
MR_MUST mr_status context_use(mr_context *mr, uint64_t process, context_user *user, context_peer **out);
void context_leave(context_user *user);
/* In `closed`: the link never opened, though the process may well live. Asking again would not help. */
bool context_unreachable(const context_peer *peer, const cause *why);

/* Locked: why a call that was lost with its link failed: with the node, or else `code` and `message` with the cause, of
 * which a reference is taken over. */
failure *context_lost(mr_context *mr, failure *cause, mr_status code, const char *message, const char *origin);

/* Locked: asks the node. */
MR_MUST mr_status context_ask_node(mr_context *mr, wire_method method, const wire_message *message, wire_call *call);
/* The same for calls whose answer nobody needs; a node that is gone is found out otherwise. */
void context_tell_node(mr_context *mr, wire_method method, span fields);
/* The same, waiting for the answer, which is copied (at most `size` bytes). */
MR_MUST mr_status context_call_node(mr_context *mr, wire_method method, const wire_message *message, void *answer,
                                    size_t size, size_t *answer_size);
