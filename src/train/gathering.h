/* gathering.h — inputs of one sync, from get_weights: the living workers, the models they sent or shared, and the
 * kind of each result. Workers have their numbers in the caller's list; those that are there are counted anew,
 * without the dead. */
#pragma once
#include "miniray/runtime.h"
#include "train/weights.h"

typedef struct gathering {
    weights_source *sources; /* owned, one block with all below: of those that are there */
    loan *loans;             /* zeroed: that one lent nothing */
    double *weights;         /* of the strategy: for the server to fill in */
    size_t *ids;             /* their numbers */
    size_t *from;            /* for each of all: which of those that are there it is; SIZE_MAX: none, it is dead */
    size_t all, count;
} gathering;

/* The weights are the call's arguments from `first` on. Workers that died are an error (MR_ACTOR_DIED), unless they are
 * to be skipped and there are others. Errors name the worker. */
MR_MUST mr_status gathering_open(mr_call *call, size_t first, bool skips_dead, gathering *out);
void gathering_close(gathering *gathering);

MR_MUST mr_status gathering_begin(gathering *gathering);       /* to write the loans; MR_BUSY: none has begun then */
MR_MUST mr_status gathering_check(const gathering *gathering); /* MR_BUSY: what was read is not what was lent */
void gathering_end(gathering *gathering, bool written);

/* An argument that is an error, in words: this, whose it is as far as one of its causes says so, and what the first
 * cause says. */
enum { GATHERING_TOLD_MAX = 4608 }; /* room for all that a failure says */
void gathering_tell(const mr_value *value, const char *what, char out[GATHERING_TOLD_MAX]);
void gathering_tell_of(const mr_value *value, const char *method, size_t worker, char out[GATHERING_TOLD_MAX]);
mr_status gathering_raise(const mr_value *value, const char *what); /* that, as this call's error */
