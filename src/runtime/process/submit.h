/* submit.h — submission of tasks and actor calls, alone and in groups: checks of options and arguments, then the
 * request. With the context's lock held, but for the checks. */
#pragma once
#include "runtime/common/resources.h"
#include "runtime/process/context.h"

/* MR_INVALID: a name is there, and not too long. */
MR_MUST mr_status submit_check_name(const char *what, const char *name);
/* MR_INVALID: there are as many as it says. MR_TOO_LARGE. */
MR_MUST mr_status submit_check_args(const mr_arg *args, size_t count);
/* The options of that name of a task or an actor. MR_INVALID: the error names the option and its value. */
MR_MUST mr_status submit_read_need(double num_cpus, double num_gpus, const char *names, mr_placement_group group,
                                   int bundle, resources *out);

/* Of the plan, arguments and group are read; the rest is filled in. `out` as in miniray/runtime.h. */
MR_MUST mr_status submit_task(mr_context *mr, const char *name, const mr_task_options *options, invocation_plan *plan,
                              mr_ref *out);
MR_MUST mr_status submit_call(mr_context *mr, mr_actor actor, const char *method, const mr_call_options *options,
                              invocation_plan *plan, mr_ref *out);
/* The same without the lock, for arguments that may be large (large_args.h). `group` holds it back; NULL: none. */
MR_MUST mr_status submit_large_task(mr_context *mr, const char *name, const mr_task_options *options,
                                    const mr_arg *args, size_t count, list *group, mr_ref *out);
MR_MUST mr_status submit_large_call(mr_context *mr, mr_actor actor, const char *method, const mr_call_options *options,
                                    const mr_arg *args, size_t count, list *group, mr_ref *out);
/* The same by the shortest way (tasks_submit_straight, actors_submit_straight): a task with usual options, a call
 * without any, both with no group. False: nothing has happened, and submit_task or submit_call takes it. */
bool submit_task_straight(mr_context *mr, const char *name, const mr_task_options *options, const mr_arg *args,
                          size_t count, mr_ref *out);
bool submit_call_straight(mr_context *mr, mr_actor actor, const char *method, const mr_arg *args, size_t count,
                          mr_ref *out);
