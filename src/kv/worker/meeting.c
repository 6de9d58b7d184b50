/* meeting.c — mr_ps_barrier, mr_ps_metric_set and mr_ps_message_metric_set (miniray/ps.h). */
#include "base/error.h"
#include "kv/office/office.h"
#include "kv/worker/connection.h"

static mr_status has_passed(customer *customer, void *name) { return office_passed(customer_office(customer), name); }

mr_status mr_ps_barrier(mr_ps *ps, const char *name, int group, int64_t timeout_us) {
    MR_TRY(standing_check_name("a barrier", name));
    if (group <= MR_PS_SCHEDULER || group > MR_PS_ALL)
        return error_set(MR_INVALID, "barrier group %d: expected MR_PS_WORKERS, MR_PS_SERVERS or both", group);
    char own[MR_PS_NAME_MAX];
    memcpy(own, name, strlen(name) + 1);
    connection_lock(ps);
    customer *customer = connection_customer(ps);
    mr_status status = office_come(customer_office(customer), own, (uint8_t)group, customer_where(customer));
    if (status == MR_OK) status = connection_await(ps, has_passed, own, timeout_us);
    connection_unlock(ps);
    return status;
}

mr_status mr_ps_metric_set(mr_ps *ps, const char *key, double value) {
    connection_lock(ps);
    mr_status status = office_report(customer_office(connection_customer(ps)), key, value);
    connection_unlock(ps);
    return status;
}

mr_status mr_ps_message_metric_set(const mr_ps_message *message, const char *key, double value) {
    if (message->notes == NULL)
        return error_set(MR_CLOSED, "closed before metric '%s' was reported", key == NULL ? "" : key);
    if (message->owner != NULL) return mr_ps_metric_set(message->owner, key, value);
    return notes_report(message->notes, key, value); /* in the thread that serves */
}
