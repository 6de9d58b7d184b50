/* worker_internal.h — state of a worker, shared by three files: worker.c has its life and handles messages,
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
    interned_name **by_number; /* owned; references; NULL: not told yet */
    uint32_t count;
} known_names;

struct worker {
    core_worker *worker;
    slab slab;    /* of mr_call */
    list queue;   /* of mr_call: to be run, in the order they came */
    list running; /* of mr_call: taken */
    list answers; /* of mr_call: done, but their answers found no room */
    list parting; /* of mr_call: done, but references kept from their arguments are not borrowed yet */
    map names;    /* of known_names, by link */
    known_names *recent;
    value_pack_spares spares;      /* spare memory for arguments */
    interned_name *speaker;        /* of the last task; a reference; NULL: none */
    uint64_t printed[STD_STREAMS]; /* bytes written before it began, by any body */
    uint64_t runs;                 /* of bodies that run alone */
    uint32_t threads, running_count;
    uint32_t ticks;
    int64_t ticked_us;
    bool waits; /* all running bodies wait: nothing is queued behind them */
    bool over;
    bool leaves; /* over by request: worker_loop_out, and the state of an actor is destroyed */
    bool is_actor;
    mr_actor actor;
    char class_name[256];
    call_self self;
};

static inline mr_call *worker_call_at(list *place) { return container_of(place, mr_call, place); }

/* ---- worker.c */

void worker_call_free(worker *worker, mr_call *call);
/* Answers and frees the call. False: there was no room, and nothing has happened. */
bool worker_answer(worker *worker, mr_call *call);

/* ---- worker_decode.c */

/* Decodes name and arguments of a call; a body is taken over in any case. MR_CORRUPT, MR_NOMEM. */
MR_MUST mr_status worker_read(worker *worker, const rpc_call_request *request, mr_call *call);
void worker_forget_names(worker *worker, link_id link); /* of the peer of a closed link */
void worker_names_fini(worker *worker);
