/* barrier_api.c — mr_ps_barrier, mr_ps_metric_set and mr_ps_message_metric_set (miniray/ps.h). */
#include <stdio.h>

#include "base/error.h"
#include "kv/client/ps_connection.h"
#include "kv/control/control_client.h"

static mr_status has_passed(kv_worker *worker, void *name) {
    return control_client_passed(kv_worker_control(worker), name);
}

mr_status mr_ps_barrier(mr_ps *ps, const char *name, int group, int64_t timeout_us) {
    MR_TRY(process_state_check_name("a barrier", name));
    if (group <= MR_PS_SCHEDULER || group > MR_PS_ALL)
        return error_set(MR_INVALID, "barrier group %d: expected MR_PS_WORKERS, MR_PS_SERVERS or both", group);
    MR_TRY(ps_connection_check_rank(ps, "wait at a barrier"));
    char own[MR_PS_NAME_MAX], what[MR_PS_NAME_MAX + 16];
    memcpy(own, name, strlen(name) + 1);
    ps_connection_lock(ps);
    kv_worker *worker = ps_connection_worker(ps);
    mr_status status = control_client_come(kv_worker_control(worker), own, (uint8_t)group, kv_worker_where(worker));
    snprintf(what, sizeof what, "barrier '%s'", own);
    if (status == MR_OK) status = ps_connection_await(ps, what, PS_CONNECTION_BARRIER, has_passed, own, timeout_us);
    ps_connection_unlock(ps);
    return status;
}

mr_status mr_ps_metric_set(mr_ps *ps, const char *key, double value) {
    ps_connection_lock(ps);
    mr_status status = app_rpc_report(control_client_notes(kv_worker_control(ps_connection_worker(ps))), key, value);
    ps_connection_unlock(ps);
    return status;
}

mr_status mr_ps_message_metric_set(const mr_ps_message *message, const char *key, double value) {
    if (message->rpc == NULL)
        return error_set(MR_CLOSED, "closed before metric '%s' was reported", key == NULL ? "" : key);
    if (message->owner != NULL) return mr_ps_metric_set(message->owner, key, value);
    return app_rpc_report(message->rpc, key, value); /* in the serving thread */
}
