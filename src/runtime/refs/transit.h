/* transit.h — answers that name objects of the store: their objects are kept by the sender until the receiver holds
 * them.
 *
 *   here:   answered, transit_keep ──► kept ── CLIENT_TOOK, the call was cancelled, or the link closed ──► let go
 *   there:  transit_arrived ──► taken at once, or when the vault has answered; what is on loan kept (borrow.h) ──►
 *           CLIENT_TOOK is sent ──► over
 *
 * An object on its way belongs to the message that carries it (store/slot.h): with this, messages need no hold
 * counters, and a process that dies loses nothing that the other has. Objects that a request names need none of it: the
 * caller keeps its arguments until the answer.
 *
 * Pure over `calls`. With the context's lock held. */
#pragma once
#include "runtime/refs/lender.h"
#include "runtime/refs/shelf.h"

typedef struct transit {
    calls *calls;   /* borrowed */
    lender *lender; /* borrowed */
    list kept;      /* of what we answered */
    list arrived;   /* of what was answered to us and is not taken, or not said to be */
} transit;

void transit_init(transit *transit, calls *calls, lender *lender);
void transit_fini(transit *transit);

void transit_keep(transit *transit, call_token token, bundle *values); /* a reference is taken */
void transit_took(transit *transit, call_token token, span payload);   /* the request CLIENT_TOOK */
void transit_crossed(transit *transit, call_token token); /* the answer met a cancellation: nobody takes it */
void transit_closed(transit *transit, link_id link);

void transit_arrived(transit *transit, call_id answer, bundle *values); /* a reference is taken */
void transit_feed(transit *transit); /* the vault has answered, or there is room again */
