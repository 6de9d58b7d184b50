/* submit.h — submission of tasks and actor calls, alone and in batches: checks of options and arguments, then the
 * invocation. With the context's lock held, but for the checks. */
#pragma once
#include "runtime/common/resources.h"
#include "runtime/process/context.h"

/* Checks that a name is given and not too long, or MR_INVALID. */
MR_MUST mr_status submit_check_name(const char *what, const char *name);
/* Checks that there are `count` arguments, or MR_INVALID. MR_TOO_LARGE. */
MR_MUST mr_status submit_check_args(const mr_arg *args, size_t count);
/* Reads the resource options of a task or an actor. MR_INVALID: the error names the option and its value. */
MR_MUST mr_status submit_read_need(double num_cpus, double num_gpus, const char *names, mr_placement_group group,
                                   int bundle, resources *out);

typedef struct submission { /* a task or a call to be submitted; all borrowed */
    const char *name;
    const mr_actor *actor; /* actor of a call; NULL: a task */
    const mr_task_options *task_options;
    const mr_call_options *call_options;
    const mr_arg *args;
    size_t count;
    list *group; /* batch that holds it back; NULL: none */
    mr_ref *out; /* as in miniray/runtime.h */
} submission;

/* Submits without the lock held; arguments may be large (large_args.h). */
MR_MUST mr_status submit_unlocked(mr_context *mr, const submission *submission);
/* The same with the lock held, which is released. */
MR_MUST mr_status submit_and_unlock(mr_context *mr, const submission *submission);
/* Fast path (tasks_submit_straight, actors_submit_straight): a task with usual options or a call without options, both
 * without a batch. False: nothing has happened, and submit_and_unlock takes it. */
bool submit_task_straight(mr_context *mr, const char *name, const mr_task_options *options, const mr_arg *args,
                          size_t count, mr_ref *out);
bool submit_call_straight(mr_context *mr, mr_actor actor, const char *method, const mr_arg *args, size_t count,
                          mr_ref *out);
