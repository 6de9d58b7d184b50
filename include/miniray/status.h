/* miniray/status.h — outcomes.
 *
 * Every function that can fail returns mr_status. Outputs come last and are set only on MR_OK. mr_last_error() tells,
 * for the calling thread, what went wrong, where it came from and what to do about it. Numbers travel between machines
 * and versions: one that was given is never given again. */
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

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
    X(END, 19, "there are no more")

typedef enum mr_status {
#define X(name, number, text) MR_##name = (number),
    MR_STATUS_LIST(X)
#undef X
} mr_status;

#define MR_MUST __attribute__((warn_unused_result))
#define MR_API  __attribute__((visibility("default")))

/* Passes any failure on to the caller. */
#define MR_TRY(call)                          \
    do {                                      \
        mr_status status_ = (call);           \
        if (status_ != MR_OK) return status_; \
    } while (0)

MR_API const char *mr_status_name(mr_status status); /* static: "TIMEOUT"; "UNKNOWN" for a number that is none */
MR_API const char *mr_status_text(mr_status status); /* static: "not done in time" */
MR_API const char *mr_last_error(void);              /* borrowed until this thread's next failing call; "" if none */
MR_API const char *mr_version(void);                 /* static: "0.1.0" */

#ifdef __cplusplus
}
#endif
