/* transit.h — answers that name objects of the store: kept by whoever answered until the asker has taken them.
 *
 *   here:   answered, transit_keep ──► kept ── CLIENT_TOOK, the call was cancelled, or the link closed ──► let go
 *   there:  transit_arrived ──► taken at once, or when the vault has answered; what is on loan kept (borrow.h) ──►
 *           CLIENT_TOOK is sent ──► over
 *
 * An object on its way belongs to the message that carries it (store/slot.h): with this nobody counts holds by
 * messages, and whoever dies on the way loses nothing that the other has. What a request names needs none of it: the
 * asker keeps its arguments until the answer.
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
