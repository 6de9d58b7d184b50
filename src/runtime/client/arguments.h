/* arguments.h — arguments of a call, some of which may be pending futures.
 *
 * An argument that is a future (mr_future) is replaced by its object when that is ready; until then the call waits.
 * When a future fails, the arguments fail with that cause, or the failure becomes an error value, as the caller
 * chooses. Few and small arguments are stored in the record itself. With the context's lock held. */
#pragma once
#include "runtime/refs/object.h"

enum { ARGUMENTS_SMALL = 64 };

/* Effect of a failed future: the arguments fail; or the failure is an argument like any other; or only if an actor or a
 * worker died. */
typedef enum arguments_errors { ARGUMENTS_FAIL, ARGUMENTS_TAKE, ARGUMENTS_TAKE_DEATHS } arguments_errors;

typedef struct arguments arguments;
typedef void arguments_settled_fn(arguments *arguments); /* called once, unless all were ready at init */

typedef struct arguments_future { /* a future that is waited for */
    object_waiter waiter;
    arguments *arguments;
    object *object;    /* held */
    value_pack *error; /* error value passed instead of the failed future; NULL: it did not fail */
    uint32_t index;
} arguments_future;

/* Whose results the arguments from `first` on are, counted from 0, for errors; noun NULL: nobody's. With names the
 * failure of an argument is that of the call: "worker 1 failed in get_weights, because …", "worker 1 died, because …";
 * before `first` it is the failure itself. */
typedef struct arguments_names {
    const char *noun, *method; /* borrowed as long as the arguments exist */
    uint32_t first;
} arguments_names;

typedef struct arguments_futures { /* futures among the arguments of a call */
    arguments_settled_fn *settled;
    arguments_errors errors;
    arguments_names names;
    value_pack *given; /* the given arguments, nil in place of futures */
    uint32_t count, left;
    arguments_future items[];
} arguments_futures;

struct arguments {
    objects *objects;
    value_pack *values;         /* all arguments, once ready */
    uint32_t small_size;        /* size in `small`; 0: not stored there */
    failure *failed;            /* cause, if the arguments failed */
    arguments_futures *futures; /* owned; NULL: none */
    _Alignas(8) uint8_t small[ARGUMENTS_SMALL];
};

/* All cases but the fast path of arguments_init. */
MR_MUST mr_status arguments_init_some(arguments *arguments, objects *objects, const mr_arg *args, size_t count,
                                      arguments_errors errors, size_t *straight, arguments_settled_fn *settled);
__attribute__((noinline)) void arguments_fini_some(arguments *arguments);

/* Copies the arguments that it keeps. `straight`, if it is not NULL: plain and ready values that are too large for the
 * record are not copied; *straight is set to the size of their value pack, and `arguments` is settled as if there were
 * none.
 *
 * MR_INVALID: an argument is no value, or is or contains a future that this process does not have. */
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

/* Names the futures among the arguments. */
void arguments_name(arguments *arguments, const arguments_names *names);

/* Whether a failure of these arguments is that of the call, instead of its cause. */
static inline bool arguments_are_named(const arguments *arguments) {
    return arguments->futures != NULL && arguments->futures->names.noun != NULL;
}

/* Bytes of the value pack, when all arguments are ready. */
static inline span arguments_bytes(const arguments *arguments) {
    if (arguments->values != NULL) return span_of(arguments->values->bytes, arguments->values->size);
    return span_of(arguments->small, arguments->small_size);
}

/* Whether the argument is replaced by the value of a future. */
static inline bool arguments_is_future(const mr_arg *arg) { return arg->kind == MR_KIND_REF && !arg->received; }

bool arguments_wait_by(const object_waiter *waiter); /* whether the waiter belongs to arguments */
