/* invocation.h — caller's record of a task or actor call, from its submission to its results: the part that both share.
 *
 *  invocation_init ──► arguments settled ── invocation_send ──► answered ──► request_end: the results are there
 *                          └──────────────────────────────────────────────┘
 *
 * It holds the objects that it will make, and a reference to its name. Records are recycled: invocation_init sets
 * everything. */
#pragma once
#include "runtime/client/arguments.h"
#include "runtime/client/peer_link.h"
#include "runtime/common/name_table.h"
#include "runtime/refs/wire.h"

struct core_worker;

typedef struct invocation invocation;

struct invocation {
    slab_place slot;
    wire_call call;
    list place; /* in whatever list its owner keeps it */
    struct core_worker *worker;
    interned_name *name; /* a reference */
    arguments arguments;
    object *result;   /* held: the first one */
    object **results; /* all of them, held, if there are several; owned */
    uint16_t returns;
    bool held;       /* in a group that was not submitted: it does not start */
    bool streams;    /* its result is a stream */
    list group;      /* in its group, or alone */
    uint64_t parent; /* the run of a body that made it (worker.h); 0: the program itself */
    int64_t since_us;
    const struct invocation_ops *ops;
};

typedef struct invocation_ops {                                /* what a task and a call of an actor do differently */
    void (*start)(invocation *invocation);                     /* of one that was held */
    void (*fail)(invocation *invocation, failure *failed);     /* before it was sent; the reference is taken over */
    mr_status (*cancel)(invocation *invocation, wire_how how); /* as invocation_cancel */
} invocation_ops;

typedef struct invocation_plan {
    interned_name *name; /* borrowed */
    const mr_arg *args;
    size_t count;
    object *const *results; /* borrowed; `returns` of them */
    uint16_t returns;
    arguments_errors errors;
    bool streams;     /* the result is a stream (stream_reader_open) */
    list *group;      /* holds it until it is submitted; NULL: it starts at once */
    size_t *straight; /* see arguments.h; NULL: the arguments are kept. Not 0 after invocation_init: it is sent with
                         invocation_send_straight or not at all */
} invocation_plan;

/* Takes over a hold on each of the results. `settled` is called as arguments.h says. MR_INVALID, MR_NOMEM: nothing has
 * happened. */
MR_MUST mr_status invocation_init(invocation *invocation, struct core_worker *worker, const invocation_plan *plan,
                                  arguments_settled_fn *settled);
void invocation_fini(invocation *invocation);
void invocation_expect_failure(invocation *invocation); /* what it fails with is no news, if nobody asks */

/* Sends it. `actor` of a method; NULL of a task. Fails as rpc_begin does. */
MR_MUST mr_status invocation_send(invocation *invocation, peer_link *link, const mr_actor *actor);

/* The same for arguments that were left with the caller: from there into the message. Only for what is never sent
 * again. Fails as rpc_begin does; invocation_keep then does what invocation_init has left. */
MR_MUST mr_status invocation_send_straight(invocation *invocation, peer_link *link, const mr_actor *actor,
                                           const invocation_plan *plan);
MR_MUST mr_status invocation_keep(invocation *invocation, const invocation_plan *plan, arguments_settled_fn *settled);

/* The usual call as a whole, for wire_call_words: one return, few and small arguments, a name that the worker has.
 * Returns how many of `room` words it takes; 0: it has other arguments. */
enum {
    INVOCATION_WORDS = 1 + ARGUMENTS_SMALL / 8,      /* of arguments that a request can keep */
    INVOCATION_WORDS_MAX = RPC_CALL_SMALL_WORDS - 8, /* of others */
};
__attribute__((noinline)) size_t invocation_words_of(const mr_arg *args, size_t count, uint64_t *words, size_t room);
static inline size_t invocation_words(const interned_name *name, const mr_arg *args, size_t count, uint64_t *words,
                                      size_t room) {
    words[0] = wire_head_word(name->number, 1);
    return count == 0 ? 1 : invocation_words_of(args, count, words, room);
}
/* Of one that was sent so: fills in the record, but for its call and its ops. As invocation_init; it cannot fail. */
void invocation_sent(invocation *invocation, struct core_worker *worker, interned_name *name, object *result);
/* And keeps the arguments, of which there are some, for another time: those words, `count` as invocation_words gave it.
 * */
void invocation_keep_words(invocation *invocation, const uint64_t words[INVOCATION_WORDS], size_t count);

/* Ends what makes this object, cancelled. MR_NOT_FOUND: nothing makes it, or it is there. By force only: MR_INVALID, it
 * is a call of an actor. By force or alone: MR_BUSY, there is no room to say so, and nothing has happened. */
MR_MUST mr_status invocation_cancel(const object *result, wire_how how);
/* Of one that was sent there, before it is cancelled: what it has submitted goes on. MR_BUSY: there is no room. */
MR_MUST mr_status invocation_spare_children(const invocation *invocation, const peer_link *link);

/* Of a group: starts those that are in the list, in order; or ends them all, cancelled. */
void invocations_start(list *group);
void invocations_drop(list *group);

typedef void invocation_describe_fn(const invocation *invocation, char *out, size_t size); /* "task 'add'" */
enum { INVOCATION_TEXT_MAX = 340 };

/* A failure of this request; the reference to the cause is taken over. */
failure *invocation_failure(const invocation *invocation, invocation_describe_fn *describe, mr_status code,
                            const char *message, failure *cause);
/* In `done` of its call, which was answered: the worker has its name from now on. */
static inline void invocation_learn(const invocation *invocation, peer_link *link) {
    peer_link_learn(link, invocation->name->number);
}

/* In `done` of its call, the common case: one small value came. True: the request is ended with it and the record gone;
 * false: nothing has happened, and invocation_outcome says what came. */
bool invocation_end_small(invocation *invocation, const rpc_call_result *result);

/* In `done` of its call: what came of it. NULL: *values, which invocation_end_values takes; or else why it failed. The
 * objects that the values name are taken, and the worker hears of it. *lost: with its link, or with those objects. */
failure *invocation_outcome(invocation *invocation, const rpc_call_result *result, invocation_describe_fn *describe,
                            wire_values *values, bool *lost);

/* Ends it: wire_call_end, then its objects are fulfilled or fail. References are taken over. The record is gone when
 * this returns; the lists of waiters may have run. */
void invocation_end_values(invocation *invocation, wire_values *values);
void invocation_end_failure(invocation *invocation, failure *failed);
