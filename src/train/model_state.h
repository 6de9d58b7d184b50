/* model_state.h — state of a model server that survives its process: the model, its version, counts, times, weights of
 * workers, the last error, and the last call of each caller that changed the model.
 *
 *  model_state_recall ──► changed in memory ── model_state_keep ──► the node has it: the next process continues from it
 *
 * The parts of the state (mr_state_set) are a tuple with everything but the model, and the model, which is the object
 * that the call published. A call that changed the model and whose answer was lost with the process is sent again: the
 * server finds the call in `callers` and repeats its answer. */
#pragma once
#include "miniray/runtime.h"
#include "train/sync_inputs.h"

enum {
    MODEL_STATE_FORMAT = 1,
    MODEL_STATE_CALLERS_MAX = 64, /* the caller whose last change is the oldest is forgotten */
    MODEL_STATE_WEIGHTS_MAX = 64 * 1024
};

typedef struct model_caller { /* last call of a process that changed the model */
    uint64_t process, number;
    uint64_t version; /* its answer */
} model_caller;

typedef struct model_state {
    uint64_t version, syncs;
    uint64_t bytes; /* of the model; the next three are of the last sync */
    double gather_s, aggregate_s, scatter_s;
    double *weights; /* owned: of workers 0…weight_count - 1; NAN: not set */
    size_t weight_count;
    mr_value model;                                /* held; nil before the first sync or push */
    char last_error[SYNC_INPUTS_TOLD_MAX];         /* "": none yet */
    model_caller callers[MODEL_STATE_CALLERS_MAX]; /* in the order of their last changes */
    size_t caller_count;
} model_state;

/* Reads the state of the server's last process. MR_NOT_FOUND: there is none, and *state is zeroed. MR_CORRUPT,
 * MR_NOMEM. */
MR_MUST mr_status model_state_recall(mr_call *call, model_state *state);
MR_MUST mr_status model_state_keep(mr_call *call, const model_state *state);
MR_MUST mr_status model_state_view(mr_call *call, mr_value *model); /* another view of the kept model; owned */
void model_state_fini(model_state *state);

/* Makes room for the weights of the first `count` workers; new ones are not set. */
MR_MUST mr_status model_state_room(model_state *state, size_t count);

/* The change that this call made before the death of the server's last process; NULL: it is new. */
const model_caller *model_state_find(const model_state *state, const mr_call *call);
/* Makes `model` the next version, by this call. The model is moved, if the state is kept. */
MR_MUST mr_status model_state_advance(mr_call *call, model_state *state, mr_value model);
