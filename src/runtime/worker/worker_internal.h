/* worker_internal.h — the state of a worker, for the files that are it: worker.c has its life and what others tell it,
 * worker_decode.c reads a request, worker_run.c runs what was asked for, from its turn to its answer.
 *
 * Invariants  a call is in one of the lists: in `queue` until it is taken, in `running` until it is finished, then in
 *             `parting` or `answers` until it is answered. */
#pragma once
#include "base/map.h"
#include "runtime/client/core_worker.h"
#include "runtime/worker/worker.h"

typedef struct known_names { /* what a link's other side calls by number */
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
    list parting; /* of mr_call: done, but what is kept of their arguments is not borrowed yet */
    map names;    /* of known_names, by link */
    known_names *recent;
    value_pack_spares spares;      /* memory of arguments that are gone, for the next ones */
    interned_name *speaker;        /* of the last task; a reference; NULL: none */
    uint64_t printed[STD_STREAMS]; /* until it began, by whomever */
    uint64_t runs;                 /* of bodies that are alone */
    uint32_t threads, running_count;
    uint32_t ticks;
    int64_t ticked_us;
    bool waits; /* so do the bodies that run: nothing stands in line behind them */
    bool over;
    bool leaves; /* over, but in peace: worker_loop_out, and the state of an actor is to be destroyed */
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

/* Name and arguments of what is to be run; a body is taken over, whatever comes of it. MR_CORRUPT, MR_NOMEM. */
MR_MUST mr_status worker_read(worker *worker, const rpc_call_request *request, mr_call *call);
void worker_forget_names(worker *worker, link_id link); /* of the other side of a link that is closed */
void worker_names_fini(worker *worker);
