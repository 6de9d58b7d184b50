/* miniray/status.h — status codes, and the rules that all headers follow.
 *
 * Errors      Every function that can fail returns mr_status. Outputs are the last parameters and are set only on
 *             MR_OK. mr_last_error() gives the text of the calling thread's last error: the operation, the object, the
 *             numbers and the next step.
 * Options     An option struct begins with `size`, which MR_INIT or MR_OPTIONS sets. A later release may add fields at
 *             its end: programs that were built before keep working, and the new fields have their defaults. NULL in
 *             place of a struct means: all defaults. A struct without `size` does not change while the SONAME stays.
 *                 mr_task_options options = MR_INIT(mr_task_options);                      C and C++
 *                 options.num_gpus = 1;
 *                 … &MR_OPTIONS(mr_task_options, .num_gpus = 1, .max_retries = 5) …        C
 * Zero        Zero (0, 0.0, NULL) is the default of every option. The comment gives the default in brackets: [1].
 * Negative    A negative number means none, never or off, in options whose comment says so: those whose default is
 *             another number. Every other negative number, a NaN, an unknown constant, a text that cannot be parsed and
 *             a size that is too small are MR_INVALID, and the error names the field and its value. MR_NO_LIMIT as a
 *             count means: as often as needed.
 * Timeouts    Timeouts are microseconds (`timeout_us`). A negative timeout (MR_FOREVER) waits without a limit. Zero
 *             does not wait: the call succeeds if its result is available, else it returns MR_TIMEOUT. In an option
 *             struct zero is the default, as for every option. Other durations are microseconds, too (`_us`).
 * Pointers    A pointer parameter is borrowed for the call unless its comment says otherwise: *borrowed* until when,
 *             *moved* (the callee frees it), *owned*. Functions that free accept NULL.
 * Threads     Functions may be called from any thread unless the comment of their type says otherwise. */
#pragma once
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* X(name, number, text). Processes of other versions and machines use the same numbers: a number is never used for
 * another status. */
#define MR_STATUS_LIST(X)                                            \
    X(OK, 0, "done")                                                 \
    X(INVALID, 1, "an argument is wrong")                            \
    X(NOT_FOUND, 2, "no such name, object or node")                  \
    X(EXISTS, 3, "the name is taken")                                \
    X(TIMEOUT, 4, "not done in time")                                \
    X(CANCELLED, 5, "cancelled")                                     \
    X(BUSY, 6, "full at the moment, try again")                      \
    X(NOMEM, 7, "out of memory")                                     \
    X(TOO_LARGE, 8, "larger than the limit")                         \
    X(DENIED, 9, "not allowed")                                      \
    X(CORRUPT, 10, "the bytes are not what they should be")          \
    X(PEER_DIED, 11, "the process on the other side is gone")        \
    X(STALE, 12, "decided by others meanwhile: a newer view exists") \
    X(CLOSED, 13, "closed or shut down")                             \
    X(IO, 14, "the system refused")                                  \
    X(TASK_FAILED, 15, "the task returned an error")                 \
    X(WORKER_DIED, 16, "the worker died")                            \
    X(ACTOR_DIED, 17, "the actor is gone")                           \
    X(OBJECT_LOST, 18, "no copy of the object is left")              \
    X(END, 19, "there are no more")                                  \
    X(EVICTED, 20, "ended to free memory; it is tried again")

typedef enum mr_status {
#define X(name, number, text) MR_##name = (number),
    MR_STATUS_LIST(X)
#undef X
} mr_status;

enum {
    MR_FOREVER = -1,         /* as a timeout: waits without a limit */
    MR_NO_LIMIT = 0x7fffffff /* as a count of retries or restarts: as often as needed */
};

#define MR_MUST __attribute__((warn_unused_result))
#define MR_API  __attribute__((visibility("default")))

/* Returns from the calling function with any status other than MR_OK. */
#define MR_TRY(call)                          \
    do {                                      \
        mr_status status_ = (call);           \
        if (status_ != MR_OK) return status_; \
    } while (0)

/* MR_INIT(type): the initial value of an option struct, all defaults. MR_OPTIONS(type, .field = value, …): a struct
 * with these fields, at least one; C only. */
#ifdef __cplusplus
extern "C++" {
template <typename Type>
inline Type mr_init_options() {
    Type options = Type();
    options.size = sizeof(Type);
    return options;
}
}
#define MR_INIT(type) mr_init_options<type>()
#else
#define MR_INIT(type) \
    { .size = sizeof(type) }
#define MR_OPTIONS(type, ...) ((type){.size = sizeof(type), __VA_ARGS__})
#endif

MR_API const char *mr_status_name(mr_status status); /* static: "TIMEOUT"; "UNKNOWN" for any other number */
MR_API const char *mr_status_text(mr_status status); /* static: "not done in time" */
MR_API const char *mr_last_error(void);              /* borrowed until this thread's next failing call; "" if none */
MR_API const char *mr_version(void);                 /* static: "0.2.0" */

/* For "did you mean": the name of `known` that `name` most likely means, in spite of a few wrong, missing or swapped
 * letters, or of its case. Borrowed from `known`. NULL: none is similar. */
MR_API const char *mr_nearest_name(const char *name, const char *const *known, size_t count);

#ifdef __cplusplus
}
#endif
