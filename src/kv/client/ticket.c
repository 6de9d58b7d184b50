/* ticket.c — see ticket.h. */
#include "kv/client/ticket.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"

void tickets_init(tickets *tickets) {
    *tickets = (struct tickets){0};
    list_init(&tickets->free);
    list_init(&tickets->told);
}

static void release(ticket *ticket) {
    (ticket->release != NULL ? ticket->release : free)(ticket->memory);
    ticket->memory = NULL;
    ticket->release = NULL;
}

void tickets_fini(tickets *tickets) {
    for (uint32_t i = 0; i < tickets->chunk_count; i++) {
        for (uint32_t k = 0; k < TICKETS_CHUNK; k++) release(&tickets->chunks[i][k]);
        free(tickets->chunks[i]);
    }
    free(tickets->chunks);
}

/* ---- Places. */

static mr_status add_chunk(tickets *tickets) {
    uint32_t first = tickets->chunk_count * TICKETS_CHUNK;
    MR_TRY(alloc_try_resize(&tickets->chunks, (tickets->chunk_count + 1) * sizeof *tickets->chunks));
    ticket **chunk = &tickets->chunks[tickets->chunk_count];
    MR_TRY(alloc_try(TICKETS_CHUNK * sizeof **chunk, chunk));
    tickets->chunk_count++;
    for (uint32_t i = 0; i < TICKETS_CHUNK; i++) {
        (*chunk)[i].place = first + i;
        list_push_back(&tickets->free, &(*chunk)[i].link);
    }
    return MR_OK;
}

static void forget(tickets *tickets, ticket *ticket) {
    MR_ASSERT(ticket->parts == 0 && ticket->memory == NULL);
    tickets->taken--;
    ticket->turn++;
    list_push_front(&tickets->free, &ticket->link);
}

mr_status tickets_open(tickets *tickets, bool kept, ticket **out) {
    if (tickets->taken == TICKETS_MAX) return error_set(MR_BUSY, "%d requests are open: wait for some", TICKETS_MAX);
    if (list_empty(&tickets->free)) MR_TRY(add_chunk(tickets));
    ticket *ticket = container_of(tickets->free.next, struct ticket, link);
    list_remove(&ticket->link);
    if (ticket->turn == 0) ticket->turn = 1; /* no ticket number is 0 */
    ticket->parts = 1;
    ticket->kept = kept;
    ticket->status = MR_OK;
    ticket->done = NULL;
    ticket->kind = 0;
    tickets->taken++;
    tickets->open++;
    *out = ticket;
    return MR_OK;
}

/* ---- Completion. */

void tickets_end(tickets *tickets, ticket *ticket, mr_status status) {
    MR_ASSERT(ticket->parts != 0);
    if (ticket->status == MR_OK) ticket->status = status;
    if (--ticket->parts != 0) return;
    tickets->open--;
    release(ticket);
    if (ticket->done != NULL)
        list_push_back(&tickets->told, &ticket->link);
    else if (!ticket->kept)
        forget(tickets, ticket);
}

ticket *tickets_find(const tickets *tickets, uint64_t number) {
    uint32_t place = (uint32_t)number, turn = (uint32_t)(number >> 32);
    if (turn == 0 || place >= tickets->chunk_count * TICKETS_CHUNK) return NULL;
    ticket *ticket = &tickets->chunks[place / TICKETS_CHUNK][place % TICKETS_CHUNK];
    return ticket->turn == turn && ticket->kept ? ticket : NULL;
}

mr_status tickets_ask(tickets *tickets, uint64_t number, mr_status *outcome) {
    ticket *ticket = tickets_find(tickets, number);
    if (ticket == NULL)
        return error_set(MR_NOT_FOUND, "no request %llu: it was waited for, or never made", (unsigned long long)number);
    if (ticket->parts != 0) return MR_BUSY;
    *outcome = ticket->status;
    ticket->kept = false;
    if (ticket->done == NULL) forget(tickets, ticket);
    return MR_OK;
}

void tickets_abandon(tickets *tickets, uint64_t number) {
    ticket *ticket = tickets_find(tickets, number);
    if (ticket == NULL) return;
    ticket->kept = false;
    if (ticket->parts == 0 && ticket->done == NULL) forget(tickets, ticket);
}

ticket *tickets_next_called(const tickets *tickets, uint32_t *place) {
    while (*place < tickets->chunk_count * TICKETS_CHUNK) {
        ticket *ticket = &tickets->chunks[*place / TICKETS_CHUNK][*place % TICKETS_CHUNK];
        ++*place;
        if (ticket->parts != 0 && ticket->done != NULL) return ticket;
    }
    return NULL;
}

mr_status tickets_tell_early(tickets *tickets, ticket *ticket, mr_status status) {
    struct ticket *early = NULL;
    MR_TRY(tickets_open(tickets, false, &early));
    MR_ASSERT(early != NULL);
    early->done = ticket->done;
    early->context = ticket->context;
    ticket->done = NULL;
    tickets_end(tickets, early, status);
    return MR_OK;
}

bool tickets_tell(tickets *tickets, ticket_done_fn **done, void **context, mr_status *status) {
    list *item = list_pop_front(&tickets->told);
    if (item == NULL) return false;
    ticket *ticket = container_of(item, struct ticket, link);
    *done = ticket->done;
    *context = ticket->context;
    *status = ticket->status;
    ticket->done = NULL;
    if (!ticket->kept) forget(tickets, ticket);
    return true;
}
