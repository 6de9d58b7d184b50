/* keeper_service.c — see keeper_service.h. */
#include "store/keeper_service.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/list.h"
#include "store/keeper_wire.h"

typedef struct answer { /* one that waits: for an object to come back, or for its link to have room */
    list place;         /* in service->late, or in none */
    keeper_service *service;
    call_token token;
    keeper_reply reply;
    char text[ERROR_TEXT_MAX];
} answer;

struct keeper_service {
    keeper *keeper;
    calls *calls;
    list late;
};

keeper_service *keeper_service_create(keeper *keeper, calls *calls) {
    keeper_service *service = xcalloc(1, sizeof *service);
    service->keeper = keeper;
    service->calls = calls;
    list_init(&service->late);
    return service;
}

void keeper_service_destroy(keeper_service *service) {
    if (service == NULL) return;
    for (list *item; (item = list_pop_front(&service->late)) != NULL;) free(container_of(item, answer, place));
    free(service);
}

static mr_status send(keeper_service *service, call_token token, const keeper_reply *reply, const char *text) {
    size_t length = reply->status == MR_OK ? 0 : strlen(text);
    uint8_t *at;
    MR_TRY(calls_reply_begin(service->calls, token, sizeof *reply + length, &at));
    memcpy(at, reply, sizeof *reply);
    memcpy(at + sizeof *reply, text, length);
    calls_reply_commit(service->calls, token, sizeof *reply + length);
    return MR_OK;
}

/* Sends it now, or when there is room. Whoever is gone needs no answer. */
static void answer_with(keeper_service *service, call_token token, const keeper_reply *reply) {
    if (send(service, token, reply, mr_last_error()) != MR_BUSY) return;
    answer *late = xcalloc(1, sizeof *late);
    late->token = token;
    late->reply = *reply;
    memcpy(late->text, mr_last_error(), strnlen(mr_last_error(), sizeof late->text - 1));
    list_push_back(&service->late, &late->place);
}

void keeper_service_room(keeper_service *service) {
    list_for_each (at, &service->late) {
        answer *late = container_of(at, answer, place);
        if (send(service, late->token, &late->reply, late->text) == MR_BUSY) continue;
        list_remove(&late->place);
        free(late);
    }
}

static void restored(void *argument, mr_status status) {
    answer *answer = argument;
    answer_with(answer->service, answer->token,
                &(keeper_reply){.status = (uint32_t)status, .retry_us = KEEPER_RETRY_US});
    free(answer);
}

static void restore(keeper_service *service, call_token token, const object_ref *ref, int64_t now_us) {
    answer *waits = xcalloc(1, sizeof *waits);
    waits->service = service;
    waits->token = token;
    keeper_restore(service->keeper, ref, now_us, restored, waits);
}

void keeper_service_request(keeper_service *service, uint64_t process, const call_request *request, int64_t now_us) {
    keeper_ask ask;
    keeper_reply reply = {0};
    mr_status status;
    if (request->payload.size != sizeof ask) {
        status = error_set(MR_CORRUPT, "a request to the keeper has %zu bytes", request->payload.size);
    } else {
        memcpy(&ask, request->payload.data, sizeof ask);
        switch (ask.ask) {
        case STORE_LEASE:
            status = keeper_lease(service->keeper, process, (lease_kind)ask.kind, ask.size, now_us, &reply.extent,
                                  &reply.retry_us);
            break;
        case STORE_GIVE_BACK: status = keeper_give_back(service->keeper, process, ask.extent); break;
        case STORE_RESTORE: restore(service, request->token, &ask.ref, now_us); return;
        default: status = error_set(MR_INVALID, "the keeper knows no request %u", ask.ask); break;
        }
    }
    reply.status = (uint32_t)status;
    answer_with(service, request->token, &reply);
}
