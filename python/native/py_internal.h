/* py_internal.h — state that the files of the extension share: the context of this process, and Python objects looked
 * up once.
 *
 * The state is global, as the interpreter is, since bodies that the runtime calls have no other access to it. It is
 * read and written with the GIL held. */
#pragma once
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>

#include "miniray/admin.h"
#include "miniray/runtime.h"

/* Functions and classes of the package that the extension calls, with their modules. */
#define PY_CORE_HELPERS(X)                             \
    X(dumps, "miniray._serialize.pickle")              \
    X(loads, "miniray._serialize.pickle")              \
    X(dump_function, "miniray._serialize.pickle")      \
    X(load_function, "miniray._serialize.pickle")      \
    X(reduce_inside, "miniray._actors.pinned_refs")    \
    X(raise_failure, "miniray._core_api.errors")       \
    X(describe_failure, "miniray._core_api.errors")    \
    X(error_of, "miniray._core_api.errors")            \
    X(cut, "miniray._core_api.tracebacks")             \
    X(no_attribute, "miniray._core_api.did_you_mean")  \
    X(explain, "miniray._core_api.tracebacks")         \
    X(no_ref, "miniray._core_api.did_you_mean")        \
    X(auto_init, "miniray._core_api.api")              \
    X(remote_with, "miniray._core_api.api")            \
    X(remake_function, "miniray._core_api.api")        \
    X(bind, "miniray.dag")                             \
    X(wrap, "miniray._actors.retries")                 \
    X(begin, "miniray.worker")                         \
    X(stacks, "miniray.worker")                        \
    X(say_name, "miniray.worker")                      \
    X(leave, "miniray.worker")                         \
    X(left, "miniray.worker")                          \
    X(copied, "miniray.worker")                        \
    X(has_copied, "miniray.worker")                    \
    X(end_child, "miniray.worker")                     \
    X(await_ref, "miniray._core_api.async_refs")       \
    X(future_of, "miniray._core_api.async_refs")       \
    X(async_future_of, "miniray._core_api.async_refs") \
    X(call_when_there, "miniray._core_api.async_refs") \
    X(method_options, "miniray._core_api.options")     \
    X(load, "miniray._actors.methods")                 \
    X(found_method, "miniray._actors.methods")         \
    X(function_options, "miniray._core_api.options")   \
    X(run_function, "miniray._actors.local_calls")     \
    X(run_method, "miniray._actors.local_calls")       \
    X(task_id_of, "miniray._core_api.ids")             \
    X(job_id_of, "miniray._core_api.ids")              \
    X(actor_id_of, "miniray._core_api.ids")            \
    X(admit, "miniray._actors.pending_calls")          \
    X(began, "miniray._actors.pending_calls")          \
    X(see_gpus, "miniray._core_api.cluster")           \
    X(show, "miniray._output.stdio")                   \
    X(refused, "miniray._core_api.scheduling")         \
    X(iterator, "miniray._actors.generators")          \
    X(single, "miniray._actors.generators")            \
    X(several, "miniray._actors.generators")           \
    X(generator_of, "miniray._actors.generators")      \
    X(plain_result, "miniray.train.data")              \
    X(raise_ps, "miniray.ps.errors")                   \
    X(tensor_in, "miniray._serialize.torch")

typedef unsigned long long ull; /* format "K" of Py_BuildValue */

typedef enum py_core_helper {
#define X(name, module) PY_CORE_##name,
    PY_CORE_HELPERS(X)
#undef X
        PY_CORE_HELPER_COUNT
} py_core_helper;

typedef struct py_core_state {
    mr_context *mr;              /* NULL: not running */
    uint64_t generation;         /* number of the context: handles of another generation are not released in this one */
    mr_actor actor;              /* the actor of this process; zero: no actor's process */
    bool is_hosted;              /* the actor has a host (py_reply.h) */
    PyObject *calling;           /* owned: context variable of the running call (py_reply_resume); NULL: not made yet */
    PyObject *loop_host;         /* borrowed: the host, if calls are served in the host's loop; NULL: none */
    mr_placement_group captured; /* placement group of submissions without one; zero: none */
    bool is_local;               /* tasks and methods run in the program itself (miniray/_actors/local_calls.py) */
    uint64_t calls;              /* calls that this process has begun to run */
    mr_call *call;               /* the running call of a task or of an actor without a host; NULL: none */
    const char *gpus;            /* CUDA_VISIBLE_DEVICES as in os.environ */
    unsigned waiting;            /* threads that wait in the context without the GIL, and so delay its shutdown */
    PyThreadState *serving;      /* in a worker or zygote: state of the main thread while the runtime runs on it */
    PyObject *helpers[PY_CORE_HELPER_COUNT]; /* owned; NULL: not looked up yet */
    PyObject *code;                          /* owned: {hash: function or class} that this worker has loaded */
    PyObject *names;                         /* owned: {method name: the same string, or the function that is called} */
    PyObject *start;                         /* owned: the string "start", a host's method; NULL: not made yet */
    PyTypeObject *ndarray, *tensor;          /* owned; NULL: NumPy or torch is not imported */
    /* owned (py_torch.h); NULL: torch is not imported, or not used yet */
    struct py_torch_library *torch;
    /* owned: {address: number of holders that gave it out} (py_buffer.h); NULL: none */
    PyObject *writers;
    struct mr_model_copy *model_copy; /* owned (py_shared_model.h); NULL: no model was exported as a copy, */
    uint64_t model_copy_generation;   /* made in this context */
    bool gives_arrays;                /* arrays sent by this process are writable for their receivers */
    PyObject *dtypes[MR_F64 + 1];     /* owned: the numpy.dtype of each mr_dtype; NULL: not made yet */
    void (*array_make)(void);         /* NumPy's function (py_numpy.h); NULL: not usable, */
    bool array_tried;                 /* or not looked up */
} py_core_state;

extern py_core_state core;

/* Runs a statement without the GIL. */
#define PY_CORE_WITHOUT_GIL(...)            \
    do {                                    \
        Py_BEGIN_ALLOW_THREADS __VA_ARGS__; \
        Py_END_ALLOW_THREADS                \
    } while (0)

/* The same for a statement that waits in the context, which is not shut down meanwhile. */
#define PY_CORE_WAIT(...)                 \
    do {                                  \
        core.waiting++;                   \
        PY_CORE_WITHOUT_GIL(__VA_ARGS__); \
        core.waiting--;                   \
    } while (0)

/* Fields of every type, and of types whose objects only the extension creates. */
#define PY_CORE_CLASS(name, struct_type, flags, doc)                                    \
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = name, .tp_basicsize = sizeof(struct_type), \
                                .tp_flags = Py_TPFLAGS_DEFAULT | (flags), .tp_doc = doc
#define PY_CORE_TYPE(name, struct_type, doc) PY_CORE_CLASS(name, struct_type, Py_TPFLAGS_DISALLOW_INSTANTIATION, doc)

/* A function with vectorcall arguments or with keywords, for a table of functions. */
#define PY_CORE_FAST(function) (PyCFunction)(void (*)(void))(function)

/* Returns the function, borrowed, and imports its module at first use. NULL with an exception. */
PyObject *py_core_helper_get(py_core_helper which);

/* Removes the package's frames from the traceback of the exception that is set (miniray/_core_api/tracebacks.py). */
void py_core_cut(void);

/* Defines NAME_public: a function of vectorcall arguments that calls NAME, and cuts the traceback of its exception. */
#define PY_CORE_PUBLIC(name)                                                                                      \
    static PyObject *name##_public(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords) { \
        PyObject *result = name(self, args, count, keywords);                                                     \
        if (result == NULL) py_core_cut();                                                                        \
        return result;                                                                                            \
    }

/* Calls the function with the arguments of Py_BuildValue(format), which is in parentheses. NULL with an exception,
 * without frames of the package. */
PyObject *py_core_call(py_core_helper which, const char *format, ...);

/* Drops the result of such a call, and prints its exception, which no caller receives. */
void py_core_report(py_core_helper which, PyObject *done);

/* A list of of(item) for `count` consecutive items of `size` bytes. NULL with an exception. */
PyObject *py_core_list(const void *items, size_t count, size_t size, PyObject *(*of)(const void *item));

/* Add to a list or dict. Key and item are moved. If one is NULL, an exception is set, and the container becomes NULL.
 * An add to NULL is a no-op. */
void py_core_append(PyObject **list, PyObject *item);
void py_core_insert(PyObject **dict, PyObject *key, PyObject *item);

/* The running context, started if there is none. NULL with an exception. */
mr_context *py_core_context(void);

/* Sets the context of the process; NULL: lost. */
void py_core_set_context(mr_context *mr);

/* Raises the exception of a status other than MR_OK, with the text of mr_last_error(). Returns NULL. */
PyObject *py_core_raise(mr_status status);
