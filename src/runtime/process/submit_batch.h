/* submit_batch.h — tasks and calls that are submitted together: the record behind mr_batch. With the context's lock
 * held. */
#pragma once
#include "base/list.h"
#include "miniray/runtime.h"

struct mr_batch {
    list place; /* in the context's list */
    mr_context *mr;
    list requests; /* held invocations, in the order of their addition */
};

/* For the call that was added last: its arguments from `first` on, which are futures, are named noun 0, noun 1, … in
 * the error of one that fails. `noun` is borrowed until the call has ended. The lock is taken inside. */
void submit_batch_name_arguments(mr_batch *group, const char *noun, uint32_t first);

/* The call that was added last holds back this process's later calls to the same actor until it has ended, also if the
 * actor runs several calls at a time. The lock is taken inside. */
void submit_batch_hold_later_calls(mr_batch *group);

void submit_batches_drop(list *groups); /* frees batches that the program has not submitted */
