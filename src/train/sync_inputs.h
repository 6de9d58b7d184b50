/* sync_inputs.h — inputs of one sync, from get_weights: the living workers, the models they sent or shared, and the
 * kind of each result. Workers have their numbers in the caller's list; those that are there are counted anew,
 * without the dead. */
#pragma once
#include "miniray/runtime.h"
#include "train/weight_tree.h"

typedef struct sync_inputs {
    weight_tree_source *sources; /* owned, one block with all below: of those that are there */
    model_access *accesses;      /* zeroed: that one lent nothing */
    double *weights;             /* of the strategy: for the server to fill in */
    size_t *ids;                 /* their numbers */
    size_t *from;                /* for each of all: which of those that are there it is; SIZE_MAX: none, it is dead */
    size_t all, count;
} sync_inputs;

/* The weights are the call's arguments from `first` on. Workers that died are an error (MR_ACTOR_DIED), unless they are
 * to be skipped and there are others. Errors name the worker. */
MR_MUST mr_status sync_inputs_open(mr_call *call, size_t first, bool skips_dead, sync_inputs *out);
void sync_inputs_close(sync_inputs *inputs);

MR_MUST mr_status sync_inputs_begin(sync_inputs *inputs);       /* to write the loans; MR_BUSY: none has begun then */
MR_MUST mr_status sync_inputs_check(const sync_inputs *inputs); /* MR_BUSY: what was read is not what was lent */
void sync_inputs_end(sync_inputs *inputs, bool written);

/* An argument that is an error, in words: this, whose it is as far as one of its causes says so, and what the first
 * cause says. */
enum { SYNC_INPUTS_TOLD_MAX = 4608 }; /* room for all that a failure says */
void sync_inputs_tell(const mr_value *value, const char *what, char out[SYNC_INPUTS_TOLD_MAX]);
void sync_inputs_tell_of(const mr_value *value, const char *method, size_t worker, char out[SYNC_INPUTS_TOLD_MAX]);
mr_status sync_inputs_raise(const mr_value *value, const char *what); /* that, as this call's error */
