/* invocation.h — caller's record of a task or actor call, from its submission to its results: the common part of both.
 *
 *  invocation_init ──► arguments settled ── invocation_send ──► answered ──► invocation_end_…: results are ready
 *                          └──────────────────────────────────────────────┘
 *
 * An invocation holds its result objects, and a reference to its name. Records are recycled: invocation_init sets every
 * field. */
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
    list place;                 /* place in a list of its owner */
    struct core_worker *worker; /* NULL: the record is not in use */
    interned_name *name;        /* a reference */
    arguments arguments;
    object *result;   /* first result; held */
    object **results; /* all results, held, if there are several; owned */
    uint16_t returns;
    bool held;       /* in a batch that was not submitted: it does not start */
    bool streams;    /* its result is a stream */
    bool holds;      /* this process's later calls to the actor begin when this call has ended */
    list group;      /* place in its batch */
    uint64_t parent; /* run of the body that submitted it (worker.h); 0: the program itself */
    uint64_t repeat; /* of a call that may be sent again: its position among the calls of its actor; 0: another call */
    int64_t since_us;
    const struct invocation_ops *ops;
};

typedef struct invocation_ops {                                /* differences between a task and an actor call */
    void (*start)(invocation *invocation);                     /* starts an invocation that was held */
    mr_status (*cancel)(invocation *invocation, wire_how how); /* as invocation_cancel */
    /* Writes a text such as "task 'add'". */
    void (*describe)(const invocation *invocation, char *out, size_t size);
} invocation_ops;

typedef struct invocation_plan {
    interned_name *name; /* borrowed */
    const mr_arg *args;
    size_t count;
    object *const *results; /* borrowed; `returns` of them */
    uint16_t returns;
    arguments_errors errors;
    bool streams;     /* the result is a stream (stream_reader_open) */
    list *group;      /* batch that holds the invocation until submitted; NULL: it starts at once */
    size_t *straight; /* set as in arguments.h, then > 0: see invocation_send_straight; NULL: the arguments are kept */
} invocation_plan;

/* Takes over a hold on each of the results. `settled` is called as described in arguments.h. MR_INVALID, MR_NOMEM:
 * nothing has happened. */
MR_MUST mr_status invocation_init(invocation *invocation, struct core_worker *worker, const invocation_plan *plan,
                                  arguments_settled_fn *settled);
void invocation_fini(invocation *invocation);
void invocation_expect_failure(invocation *invocation); /* its failure is not logged if the program does not read it */

/* Sends the invocation. `actor`: the actor of a method; NULL: a task. Fails as rpc_begin does. */
MR_MUST mr_status invocation_send(invocation *invocation, peer_link *link, const mr_actor *actor);

/* The same for arguments that stay in the caller's memory: copied from there into the message. Only for invocations
 * that are never sent again. Fails as rpc_begin does; invocation_keep then copies the arguments. */
MR_MUST mr_status invocation_send_straight(invocation *invocation, peer_link *link, const mr_actor *actor,
                                           const invocation_plan *plan);
MR_MUST mr_status invocation_keep(invocation *invocation, const invocation_plan *plan, arguments_settled_fn *settled);

/* Encodes a whole fast-path call for wire_call_words: one return, few and small arguments, a name that the worker has.
 * Returns the number of words used of `room`; 0: other arguments. */
enum {
    INVOCATION_WORDS = 1 + ARGUMENTS_SMALL / 8,      /* size with arguments that an invocation can keep */
    INVOCATION_WORDS_MAX = RPC_CALL_SMALL_WORDS - 8, /* size with other arguments */
};
__attribute__((noinline)) size_t invocation_words_of(const mr_arg *args, size_t count, uint64_t *words, size_t room);
static inline size_t invocation_words(const interned_name *name, const mr_arg *args, size_t count, uint64_t *words,
                                      size_t room) {
    words[0] = wire_head_word(name->number, 1);
    return count == 0 ? 1 : invocation_words_of(args, count, words, room);
}
/* Fills in the record of an invocation sent with wire_call_words, except its call and its ops. As invocation_init;
 * cannot fail. */
void invocation_sent(invocation *invocation, struct core_worker *worker, interned_name *name, object *result);
/* Keeps the arguments, at least one, for a retry: the same words, `count` as returned by invocation_words. */
void invocation_keep_words(invocation *invocation, const uint64_t words[INVOCATION_WORDS], size_t count);

/* Writes what makes the object: "task 'f'", "a value of another process". */
enum { INVOCATION_MAKER_MAX = 340 };
void invocation_maker(const object *result, char out[INVOCATION_MAKER_MAX]);

/* Cancels the invocation that makes this object. MR_NOT_FOUND: no invocation makes it, or it is ready. By force only:
 * MR_INVALID, an actor call. By force or alone: MR_BUSY, no room for the message, and nothing has happened. */
MR_MUST mr_status invocation_cancel(const object *result, wire_how how);
/* Excludes the children of a sent invocation from its cancellation, which follows. MR_BUSY: no room for the message. */
MR_MUST mr_status invocation_spare_children(const invocation *invocation, const peer_link *link);

/* Cancels the invocations submitted by this run of a body. An invocation is the first field of each of the slab's
 * records. */
void invocations_cancel_children(const slab *slab, uint64_t parent);

/* Starts the invocations of a batch's list, in order; or cancels them all. */
void invocations_start(list *group);
void invocations_drop(list *group);

/* Returns the failure of an invocation that was lost with its link. The cause is the core worker's failure if that is
 * over, else `cause`, a reference to which is taken over. */
failure *invocation_lost(const invocation *invocation, mr_status code, const char *message, failure *cause);
/* In `done` of an answered call: the worker knows the name from now on. */
static inline void invocation_learn(const invocation *invocation, peer_link *link) {
    peer_link_learn(link, invocation->name->number);
}

/* In `done` of its call, the common case: one small value arrived. True: the invocation is ended with the value and the
 * record freed; false: nothing has happened, and invocation_outcome reads the answer. */
bool invocation_end_small(invocation *invocation, const rpc_call_result *result);

/* In `done` of its call: returns the failure, or NULL and *values for invocation_end_values. The store objects of the
 * values are taken, and the worker is sent CLIENT_TOOK. *lost: the outcome was lost with the link, or with those
 * objects. */
failure *invocation_outcome(invocation *invocation, const rpc_call_result *result, wire_values *values, bool *lost);

/* Ends the invocation: wire_call_end, then its objects are fulfilled or fail. References are taken over. The record is
 * freed when this function returns; waiters may have been called. */
void invocation_end_values(invocation *invocation, wire_values *values);
void invocation_end_failure(invocation *invocation, failure *failed);
/* The same with a failure of this invocation; the reference to the cause is taken over. */
void invocation_fail(invocation *invocation, mr_status code, const char *message, failure *cause);
