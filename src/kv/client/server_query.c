/* server_query.c — see server_query.h. */
#include "kv/client/server_query.h"

#include <string.h>

#include "base/error.h"
#include "kv/client/ps_connection.h"
#include "kv/control/control_client.h"
#include "kv/engine/section_decoder.h"
#include "kv/engine/user_optimizer.h"

/* Asks all servers; each answers with the head 1 (yes) or 0. */
static mr_status ask(mr_ps *ps, int32_t app, span body, int64_t timeout_us, mr_ps_responses **out) {
    app_rpc_call call = {.roles = MR_PS_SERVERS, .number = APP_RPC_EVERY, .app = app, .body = body, .kept = true};
    uint64_t ticket;
    ps_connection_lock(ps);
    kv_worker *worker = ps_connection_worker(ps);
    app_rpc *rpc = control_client_notes(kv_worker_control(worker));
    mr_status status = app_rpc_send(rpc, &call, van_now_us(kv_worker_van(worker)), &ticket);
    ps_connection_unlock(ps);
    return status != MR_OK ? status : mr_ps_responses_wait(ps, (mr_ps_ticket){ticket}, timeout_us, out);
}

/* The first server that did not answer yes; NULL: all did. */
static const mr_ps_response *find_no(const mr_ps_responses *responses) {
    for (size_t i = 0; i < responses->count; i++)
        if (responses->list[i].status != MR_OK || responses->list[i].head != 1) return &responses->list[i];
    return NULL;
}

static mr_status judge_optimizer(const mr_ps_responses *responses, const char *name) {
    const mr_ps_response *no = find_no(responses);
    if (responses->count == 0) return error_set(MR_NOT_FOUND, "no server is connected for optimizer '%s'", name);
    if (no == NULL) return MR_OK;
    return error_set(MR_NOT_FOUND, "server %u has no optimizer '%s': every server program must list it in its options",
                     no->from.number, name);
}

mr_status server_query_optimizer(mr_ps *ps, const char *optimizer, int64_t timeout_us) {
    const size_t prefix = strlen(TABLE_SCHEMA_OWN);
    if (optimizer == NULL || strncmp(optimizer, TABLE_SCHEMA_OWN, prefix) != 0) return MR_OK;
    const char *name = optimizer + prefix;
    mr_ps_responses *responses;
    MR_TRY(ask(ps, USER_OPTIMIZER_ASK_APP, span_of(name, strlen(name)), timeout_us, &responses));
    mr_status status = judge_optimizer(responses, name);
    mr_ps_responses_free(responses);
    return status;
}
