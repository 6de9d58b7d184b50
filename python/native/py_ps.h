/* py_ps.h — miniray.ps's tables: connections, tables and tickets of miniray/ps.h as Python objects.
 *
 *   PsTicket ──► PsConnection ◄── PsTable
 *      ▲              │ tickets that are under way, in the order of their requests
 *      └──────────────┘
 *
 * What a request borrows belongs to its ticket, and a ticket that is under way to its connection: so nothing is lost
 * when Python drops it. One that was dropped, and is over, is forgotten with the next request; if it failed, the next
 * settle or begin of the connection says so.
 *
 * Threads  everything with the GIL, which is given up while the library is called. A connection is not closed while
 *          another thread calls it. A process that was forked does not use the connections of its parent. */
#pragma once
#include "python/native/py_internal.h"

#include "miniray/ps.h"
#include "python/native/py_ps_keys.h"

typedef struct py_ps_ticket py_ps_ticket;
typedef struct py_ps_memory py_ps_memory;

typedef struct py_ps_connection {
    PyObject_HEAD mr_ps *ps;     /* owned; NULL: closed */
    pid_t pid;                   /* of the process that opened it */
    unsigned calls;              /* under way */
    unsigned requests;           /* that were made: now and then those that are over are forgotten */
    py_ps_ticket *first, *final; /* owned: under way */
    mr_status failed;            /* of one that nobody has asked after; MR_OK: none */
    PyObject *failed_text;       /* owned; NULL: none */
    struct py_ps_message_queue
        *message_queue;     /* owned: requests of other processes (py_ps_control.h); NULL: it handles none */
    py_ps_memory *memories; /* that arrays of Python lie in (py_ps_memory.c) */
    struct py_ps_callback_queue
        *callback_queue; /* owned: requests whose end is told (py_ps_callback.h); NULL: of none */
} py_ps_connection;

typedef struct py_ps_table {
    PyObject_HEAD py_ps_connection *connection; /* owned */
    mr_ps_table *table;                         /* owned; NULL: it was never opened */
    mr_ps_table_options options;                /* borrowed of it */
} py_ps_table;

struct py_ps_ticket {
    PyObject_HEAD py_ps_connection *connection; /* owned */
    py_ps_ticket *before, *after;               /* of the connection's */
    mr_ps_ticket number;
    bool is_over, is_waited;  /* the latter: by a thread */
    mr_status status;         /* how */
    PyObject *text;           /* owned: why; NULL: it went well */
    Py_buffer pushed, wanted; /* owned, `obj` NULL: none */
    py_ps_keys keys;
    uint64_t *offsets;      /* owned: of vectors, as py_ps_keys_gather_vectors has them */
    void *gathered, *found; /* owned: of keys that did not ascend */
    Py_buffer listed;       /* owned: where the keys of a range go; `obj` NULL: none */
    size_t count;           /* of them */
    PyObject *mark;         /* owned: of a conditional pull; NULL: it is none */
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

/* A call of the library that waits: in slices without the GIL, so that signals are heeded. MR_CANCELLED: an exception
 * is set. */
typedef mr_status py_ps_wait_fn(mr_ps *ps, void *what, int64_t timeout_us);
mr_status py_ps_patiently(py_ps_connection *connection, py_ps_wait_fn *wait, void *what, double timeout_s);
mr_status py_ps_wait(PyObject *connection, py_ps_wait_fn *wait, void *what, PyObject *timeout); /* likewise */

/* What a scheduler says, asked without the GIL; args: (address or None, timeout in s). False with an exception. */
typedef mr_status py_ps_ask_fn(const char *address, int64_t timeout_us, void *out);
bool py_ps_ask(PyObject *args, py_ps_ask_fn *ask, void *out);

PyObject *py_ps_outcome(mr_status status);                    /* None, or what py_ps_raise does */
PyObject *py_ps_raise(mr_status status);                      /* with the text of mr_last_error(); NULL */
PyObject *py_ps_raise_text(mr_status status, PyObject *text); /* NULL */

/* Tables, for methods of the connection. */
PyObject *py_ps_table_create(PyObject *connection,
                             PyObject *args); /* (name, timeout, options: miniray/ps/_table_options.py) */
PyObject *py_ps_table_open(PyObject *connection, PyObject *args);
PyObject *py_ps_hyperparameters(void); /* ((name, text), …) of those that optimizers have; NULL with an exception */

/* A ticket of a request that is not made yet: its buffers are the caller's to fill. NULL with an exception. */
py_ps_ticket *py_ps_ticket_new(py_ps_connection *connection);
void py_ps_ticket_begin(py_ps_ticket *ticket);          /* the request is under way */
void py_ps_tickets_sweep(py_ps_connection *connection); /* forgets what is over, of the oldest */
void py_ps_tickets_end(py_ps_connection *connection);   /* all of them: it is closed */

PyObject *py_ps_memory_new(PyObject *connection, PyObject *bytes);
void py_ps_memories_leave(py_ps_connection *connection); /* it is about to be closed */
