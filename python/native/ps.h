/* ps.h — miniray.ps's tables: connections, tables and tickets of miniray/ps.h as Python objects.
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
#include "python/native/core.h"

#include "miniray/ps.h"
#include "python/native/ps_keys.h"

typedef struct ps_ticket ps_ticket;
typedef struct ps_memory ps_memory;

typedef struct ps_connection {
    PyObject_HEAD mr_ps *ps;  /* owned; NULL: closed */
    pid_t pid;                /* of the process that opened it */
    unsigned calls;           /* under way */
    unsigned requests;        /* that were made: now and then those that are over are forgotten */
    ps_ticket *first, *final; /* owned: under way */
    mr_status failed;         /* of one that nobody has asked after; MR_OK: none */
    PyObject *failed_text;    /* owned; NULL: none */
    struct ps_inbox *inbox;   /* owned: requests of other processes (ps_office.h); NULL: it handles none */
    ps_memory *memories;      /* that arrays of Python lie in (ps_lent.c) */
    struct ps_bell *bell;     /* owned: requests whose end is told (ps_told.h); NULL: of none */
} ps_connection;

typedef struct ps_table {
    PyObject_HEAD ps_connection *connection; /* owned */
    mr_ps_table *table;                      /* owned; NULL: it was never opened */
    mr_ps_table_options options;             /* borrowed of it */
} ps_table;

struct ps_ticket {
    PyObject_HEAD ps_connection *connection; /* owned */
    ps_ticket *before, *after;               /* of the connection's */
    mr_ps_ticket number;
    bool is_over, is_waited;  /* the latter: by a thread */
    mr_status status;         /* how */
    PyObject *text;           /* owned: why; NULL: it went well */
    Py_buffer pushed, wanted; /* owned, `obj` NULL: none */
    ps_keys keys;
    uint64_t *offsets;      /* owned: of vectors, as ps_keys_gather_vectors has them */
    void *gathered, *found; /* owned: of keys that did not ascend */
    Py_buffer listed;       /* owned: where the keys of a range go; `obj` NULL: none */
    size_t count;           /* of them */
    PyObject *mark;         /* owned: of a conditional pull; NULL: it is none */
    size_t row;             /* bytes; 0: vectors */
};

typedef struct ps_mark {
    PyObject_HEAD mr_ps_version *mark; /* owned */
} ps_mark;

extern PyTypeObject ps_connection_type, ps_table_type, ps_ticket_type, ps_mark_type, ps_memory_type;

PyObject *ps_mark_new(const mr_ps_table *table); /* NULL with an exception */

PyObject *ps_connect(PyObject *module, PyObject *args);    /* (address or None, rank, timeout in s) */
PyObject *ps_checkpoint(PyObject *module, PyObject *args); /* (address or None, timeout in s) → its number */
PyObject *ps_chart(PyObject *module, PyObject *args);      /* (address or None, timeout in s) → a dict */

/* Begins and ends a call of the library; false with an exception: it is closed, or of another process. */
bool ps_enter(ps_connection *connection);
void ps_leave(ps_connection *connection);

/* A call of the library that waits: in slices without the GIL, so that signals are heeded. MR_CANCELLED: an exception is
 * set. */
typedef mr_status ps_wait_fn(mr_ps *ps, void *what, int64_t timeout_us);
mr_status ps_patiently(ps_connection *connection, ps_wait_fn *wait, void *what, double timeout_s);
mr_status ps_wait(PyObject *connection, ps_wait_fn *wait, void *what, PyObject *timeout); /* likewise */

/* What a scheduler says, asked without the GIL; args: (address or None, timeout in s). False with an exception. */
typedef mr_status ps_ask_fn(const char *address, int64_t timeout_us, void *out);
bool ps_ask(PyObject *args, ps_ask_fn *ask, void *out);

PyObject *ps_outcome(mr_status status);                    /* None, or what ps_raise does */
PyObject *ps_raise(mr_status status);                      /* with the text of mr_last_error(); NULL */
PyObject *ps_raise_text(mr_status status, PyObject *text); /* NULL */

/* Tables, for methods of the connection. */
PyObject *ps_table_create(PyObject *connection,
                          PyObject *args); /* (name, timeout, options: miniray/ps/_table_options.py) */
PyObject *ps_table_open(PyObject *connection, PyObject *args);
PyObject *ps_hyperparameters(void); /* ((name, text), …) of those that optimizers have; NULL with an exception */

/* A ticket of a request that is not made yet: its buffers are the caller's to fill. NULL with an exception. */
ps_ticket *ps_ticket_new(ps_connection *connection);
void ps_ticket_begin(ps_ticket *ticket);          /* the request is under way */
void ps_tickets_sweep(ps_connection *connection); /* forgets what is over, of the oldest */
void ps_tickets_end(ps_connection *connection);   /* all of them: it is closed */

PyObject *ps_memory_new(PyObject *connection, PyObject *bytes);
void ps_memories_leave(ps_connection *connection); /* it is about to be closed */
