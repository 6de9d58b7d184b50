/* large_args.c — see large_args.h. */
#include "runtime/process/large_args.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "runtime/refs/attachment.h"

bool large_args_any(const mr_arg *args, size_t count) {
    if (args == NULL || count > VALUE_PACK_VALUES_MAX) return false; /* refused by the submission */
    for (size_t i = 0; i < count; i++)
        if (attachment_is_large(&args[i])) return true;
    return false;
}

mr_status large_args_put(mr_context *mr, const mr_arg *args, size_t count, large_args *out) {
    *out = (large_args){.args = args};
    if (!large_args_any(args, count)) return MR_OK;
    large_args made = {.given = args};
    MR_TRY(alloc_try(count * sizeof *args, &made.own));
    made.args = memcpy(made.own, args, count * sizeof *args);
    for (; made.count < count; made.count++) {
        mr_ref ref;
        if (!attachment_is_large(&args[made.count])) continue;
        mr_status status = mr_put(mr, args[made.count], &ref);
        if (status != MR_OK) {
            large_args_release(mr, &made);
            return error_wrap(status, "argument %zu", made.count);
        }
        made.own[made.count] = mr_future(ref);
    }
    *out = made;
    return MR_OK;
}

void large_args_release(mr_context *mr, large_args *large) {
    for (size_t i = 0; i < large->count; i++)
        if (attachment_is_large(&large->given[i])) mr_release(mr, large->own[i].ref);
    free(large->own);
}
