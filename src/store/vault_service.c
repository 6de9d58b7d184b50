/* vault_service.c — see vault_service.h. */
#include "store/vault_service.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/list.h"
#include "store/vault_wire.h"

typedef struct answer { /* one that waits: for an object to come back, or for its link to have room */
    list place;         /* in service->late, or in none */
    vault_service *service;
    call_token token;
    vault_reply reply;
    char text[ERROR_TEXT_MAX];
} answer;

struct vault_service {
    vault *vault;
    calls *calls;
    list late;
};

vault_service *vault_service_create(vault *vault, calls *calls) {
    vault_service *service = xcalloc(1, sizeof *service);
    service->vault = vault;
    service->calls = calls;
    list_init(&service->late);
    return service;
}

void vault_service_destroy(vault_service *service) {
    if (service == NULL) return;
    for (list *item; (item = list_pop_front(&service->late)) != NULL;) free(container_of(item, answer, place));
    free(service);
}

static mr_status send(vault_service *service, call_token token, const vault_reply *reply, const char *text) {
    size_t length = reply->status == MR_OK ? 0 : strlen(text);
    uint8_t *at;
    MR_TRY(calls_reply_begin(service->calls, token, sizeof *reply + length, &at));
    memcpy(at, reply, sizeof *reply);
    memcpy(at + sizeof *reply, text, length);
    calls_reply_commit(service->calls, token, sizeof *reply + length);
    return MR_OK;
}

/* Sends it now, or when there is room. Whoever is gone needs no answer. */
static void answer_with(vault_service *service, call_token token, const vault_reply *reply) {
    if (send(service, token, reply, mr_last_error()) != MR_BUSY) return;
    answer *late = xcalloc(1, sizeof *late);
    late->token = token;
    late->reply = *reply;
    memcpy(late->text, mr_last_error(), strnlen(mr_last_error(), sizeof late->text - 1));
    list_push_back(&service->late, &late->place);
}

void vault_service_room(vault_service *service) {
    list_for_each (at, &service->late) {
        answer *late = container_of(at, answer, place);
        if (send(service, late->token, &late->reply, late->text) == MR_BUSY) continue;
        list_remove(&late->place);
        free(late);
    }
}

static void restored(void *argument, mr_status status) {
    answer *answer = argument;
    answer_with(answer->service, answer->token, &(vault_reply){.status = (uint32_t)status, .retry_us = VAULT_RETRY_US});
    free(answer);
}

static void restore(vault_service *service, uint64_t process, call_token token, const object_ref *ref, int64_t now_us) {
    answer *waits = xcalloc(1, sizeof *waits);
    waits->service = service;
    waits->token = token;
    vault_restore(service->vault, process, ref, now_us, restored, waits);
}

void vault_service_request(vault_service *service, uint64_t process, const call_request *request, int64_t now_us) {
    vault_ask ask;
    vault_reply reply = {0};
    mr_status status;
    if (request->payload.size != sizeof ask) {
        status = error_set(MR_CORRUPT, "malformed store request of %zu bytes", request->payload.size);
    } else {
        memcpy(&ask, request->payload.data, sizeof ask);
        switch (ask.ask) {
        case STORE_LEASE:
            status = vault_lease(service->vault, process, (lease_kind)ask.kind, ask.size, now_us, &reply.extent,
                                 &reply.retry_us);
            break;
        case STORE_COLLECT:
            vault_collect(service->vault);
            status = MR_OK;
            break;
        case STORE_GIVE_BACK: status = vault_give_back(service->vault, process, ask.extent); break;
        case STORE_RESTORE: restore(service, process, request->token, &ask.ref, now_us); return;
        default: status = error_set(MR_INVALID, "malformed store request: unknown kind %u", ask.ask); break;
        }
    }
    reply.status = (uint32_t)status;
    answer_with(service, request->token, &reply);
}
