/* own_ask.c — see own.h: a worker asks whether servers have an optimizer. */
#include <string.h>

#include "base/error.h"
#include "kv/office/office.h"
#include "kv/shelf/own.h"
#include "kv/worker/connection.h"

static mr_status judge(const mr_ps_responses *responses, const char *name) {
    if (responses->count == 0) return error_set(MR_NOT_FOUND, "no server is connected for optimizer '%s'", name);
    for (size_t i = 0; i < responses->count; i++)
        if (responses->list[i].status != MR_OK || responses->list[i].head != 1)
            return error_set(MR_NOT_FOUND,
                             "server %u has no optimizer '%s': every server program must list it in its options",
                             responses->list[i].from.number, name);
    return MR_OK;
}

mr_status own_ask(mr_ps *ps, const char *optimizer, int64_t timeout_us) {
    const size_t prefix = strlen(DEFINITION_OWN);
    if (optimizer == NULL || strncmp(optimizer, DEFINITION_OWN, prefix) != 0) return MR_OK;
    const char *name = optimizer + prefix;
    notes_call call = {.roles = MR_PS_SERVERS,
                       .number = NOTES_EVERY,
                       .app = OWN_ASK_APP,
                       .body = span_of(name, strlen(name)),
                       .kept = true};
    uint64_t ticket;
    mr_ps_responses *responses = NULL;
    connection_lock(ps);
    customer *customer = connection_customer(ps);
    notes *notes = office_notes(customer_office(customer));
    mr_status status = notes_send(notes, &call, van_now_us(customer_van(customer)), &ticket);
    if (status == MR_OK) status = connection_await(ps, connection_is_answered, &ticket, timeout_us);
    if (status == MR_OK) responses = notes_collect(notes, ticket);
    connection_unlock(ps);
    if (status == MR_OK) status = judge(responses, name);
    mr_ps_responses_free(responses);
    return status;
}
