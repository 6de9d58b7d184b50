/* large_args.h — large arguments become objects of the store before their call is submitted.
 *
 * A call is submitted with the context's lock. A large argument that was copied there would stop every other thread of
 * the program, and one that waited there for shared memory would wait for memory that another thread is about to free.
 * So large arguments are put first, without the lock, and the call gets futures in their place; they are there, so the
 * call starts as soon as it would have, and passes them on by name. */
#pragma once
#include "runtime/process/context.h"

typedef struct large_args {
    const mr_arg *args;  /* for the call: the caller's own if none is large */
    mr_arg *own;         /* owned; NULL: none is */
    const mr_arg *given; /* borrowed: the caller's */
    size_t count;
} large_args;

bool large_args_any(const mr_arg *args, size_t count);

/* Without the lock. Fails as mr_put does, and names the argument. */
MR_MUST mr_status large_args_put(mr_context *mr, const mr_arg *args, size_t count, large_args *out);
void large_args_release(mr_context *mr, large_args *large); /* after the call was submitted; without the lock */
