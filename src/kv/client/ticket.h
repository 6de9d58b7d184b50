/* ticket.h — open requests of a worker: each has one part for every slot it went to, and is done when all parts are.
 *
 *   free ── tickets_open ──► open ── the last part is over ──► over ── asked after ──► free
 *                                                               └── nobody has its number: freed at once
 *
 * The number of a ticket is its place and how often that was given, so one that was asked after is gone, and is not
 * taken for another. The section decoder of a ticket holds one part of it until it has added all others (tickets_end of
 * its own).
 *
 * Called     A ticket that has somebody to tell is kept until it was told: tickets_told gives those whose time has
 *            come, in the order in which they were over. The call is the caller's: no lock is this module's business.
 * Bounds     TICKETS_MAX that were not asked after.
 * Ownership  what a ticket holds (`memory`) is freed when it is over. Tickets stay where they are.
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
    uint32_t parts; /* that are not over */
    bool kept;      /* its number was given away */
    mr_status status;
    ticket_done_fn *done; /* NULL: nobody is to be told */
    void *context;
    void *memory;                  /* owned; NULL: none */
    void (*release)(void *memory); /* of that; NULL: free */
    list link;                     /* free, or over and not told */
} ticket;

typedef struct tickets { /* tickets_init */
    ticket **chunks;     /* owned */
    uint32_t chunk_count;
    uint32_t taken; /* places that are in use */
    size_t open;    /* that are not over */
    list free, told;
} tickets;

void tickets_init(tickets *tickets);
void tickets_fini(tickets *tickets); /* nobody is told */

/* With one part, which is the section decoder's. `kept`: somebody will ask after it. MR_BUSY: there are too many. */
MR_MUST mr_status tickets_open(tickets *tickets, bool kept, ticket **out);
static inline void tickets_part(ticket *ticket) { ticket->parts++; }
/* A part is over; the first that is not MR_OK says how all is. The ticket may be gone after that. */
void tickets_end(tickets *tickets, ticket *ticket, mr_status status);

static inline uint64_t tickets_number(const ticket *ticket) { return (uint64_t)ticket->turn << 32 | ticket->place; }
ticket *tickets_find(const tickets *tickets, uint64_t number); /* NULL: there is no such ticket */
void tickets_abandon(tickets *tickets, uint64_t number);       /* nobody will ask after it, whether it is over or not */

/* MR_OK: it is over, as *outcome says, and is forgotten now. MR_BUSY: it is under way. MR_NOT_FOUND: there is none. */
mr_status tickets_ask(tickets *tickets, uint64_t number, mr_status *outcome);

/* The next that is to be told, with how it ended; false: none. The ticket may be gone after that. */
bool tickets_tell(tickets *tickets, ticket_done_fn **done, void **context, mr_status *status);
