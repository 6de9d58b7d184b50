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

/* Reads the plan's arguments and batch; fills in the rest. `out` as in miniray/runtime.h. */
MR_MUST mr_status submit_task(mr_context *mr, const char *name, const mr_task_options *options, invocation_plan *plan,
                              mr_ref *out);
MR_MUST mr_status submit_call(mr_context *mr, mr_actor actor, const char *method, const mr_call_options *options,
                              invocation_plan *plan, mr_ref *out);
/* The same without the lock, for arguments that may be large (large_args.h). `group` is the batch that holds it back;
 * NULL: none. */
MR_MUST mr_status submit_large_task(mr_context *mr, const char *name, const mr_task_options *options,
                                    const mr_arg *args, size_t count, list *group, mr_ref *out);
MR_MUST mr_status submit_large_call(mr_context *mr, mr_actor actor, const char *method, const mr_call_options *options,
                                    const mr_arg *args, size_t count, list *group, mr_ref *out);
/* Fast path (tasks_submit_straight, actors_submit_straight): a task with usual options or a call without options, both
 * without a batch. False: nothing has happened, and submit_task or submit_call takes it. */
bool submit_task_straight(mr_context *mr, const char *name, const mr_task_options *options, const mr_arg *args,
                          size_t count, mr_ref *out);
bool submit_call_straight(mr_context *mr, mr_actor actor, const char *method, const mr_arg *args, size_t count,
                          mr_ref *out);
