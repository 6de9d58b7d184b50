/* py_ps.h — miniray.ps's tables: connections, tables and tickets of miniray/ps.h as Python objects.
 *
 *   PsTicket ──► PsConnection ◄── PsTable
 *      ▲              │ tickets that are under way, in the order of their requests
 *      └──────────────┘
 *
 * A ticket owns the memory that its request borrows, and the connection owns the tickets under way: so nothing is freed
 * early when Python drops a ticket. A dropped ticket that is over is forgotten with the next request; if it failed, the
 * next settle or begin of the connection raises the error.
 *
 * Threads  everything with the GIL, which is released while the library is called. A connection is not closed while
 *          another thread calls it. A forked process does not use the connections of its parent. */
#pragma once
#include "python/native/py_internal.h"

#include <pthread.h>
#include <time.h>

#include "miniray/ps.h"
#include "python/native/py_ps_keys.h"

typedef struct py_ps_ticket py_ps_ticket;
typedef struct py_ps_memory py_ps_memory;
typedef struct py_ps_slip py_ps_slip;
typedef struct py_ps_message py_ps_message;

typedef struct py_ps_connection {
    PyObject_HEAD mr_ps *ps;     /* owned; NULL: closed */
    pid_t pid;                   /* of the process that opened it */
    unsigned calls;              /* under way */
    unsigned requests;           /* made so far: now and then finished ones are forgotten */
    py_ps_ticket *first, *final; /* owned: under way */
    mr_status failed;            /* of a dropped ticket; MR_OK: none */
    PyObject *failed_text;       /* owned; NULL: none */
    py_ps_memory *memories;      /* memory of Python arrays (py_ps_memory.c) */
    pthread_mutex_t lock;        /* of the following, to which threads of the library add */
    pthread_cond_t news;         /* with CLOCK_MONOTONIC */
    /* owned: requests of other processes (py_ps_control.h) */
    py_ps_message *messages, **messages_end;
    /* owned: requests with a callback (py_ps_callback.h) */
    py_ps_slip *pending, *notified, **notified_end;
} py_ps_connection;

typedef struct py_ps_table {
    PyObject_HEAD py_ps_connection *connection; /* owned */
    mr_ps_table *table;                         /* owned; NULL: it was never opened */
    mr_ps_table_options options;                /* borrowed from the table */
} py_ps_table;

struct py_ps_ticket {
    PyObject_HEAD py_ps_connection *connection; /* owned */
    py_ps_ticket *before, *after;               /* in the connection's list */
    mr_ps_ticket number;
    bool is_over, is_waited;  /* the latter: by a thread */
    mr_status status;         /* outcome */
    PyObject *text;           /* owned: error; NULL: none */
    Py_buffer pushed, wanted; /* owned, `obj` NULL: none */
    py_ps_keys keys;
    uint64_t *offsets;      /* owned: of vectors, as py_ps_keys_gather_vectors has them */
    void *gathered, *found; /* owned: of keys that did not ascend */
    Py_buffer listed;       /* owned: destination of the keys of a range; `obj` NULL: none */
    size_t count;           /* of them */
    PyObject *mark;         /* owned: of a conditional pull; NULL: not conditional */
    size_t row;             /* bytes; 0: vectors */
};

typedef struct py_ps_mark {
    PyObject_HEAD mr_ps_version *mark; /* owned */
} py_ps_mark;

extern PyTypeObject py_ps_connection_type, py_ps_table_type, py_ps_ticket_type, py_ps_mark_type, py_ps_memory_type;

PyObject *py_ps_mark_new(const mr_ps_table *table); /* NULL with an exception */

PyObject *py_ps_connect(PyObject *module, PyObject *args);    /* (address or None, rank, timeout in s) */
PyObject *py_ps_checkpoint(PyObject *module, PyObject *args); /* (address or None, timeout in s) → its number */
PyObject *py_ps_map(PyObject *module, PyObject *args);        /* (address or None, timeout in s) → a dict */

/* Begins and ends a call of the library; false with an exception: it is closed, or of another process. */
bool py_ps_enter(py_ps_connection *connection);
void py_ps_leave(py_ps_connection *connection);

/* A waiting call of the library, in slices without the GIL: signals are handled between them.
 *
 *     py_ps_wait wait = py_ps_wait_begin(connection, timeout_s);
 *     while (py_ps_wait_next(&wait)) wait.status = mr_ps_flush(wait.ps, wait.slice_us);
 *
 * `status` is then the outcome of the last call; MR_CANCELLED: an exception is set. */
typedef struct py_ps_wait {
    py_ps_connection *connection; /* borrowed, entered; NULL: a scheduler is asked */
    mr_ps *ps;                    /* of the connection */
    int64_t deadline_us, slice_us, most_us;
    mr_status status;
    PyThreadState *thread; /* while the GIL is released; else NULL */
} py_ps_wait;

/* -1 with an exception, of PyFloat_AsDouble, is a timeout that ends the wait at once. */
py_ps_wait py_ps_wait_begin(PyObject *connection, double timeout_s);
bool py_ps_wait_next(py_ps_wait *wait);
struct timespec py_ps_until(double timeout_s); /* when a wait for `news` ends */

/* The answer of a scheduler, asked without the GIL; args: (address or None, timeout in s). False with an exception. */
typedef mr_status py_ps_ask_fn(const char *address, int64_t timeout_us, void *out);
bool py_ps_ask(PyObject *args, py_ps_ask_fn *ask, void *out);

PyObject *py_ps_outcome(mr_status status);                    /* None, or as py_ps_raise */
PyObject *py_ps_raise(mr_status status);                      /* with the text of mr_last_error(); NULL */
PyObject *py_ps_raise_text(mr_status status, PyObject *text); /* NULL */

/* Tables, for methods of the connection. */
/* (name, timeout, options: miniray/ps/_table_options.py) */
PyObject *py_ps_table_create(PyObject *connection, PyObject *args);
PyObject *py_ps_table_open(PyObject *connection, PyObject *args);
PyObject *py_ps_hyperparameters(void); /* ((name, text), …) of all optimizers; NULL with an exception */

/* A ticket of a request that is not made yet: the caller fills its buffers. NULL with an exception. */
py_ps_ticket *py_ps_ticket_new(py_ps_connection *connection);
void py_ps_ticket_begin(py_ps_ticket *ticket);          /* the request is under way */
void py_ps_tickets_sweep(py_ps_connection *connection); /* forgets finished ones, the oldest first */
void py_ps_tickets_end(py_ps_connection *connection);   /* all of them: the connection is closed */

PyObject *py_ps_memory_new(PyObject *connection, PyObject *bytes);
void py_ps_memories_leave(py_ps_connection *connection); /* the connection is about to be closed */
