/* worker_internal.h — state of a worker, shared by three files: worker.c handles requests and answers,
 * worker_decode.c decodes a request, worker_run.c runs a call, from its turn to its answer.
 *
 * Invariants  a call is in one of the lists: in `queue` until it is taken, in `running` until it is finished, then in
 *             `parting` or `answers` until it is answered. */
#pragma once
#include "base/map.h"
#include "runtime/client/core_worker.h"
#include "runtime/worker/worker.h"

typedef struct known_names { /* names that a link's peer uses by number */
    link_id link;
    interned_name **by_number; /* owned; references; NULL: not learnt yet */
    uint32_t count;
} known_names;

struct worker {
    core_worker *worker;
    slab slab;    /* elements: mr_call */
    list queue;   /* elements: mr_call, to be run, in order of arrival */
    list running; /* elements: mr_call, taken */
    list answers; /* elements: mr_call, done, but the answer found no room */
    list parting; /* elements: mr_call, done, but references kept from the arguments are not borrowed yet */
    map names;    /* link → known_names */
    known_names *recent;
    value_pack_spares spares;      /* spare memory for arguments */
    interned_name *speaker;        /* name of the last task; a reference; NULL: none */
    uint64_t printed[STD_STREAMS]; /* bytes written before that task began, by any body */
    uint64_t runs;                 /* number of runs, counted with one thread only */
    uint32_t threads, running_count;
    uint32_t holding; /* running calls that hold back later calls of their callers */
    uint32_t ticks;
    int64_t ticked_us;
    bool waits; /* all running bodies wait: nothing is queued behind them */
    bool over;
    bool leaves; /* over because of WORKER_LEAVE: worker_loop_out, and the state of an actor is destroyed */
    bool is_actor;
    mr_actor actor;
    char class_name[256];
    call_self self;
    value_pack *state; /* the actor's state that survives this process; NULL: none */
    worker_state_area area;
};

static inline mr_call *worker_call_at(list *place) { return container_of(place, mr_call, place); }

/* ---- worker.c */

void worker_call_free(worker *worker, mr_call *call);
/* Answers and frees the call. False: there was no room, and nothing has happened. */
bool worker_answer(worker *worker, mr_call *call);

/* ---- worker_decode.c */

/* Decodes name and arguments of a call; a body is taken over in any case. MR_CORRUPT, MR_NOMEM. */
MR_MUST mr_status worker_read(worker *worker, const rpc_call_request *request, mr_call *call);
void worker_forget_names(worker *worker, link_id link); /* frees the names of a closed link's peer */
void worker_names_fini(worker *worker);
