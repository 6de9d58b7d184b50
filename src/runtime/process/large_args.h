/* large_args.h — large arguments become objects of the store before their call is submitted.
 *
 * A call is submitted with the context's lock held. Copying a large argument under the lock would stop every other
 * thread of the program, and waiting for shared memory under the lock would block a thread that is about to free it. So
 * large arguments are put first, without the lock, and the call gets ready futures in their place; the call starts
 * without delay, and passes them on by name. */
#pragma once
#include "runtime/process/context.h"

typedef struct large_args {
    const mr_arg *args;  /* arguments of the call: `given` if none is large */
    mr_arg *own;         /* owned; NULL: no large arguments */
    const mr_arg *given; /* the caller's arguments; borrowed */
    size_t count;
} large_args;

bool large_args_any(const mr_arg *args, size_t count);

/* Without the lock. Fails as mr_put does, and names the argument. */
MR_MUST mr_status large_args_put(mr_context *mr, const mr_arg *args, size_t count, large_args *out);
void large_args_release(mr_context *mr, large_args *large); /* after the call was submitted; without the lock */
