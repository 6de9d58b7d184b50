/* join.c — mr_join, one future for several: a task of the library, registered in every program, makes the list of their
 * values. So large values are read in place, and failures and retries are those of any task. */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "miniray/runtime.h"

#define JOIN ".join" /* no task of a program has this name: those are names of functions */

static mr_status join_values(mr_call *call, mr_value *values, mr_arg *items, size_t count) {
    for (size_t i = 0; i < count; i++) {
        MR_TRY(mr_arg_value(call, i, &values[i]));
        items[i] = mr_value_arg(&values[i]);
    }
    return mr_return(call, mr_list(items, count));
}

static mr_status join(mr_call *call) {
    size_t count = mr_arg_count(call);
    void *values, *items;
    MR_TRY(alloc_try((count + 1) * sizeof(mr_value), &values));
    mr_status status = alloc_try((count + 1) * sizeof(mr_arg), &items);
    if (status == MR_OK) {
        status = join_values(call, values, items, count);
        free(items);
    }
    free(values);
    return status;
}

__attribute__((constructor)) static void join_register(void) { mr_register_task(JOIN, join); }

mr_status mr_join(mr_context *mr, const mr_ref *refs, size_t count, mr_ref *out) {
    if (refs == NULL && count > 0) return error_set(MR_INVALID, "mr_join: `refs` is NULL, but `count` is %zu", count);
    mr_arg *args;
    MR_TRY(alloc_try((count + 1) * sizeof(mr_arg), &args));
    for (size_t i = 0; i < count; i++) args[i] = mr_future(refs[i]);
    mr_status status = mr_task_submit(mr, JOIN, &MR_OPTIONS(mr_task_options, .num_cpus = -1), args, count, out);
    free(args);
    return status;
}
