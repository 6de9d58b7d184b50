/* arguments.h — the arguments of a call, some of which may not be there yet.
 *
 * An argument that is a future (mr_future) is replaced by its object when that is ready; until then the call waits.
 * When one fails, the arguments fail with it as the cause. With the context's lock held. */
#pragma once
#include "runtime/object.h"

typedef struct arguments arguments;
typedef void arguments_settled_fn(arguments *arguments); /* called once, unless they were settled from the start */

typedef struct arguments_future { /* one that is waited for */
    object_waiter waiter;
    arguments *arguments;
    object *object; /* held */
    uint32_t index;
} arguments_future;

struct arguments {
    objects *objects;
    bundle *values;  /* all of them, once they are there */
    failure *failed; /* or why they never will be */
    bundle *given;   /* as they were given, with nil for futures */
    arguments_future *futures;
    uint32_t future_count, left;
    arguments_settled_fn *settled;
};

/* Copies what it needs. MR_INVALID: an argument is no value, or a future of another process, or inside a list, tuple or
 * map. */
MR_MUST mr_status arguments_init(arguments *arguments, objects *objects, const mr_arg *args, size_t count,
                                 arguments_settled_fn *settled);
void arguments_fini(arguments *arguments);

static inline bool arguments_are_settled(const arguments *arguments) {
    return arguments->values != NULL || arguments->failed != NULL;
}

bool arguments_wait_by(const object_waiter *waiter); /* whether it is some arguments that wait there */
