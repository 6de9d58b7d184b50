/* miniray/ps.h — the key-value parameter server: a table of slots, kept by servers, added to by workers.
 *
 *     mr_ps_connect(NULL, rank, timeout_us, &ps);            // NULL: where DMLC_PS_ROOT_URI and _PORT say
 *     while (mr_ps_begin(ps, timeout_us, &step) == MR_OK && step < STEPS) {
 *         mr_ps_pull(ps, slot, weights, count, NULL);        // NULL: wait for it
 *         ...                                                // compute a gradient
 *         mr_ps_push(ps, slot, gradient, count, &ticket);    // borrowed until the ticket is done
 *         mr_ps_end(ps);                                     // my step is over
 *     }
 *     mr_ps_settle(ps, timeout_us);                          // everything is in
 *     mr_ps_close(ps);
 *
 * Processes    One scheduler (mr_ps_run_scheduler), servers (mr_ps_run_server) and workers: programs that call
 *              mr_ps_connect. `miniray ps` starts the first two from a shell. Each worker plays one rank.
 * Values       A slot is an array of floats, 0 at first; a push is added to it, exactly once whatever fails, and is on
 *              all copies of the slot when it is acknowledged.
 * Steps        A worker works in steps. One that dies and is started again, as the same rank, is told by mr_ps_begin
 *              which step to play again; a step that is played again has to push the same things in the same order.
 *                BSP   all ranks do a step together: a pull shows the version of the step, the sum of all steps before,
 *                      added up in the order of the ranks. The bits do not depend on who dies. A slot is pushed once in
 *                      a step.
 *                SSP   a rank is ahead of the slowest by at most `staleness` steps.
 *                ASP   nobody waits.
 * MR_STALE     The table went back to a checkpoint since all copies of a slot were lost (or, in BSP, on without this
 *              rank): what is under way is void, and mr_ps_begin says with which step to go on.
 * Threads      All functions of a connection from any thread. Whoever waits reads the sockets itself; while nobody does
 *              a thread of the library does, so that the worker is heard of while it computes. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "miniray/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { MR_PS_FLOATS_MAX = 4 << 20 }; /* of a slot */
#define MR_PS_ANY_RANK   (-1)        /* the lowest that nobody plays, as the scheduler sees it */
#define MR_PS_TIMEOUT_US 60000000    /* of requests that are waited for without a ticket */

typedef struct mr_ps mr_ps; /* opaque: a worker's connection */
typedef struct mr_ps_ticket {
    uint64_t v;
} mr_ps_ticket;

typedef enum mr_ps_consistency { MR_PS_ASP, MR_PS_SSP, MR_PS_BSP } mr_ps_consistency;

typedef struct mr_ps_info {
    uint32_t rank, ranks, slots, servers, copies;
    mr_ps_consistency consistency;
    uint32_t staleness; /* of SSP */
} mr_ps_info;

/* Waits until the table is there and the rank is given to this process. `scheduler` is "tcp:HOST:PORT" or "unix:PATH"
 * (NULL: DMLC_PS_ROOT_URI and DMLC_PS_ROOT_PORT). An earlier process of that rank is followed: it is told MR_EXISTS.
 * MR_TIMEOUT: the error says what is missing (no scheduler, no servers …). MR_NOT_FOUND: there is no such rank.
 * MR_INVALID: not an address. timeout_us < 0 is MR_INVALID: nothing here waits for ever. */
MR_API MR_MUST mr_status mr_ps_connect(const char *scheduler, int rank, int64_t timeout_us, mr_ps **out);
/* At once: what is not acknowledged may be lost. No other call may be under way. NULL: no-op. */
MR_API void mr_ps_close(mr_ps *ps);
MR_API void mr_ps_info_get(mr_ps *ps, mr_ps_info *out);

/* Begins a step, when it may be begun, and says which: counted from 0. No-op if one is open. MR_TIMEOUT, and the error
 * says why. MR_EXISTS: another process plays this rank now. */
MR_API MR_MUST mr_status mr_ps_begin(mr_ps *ps, int64_t timeout_us, uint64_t *step);

/* Asynchronous: `values` is borrowed until the ticket is done (mr_ps_wait). Without a ticket it is waited for, at most
 * MR_PS_TIMEOUT_US. Requests for one slot are done in their order. MR_STALE: no step is open. MR_INVALID: no such slot,
 * or no count of 1 to MR_PS_FLOATS_MAX. MR_BUSY: a million requests were not waited for. MR_EXISTS: of BSP, a second
 * push of a slot in a step. */
MR_API MR_MUST mr_status mr_ps_push(mr_ps *ps, uint32_t slot, const float *values, size_t count, mr_ps_ticket *ticket);
/* What the slot does not have is 0. */
MR_API MR_MUST mr_status mr_ps_pull(mr_ps *ps, uint32_t slot, float *values, size_t count, mr_ps_ticket *ticket);

/* MR_TIMEOUT: it is under way, and what it borrows is borrowed. MR_NOT_FOUND: no such ticket, or it was waited for. */
MR_API MR_MUST mr_status mr_ps_wait(mr_ps *ps, mr_ps_ticket ticket, int64_t timeout_us);

MR_API MR_MUST mr_status mr_ps_end(mr_ps *ps); /* of the step; waits for nothing. MR_STALE: none is open */
/* Waits until everything is acknowledged, ends of steps included. MR_TIMEOUT. */
MR_API MR_MUST mr_status mr_ps_settle(mr_ps *ps, int64_t timeout_us);

/* ---- The other roles.
 *
 * Both serve until SIGTERM or SIGINT comes, in the thread that calls, and then leave: MR_OK. Other threads of the
 * process, if it has any, have to block these signals. */

typedef void mr_ps_listening_fn(void *context, const char *address);

typedef struct mr_ps_scheduler_options { /* zero means the default where there is one */
    const char *listen;                  /* its address, the same each time (NULL: as DMLC_PS_ROOT_URI and _PORT say) */
    const char *folder;                  /* what it knows, and checkpoints; made where it is missing */
    uint32_t workers, servers;           /* how many there are to be (0: DMLC_NUM_WORKER, DMLC_NUM_SERVER) */
    uint32_t slots;                      /* of the table; default 1 */
    uint32_t copies;                     /* of each slot; default 1 */
    mr_ps_consistency consistency;
    uint32_t staleness;               /* of SSP */
    int64_t checkpoint_us;            /* how often; 0: never */
    int beyond_this_machine;          /* 1: allows tcp addresses that other machines reach; nothing is encrypted */
    mr_ps_listening_fn *on_listening; /* called once; may be NULL */
    void *context;
} mr_ps_scheduler_options;

typedef struct mr_ps_server_options { /* zero means the default */
    const char *scheduler;            /* NULL: as DMLC_PS_ROOT_URI and _PORT say */
    const char *listen;               /* default: a free port of this machine, or a socket beside the scheduler's */
    uint32_t number; /* 1 + its number, for one that is started again in its place; 0: one is given to it */
    int beyond_this_machine;
    uint64_t memory_bytes; /* that it may have: then pushes wait; default: half of what the machine has left */
    mr_ps_listening_fn *on_listening;
    void *context;
} mr_ps_server_options;

/* MR_INVALID: which option cannot be; MR_EXISTS: somebody listens there; MR_BUSY: another scheduler has the folder;
 * MR_CORRUPT: what is in it is damaged. */
MR_API MR_MUST mr_status mr_ps_run_scheduler(const mr_ps_scheduler_options *options);
MR_API MR_MUST mr_status mr_ps_run_server(const mr_ps_server_options *options);

/* ---- Looking at it. */

enum { MR_PS_COPIES_MAX = 4, MR_PS_ADDRESS_MAX = 64 };

typedef struct mr_ps_copy { /* of a slot, by the process that has it */
    uint32_t server;
    uint64_t incarnation;
} mr_ps_copy;

typedef struct mr_ps_slot {
    uint64_t epoch; /* grows when its copies change */
    uint32_t count;
    mr_ps_copy copies[MR_PS_COPIES_MAX]; /* the first takes pushes */
} mr_ps_slot;

typedef struct mr_ps_server {
    uint32_t number;
    uint64_t incarnation;
    char address[MR_PS_ADDRESS_MAX];
} mr_ps_server;

typedef struct mr_ps_player { /* of a rank */
    uint32_t worker;
    uint64_t incarnation; /* 0: nobody has played it yet */
} mr_ps_player;

typedef struct mr_ps_chart { /* where everything is, as it was decided last */
    uint64_t number;         /* of the chart; 0: none yet, the scheduler waits for servers */
    uint64_t generation;     /* another one each time everything goes back to a checkpoint */
    uint64_t origin;         /* the checkpoint that the generation began from; 0: none */
    uint64_t checkpoint;     /* the newest that is whole; 0: none */
    mr_ps_info info;         /* without a rank */
    mr_ps_slot *slots;       /* info.slots of them; in BSP one more: who is in a round */
    uint32_t slot_count;
    mr_ps_server *servers; /* info.servers */
    mr_ps_player *players; /* info.ranks */
} mr_ps_chart;

/* Asks the scheduler (NULL: as DMLC_PS_ROOT_URI and _PORT say). MR_TIMEOUT: it does not answer. */
MR_API MR_MUST mr_status mr_ps_chart_get(const char *scheduler, int64_t timeout_us, mr_ps_chart **out);
MR_API void mr_ps_chart_free(mr_ps_chart *chart); /* NULL: no-op */

#ifdef __cplusplus
}
#endif
