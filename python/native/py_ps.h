/* py_ps.h — miniray.ps's tables: connections, tables and tickets of miniray/ps.h as Python objects.
 *
 *   PsTicket ──► PsConnection ◄── PsTable
 *      ▲              │ tickets that are under way, in the order of their requests
 *      └──────────────┘
 *
 * A ticket owns the memory that its request borrows, and the connection owns the tickets under way, so nothing is freed
 * early when Python drops a ticket. A finished ticket that was dropped is removed at the next request; if its request
 * failed, the connection's next settle or begin raises the error.
 *
 * Threads  all functions require the GIL, which is released while the library is called. A connection is not closed
 * while          another thread calls it. A forked process does not use the connections of its parent. */
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
typedef struct py_model_session py_model_session;

typedef struct py_ps_connection {
    PyObject_HEAD mr_ps *ps;     /* owned; NULL: closed */
    pid_t pid;                   /* process that opened the connection */
    unsigned calls;              /* calls under way */
    unsigned requests;           /* requests so far; finished tickets are swept at intervals */
    py_ps_ticket *first, *final; /* owned: tickets under way */
    mr_status failed;            /* status of a dropped ticket; MR_OK: none failed */
    PyObject *failed_text;       /* owned; NULL: none */
    py_ps_memory *memories;      /* memory of Python arrays (py_ps_memory.c) */
    py_model_session *sessions;  /* borrowed, open: of models (py_model_session.h) */
    pthread_mutex_t lock;        /* protects the fields below, to which threads of the library add */
    pthread_cond_t news;         /* uses CLOCK_MONOTONIC */
    /* owned: requests of other processes (py_ps_control.h) */
    py_ps_message *messages, **messages_end;
    /* owned: requests with a callback (py_ps_callback.h) */
    py_ps_slip *pending, *notified, **notified_end;
} py_ps_connection;

typedef struct py_ps_table {
    PyObject_HEAD py_ps_connection *connection; /* owned */
    mr_ps_table *table;                         /* owned; NULL: the table was not opened */
    mr_ps_table_options options;                /* borrowed from the table */
} py_ps_table;

struct py_ps_ticket {
    PyObject_HEAD py_ps_connection *connection; /* owned */
    py_ps_ticket *before, *after;               /* links of the connection's list */
    mr_ps_ticket number;
    bool is_over, is_waited;  /* is_waited: a thread waits for this ticket */
    mr_status status;         /* outcome */
    PyObject *text;           /* owned: error text; NULL: none */
    Py_buffer pushed, wanted; /* owned; `obj` NULL: none */
    py_ps_keys keys;
    uint64_t *offsets;      /* owned: offsets of vectors, as in py_ps_keys_gather_vectors */
    void *gathered, *found; /* owned: values in ascending order of keys, if the given keys did not ascend */
    Py_buffer listed;       /* owned: destination of a range's keys; `obj` NULL: none */
    size_t count;           /* number of keys */
    PyObject *mark;         /* owned: version of a conditional pull; NULL: unconditional */
    size_t row;             /* bytes of a row; 0: vectors */
    mr_ps_vectors *vectors; /* owned: vectors of unknown lengths, by ascending key; NULL: none */
    uint32_t *place;        /* owned: index in `vectors` of each given key; NULL: the given keys ascend */
    size_t given;           /* number of given keys */
    size_t item;            /* bytes of a value */
};

typedef struct py_ps_mark {
    PyObject_HEAD mr_ps_version *mark; /* owned */
} py_ps_mark;

extern PyTypeObject py_ps_connection_type, py_ps_table_type, py_ps_ticket_type, py_ps_mark_type, py_ps_memory_type;

PyObject *py_ps_mark_new(const mr_ps_table *table); /* NULL with an exception */

PyObject *py_ps_connect(PyObject *module, PyObject *args);    /* (address or None, rank, timeout in s) */
PyObject *py_ps_checkpoint(PyObject *module, PyObject *args); /* (address or None, timeout in s) → its number */
PyObject *py_ps_map(PyObject *module, PyObject *args);        /* (address or None, timeout in s) → a dict */

/* Begin and end a call of the library; false with an exception: the connection is closed, or another process opened
 * it. */
bool py_ps_enter(py_ps_connection *connection);
void py_ps_leave(py_ps_connection *connection);

/* A waiting call of the library, in slices without the GIL: signals are handled between them.
 *
 *     py_ps_wait wait = py_ps_wait_begin(connection, timeout_s);
 *     while (py_ps_wait_next(&wait)) wait.status = mr_ps_flush(wait.ps, wait.slice_us);
 *
 * `status` is then the outcome of the last call, whose error text has the cause after a timeout; MR_CANCELLED: an
 * exception is set, and a KeyboardInterrupt says what was waited for. */
typedef struct py_ps_wait {
    py_ps_connection *connection; /* borrowed, entered; NULL: a scheduler is asked */
    mr_ps *ps;                    /* the connection's */
    int64_t deadline_us, slice_us, most_us;
    struct timespec begun;
    unsigned slices; /* begun so far */
    mr_status status;
    PyThreadState *thread; /* set while the GIL is released; else NULL */
} py_ps_wait;

/* A timeout of -1 with an exception set (as from PyFloat_AsDouble) ends the wait at once. */
py_ps_wait py_ps_wait_begin(PyObject *connection, double timeout_s);
bool py_ps_wait_next(py_ps_wait *wait);
struct timespec py_ps_until(double timeout_s); /* absolute time at which a wait for `news` ends */

/* Asks a scheduler, without the GIL; args: (address or None, timeout in s). False with an exception. */
typedef mr_status py_ps_ask_fn(const char *address, int64_t timeout_us, void *out);
bool py_ps_ask(PyObject *args, py_ps_ask_fn *ask, void *out);

PyObject *py_ps_outcome(mr_status status); /* None, or py_ps_raise(status) */
PyObject *py_ps_raise(mr_status status);   /* raises an error with the text of mr_last_error(); returns NULL */
PyObject *py_ps_raise_text(mr_status status, PyObject *text); /* raises an error with that text; returns NULL */

/* Methods of the connection for tables. */
/* (name, timeout, options: miniray/ps/_table_options.py) */
PyObject *py_ps_table_create(PyObject *connection, PyObject *args);
PyObject *py_ps_table_open(PyObject *connection, PyObject *args);
/* Reads such options, without the arrays, whose list is returned, borrowed. NULL with an exception. The texts are
 * borrowed from the tuple. */
PyObject *py_ps_table_options_read(PyObject *given, mr_ps_table_options *out);
PyObject *py_ps_hyperparameters(void); /* ((name, text), …) of all optimizers; NULL with an exception */

/* A ticket whose request is not made yet; the caller fills its buffers. NULL with an exception. */
py_ps_ticket *py_ps_ticket_new(py_ps_connection *connection);
void py_ps_ticket_begin(py_ps_ticket *ticket);          /* the request is under way */
void py_ps_tickets_sweep(py_ps_connection *connection); /* removes finished tickets, the oldest first */
void py_ps_tickets_end(py_ps_connection *connection);   /* ends all tickets when the connection closes */

PyObject *py_ps_memory_new(PyObject *connection, PyObject *bytes);
void py_ps_memories_leave(py_ps_connection *connection); /* before the connection closes */
