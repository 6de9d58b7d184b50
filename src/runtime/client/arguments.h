/* arguments.h — the arguments of a call, some of which may not be there yet.
 *
 * An argument that is a future (mr_future) is replaced by its object when that is ready; until then the call waits.
 * When one fails, the arguments fail with it as the cause, or it becomes an error value, as the caller wants it. Few
 * and small ones lie in the record itself. With the context's lock held. */
#pragma once
#include "runtime/refs/object.h"

enum { ARGUMENTS_SMALL = 64 };

/* What becomes of a future that fails: the arguments fail with it; or it is one like any other; or it is so only if an
 * actor or a worker died. */
typedef enum arguments_errors { ARGUMENTS_FAIL, ARGUMENTS_TAKE, ARGUMENTS_TAKE_DEATHS } arguments_errors;

typedef struct arguments arguments;
typedef void arguments_settled_fn(arguments *arguments); /* called once, unless they were settled from the start */

typedef struct arguments_future { /* one that is waited for */
    object_waiter waiter;
    arguments *arguments;
    object *object;    /* held */
    value_pack *error; /* it failed, and this is what the call gets instead; NULL: it did not */
    uint32_t index;
} arguments_future;

typedef struct arguments_futures { /* of a call that has some */
    arguments_settled_fn *settled;
    arguments_errors errors;
    const char *noun; /* borrowed: what they are called from `first` on, counted from 0, when one fails; or NULL */
    uint32_t first;
    value_pack *given; /* the arguments as they were given, with nil for futures */
    uint32_t count, left;
    arguments_future items[];
} arguments_futures;

struct arguments {
    objects *objects;
    value_pack *values;         /* all of them, once they are there */
    uint32_t small_size;        /* or they lie in `small`; 0: they do not */
    failure *failed;            /* or why they never will be there */
    arguments_futures *futures; /* owned; NULL: none */
    _Alignas(8) uint8_t small[ARGUMENTS_SMALL];
};

/* All but the usual case, which is below. */
MR_MUST mr_status arguments_init_some(arguments *arguments, objects *objects, const mr_arg *args, size_t count,
                                      arguments_errors errors, size_t *straight, arguments_settled_fn *settled);
__attribute__((noinline)) void arguments_fini_some(arguments *arguments);

/* `straight`, if it is not NULL: values that are all there and plain, and too many for the record, need not be copied:
 * then it is the size of the bundle that they make, nothing is kept of them, and they count as settled and as none.
 *
 * Copies what it needs. MR_INVALID: an argument is no value, or a future that this process does not have, or holds one.
 */
MR_MUST static inline mr_status arguments_init(arguments *arguments, objects *objects, const mr_arg *args, size_t count,
                                               arguments_errors errors, size_t *straight,
                                               arguments_settled_fn *settled) {
    arguments->objects = objects;
    arguments->values = NULL;
    arguments->small_size = 0;
    arguments->failed = NULL;
    arguments->futures = NULL;
    if (count > 0) return arguments_init_some(arguments, objects, args, count, errors, straight, settled);
    arguments->small_size = VALUE_PACK_EMPTY;
    memset(arguments->small, 0, VALUE_PACK_EMPTY);
    return MR_OK;
}

static inline void arguments_fini(arguments *arguments) {
    if (arguments->futures != NULL || arguments->values != NULL || arguments->failed != NULL)
        arguments_fini_some(arguments);
}

static inline bool arguments_are_settled(const arguments *arguments) {
    return arguments->small_size != 0 || arguments->values != NULL || arguments->failed != NULL;
}

/* Of those that are there: the bundle's bytes. */
static inline span arguments_bytes(const arguments *arguments) {
    if (arguments->values != NULL) return span_of(arguments->values->bytes, arguments->values->size);
    return span_of(arguments->small, arguments->small_size);
}

/* Whether it is to be replaced by what it stands for. */
static inline bool arguments_is_future(const mr_arg *arg) { return arg->kind == MR_KIND_REF && !arg->received; }

bool arguments_wait_by(const object_waiter *waiter); /* whether it is some arguments that wait there */
