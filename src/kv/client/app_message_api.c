/* app_message_api.c — app messages between programs of a parameter server (miniray/ps.h). */
#include <stdlib.h>

#include "base/error.h"
#include "kv/client/ps_connection.h"
#include "kv/control/app_rpc.h"
#include "kv/control/control_client.h"
#include "kv/control/id_allocator.h"

_Static_assert(MR_PS_EVERY == APP_RPC_EVERY, "the public number is the internal one");

static app_rpc *notes_of(mr_ps *ps) {
    control_client *client = kv_worker_control(ps_connection_worker(ps));
    control_client_refresh(client);
    return control_client_notes(client);
}

mr_status mr_ps_handle(mr_ps *ps, int app, mr_ps_handler_fn *handler, void *context) {
    MR_TRY(app_rpc_check_app(app));
    ps_connection_lock(ps);
    app_rpc_own(notes_of(ps), ps);
    mr_status status = app_rpc_handle(notes_of(ps), app, handler, context);
    ps_connection_unlock(ps);
    return status;
}

void mr_ps_message_get(const mr_ps_message *message, mr_ps_request *out) {
    *out = (mr_ps_request){.from = {message->role, message->from},
                           .app = message->app,
                           .head = message->head,
                           .body = message->body,
                           .size = message->size};
}

static mr_status check_body(const void *body, size_t size) {
    if (size > MR_PS_BODY_MAX)
        return error_set(MR_TOO_LARGE, "a message body of %zu bytes: the limit is %d", size, MR_PS_BODY_MAX);
    if (body == NULL && size != 0) return error_set(MR_INVALID, "the message body is NULL, its size is %zu", size);
    return MR_OK;
}

mr_status mr_ps_respond(mr_ps_message *message, int head, const void *body, size_t size) {
    if (message->rpc == NULL) {
        free(message);
        return error_set(MR_CLOSED, "mr_ps_respond: the connection was closed before the message was answered");
    }
    mr_status status = check_body(body, size);
    mr_ps *ps = message->owner;
    if (ps != NULL) ps_connection_lock(ps);
    if (ps != NULL) (void)notes_of(ps);
    app_rpc_answer(message->rpc, message, status, head, status == MR_OK ? span_of(body, size) : (span){0});
    if (ps != NULL) kv_worker_stir(ps_connection_worker(ps));
    if (ps != NULL) ps_connection_leave(ps);
    if (ps != NULL) ps_connection_unlock(ps);
    return status;
}

static mr_status check_node(mr_ps_peer to) {
    bool one = to.role > 0 && to.role <= MR_PS_READERS && process_state_is_role((uint8_t)to.role);
    if (to.number == MR_PS_EVERY && to.role >= 1 && to.role <= MR_PS_ALL) return MR_OK;
    if (!one)
        return error_set(MR_INVALID, "role %d: a message goes to one role, or to several with MR_PS_EVERY", to.role);
    if (to.number >= (to.role == MR_PS_SCHEDULER ? 1 : ID_ALLOCATOR_MAX))
        return error_set(MR_INVALID, "no process has number %u", to.number);
    return MR_OK;
}

static mr_status check_rank(const kv_worker *worker, mr_ps_peer to) {
    bool one = to.role == MR_PS_WORKERS && to.number != MR_PS_EVERY;
    if (!one || to.number < kv_worker_map(worker)->rank_count) return MR_OK;
    return kv_worker_say_no_rank(worker, to.number);
}

mr_status mr_ps_send(mr_ps *ps, mr_ps_peer to, int app, int head, const void *body, size_t size, mr_ps_done_fn *done,
                     void *context, mr_ps_ticket *ticket) {
    MR_TRY(check_node(to));
    MR_TRY(app_rpc_check_app(app));
    MR_TRY(check_body(body, size));
    app_rpc_call call = {.roles = (uint8_t)to.role,
                         .number = to.number,
                         .app = app,
                         .head = head,
                         .body = span_of(body, size),
                         .done = done,
                         .context = context,
                         .kept = ticket != NULL};
    uint64_t number;
    ps_connection_lock(ps);
    kv_worker *worker = ps_connection_worker(ps);
    mr_status status = check_rank(worker, to);
    if (status == MR_OK) status = app_rpc_send(notes_of(ps), &call, van_now_us(kv_worker_van(worker)), &number);
    if (status == MR_OK && ticket != NULL) ticket->v = number;
    kv_worker_stir(worker);
    ps_connection_leave(ps);
    ps_connection_unlock(ps);
    return status;
}

static mr_status is_answered(kv_worker *worker, void *ticket) {
    return app_rpc_status(control_client_notes(kv_worker_control(worker)), *(uint64_t *)ticket);
}

mr_status mr_ps_responses_wait(mr_ps *ps, mr_ps_ticket ticket, int64_t timeout_us, mr_ps_responses **out) {
    ps_connection_lock(ps);
    mr_status status =
        ps_connection_await(ps, "a message", PS_CONNECTION_SCHEDULER, is_answered, &ticket.v, timeout_us);
    if (status == MR_OK) *out = app_rpc_collect(notes_of(ps), ticket.v);
    ps_connection_unlock(ps);
    return status;
}

void mr_ps_responses_free(mr_ps_responses *responses) { free(responses); }
