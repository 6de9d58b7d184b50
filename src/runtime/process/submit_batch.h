/* submit_batch.h — tasks and calls that are submitted together: the record behind mr_batch. With the context's lock
 * held. */
#pragma once
#include "base/list.h"
#include "miniray/runtime.h"
#include "runtime/client/arguments.h"

struct mr_batch {
    list place; /* in the context's list */
    mr_context *mr;
    list requests; /* held invocations, in the order of their addition */
};

/* Names the arguments of the call that was added last (arguments_names). The lock is taken inside. */
void submit_batch_name_arguments(mr_batch *group, const arguments_names *names);

/* The call that was added last holds back this process's later calls to the same actor until it has ended, also if the
 * actor runs several calls at a time. The lock is taken inside. */
void submit_batch_hold_later_calls(mr_batch *group);

void submit_batches_drop(list *groups); /* frees batches that the program has not submitted */
