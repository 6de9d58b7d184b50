/* sync_inputs.h — inputs of one sync, from get_weights: the living workers, the models they sent or shared, and the
 * kind of each result. Workers have their numbers in the caller's list; live workers are numbered anew, without the
 * dead. */
#pragma once
#include "miniray/runtime.h"
#include "train/weight_tree.h"

typedef struct sync_inputs {
    weight_tree_source *sources; /* owned, one block with all below: of those that are there */
    model_access *accesses;      /* zeroed: the worker lent nothing */
    double *weights;             /* of the strategy: for the server to fill in */
    size_t *ids;                 /* their numbers */
    size_t *from;                /* for each of all: its number among the live ones; SIZE_MAX: it is dead */
    size_t all, count;
} sync_inputs;

/* The weights are the call's arguments from `first` on. Workers that died are an error (MR_ACTOR_DIED), unless they are
 * to be skipped and there are others. Errors name the worker. */
MR_MUST mr_status sync_inputs_open(mr_call *call, size_t first, bool skips_dead, sync_inputs *out);
void sync_inputs_close(sync_inputs *inputs);

MR_MUST mr_status sync_inputs_begin(sync_inputs *inputs); /* to write the shared models; MR_BUSY: none has begun then */
MR_MUST mr_status sync_inputs_check(const sync_inputs *inputs); /* MR_BUSY: a model changed while read */
void sync_inputs_end(sync_inputs *inputs, bool written);

/* Text of an argument that is an error: `what`, the worker if one of the causes names it, and the text of the first
 * cause. */
enum { SYNC_INPUTS_TOLD_MAX = 4608 }; /* room for all that a failure says */
void sync_inputs_tell(const mr_value *value, const char *what, char out[SYNC_INPUTS_TOLD_MAX]);
mr_status sync_inputs_raise(const mr_value *value, const char *what); /* that, as this call's error */
