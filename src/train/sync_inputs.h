/* sync_inputs.h — inputs of one sync, from get_weights: the live workers, and the models that they sent or exported.
 * The number of a worker is its position in the caller's list; the arrays below contain only live workers. */
#pragma once
#include "miniray/runtime.h"
#include "train/weight_tree.h"

typedef struct sync_inputs {
    weight_tree_source *sources; /* of live workers; owned: the start of the block with all arrays */
    model_access *accesses;      /* zeroed: the worker exported nothing */
    double *weights;             /* of the strategy; the server fills them in */
    size_t *ids;                 /* numbers of the live workers */
    size_t *from;                /* of each worker in the list: its index in these arrays; SIZE_MAX: it is dead */
    size_t all, count;
} sync_inputs;

/* The weights are the call's arguments from `first` on. A dead worker is an error (MR_ACTOR_DIED), unless skips_dead is
 * set and another worker lives. Errors name the worker. */
MR_MUST mr_status sync_inputs_open(mr_call *call, size_t first, bool skips_dead, sync_inputs *out);
void sync_inputs_close(sync_inputs *inputs);

MR_MUST mr_status
sync_inputs_begin(sync_inputs *inputs); /* begins to write the shared models; after an error none has begun */
MR_MUST mr_status
sync_inputs_check(const sync_inputs *inputs); /* MR_BUSY: a model copy was revoked while it was read */
void sync_inputs_end(sync_inputs *inputs, bool written);

/* The text of an argument that is an error: `what` or, if that is NULL, the worker that the error or a cause names, and
 * the message of the last cause. */
enum { SYNC_INPUTS_TOLD_MAX = 4608 }; /* fits the text of any failure */
void sync_inputs_tell(const mr_value *value, const char *what, char out[SYNC_INPUTS_TOLD_MAX]);
mr_status sync_inputs_raise(const mr_value *value,
                            const char *what); /* sets that text and the error's code as this thread's error */
