/* customer_requests.c — outcome of a worker's requests; see customer.h. */
#include "base/error.h"
#include "kv/worker/customer_core.h"

void customer_moved(void *context, const bale *bale, span from, span to) {
    customer *customer = context;
    if (customer->rank != NULL) rank_move(customer->rank, bale, to);
    van_move(customer_van(customer), bale, from, to);
}

mr_status customer_abandon(customer *customer, uint64_t number) {
    const ticket *ticket = tickets_find(&customer->tickets, number);
    bool all = true;
    for (uint32_t i = 0; ticket != NULL && i < customer->slot_count; i++)
        all = chute_abandon(&customer->chutes[i], ticket) && all;
    tickets_abandon(&customer->tickets, number);
    if (all) return MR_OK;
    return error_set(MR_NOMEM,
                     "out of memory to copy request %llu: keep its memory unchanged until mr_ps_flush returns MR_OK",
                     (unsigned long long)number);
}

mr_status customer_say_lost(customer *customer) {
    unsigned long long origin = customer_chart(customer)->origin;
    customer->session.lost = false;
    customer->session.told = customer_chart(customer)->generation;
    if (origin != 0)
        return error_set(MR_STALE,
                         "acknowledged pushes are lost: all replicas of a slot were on servers that died. All tables "
                         "continue from checkpoint %llu",
                         origin);
    return error_set(MR_STALE, "acknowledged pushes are lost: all replicas of a slot were on servers that died, and "
                               "there is no checkpoint. All tables are empty; use at least 2 replicas, or checkpoints");
}

/* Why a request ended without having been done: without rounds there is one reason only. */
static mr_status say_stale(customer *customer) {
    bool again = customer->session.lost || customer->generation > 1;
    if (!chart_has_rounds(customer_chart(customer))) return customer_say_lost(customer);
    if (!again) return error_set(MR_STALE, "the round closed without rank %u, which was late", customer_rank(customer));
    (void)customer_say_lost(customer);
    return error_wrap(MR_STALE, "the round closed without rank %u, which was late, or", customer_rank(customer));
}

mr_status customer_done(customer *customer, uint64_t ticket) {
    mr_status status = MR_BUSY;
    MR_TRY(tickets_ask(&customer->tickets, ticket, &status));
    if (status == MR_STALE) return say_stale(customer);
    if (status == MR_NOT_FOUND)
        return error_set(status, "the table was dropped (request %llu)", (unsigned long long)ticket);
    if (status == MR_CORRUPT)
        return error_set(status, "a server has another schema of the table; open it again (mr_ps_table_open)");
    if (status == MR_TOO_LARGE) return error_set(status, "the answer does not fit its memory, or a message (32 MB)");
    return status;
}

static const char *why_not(const customer *customer) {
    bool bound = customer_is_ready(customer) && customer_stage(customer)->consistency.kind == CONSISTENCY_SSP;
    return bound ? "; an ssp pull waits for the slowest rank" : "";
}

mr_status customer_late(const customer *customer, uint64_t number) {
    const ticket *ticket = tickets_find(&customer->tickets, number);
    uint32_t parts = ticket == NULL ? 0 : ticket->parts, slot;
    if (customer->rank != NULL && rank_refused(customer->rank, &slot))
        return error_set(MR_NOMEM,
                         "request %llu is not done: the server of slot %u is out of memory" CUSTOMER_MORE_MEMORY,
                         (unsigned long long)number, slot);
    if (customer_in_round(customer))
        return error_set(MR_TIMEOUT, "request %llu is not done: pushes of a round are sent with mr_ps_end",
                         (unsigned long long)number);
    return error_set(MR_TIMEOUT, "request %llu is not done: %u of its messages have not been answered%s",
                     (unsigned long long)number, parts, why_not(customer));
}

mr_status customer_settled(const customer *customer) {
    size_t count = customer_under_way(customer);
    bool owes = customer_is_ready(customer) && chart_has_rounds(customer_stage(customer)) &&
                customer->session.round < customer->session.step;
    if (count == 0 && !owes) return MR_OK;
    if (count == 0)
        return error_set(MR_BUSY, "rank %u waits for other ranks to end their rounds", customer_rank(customer));
    uint32_t slot;
    if (customer_is_ready(customer) && rank_refused(customer->rank, &slot))
        return error_set(
            MR_BUSY, "%zu messages are not acknowledged: the server of slot %u is out of memory" CUSTOMER_MORE_MEMORY,
            count, slot);
    return error_set(MR_BUSY, "%zu messages are not acknowledged%s", count,
                     customer_is_open(customer) ? ": the step is still open" : "");
}

bool customer_tells(const customer *customer) {
    return !list_empty(&customer->tickets.told) || notes_has_told(office_notes(customer_office(customer)));
}

bool customer_tell(customer *customer, void (**done)(void *context, mr_status status), void **context,
                   mr_status *status) {
    notes *notes = office_notes(customer_office(customer));
    return tickets_tell(&customer->tickets, done, context, status) || notes_tell(notes, done, context, status);
}
