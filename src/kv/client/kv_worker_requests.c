/* kv_worker_requests.c — outcome of a worker's requests; see kv_worker.h. */
#include "base/error.h"
#include "kv/client/kv_request.h"
#include "kv/client/kv_worker_internal.h"

void kv_worker_moved(void *context, const shared_bytes *bytes, span from, span to) {
    kv_worker *worker = context;
    if (worker->rank != NULL) rank_move(worker->rank, bytes, to);
    van_move(kv_worker_van(worker), bytes, from, to);
}

/* Whether nothing uses the memory of the request's caller any more. */
static bool detach(kv_worker *worker, const ticket *ticket) {
    bool all = true;
    for (uint32_t i = 0; i < worker->slot_count; i++) all = slot_queue_abandon(&worker->queues[i], ticket) && all;
    kv_worker_abandon_pull(worker, ticket);
    return all;
}

mr_status kv_worker_abandon(kv_worker *worker, uint64_t number) {
    const ticket *ticket = tickets_find(&worker->tickets, number);
    bool all = ticket == NULL || detach(worker, ticket);
    tickets_abandon(&worker->tickets, number);
    if (all) return MR_OK;
    return error_set(MR_NOMEM,
                     "out of memory to copy request %llu: keep its memory unchanged until mr_ps_flush returns MR_OK",
                     (unsigned long long)number);
}

void kv_worker_note_told(kv_worker *worker, uint64_t generation) {
    worker->session.lost = false;
    worker->session.told = generation;
    if (worker->agent != NULL && !worker->reads) rank_agent_report(worker->agent, generation);
}

/* A callback that cannot be ended now is ended by a later call. */
void kv_worker_fail_callbacks(kv_worker *worker, mr_status status) {
    ticket *ticket;
    app_rpc_fail_callbacks(control_client_notes(kv_worker_control(worker)), status, mr_last_error());
    for (uint32_t place = 0; (ticket = tickets_next_called(&worker->tickets, &place)) != NULL;)
        if (!detach(worker, ticket) || tickets_tell_early(&worker->tickets, ticket, status) != MR_OK) return;
}

const ticket *kv_worker_ticket(const kv_worker *worker, uint64_t number) {
    return tickets_find(&worker->tickets, number);
}

mr_status kv_worker_say_lost(kv_worker *worker) {
    unsigned long long origin = kv_worker_map(worker)->origin;
    kv_worker_note_told(worker, kv_worker_map(worker)->generation);
    if (origin != 0)
        return error_set(MR_STALE,
                         "acknowledged pushes are lost: all replicas of a slot were on servers that died. All tables "
                         "continue from checkpoint %llu",
                         origin);
    return error_set(MR_STALE, "acknowledged pushes are lost: all replicas of a slot were on servers that died, and "
                               "there is no checkpoint. All tables are empty; use at least 2 replicas, or checkpoints");
}

/* Error of a request that ended undone; without rounds the only reason is a loss. */
static mr_status say_stale(kv_worker *worker) {
    bool again = worker->session.lost || worker->generation > 1;
    if (worker->reads || !cluster_map_has_rounds(kv_worker_map(worker))) return kv_worker_say_lost(worker);
    if (!again) return error_set(MR_STALE, "the round closed without rank %u, which was late", kv_worker_rank(worker));
    (void)kv_worker_say_lost(worker);
    return error_wrap(MR_STALE, "the round closed without rank %u, which was late, or", kv_worker_rank(worker));
}

mr_status kv_worker_done(kv_worker *worker, uint64_t ticket) {
    mr_status status = MR_BUSY;
    MR_TRY(tickets_ask(&worker->tickets, ticket, &status));
    if (status == MR_STALE) return say_stale(worker);
    if (status == MR_NOT_FOUND)
        return error_set(status, "the table was dropped (request %llu)", (unsigned long long)ticket);
    if (status == MR_CORRUPT)
        return error_set(status, "a server has another schema of the table; open it again (mr_ps_table_open)");
    if (status == MR_TOO_LARGE)
        return error_set(status,
                         "a range has more rows than there is room for, or vectors have more than %d bytes: pull fewer "
                         "keys at once",
                         PAYLOAD_ANSWER_MAX);
    return status;
}

static const char *why_not(const kv_worker *worker) {
    bool bound = kv_worker_is_ready(worker) && kv_worker_stage(worker)->consistency.kind == CONSISTENCY_SSP;
    return bound ? "; an ssp pull waits for the slowest rank" : "";
}

bool kv_worker_is_unsent(const kv_worker *worker, uint64_t number) {
    const ticket *ticket = tickets_find(&worker->tickets, number);
    return ticket != NULL && kv_worker_in_round(worker) && (ticket->kind & KV_REQUEST_PUSHES) != 0;
}

mr_status kv_worker_late(const kv_worker *worker, uint64_t number, const char *what) {
    const ticket *ticket = tickets_find(&worker->tickets, number);
    uint32_t parts = ticket == NULL ? 0 : ticket->parts, slot;
    if (worker->rank != NULL && rank_refused(worker->rank, &slot))
        return error_set(MR_NOMEM, "%s is not done: the server of slot %u is out of memory" KV_WORKER_MORE_MEMORY, what,
                         slot);
    if (kv_worker_is_unsent(worker, number))
        return error_set(MR_TIMEOUT, "%s is not done: pushes of a round are sent when the step ends", what);
    const reader_pull *pull = ticket == NULL ? NULL : kv_worker_pull(worker, ticket);
    if (pull != NULL && pull->repeats != 0)
        return error_set(MR_TIMEOUT,
                         "%s is not done: it was repeated %llu time%s, since rounds ended while it was answered; pull "
                         "fewer values at once, or wait longer",
                         what, (unsigned long long)pull->repeats, pull->repeats == 1 ? "" : "s");
    return error_set(MR_TIMEOUT, "%s is not done: %u message%s not been answered%s", what, parts,
                     parts == 1 ? " has" : "s have", why_not(worker));
}

mr_status kv_worker_settled(const kv_worker *worker) {
    size_t count = kv_worker_under_way(worker);
    bool owes = kv_worker_is_ready(worker) && cluster_map_has_rounds(kv_worker_stage(worker)) &&
                worker->session.round < worker->session.step;
    if (count == 0 && !owes) return MR_OK;
    if (count == 0)
        return error_set(MR_BUSY, "rank %u waits for other ranks to end their rounds", kv_worker_rank(worker));
    uint32_t slot;
    if (kv_worker_is_ready(worker) && rank_refused(worker->rank, &slot))
        return error_set(MR_BUSY,
                         "%zu message%s not acknowledged: the server of slot %u is out of memory" KV_WORKER_MORE_MEMORY,
                         count, count == 1 ? " is" : "s are", slot);
    return error_set(MR_BUSY, "%zu message%s not acknowledged%s", count, count == 1 ? " is" : "s are",
                     kv_worker_is_open(worker) ? ": the step is still open" : "");
}

bool kv_worker_tells(const kv_worker *worker) {
    return !list_empty(&worker->tickets.told) || app_rpc_has_told(control_client_notes(kv_worker_control(worker)));
}

bool kv_worker_tell(kv_worker *worker, void (**done)(void *context, mr_status status), void **context,
                    mr_status *status) {
    app_rpc *rpc = control_client_notes(kv_worker_control(worker));
    return tickets_tell(&worker->tickets, done, context, status) || app_rpc_tell(rpc, done, context, status);
}
