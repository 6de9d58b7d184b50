/* miniray/runtime.h — tasks, actors and objects.
 *
 * A program opens a context, names its tasks and classes with the macros below, and calls them:
 *
 *     MR_TASK(add) {
 *         int64_t a, b;
 *         MR_TRY(mr_arg_int(call, 0, &a));
 *         MR_TRY(mr_arg_int(call, 1, &b));
 *         return mr_return(call, mr_int(a + b));
 *     }
 *
 *     int main(void) {
 *         mr_context *mr;
 *         mr_ref sum;
 *         mr_value value;
 *         if (mr_init(NULL, &mr) != MR_OK) …
 *         mr_call_task(mr, "add", &sum, mr_int(2), mr_int(3));
 *         mr_get(mr, sum, MR_FOREVER, &value);
 *
 * Workers are this same program, started again by the node, with its environment but without its arguments: in them
 * mr_init does not return, it serves until the node is done. So call it first, before anything that should happen once
 * only. Tasks and classes may also be in shared objects that the program is linked with, or loads before mr_init.
 *
 * Threads: a context may be used from any thread. Calls to an actor from one process run in the order they were made.
 */
#pragma once
#include "miniray/value.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mr_context mr_context; /* opaque */

/* What is called in the process that workers are copies of (mr_options.fork); each may be NULL. Handlers of
 * pthread_atfork are not called there. */
typedef struct mr_fork {
    void (*before)(void);           /* a copy is about to be made */
    void (*parent)(void);           /* it was, or could not be */
    void (*child)(uint32_t number); /* in the copy: of those that were asked for, from 1 */
} mr_fork;

/* Shows whole lines, which workers wrote to their stdout (fd 1) or stderr (fd 2); they are borrowed for the call. It is
 * called on a thread of the library or in mr_shutdown, one call at a time. Further lines wait for it, and functions of
 * mr_on_ready, too: it should not block. */
typedef void mr_print_fn(void *user, int fd, const char *text, size_t size);

typedef struct mr_options { /* zero means the default everywhere */
    const char *address; /* of a lasting node (`miniray start`) to join: "auto" or the path of its socket; default: the
                            option address (MINIRAY_ADDRESS), and without that a private node, which ends with us */
    int num_workers;     /* of a private node: tasks that run at once; default: the CPUs of the machine */
    double num_gpus;     /* of a private node; if CUDA_VISIBLE_DEVICES is set, it has the first ones of that list */
    const char *resources;  /* of a private node: "name=2,other=0.5" */
    size_t store_bytes;     /* of a private node: shared memory; default: arena_bytes, or 30 % (miniray/node.h) */
    const char *name_space; /* where this program's actors have their names; default: one of its own */
    int log_to_driver;      /* what workers print appears on this program's streams: 0 yes, < 0 no, files only */
    /* Of a program whose executable is not the whole of it, such as an interpreter: */
    const char *const *worker; /* arguments, ended by NULL, with which the executable is a worker and calls mr_init */
    /* Not NULL: a worker is no start of its own but a copy, made when it is needed, of one process that has run up to
     * mr_init. That is for programs which do much before it, and have one thread by then; else it is as if NULL. */
    const mr_fork *fork;
    const char *node;   /* executable of a private node: any that has this library and need do nothing else */
    mr_print_fn *print; /* what workers print is shown by this; default: on stdout and stderr, as they did */
    void *print_user;
} mr_options;

enum { MR_FOREVER = -1, MR_DETAIL_MAX = 32 * 1024, MR_ABOUT_MAX = 8 * 1024, MR_CODE_MAX = 8 * 1024, MR_STREAM = -2 };
enum { MR_DEATHS_ONLY = 2 }; /* of errors_as_values */

MR_API MR_MUST mr_status mr_init(const mr_options *options, mr_context **out);
MR_API const char *mr_address(const mr_context *mr); /* of the node that it has joined; borrowed till mr_shutdown */
/* While a call waits for shared memory (mr_put, arguments, results), fn is asked several times a second, on the thread
 * that waits, whether to give up: if it says so the call fails with MR_CANCELLED, and nothing has happened. It is for
 * languages in which Ctrl-C has to be asked for. NULL: nobody is asked. */
typedef bool mr_interrupt_fn(void *user);
MR_API void mr_on_memory_wait(mr_context *mr, mr_interrupt_fn *fn, void *user);
MR_API void mr_shutdown(mr_context *mr); /* ends what it started; who waits gets MR_CLOSED; values stay; NULL: no-op */

/* ---- Writing tasks and classes. A body is `mr_status (mr_call *call)`. It returns MR_OK, or a failure: its own
 * through mr_fail, or any that MR_TRY passed on. */

typedef struct mr_call mr_call; /* opaque; lives as long as the body runs */
typedef mr_status mr_body_fn(mr_call *call);

/* Names are borrowed for ever. The name "*" is any task, class or method that has no body of its own; the body then
 * asks mr_call_name. That is how another language, whose functions are not known by name beforehand, runs them. */
MR_API void mr_register_task(const char *name, mr_body_fn *body);
MR_API void mr_register_method(const char *class_name, const char *method, mr_body_fn *body); /* NULL method: create */

#define MR_TASK(name)                                                                                 \
    static mr_status name(mr_call *call);                                                             \
    __attribute__((constructor)) static void name##_register(void) { mr_register_task(#name, name); } \
    static mr_status name(mr_call *call)
#define MR_CREATE(class_name)                                              \
    static mr_status class_name##_create(mr_call *call);                   \
    __attribute__((constructor)) static void class_name##_register(void) { \
        mr_register_method(#class_name, NULL, class_name##_create);        \
    }                                                                      \
    static mr_status class_name##_create(mr_call *call)
#define MR_METHOD(class_name, method)                                                 \
    static mr_status class_name##_##method(mr_call *call);                            \
    __attribute__((constructor)) static void class_name##_##method##_register(void) { \
        mr_register_method(#class_name, #method, class_name##_##method);              \
    }                                                                                 \
    static mr_status class_name##_##method(mr_call *call)

MR_API mr_context *mr_call_context(mr_call *call);    /* borrowed: tasks may start tasks and actors */
MR_API const char *mr_call_name(const mr_call *call); /* of the task, the class or the method; borrowed like the call */
/* The GPUs that the body running in this process has, by their numbers on the machine: how many, and the first `room`
 * of them; one that has a name instead (CUDA_VISIBLE_DEVICES) is -1. None where nobody asked for any, and in a program.
 */
MR_API size_t mr_gpu_ids(mr_context *mr, int *out, size_t room);
/* The code that came with the name; size 0: none. *kept is the body's own, NULL at first, and the same place for every
 * call of that name and code in this process. */
MR_API mr_span mr_call_code(mr_call *call, void ***kept);
MR_API size_t mr_arg_count(const mr_call *call);
/* Each answers MR_INVALID and names the argument if it is not there or of another kind. */
MR_API MR_MUST mr_status mr_arg_value(mr_call *call, size_t index, mr_value *out); /* borrowed until the body returns */
/* The same for longer: the caller's until mr_value_release, at the same place in memory if it is large. */
MR_API MR_MUST mr_status mr_arg_keep(mr_call *call, size_t index, mr_value *out);
MR_API MR_MUST mr_status mr_arg_int(mr_call *call, size_t index, int64_t *out);
MR_API MR_MUST mr_status mr_arg_float(mr_call *call, size_t index, double *out);
MR_API MR_MUST mr_status mr_arg_str(mr_call *call, size_t index, mr_span *out);
MR_API MR_MUST mr_status mr_arg_tensor(mr_call *call, size_t index, mr_tensor *out);
MR_API MR_MUST mr_status mr_arg_ref(mr_call *call, size_t index,
                                    mr_ref *out); /* one that was passed with mr_value_arg */
MR_API MR_MUST mr_status mr_arg_actor(mr_call *call, size_t index, mr_actor *out);
MR_API MR_MUST mr_status mr_return(mr_call *call, mr_arg value); /* copied before it returns; the last one counts */
/* One of several values, when the caller asked for them (num_returns): each must be returned. */
MR_API size_t mr_return_count(const mr_call *call); /* how many those are */
MR_API MR_MUST mr_status mr_return_at(mr_call *call, size_t index, mr_arg value);
/* A value that is written where it will lie, for large results: tensors in it have no data (NULL). As soon as there is
 * room, fill is called, once, by this thread: it writes the data of those that are not empty at these places, in their
 * order. What it returns other than MR_OK is what this returns, and nothing was returned then. Who dies in between
 * leaves nothing behind. fill must not wait for others, nor keep the places. */
typedef mr_status mr_fill_fn(void *user, void *const *places, size_t count);
MR_API MR_MUST mr_status mr_return_filled(mr_call *call, size_t index, mr_arg value, mr_fill_fn *fill, void *user);
/* The same value as that which was returned as `as`: it is there once, however many get it. */
MR_API MR_MUST mr_status mr_return_same(mr_call *call, size_t index, size_t as);
/* One of a stream of values, when the caller asked for one (num_returns MR_STREAM). Waits while more than the caller
 * wanted are not taken yet. MR_CANCELLED: nobody takes them any more; the body should return. MR_CLOSED: its worker
 * ends, the body should return; whoever takes them is told of that end, whatever it returns. What the body itself
 * returns, or else how many it gave, is the value of the stream's own future. */
MR_API MR_MUST mr_status mr_yield(mr_call *call, mr_arg value); /* copied before it returns */
/* The same for a body that must not wait, such as one that runs in a loop: MR_BUSY, and nothing has happened. */
MR_API MR_MUST mr_status mr_try_yield(mr_call *call, mr_arg value);
MR_API bool mr_call_streams(const mr_call *call); /* whether the caller asked for a stream */
/* Whether nobody waits for the result any more (mr_cancel): a body that takes long asks now and then, and returns. The
 * tasks that it has submitted are cancelled already. */
MR_API bool mr_call_cancelled(mr_call *call);
/* The same as a notice: fn is called exactly once, and `user` is its from then on. With true, on a thread of the
 * library, as soon as it is known that nobody waits any more; with false when the call has ended without that, on the
 * thread that ended it. It must not block. MR_INVALID: this call has one already. */
typedef void mr_cancel_fn(void *user, bool cancelled);
MR_API MR_MUST mr_status mr_on_cancel(mr_call *call, mr_cancel_fn *fn, void *user);
MR_API mr_status mr_fail(mr_call *call, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same, with bytes that whoever asks for the result can read (mr_failure_detail): another language's exception.
 * They are copied. More than MR_DETAIL_MAX are left out. */
MR_API mr_status mr_fail_with(mr_call *call, mr_span detail, const char *message);
/* For a body that hands its call on, to a thread or a loop of its own: it says mr_defer first and returns MR_OK;
 * whoever has the call says mr_return or mr_fail and then mr_finish, once, from any thread. The call and its arguments
 * live till then, and calls that came later begin meanwhile. */
MR_API void mr_defer(mr_call *call);
MR_API void mr_finish(mr_call *call, mr_status status); /* the call is gone */
/* Whoever goes on with such a call says so before it submits something: what this process submits from then on, until
 * this is said again or a body begins, is this call's, and is cancelled with it; with NULL nobody's. What one submits
 * that was cancelled already is nobody's. With several threads: said and submitted under one lock. */
MR_API void mr_resume(mr_context *mr, mr_call *call);
/* For an actor whose thread has more to wait for than calls, such as the event loop of another language: said in the
 * body that creates it. When there is nothing to run, the thread calls fn(user) instead of waiting, and fn serves until
 * mr_serve says MR_CLOSED. */
MR_API void mr_set_loop(mr_call *call, void (*fn)(void *user), void *user);
/* In that fn: runs the bodies of calls that have come; if there are none it waits for some, at most timeout_us (0: not
 * at all). MR_TIMEOUT: there were none, or somebody said mr_serve_wake. MR_CLOSED: the runtime is over. */
MR_API MR_MUST mr_status mr_serve(mr_context *mr, int64_t timeout_us);
MR_API void mr_serve_wake(mr_context *mr); /* from any thread: mr_serve returns, or the next one does at once */
/* In a body whose caller asks the same of others before it asks for more here, as a sync of models does: whoever waits
 * in this process next, till something comes, sleeps at once instead of looking for a while first. Only where there are
 * more processes than CPUs, so that it would be in the way of those others. */
MR_API void mr_yield_cpu(mr_context *mr);
MR_API mr_actor mr_call_self(const mr_call *call); /* the actor whose method it is; zero: a task */
MR_API MR_MUST mr_status mr_set_self(mr_call *call, void *self, void (*destroy)(void *)); /* self is moved */
MR_API void *mr_self(mr_call *call);

/* ---- Calling. */

typedef struct mr_task_options { /* zero means the default everywhere */
    const char *name;            /* of an actor: others find it by this */
    const char *name_space;      /* of a named actor: where; default: that of the program */
    int detached;                /* of an actor: it outlives the program, until it is killed or the node ends */
    double num_cpus;             /* of a task: 1 by default, < 0: none; of an actor: none by default */
    double num_gpus;
    const char *resources; /* "name=2,other=0.5" */
    int max_retries;       /* of a task whose worker dies: 0 means 3, < 0 none */
    int max_calls;         /* of a task: a worker that has run so many of this name ends; 0: any number */
    int max_restarts;      /* of an actor whose process dies: 0 none */
    int num_returns;       /* of a task or a call: 0 means 1; `out` has room for that many. MR_STREAM: as they come */
    int stream_ahead;      /* of a stream: results that may wait to be taken, before the body has to; 0 means 16 */
    int errors_as_values;  /* of a task or a call: a future among the arguments that failed arrives as an error value
                              (mr_value_error) instead of failing the call. MR_DEATHS_ONLY: only if an actor or a worker
                              died (MR_ACTOR_DIED, MR_WORKER_DIED) */
    int max_concurrency;   /* of an actor: threads that run its methods, and share what mr_self gives; 0 means 1. Calls
                              begin in their order */
    int max_call_retries;  /* of calls that are lost with the actor's process, when it is started again: how often they
                              are sent again, in their order; so they may run more than once. Of an actor: for the calls
                              of the program that creates it; of a call: for that one, < 0 none */
    mr_span code;  /* of a task: what belongs to its name, such as the function of another language; at most MR_CODE_MAX
                      bytes. It goes to each worker once, and mr_call_code gives it to the body */
    mr_span about; /* of an actor: what others may read of it (mr_actor_info), such as another language's list of its
                      methods; at most MR_ABOUT_MAX bytes */
    mr_placement_group
        placement_group; /* of a task or an actor: its resources are those of this group (miniray/placement.h) */
    int bundle;          /* of that group, counted from 1; 0: any that has room */
    int native; /* of an actor whose class the library has itself: its process is the node's executable, and has nothing
                   of the program (miniray/deployment.h) */
} mr_task_options;

#define MR_ARGS(...) \
    (mr_arg[]){mr_nil(), ##__VA_ARGS__} + 1, sizeof((mr_arg[]){mr_nil(), ##__VA_ARGS__}) / sizeof(mr_arg) - 1
#define mr_call_task(mr, name, out, ...)           mr_task_submit(mr, name, NULL, MR_ARGS(__VA_ARGS__), out)
#define mr_new_actor(mr, class_name, out, ...)     mr_actor_create(mr, class_name, NULL, MR_ARGS(__VA_ARGS__), out)
#define mr_call_actor(mr, actor, method, out, ...) mr_actor_submit(mr, actor, method, NULL, MR_ARGS(__VA_ARGS__), out)

/* None of these waits for a result; creating an actor waits until the node has taken it, unless an argument is a future
 * that is still to come: then a refusal shows in the calls. What an actor is created with, and what that refers to, is
 * kept as long as it may be created (max_restarts), whatever becomes of its creator; but a future inside of a value,
 * which is not there yet, is lost with the process that made it. An actor may call itself; if it has one thread, it
 * must not wait for that. `out` may be NULL: nobody waits for the result; a failure is then printed once. */
MR_API MR_MUST mr_status mr_task_submit(mr_context *mr, const char *name, const mr_task_options *options,
                                        const mr_arg *args, size_t count, mr_ref *out);
MR_API MR_MUST mr_status mr_actor_create(mr_context *mr, const char *class_name, const mr_task_options *options,
                                         const mr_arg *args, size_t count, mr_actor *out);
MR_API MR_MUST mr_status mr_actor_submit(mr_context *mr, mr_actor actor, const char *method,
                                         const mr_task_options *options, const mr_arg *args, size_t count, mr_ref *out);
/* In that name space; NULL: the program's own. Waits for the node's answer. */
MR_API MR_MUST mr_status mr_actor_find(mr_context *mr, const char *name, const char *name_space, mr_actor *out);
/* An actor that is not detached ends when no process has a handle of it any more and its calls have run. Who creates or
 * finds one has a handle; one found inside a value is borrowed as a future is, and who needs it longer says
 * mr_actor_retain. At that end its state is destroyed, as mr_set_self says; whoever kills one, or ends its program,
 * ends its process at once. */
MR_API MR_MUST mr_status mr_actor_retain(mr_context *mr, mr_actor actor); /* MR_NOT_FOUND: this process has none */
MR_API void mr_actor_release(mr_context *mr, mr_actor actor);
MR_API MR_MUST mr_status mr_actor_kill(mr_context *mr, mr_actor actor);
/* Ends its process as if it had died: the actor is started again if it may be (max_restarts). */
MR_API MR_MUST mr_status mr_actor_restart(mr_context *mr, mr_actor actor);

typedef struct mr_actor_info {                        /* what anybody who has a handle can know */
    char class_name[256], name[256], name_space[256]; /* name "": none */
    uint32_t starts;                                  /* of its process: more than 1, and it has been restarted */
    size_t about_size;
    uint8_t about[MR_ABOUT_MAX]; /* as its creator wrote it */
} mr_actor_info;

/* Waits for the node's answer, not for the actor. MR_NOT_FOUND: it is not there yet, or died long ago. */
MR_API MR_MUST mr_status mr_actor_info_get(mr_context *mr, mr_actor actor, mr_actor_info *out);

/* ---- Groups: several tasks and calls that are submitted as one. Nothing of a group runs before it is submitted; then
 * everything does, in the order in which it was added. Futures made in it may be arguments in it. Whoever waits for one
 * of them waits until the group is submitted. */

typedef struct mr_batch mr_batch; /* opaque; used by one thread at a time */

MR_API MR_MUST mr_status mr_batch_open(mr_context *mr, mr_batch **out);
MR_API MR_MUST mr_status mr_batch_task(mr_batch *group, const char *name, const mr_task_options *options,
                                       const mr_arg *args, size_t count, mr_ref *out);
MR_API MR_MUST mr_status mr_batch_actor(mr_batch *group, mr_actor actor, const char *method,
                                        const mr_task_options *options, const mr_arg *args, size_t count, mr_ref *out);
MR_API MR_MUST mr_status mr_batch_submit(mr_batch *group); /* the group is gone; MR_CLOSED: nothing of it will run */
MR_API void mr_batch_cancel(mr_batch *group); /* nothing of it runs, its futures are MR_CANCELLED; NULL: no-op */

/* ---- Objects.
 *
 * A future as an argument (mr_future) is replaced by its value. Inside another value (a list, a map, a result, what is
 * put) it stays a reference: mr_value_ref reads it, and mr_get, mr_wait and mr_future take it, in whatever process it
 * is. It is borrowed as long as the value that it was read from: until the body returns, or mr_value_release. Who needs
 * it longer says mr_retain. What it names lives as long as anybody has a reference to it or a value that refers to it.
 * If the process that made the reference dies: what was there when it was passed on came along with it, with what that
 * refers to; what came later is brought to whoever retains it as soon as it is there. Only what never was, or was not
 * brought yet, is lost: MR_OBJECT_LOST, and mr_last_error() says which process it was and how it ended. */

MR_API MR_MUST mr_status mr_put(mr_context *mr, mr_arg value, mr_ref *out);
/* As mr_return_filled. */
MR_API MR_MUST mr_status mr_put_filled(mr_context *mr, mr_arg value, mr_fill_fn *fill, void *user, mr_ref *out);
/* A failure is that of the task; mr_last_error() tells its story. MR_TIMEOUT: not there in time. */
MR_API MR_MUST mr_status mr_get(mr_context *mr, mr_ref ref, int64_t timeout_us, mr_value *out);
/* Copies bytes of a value (of mr_get or mr_arg_keep, not released yet) as they were when it was made. A value is not
 * written to; but a language whose arrays know no const may do so to a large one, and nobody but this process sees
 * that: this is how it gives the value out again. */
MR_API MR_MUST mr_status mr_read_sealed(mr_context *mr, const void *bytes, size_t size, void *out);
/* Whether that is so of these: they lie in the machine's shared memory, and who writes to them has copies of its own.
 * Else the next one who gets the value in this process would see it. */
MR_API bool mr_is_private_copy(mr_context *mr, const void *bytes);
/* Waits until `want` of them are there (or failed). ready[i] is set to 0 or 1; MR_TIMEOUT sets them too. */
MR_API MR_MUST mr_status mr_wait(mr_context *mr, const mr_ref *refs, size_t count, size_t want, int64_t timeout_us,
                                 unsigned char *ready, size_t *ready_count);
/* Tells when it is there (or failed): fn is called exactly once, at once by the caller's thread if it is there already,
 * else on a thread of the library, and not later than mr_shutdown. It may use the runtime, but must not block: all
 * others wait for it. The future need not be kept for that; who wants its value keeps it. */
typedef void mr_ready_fn(void *user, mr_ref ref);
MR_API MR_MUST mr_status mr_on_ready(mr_context *mr, mr_ref ref, mr_ready_fn *fn, void *user);
/* Of a future that is there and failed: why, as an error value. MR_INVALID: it did not fail, or is not there yet. */
MR_API MR_MUST mr_status mr_failure(mr_context *mr, mr_ref ref, mr_value *out);
/* Of a future that failed: the detail that the body gave with mr_fail_with, even if it came by way of other tasks that
 * waited for it. `size` is what there is, 0 if none; at most `room` bytes are copied. */
MR_API MR_MUST mr_status mr_failure_detail(mr_context *mr, mr_ref ref, void *out, size_t room, size_t *size);
/* One future for several: the list of their values, when all are there; it fails when the first of them does. */
MR_API MR_MUST mr_status mr_join(mr_context *mr, const mr_ref *refs, size_t count, mr_ref *out);

/* ---- Streams: what a body gives with mr_yield, one after another, while it runs. The future that num_returns =
 * MR_STREAM gives stands for the whole: it is there when the body has ended, mr_cancel ends it, and who releases the
 * last reference to it tells the body that nobody takes the rest. A stream is tried again after the death of its worker
 * only if nothing has come of it. It is taken in the process that asked for it. */

/* The next result: a future that is there, the caller's from now on. When the body or its worker has failed, the last
 * one is a future that failed with that. MR_END: there are no more. MR_TIMEOUT: not there in time, ask again. */
MR_API MR_MUST mr_status mr_stream_next(mr_context *mr, mr_ref stream, int64_t timeout_us, mr_ref *out);
/* The same future before it is there, for mr_wait and mr_on_ready; borrowed until mr_stream_next gives it or the stream
 * is released. If there are no more it fails with MR_END. */
MR_API MR_MUST mr_status mr_stream_peek(mr_context *mr, mr_ref stream, mr_ref *out);

/* Ends the task or the call of an actor that makes it: one that waits never runs, one that runs is told
 * (mr_call_cancelled, mr_on_cancel), and what it has submitted is cancelled, too, as are the tasks that it
 * submits from then on. Of an actor with several threads, or after mr_defer, it is not known what the body submits. The
 * futures fail with MR_CANCELLED. MR_NOT_FOUND: it is there already, or nothing makes it. One that another process
 * made, and that was found inside a value, is cancelled by that process, which is told without waiting for it: MR_OK
 * says no more than that, and the future shows what came of it. MR_OBJECT_LOST: that process is gone. */
MR_API MR_MUST mr_status mr_cancel(mr_context *mr, mr_ref ref);
/* The same of a task that need not listen: if it runs, its worker is killed. MR_INVALID: it is the call of an actor. */
MR_API MR_MUST mr_status mr_cancel_force(mr_context *mr, mr_ref ref);
/* The same as mr_cancel, but what it has submitted goes on. */
MR_API MR_MUST mr_status mr_cancel_only(mr_context *mr, mr_ref ref);
MR_API MR_MUST mr_status mr_retain(mr_context *mr, mr_ref ref); /* one more reference. MR_NOT_FOUND: it is released */
MR_API void mr_release(mr_context *mr, mr_ref ref);             /* one less; its task still runs */

#ifdef __cplusplus
}
#endif
