/* ticket.h — open requests of a worker: each has one part per slot, and ends when all its parts have ended.
 *
 *   free ── tickets_open ──► open ── the last part ends ───► over ── result taken ─► free
 *                                                               └── the caller keeps no number: freed at once
 *
 * The number of a ticket consists of its place and a counter of the place's uses, so an old number never denotes
 * another ticket. The creator of a ticket holds one part until all others are added, and then ends it with tickets_end.
 *
 * Callbacks  A ticket with a callback is kept until tickets_tell has returned it: tickets_tell returns the finished
 *            ones in the order of their ends. The caller makes the call: this module takes no locks.
 * Bounds     TICKETS_MAX tickets whose result was not taken.
 * Ownership  memory of a ticket (`memory`) is freed when the ticket is over. Tickets do not move.
 * Pure. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "miniray/status.h"

enum { TICKETS_MAX = 1 << 20, TICKETS_CHUNK = 1024 };

typedef void ticket_done_fn(void *context, mr_status status);

typedef struct ticket {
    uint32_t place, turn;
    uint32_t parts; /* unfinished parts */
    bool kept;      /* the caller has the ticket's number */
    uint8_t kind;   /* what the request does, and its table: for errors, set by the creator */
    mr_status status;
    uint32_t table;
    ticket_done_fn *done; /* NULL: no callback */
    void *context;
    void *memory;                  /* owned; NULL: none */
    void (*release)(void *memory); /* frees `memory`; NULL: free */
    list link;                     /* free, or over with a pending callback */
} ticket;

typedef struct tickets { /* initialized by tickets_init */
    ticket **chunks;     /* owned */
    uint32_t chunk_count;
    uint32_t taken; /* places in use */
    size_t open;    /* unfinished tickets */
    list free, told;
} tickets;

void tickets_init(tickets *tickets);
void tickets_fini(tickets *tickets); /* calls no callbacks */

/* Opens a ticket with one part, which is the creator's. `kept`: the caller will take the result. MR_BUSY: too many
 * tickets. */
MR_MUST mr_status tickets_open(tickets *tickets, bool kept, ticket **out);
static inline void tickets_part(ticket *ticket) { ticket->parts++; }
/* Ends a part; the ticket gets the first status other than MR_OK. The ticket may be freed. */
void tickets_end(tickets *tickets, ticket *ticket, mr_status status);

static inline uint64_t tickets_number(const ticket *ticket) { return (uint64_t)ticket->turn << 32 | ticket->place; }
ticket *tickets_find(const tickets *tickets, uint64_t number); /* NULL: not found */
void tickets_abandon(tickets *tickets, uint64_t number);       /* the caller will not take the result */

/* MR_OK: the ticket is over, *outcome is set, and the ticket is freed. MR_BUSY: under way. MR_NOT_FOUND: no such
 * ticket. */
mr_status tickets_ask(tickets *tickets, uint64_t number, mr_status *outcome);

/* The next open ticket with a callback, from *place on; NULL: none. *place is behind it. */
ticket *tickets_next_called(const tickets *tickets, uint32_t *place);
/* Makes the callback of an open ticket pending with this status; the ticket stays open, without the callback. MR_BUSY:
 * too many tickets. */
MR_MUST mr_status tickets_tell_early(tickets *tickets, ticket *ticket, mr_status status);

/* The next pending callback, with the outcome; false: none. The ticket may be freed. */
bool tickets_tell(tickets *tickets, ticket_done_fn **done, void **context, mr_status *status);
