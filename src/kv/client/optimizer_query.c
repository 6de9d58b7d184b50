/* optimizer_query.c — see user_optimizer.h: a worker asks whether servers have an optimizer. */
#include <string.h>

#include "base/error.h"
#include "kv/client/ps_connection.h"
#include "kv/control/control_client.h"
#include "kv/engine/user_optimizer.h"

static mr_status judge(const mr_ps_responses *responses, const char *name) {
    if (responses->count == 0) return error_set(MR_NOT_FOUND, "no server is connected for optimizer '%s'", name);
    for (size_t i = 0; i < responses->count; i++)
        if (responses->list[i].status != MR_OK || responses->list[i].head != 1)
            return error_set(MR_NOT_FOUND,
                             "server %u has no optimizer '%s': every server program must list it in its options",
                             responses->list[i].from.number, name);
    return MR_OK;
}

mr_status user_optimizer_ask(mr_ps *ps, const char *optimizer, int64_t timeout_us) {
    const size_t prefix = strlen(TABLE_SCHEMA_OWN);
    if (optimizer == NULL || strncmp(optimizer, TABLE_SCHEMA_OWN, prefix) != 0) return MR_OK;
    const char *name = optimizer + prefix;
    app_rpc_call call = {.roles = MR_PS_SERVERS,
                         .number = APP_RPC_EVERY,
                         .app = USER_OPTIMIZER_ASK_APP,
                         .body = span_of(name, strlen(name)),
                         .kept = true};
    uint64_t ticket;
    mr_ps_responses *responses = NULL;
    ps_connection_lock(ps);
    kv_worker *worker = ps_connection_worker(ps);
    app_rpc *rpc = control_client_notes(kv_worker_control(worker));
    mr_status status = app_rpc_send(rpc, &call, van_now_us(kv_worker_van(worker)), &ticket);
    ps_connection_unlock(ps);
    if (status == MR_OK) status = mr_ps_responses_wait(ps, (mr_ps_ticket){ticket}, timeout_us, &responses);
    if (status == MR_OK) status = judge(responses, name);
    mr_ps_responses_free(responses);
    return status;
}
