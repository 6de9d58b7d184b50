/* miniray/runtime.h — tasks, actors and objects.
 *
 * A program defines tasks and classes with the macros below, opens a context and calls them:
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
 * Workers are processes of the same executable, which the node starts with the program's environment but without its
 * arguments. In a worker mr_init does not return: it serves calls until the node ends the worker. Therefore call
 * mr_init first, before anything that must happen once only. Tasks and classes may also be in shared objects that the
 * program is linked with or loads before mr_init.
 *
 * Threads: a context may be used from any thread. Calls of an actor from one process run in the order in which they
 * were submitted. miniray/status.h has the rules for options, zero, negative numbers and timeouts. */
#pragma once
#include "miniray/value.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mr_context mr_context; /* opaque */

/* Hooks of the zygote, the process that workers are forked from (mr_options.fork). Each may be NULL. Handlers of
 * pthread_atfork are not called there. */
typedef struct mr_fork {
    void (*before)(void);           /* before a fork */
    void (*parent)(void);           /* after it, in the zygote, also if the fork failed */
    void (*child)(uint32_t number); /* after it, in the worker; workers are numbered from 1 */
} mr_fork;

/* Receives complete lines that workers wrote to stdout (fd 1) or stderr (fd 2); the text is borrowed for the call. The
 * function is called on a thread of the library or in mr_shutdown, one call at a time. It should not block: further
 * lines and the callbacks of mr_on_ready wait for it. */
typedef void mr_print_fn(void *user, int fd, const char *text, size_t size);

typedef struct mr_options {
    size_t size;
    /* Address of a standalone node (`miniray start`) to join: "auto" or the path of its socket. [the option address
     * (MINIRAY_ADDRESS); without it a private node, which ends with the program] */
    const char *address;
    int num_workers;   /* private node: tasks that run at once [the CPUs that this process may use: affinity, cgroup] */
    int log_to_driver; /* lines of workers appear on the program's stdout and stderr [yes]; negative: in files only */
    double num_gpus;   /* private node: GPUs; with CUDA_VISIBLE_DEVICES the first ones of that list [0] */
    const char *resources;  /* private node: "name=2,other=0.5" [none] */
    size_t store_bytes;     /* private node: shared memory [arena_bytes, else mr_store_bytes_default] */
    const char *name_space; /* of the program's named actors [a namespace of this program only] */
    /* The following are for programs whose executable is an interpreter. */
    const char *const *worker; /* arguments, NULL-terminated, of the executable as a worker, which calls mr_init */
    /* Not NULL: workers are forked from one process that has run up to mr_init. This saves time in programs that do
     * much before mr_init. Ignored if that process has several threads at mr_init. [each worker is a new process] */
    const mr_fork *fork;
    const char *node;   /* executable of a private node; any that contains this library [the program's] */
    mr_print_fn *print; /* shows lines that workers print [writes them to stdout and stderr] */
    void *print_user;
} mr_options;

enum {
    MR_DETAIL_MAX = 32 * 1024, /* bytes of mr_fail_with's detail */
    MR_ABOUT_MAX = 8 * 1024,   /* bytes of mr_actor_options.about */
    MR_CODE_MAX = 8 * 1024,    /* bytes of mr_task_options.code */
    MR_STREAM = -2             /* num_returns: a stream of results */
};

/* MR_INVALID: an option is wrong, or this process is a worker. MR_NOT_FOUND: no node runs at the address. */
MR_API MR_MUST mr_status mr_init(const mr_options *options, mr_context **out);
MR_API const char *mr_address(const mr_context *mr); /* of the node; borrowed until mr_shutdown */
/* Sets a function that is called several times a second while a call waits for shared memory (mr_put, arguments,
 * results), on the thread of that call. If fn returns true, the call fails with MR_CANCELLED and has no effect. For
 * languages that must poll for Ctrl-C. fn NULL: none. */
typedef bool mr_interrupt_fn(void *user);
MR_API void mr_on_memory_wait(mr_context *mr, mr_interrupt_fn *fn, void *user);
/* Sets how waits of the calling thread for futures (mr_get, mr_wait, mr_wait_all), streams (mr_stream_next), placement
 * groups and calls (mr_serve) are interrupted, for example by a signal whose handler writes to a pipe. fn is called on
 * that thread, outside the wait: once when the thread has waited for 10 ms, then whenever `fd` (borrowed) is readable,
 * which fn must read. If fn returns true, the call fails with MR_CANCELLED, and fn may have ended the runtime; else the
 * wait continues with the rest of its timeout. One thread of a process can be interrupted. fn NULL: none. */
MR_API MR_MUST mr_status mr_on_interrupt(mr_context *mr, int fd, mr_interrupt_fn *fn, void *user);
/* Sets a function that describes what this process is doing, for example the call stack of another language: fn writes
 * at most `size` bytes of text and returns their number. It is called for `miniray why`, on a thread of its own and
 * without a lock of the library, so it may block. Call mr_on_describe before mr_init. */
typedef size_t mr_describe_fn(void *user, char *out, size_t size);
MR_API void mr_on_describe(mr_describe_fn *fn, void *user);
/* Ends the present and later waits of all threads, which return MR_CLOSED, before mr_shutdown: for a program whose
 * threads must have left the library by then. */
MR_API void mr_end_waits(mr_context *mr);
/* Ends a private node and leaves a standalone one. Waiting calls return MR_CLOSED; values stay readable. */
MR_API void mr_shutdown(mr_context *mr);

/* ---- Defining tasks and classes. A body has the type mr_body_fn. It returns MR_OK or a failure: its own (mr_fail) or
 * one that MR_TRY passed on. */

typedef struct mr_call mr_call; /* opaque: one execution of a body; lives as long as the body runs */
typedef mr_status mr_body_fn(mr_call *call);

/* Names are borrowed for ever. The name "*" stands for every task, class or method without a body of its own; that body
 * reads the name with mr_call_name. Bindings of other languages use it. */
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

MR_API mr_context *mr_call_context(mr_call *call);    /* borrowed: bodies may submit tasks and create actors */
MR_API const char *mr_call_name(const mr_call *call); /* of the task, class or method; borrowed like the call */
/* The GPUs assigned to the body that runs in this process: returns their count and writes the machine's numbers of the
 * first `room` of them; -1 for a GPU that CUDA_VISIBLE_DEVICES gives as a name instead of a number. In a program, which
 * is not a worker, the count is 0. */
MR_API size_t mr_gpu_ids(mr_context *mr, int *out, size_t room);
/* For bindings of languages that write the output of bodies themselves. A worker could not write to its stdout or
 * stderr for the reason `error`, an errno: its body should continue, and the driver gets one warning for its job. */
MR_API void mr_output_lost(mr_context *mr, int error);
/* The code that came with the name (mr_task_options.code); size 0: none. *kept is a pointer for the body's own use,
 * NULL at first, the same for every call of that name and code in this process. */
MR_API mr_span mr_call_code(mr_call *call, void ***kept);

MR_API size_t mr_arg_count(const mr_call *call);
/* MR_INVALID: the argument is missing or has another kind; the error names it. */
MR_API MR_MUST mr_status mr_arg_value(mr_call *call, size_t index, mr_value *out); /* borrowed until the body returns */
MR_API MR_MUST mr_status mr_arg_keep(mr_call *call, size_t index, mr_value *out);  /* owned: until mr_value_release */
MR_API MR_MUST mr_status mr_arg_int(mr_call *call, size_t index, int64_t *out);
MR_API MR_MUST mr_status mr_arg_float(mr_call *call, size_t index, double *out);
MR_API MR_MUST mr_status mr_arg_str(mr_call *call, size_t index, mr_span *out);
MR_API MR_MUST mr_status mr_arg_tensor(mr_call *call, size_t index, mr_tensor *out);
MR_API MR_MUST mr_status mr_arg_ref(mr_call *call, size_t index,
                                    mr_ref *out); /* to pass the reference itself on, use mr_value_arg */
MR_API MR_MUST mr_status mr_arg_actor(mr_call *call, size_t index, mr_actor *out);

MR_API MR_MUST mr_status mr_return(mr_call *call, mr_arg value); /* copies the value; the last call counts */
/* Several results (num_returns): the body must return each of them. */
MR_API size_t mr_return_count(const mr_call *call);
MR_API MR_MUST mr_status mr_return_at(mr_call *call, size_t index, mr_arg value);
/* Returns a large value that is written in place. Tensors in `value` have no data (NULL). The library allocates them in
 * shared memory and calls fill once, on this thread, with the places of the tensors that are not empty, in their order.
 * A status of fill other than MR_OK is returned, and nothing is returned to the caller. fill must not wait for other
 * processes, nor keep the places. */
typedef mr_status mr_fill_fn(void *user, void *const *places, size_t count);
MR_API MR_MUST mr_status mr_return_filled(mr_call *call, size_t index, mr_arg value, mr_fill_fn *fill, void *user);
/* Returns the value of result `as` as result `index`, too. The value is stored once. */
MR_API MR_MUST mr_status mr_return_same(mr_call *call, size_t index, size_t as);

/* Adds one result to the stream that the caller asked for (num_returns = MR_STREAM); copies it. Waits while
 * stream_ahead results are not taken. MR_CANCELLED: the caller has released the stream. MR_CLOSED: the worker ends.
 * The body should return after both. The value that the body returns, else the count of results, is the value of the
 * stream's future. */
MR_API MR_MUST mr_status mr_yield(mr_call *call, mr_arg value);
MR_API MR_MUST mr_status mr_try_yield(mr_call *call, mr_arg value); /* does not wait. MR_BUSY: no room, and no effect */
MR_API bool mr_call_streams(const mr_call *call);                   /* true: the caller asked for a stream */

/* True: the call was cancelled (mr_cancel). A long body should check it and return. Tasks that the body has submitted
 * are cancelled already. */
MR_API bool mr_call_cancelled(mr_call *call);
/* Calls fn exactly once: with true, on a thread of the library, when the call is cancelled; with false, on the thread
 * that ends the call, when the call ends without that. fn must not block. MR_INVALID: the call has such a function. */
typedef void mr_cancel_fn(void *user, bool cancelled);
MR_API MR_MUST mr_status mr_on_cancel(mr_call *call, mr_cancel_fn *fn, void *user);

MR_API mr_status mr_fail(mr_call *call, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* As mr_fail, with bytes that readers of the result get with mr_failure_detail, such as another language's exception.
 * The bytes are copied; a detail of more than MR_DETAIL_MAX bytes is left out. */
MR_API mr_status mr_fail_with(mr_call *call, mr_span detail, const char *message);

/* Lets the body return before its call ends: the body calls mr_defer, hands the call to another thread or a loop, and
 * returns MR_OK. That thread calls mr_return or mr_fail and then mr_finish, once, perhaps before the body has returned.
 * The call and its arguments live until then; later calls of the actor begin meanwhile. A body that cannot hand over
 * its call returns another status, which ends the call: mr_finish must not follow. */
MR_API void mr_defer(mr_call *call);
MR_API void mr_finish(mr_call *call, mr_status status); /* frees the call */
/* Makes `call` the parent of everything that this process submits until the next mr_resume or the next body; children
 * are cancelled with their parent. NULL: no parent. With several threads, hold one lock over mr_resume and the
 * submissions that belong to it. */
MR_API void mr_resume(mr_context *mr, mr_call *call);

/* For an actor whose thread also runs another event loop; call it in the body that creates the actor. When the thread
 * has no call to run, the library calls fn(user), which must call mr_serve until that returns MR_CLOSED. */
MR_API void mr_set_loop(mr_call *call, void (*fn)(void *user), void *user);
/* Inside that fn: runs the bodies of calls that have arrived, else waits for calls. MR_OK: bodies ran, or mr_serve_wake
 * was called. MR_TIMEOUT: neither. MR_CLOSED: the runtime has ended. */
MR_API MR_MUST mr_status mr_serve(mr_context *mr, int64_t timeout_us);
MR_API void mr_serve_wake(mr_context *mr); /* from any thread: makes the running mr_serve return, or the next one */
/* A hint: the next wait of this process sleeps at once instead of polling first. It helps in a body whose caller has to
 * run other processes next, as a sync of models does, and applies only where processes outnumber CPUs. */
MR_API void mr_yield_cpu(mr_context *mr);

MR_API mr_actor mr_call_self(const mr_call *call); /* the actor of the body; zero in a task */
MR_API MR_MUST mr_status mr_set_self(mr_call *call, void *self,
                                     void (*destroy)(void *)); /* sets the actor's state; self is moved */
MR_API void *mr_self(mr_call *call);

/* ---- State of an actor that survives its process (max_restarts). When mr_state_set returns MR_OK, the node has the
 * state, and the actor's next process can read it, in MR_CREATE or later. A call of mr_state_set replaces all parts at
 * once. A part that is a whole value of mr_arg_keep or mr_state_get (mr_value_arg) is not copied. */
enum { MR_STATE_PARTS_MAX = 16 };
/* In the body of an actor. MR_INVALID: in a task; no parts or too many; a part contains a future or a handle. MR_NOMEM,
 * MR_TOO_LARGE. After an error the state is what it was. */
MR_API MR_MUST mr_status mr_state_set(mr_call *call, const mr_arg *parts, size_t count);
/* Reads one part; owned: until mr_value_release. MR_NOT_FOUND: the actor has no such part, or no state at all. */
MR_API MR_MUST mr_status mr_state_get(mr_call *call, size_t index, mr_value *out);
/* Identifies a call that may be sent again after the death of the actor's process: its caller, and its number among
 * the caller's calls of this actor, which grows from call to call and is the same whenever the call is sent. A process
 * may die between mr_state_set and the answer; an actor that keeps caller and number in its state recognizes the call
 * when it is sent again. 0: the call is sent once. */
MR_API uint64_t mr_call_number(const mr_call *call, uint64_t *caller);

/* ---- Calling. */

enum { MR_ERRORS_FAIL = 0, MR_ERRORS_PASS = 1, MR_ERRORS_PASS_DEATHS = 2 }; /* errors_as_values */

typedef struct mr_task_options {
    size_t size;
    double num_cpus;       /* [1]; negative: none */
    double num_gpus;       /* may be a fraction [0] */
    const char *resources; /* "name=2,other=0.5" [none] */
    int max_retries;       /* retries after the death of the worker [3]; negative: none */
    int max_calls;         /* a worker that has run so many tasks of this name ends [MR_NO_LIMIT] */
    int num_returns;       /* results; `out` has room for that many [1]. MR_STREAM: a stream of results */
    int stream_ahead;      /* of a stream: results that may wait to be taken before mr_yield waits, 1 to 1,024 [16] */
    /* A future among the arguments that failed fails the task [MR_ERRORS_FAIL]. MR_ERRORS_PASS: it arrives as an error
     * value (mr_value_error) instead. MR_ERRORS_PASS_DEATHS: only if an actor or a worker died. */
    int errors_as_values;
    int bundle;                         /* of the placement group, counted from 1 [any with room] */
    mr_placement_group placement_group; /* the task uses resources of this group (miniray/placement.h) [none] */
    /* Bytes that belong to the name, such as a function of another language, at most MR_CODE_MAX. They are sent to each
     * worker once; the body reads them with mr_call_code. [none] */
    mr_span code;
} mr_task_options;

typedef struct mr_actor_options {
    size_t size;
    const char *name;       /* other programs find the actor by it (mr_actor_find) [none] */
    const char *name_space; /* of the name [the program's] */
    double num_cpus;        /* [0]; negative: none, as for tasks */
    double num_gpus;        /* may be a fraction [0] */
    const char *resources;  /* "name=2,other=0.5" [none] */
    int detached;           /* 1: the actor outlives the program, until it is killed or the node ends [0] */
    int max_restarts;       /* restarts after the death of its process [0] */
    int max_concurrency;    /* threads that run its methods and share its state, 1 to 1,000 [1]; calls begin in order */
    /* Calls that are lost with the process are sent again after its restart, at most so often, in order; they may run
     * more than once. For calls of the creating program. [0] */
    int max_call_retries;
    mr_placement_group placement_group; /* the actor uses resources of this group [none] */
    int bundle;                         /* of that group, counted from 1 [any with room] */
    int native;    /* 1: the class is the library's own, and the process is the node's executable [0] */
    mr_span about; /* bytes for mr_actor_info_get, such as the list of methods, at most MR_ABOUT_MAX [none] */
} mr_actor_options;

typedef struct mr_call_options { /* of a method call */
    size_t size;
    int num_returns;      /* as for a task [1] */
    int stream_ahead;     /* as for a task [16] */
    int errors_as_values; /* as for a task [MR_ERRORS_FAIL] */
    int max_retries;      /* as max_call_retries of the actor, for this call [the actor's]; negative: none */
} mr_call_options;

/* mr_call_task(mr, name, out, arguments…), mr_new_actor(mr, class_name, out, arguments…) and mr_call_actor(mr, actor,
 * method, out, arguments…) submit with default options; each argument is a mr_arg. MR_ARGS(arguments…) stands for the
 * parameters `args` and `count` of the functions below. */
#ifdef __cplusplus
extern "C++" {
template <typename... Args>
char (&mr_count_args(const Args &...))[sizeof...(Args) + 1];
template <size_t count>
struct mr_args {
    mr_arg list[count];
    const mr_arg *args() const { return list; }
};
}
#define MR_ARGS(...) \
    mr_args<sizeof(mr_count_args(__VA_ARGS__))>{{__VA_ARGS__}}.args(), sizeof(mr_count_args(__VA_ARGS__)) - 1
#else
#define MR_ARGS(...) \
    (const mr_arg[]){mr_nil(), __VA_ARGS__} + 1, sizeof((const mr_arg[]){mr_nil(), __VA_ARGS__}) / sizeof(mr_arg) - 1
#define MR_FIRST_(first, ...)       first
#define MR_AFTER_(first, ...)       MR_ARGS(__VA_ARGS__)
#define mr_call_task(mr, name, ...) mr_task_submit(mr, name, NULL, MR_AFTER_(__VA_ARGS__, ), MR_FIRST_(__VA_ARGS__, ))
#define mr_new_actor(mr, class_name, ...) \
    mr_actor_create(mr, class_name, NULL, MR_AFTER_(__VA_ARGS__, ), MR_FIRST_(__VA_ARGS__, ))
#define mr_call_actor(mr, actor, method, ...) \
    mr_actor_submit(mr, actor, method, NULL, MR_AFTER_(__VA_ARGS__, ), MR_FIRST_(__VA_ARGS__, ))
#endif

/* The following functions do not wait for a result. mr_actor_create waits until the node has accepted the actor, unless
 * an argument is a future without a value: then calls of the actor fail if the node refuses it. The arguments of an
 * actor's creation are kept as long as the actor may be restarted; but a future without a value inside an argument is
 * lost with the process that made it. An actor may call itself; with one thread it must not wait for that call. `out`
 * NULL: the result is dropped, and a failure is printed once. MR_NOT_FOUND: no such task or class. MR_INVALID: an
 * option or an argument is wrong. */
MR_API MR_MUST mr_status mr_task_submit(mr_context *mr, const char *name, const mr_task_options *options,
                                        const mr_arg *args, size_t count, mr_ref *out);
MR_API MR_MUST mr_status mr_actor_create(mr_context *mr, const char *class_name, const mr_actor_options *options,
                                         const mr_arg *args, size_t count, mr_actor *out);
MR_API MR_MUST mr_status mr_actor_submit(mr_context *mr, mr_actor actor, const char *method,
                                         const mr_call_options *options, const mr_arg *args, size_t count, mr_ref *out);
#ifdef __cplusplus
extern "C++" {
template <typename... Args>
inline mr_status mr_call_task(mr_context *mr, const char *name, mr_ref *out, const Args &...args) {
    const mr_arg list[] = {mr_nil(), args...};
    return mr_task_submit(mr, name, NULL, list + 1, sizeof...(args), out);
}
template <typename... Args>
inline mr_status mr_new_actor(mr_context *mr, const char *class_name, mr_actor *out, const Args &...args) {
    const mr_arg list[] = {mr_nil(), args...};
    return mr_actor_create(mr, class_name, NULL, list + 1, sizeof...(args), out);
}
template <typename... Args>
inline mr_status mr_call_actor(mr_context *mr, mr_actor actor, const char *method, mr_ref *out, const Args &...args) {
    const mr_arg list[] = {mr_nil(), args...};
    return mr_actor_submit(mr, actor, method, NULL, list + 1, sizeof...(args), out);
}
}
#endif

/* Finds a named actor; `name_space` NULL: the program's. Waits for the node's answer. MR_NOT_FOUND. */
MR_API MR_MUST mr_status mr_actor_find(mr_context *mr, const char *name, const char *name_space, mr_actor *out);
/* An actor that is not detached ends when no process has a handle of it and its calls have run; its state is then
 * destroyed (mr_set_self). mr_actor_create and mr_actor_find give a handle. A handle inside a value is borrowed, as a
 * future is; mr_actor_retain keeps it longer. MR_NOT_FOUND: this process has no handle of the actor. */
MR_API MR_MUST mr_status mr_actor_retain(mr_context *mr, mr_actor actor);
MR_API void mr_actor_release(mr_context *mr, mr_actor actor);
MR_API MR_MUST mr_status mr_actor_kill(mr_context *mr, mr_actor actor); /* ends its process at once, for good */
/* Ends its process as if the process had died: the actor is restarted if max_restarts allows it. */
MR_API MR_MUST mr_status mr_actor_restart(mr_context *mr, mr_actor actor);

typedef struct mr_actor_info {
    char class_name[256], name[256], name_space[256]; /* name "": none */
    uint32_t starts;                                  /* starts of its process; more than 1: it was restarted */
    size_t about_size;
    uint8_t about[MR_ABOUT_MAX]; /* mr_actor_options.about */
} mr_actor_info;

/* Waits for the node's answer, not for the actor. MR_NOT_FOUND: the actor is not created yet, or died long ago. */
MR_API MR_MUST mr_status mr_actor_info_get(mr_context *mr, mr_actor actor, mr_actor_info *out);

/* ---- Batches: several tasks and calls that are submitted together. Nothing of a batch runs before mr_batch_submit;
 * then all of it runs, in the order of its additions. Futures of a batch may be arguments in it. Waiting for such a
 * future waits until the batch is submitted. */

typedef struct mr_batch mr_batch; /* opaque; used by one thread at a time */

MR_API MR_MUST mr_status mr_batch_open(mr_context *mr, mr_batch **out);
MR_API MR_MUST mr_status mr_batch_task(mr_batch *batch, const char *name, const mr_task_options *options,
                                       const mr_arg *args, size_t count, mr_ref *out);
MR_API MR_MUST mr_status mr_batch_actor(mr_batch *batch, mr_actor actor, const char *method,
                                        const mr_call_options *options, const mr_arg *args, size_t count, mr_ref *out);
MR_API MR_MUST mr_status mr_batch_submit(mr_batch *batch); /* frees the batch. MR_CLOSED: nothing of it will run */
MR_API void mr_batch_cancel(mr_batch *batch);              /* frees the batch; its futures fail with MR_CANCELLED */

/* ---- Objects.
 *
 * A future that is an argument (mr_future) is replaced by its value. A future inside another value (a list, a map, a
 * result, an object) stays a reference: mr_value_ref reads it; mr_get, mr_wait and mr_future take it, in any
 * process. It is borrowed as long as the value that it was read from: until the body returns, or mr_value_release.
 * mr_retain keeps it longer. An object lives as long as a reference to it, or a value that refers to it, exists.
 *
 * After the death of the process that made a reference, the object is lost (MR_OBJECT_LOST) only if it had no value
 * yet, or if the value was not sent yet to the process that retains the reference. The error says which process died
 * and how. */

MR_API MR_MUST mr_status mr_put(mr_context *mr, mr_arg value, mr_ref *out);
/* Puts a large value that is written in place, as mr_return_filled. */
MR_API MR_MUST mr_status mr_put_filled(mr_context *mr, mr_arg value, mr_fill_fn *fill, void *user, mr_ref *out);
/* Waits for the value of a future. If the task failed, returns its failure; mr_last_error() gives the text and causes.
 * MR_TIMEOUT: the text names the cause (mr_why), if the timeout was 0.1 s or more. */
MR_API MR_MUST mr_status mr_get(mr_context *mr, mr_ref ref, int64_t timeout_us, mr_value *out);
/* Writes a line with what makes a pending future, the cause for which it is not ready, and the command that shows more:
 * "task 'f' (object o2:1.1); cause: p3 (worker, process 4711): it runs g for p2, for 2.5 s; `miniray why o2:1.1` shows
 * more". Nodes and processes that do not answer within `timeout_us` (MR_FOREVER: 0.1 s) are left out. "": the future is
 * ready. At most `room` bytes with the NUL are written. MR_NOT_FOUND: it was released. */
MR_API MR_MUST mr_status mr_why(mr_context *mr, mr_ref ref, int64_t timeout_us, char *out, size_t room);
/* Copies bytes of a value (from mr_get or mr_arg_keep, not released) as they were when the value was made. Languages
 * without constant arrays may write to their view of a large value; only this process sees the change, and this
 * function reads the original. */
MR_API MR_MUST mr_status mr_read_sealed(mr_context *mr, const void *bytes, size_t size, void *out);
/* True: the bytes lie in shared memory, and writing to them changes private copies of their pages. False: the next
 * reader of the value in this process sees the change. */
MR_API bool mr_is_private_copy(mr_context *mr, const void *bytes);
/* Waits until all futures have a value or one has failed, and sets the index of the first failed one, or `count`.
 * MR_TIMEOUT. */
MR_API MR_MUST mr_status mr_wait_all(mr_context *mr, const mr_ref *refs, size_t count, int64_t timeout_us,
                                     size_t *failed);
/* Waits until `want` of the futures have a value or failed. Sets ready[i] to 0 or 1, also on MR_TIMEOUT. */
MR_API MR_MUST mr_status mr_wait(mr_context *mr, const mr_ref *refs, size_t count, size_t want, int64_t timeout_us,
                                 unsigned char *ready, size_t *ready_count);
/* Calls fn exactly once when the future has a value or failed: at once on this thread if it has, else on a thread of
 * the library, at the latest in mr_shutdown. fn may use the runtime but must not block: other callbacks wait for it.
 * The future may be released meanwhile; retain it to read its value in fn. */
typedef void mr_ready_fn(void *user, mr_ref ref);
MR_API MR_MUST mr_status mr_on_ready(mr_context *mr, mr_ref ref, mr_ready_fn *fn, void *user);
/* The failure of a future as an error value. MR_INVALID: the future has a value, or is not finished. */
MR_API MR_MUST mr_status mr_failure(mr_context *mr, mr_ref ref, mr_value *out);
/* The detail of a failure (mr_fail_with), also if the failure came through other tasks. Copies at most `room` bytes;
 * *size is the size of the detail, 0: none. */
MR_API MR_MUST mr_status mr_failure_detail(mr_context *mr, mr_ref ref, void *out, size_t room, size_t *size);
/* One future for several: its value is the list of their values; it fails as soon as one of them fails. */
MR_API MR_MUST mr_status mr_join(mr_context *mr, const mr_ref *refs, size_t count, mr_ref *out);

/* ---- Streams: results that a body gives one after another with mr_yield. The future of a submission with
 * num_returns = MR_STREAM stands for the whole stream: it has a value when the body has ended, mr_cancel cancels the
 * body, and releasing its last reference tells the body that the rest is not wanted. A stream is retried after the
 * death of its worker only if it has given no result. Only the process that submitted it can read it. */

/* The next result: a future with a value, owned by the caller. If the body or its worker fails, the last result is a
 * future with that failure. MR_END: no more results. MR_TIMEOUT: call again. */
MR_API MR_MUST mr_status mr_stream_next(mr_context *mr, mr_ref stream, int64_t timeout_us, mr_ref *out);
/* The future of the next result before it has a value, for mr_wait and mr_on_ready; borrowed until mr_stream_next gives
 * it or the stream is released. At the end of the stream it fails with MR_END. */
MR_API MR_MUST mr_status mr_stream_peek(mr_context *mr, mr_ref stream, mr_ref *out);

/* Cancels the task or actor call that makes the object. A call that has not begun never runs; a running one is notified
 * (mr_call_cancelled, mr_on_cancel). Everything that the call has submitted, or submits later, is cancelled, too; for
 * an actor with several threads, and after mr_defer, only what mr_resume attributes to it. The futures fail with
 * MR_CANCELLED. MR_NOT_FOUND: the object has a value, or no task makes it. A future of another process is cancelled by
 * that process: MR_OK then means that the request was sent. MR_OBJECT_LOST: that process is gone. */
MR_API MR_MUST mr_status mr_cancel(mr_context *mr, mr_ref ref);
MR_API MR_MUST mr_status mr_cancel_force(mr_context *mr,
                                         mr_ref ref);                /* kills the worker. MR_INVALID: an actor's call */
MR_API MR_MUST mr_status mr_cancel_only(mr_context *mr, mr_ref ref); /* not what the call has submitted */
MR_API MR_MUST mr_status mr_retain(mr_context *mr, mr_ref ref);      /* adds a reference. MR_NOT_FOUND: released */
MR_API void mr_release(mr_context *mr, mr_ref ref);                  /* removes a reference; the task still runs */

#ifdef __cplusplus
}
#endif
