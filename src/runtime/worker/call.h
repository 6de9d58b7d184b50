/* call.h — one execution of a body: the record behind mr_call.
 *
 * Records are recycled by the worker. Few and small arguments and results are stored in the record; an argument is
 * opened on its first access. */
#pragma once
#include "base/list.h"
#include "base/slab.h"
#include "miniray/runtime.h"
#include "net/rpc/rpc.h"
#include "net/value.h"
#include "runtime/common/name_table.h"
#include "runtime/refs/attachment.h"
#include "runtime/refs/failure.h"
#include "runtime/refs/wire.h"

enum { CALL_ARGS_SMALL = 128, CALL_RESULT_SMALL = 64, CALL_DOCS_KEPT = 8 };

typedef struct call_self { /* an actor's state */
    void *state;
    void (*destroy)(void *state);
} call_self;

typedef struct cancel_wish { /* cancel callback of a body (mr_on_cancel); fn NULL: none */
    mr_cancel_fn *fn;
    void *user;
} cancel_wish;

typedef struct call_doc { /* an opened argument that is no scalar */
    value_doc doc;
    mr_value root;
    bool open;
} call_doc;

struct mr_call {
    slab_place slot;
    list place; /* place in the worker's queue, or among running calls */
    mr_context *mr;
    rpc_call_token token;
    uint32_t method;     /* wire_method */
    uint32_t tick;       /* the worker's tick at its arrival */
    bool holds;          /* later calls of the same caller begin when this call has ended */
    interned_name *name; /* name of the task, method or class; a reference */
    mr_actor actor;
    uint32_t threads;   /* threads of an actor to be created */
    wire_repeat repeat; /* of a call that may be sent again (wire.h); number 0: another call */
    mr_body_fn *body;
    mr_status refused; /* not MR_OK: cannot run, and `message` has the text */

    value_pack_view args;
    value_pack *args_owner;    /* memory of `args`; NULL: args_small */
    value_pack_entry *entries; /* one per argument, if some are in the store; owned */
    call_doc *docs;            /* owned; kept for the next call if there are few */
    uint32_t docs_count;

    uint16_t returns;     /* number of requested results */
    uint32_t result_size; /* size of the value pack in result_small; 0: none */
    value_pack *result;   /* larger result; NULL: none */
    value_pack **several; /* one for each result, if several are requested; owned */
    failure *failed;      /* failure of the call; owned; NULL: none */
    char *message;        /* text of mr_fail; owned */
    void *detail;         /* detail of mr_fail_with; owned */
    size_t detail_size;
    call_self *self;
    struct call_yield *yield; /* state of a stream; owned; NULL: no stream */
    bool cancelled;
    bool alone;            /* a cancellation spares its children */
    bool asked_cancel;     /* a cancel callback was set */
    cancel_wish on_cancel; /* that callback, until it is called */
    bool deferred;         /* mr_defer was called: written by the body's thread only */
    bool left;             /* the body has returned. This and the next two are used with the lock held only */
    bool finished;         /* deferred: a thread has begun to set the outcome, and no other may */
    bool settled;          /* deferred: the outcome is set; the later of `left` and `settled` answers */
    uint64_t event;        /* number of the call in the worker's event ring */
    uint64_t run;          /* number of this run; 0: in an actor with several threads */
    borrow_gate gate;      /* opens when references kept from its arguments are borrowed */
    struct worker *worker; /* worker that runs it; borrowed */

    _Alignas(8) uint8_t args_small[CALL_ARGS_SMALL];
    _Alignas(8) uint8_t result_small[CALL_RESULT_SMALL];
};

/* Takes the arguments: copies the bytes, into the record or into memory of their own; or takes over the value pack.
 * MR_CORRUPT, MR_NOMEM. */
MR_MUST mr_status call_take_args(mr_call *call, span bytes, value_pack_spares *spares);
MR_MUST mr_status call_take_pack(mr_call *call, value_pack *pack); /* moved, also when it fails */
/* Takes and shows the objects that the arguments name (attachment.h), and hides them again; with the context's lock
 * held. May wait. */
MR_MUST mr_status call_show_args(mr_call *call, objects *objects);
void call_hide_args(mr_call *call);
value_pack *call_give_up_args(mr_call *call); /* after the body: moves their memory; NULL: no references */
/* After the body: packs its results into one value pack. MR_INVALID: not every value was returned. MR_NOMEM. */
MR_MUST mr_status call_gather(mr_call *call);
attachment_packer call_packer(mr_call *call); /* for results of the body */
/* MR_INVALID: the body called fork, and this is the child, which cannot use the runtime. */
MR_MUST mr_status call_check_process(const mr_call *call);
__attribute__((noinline)) void call_unload(mr_call *call);
/* Clears the fields that must not pass from one call to the next. */
static inline void call_clear(mr_call *call) {
    call->name = NULL;
    call->body = NULL;
    call->refused = MR_OK;
    call->args_owner = NULL;
    call->entries = NULL;
    call->args.count = 0;
    call->result_size = 0;
    call->result = NULL;
    call->several = NULL;
    call->failed = NULL;
    call->message = NULL;
    call->detail = NULL;
    call->detail_size = 0;
    call->self = NULL;
    call->yield = NULL;
    call->holds = false;
    call->cancelled = call->alone = call->asked_cancel = false;
    call->on_cancel = (cancel_wish){0};
    call->deferred = call->left = call->finished = call->settled = false;
    call->run = 0;
    call->repeat = (wire_repeat){0};
}
/* Resets the record as if zeroed: at the end of a call, after its answer, and not at the begin of the next one. */
static inline void call_fini(mr_call *call) {
    uintptr_t args = (uintptr_t)call->docs | (uintptr_t)call->entries | (uintptr_t)call->args_owner;
    uintptr_t given = (uintptr_t)call->yield | (uintptr_t)call->several | (uintptr_t)call->result;
    uintptr_t said = (uintptr_t)call->message | (uintptr_t)call->detail | (uintptr_t)call->failed;
    if ((args | given | said) != 0) call_unload(call); /* the record owns more than its name */
    interned_name_unref(call->name);
    call_clear(call);
}
void call_forget(mr_call *call); /* frees everything, also memory that call_fini keeps */
