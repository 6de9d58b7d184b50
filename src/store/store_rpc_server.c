/* store_rpc_server.c — see store_rpc_server.h. */
#include "store/store_rpc_server.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/list.h"
#include "store/store_wire.h"

typedef struct answer { /* an answer that is not sent yet: its object is being restored, or its link is full */
    list place;         /* in server->late, or in no list */
    store_rpc_server *server;
    rpc_call_token token;
    store_server_reply reply;
    char text[ERROR_TEXT_MAX];
} answer;

struct store_rpc_server {
    store_server *server;
    rpc *rpc;
    list late;
};

store_rpc_server *store_rpc_server_create(store_server *server, rpc *rpc) {
    store_rpc_server *service = XNEW(store_rpc_server, .server = server, .rpc = rpc);
    list_init(&service->late);
    return service;
}

void store_rpc_server_destroy(store_rpc_server *server) {
    if (server == NULL) return;
    for (list *item; (item = list_pop_front(&server->late)) != NULL;) free(container_of(item, answer, place));
    free(server);
}

static mr_status send(store_rpc_server *server, rpc_call_token token, const store_server_reply *reply,
                      const char *text) {
    size_t length = reply->status == MR_OK ? 0 : strlen(text);
    uint8_t *at;
    MR_TRY(rpc_reply_begin(server->rpc, token, sizeof *reply + length, &at));
    memcpy(at, reply, sizeof *reply);
    memcpy(at + sizeof *reply, text, length);
    rpc_reply_commit(server->rpc, token, sizeof *reply + length);
    return MR_OK;
}

/* Sends the answer now, or when the link has room. An answer to a process that is gone is dropped. */
static void answer_with(store_rpc_server *server, rpc_call_token token, const store_server_reply *reply) {
    if (send(server, token, reply, mr_last_error()) != MR_BUSY) return;
    answer *late = XNEW(answer, .token = token, .reply = *reply);
    memcpy(late->text, mr_last_error(), strnlen(mr_last_error(), sizeof late->text - 1));
    list_push_back(&server->late, &late->place);
}

void store_rpc_server_room(store_rpc_server *server) {
    list_for_each (at, &server->late) {
        answer *late = container_of(at, answer, place);
        if (send(server, late->token, &late->reply, late->text) == MR_BUSY) continue;
        list_remove(&late->place);
        free(late);
    }
}

static void restored(void *argument, mr_status status) {
    answer *answer = argument;
    answer_with(answer->server, answer->token,
                &(store_server_reply){.status = (uint32_t)status, .retry_us = STORE_SERVER_RETRY_US});
    free(answer);
}

static void restore(store_rpc_server *server, uint64_t process, rpc_call_token token, const object_ref *ref,
                    int64_t now_us) {
    store_server_restore(server->server, process, ref, now_us, restored,
                         XNEW(answer, .server = server, .token = token));
}

void store_rpc_server_request(store_rpc_server *server, uint64_t process, const rpc_call_request *request,
                              int64_t now_us) {
    store_client_request ask;
    store_server_reply reply = {0};
    mr_status status;
    if (request->payload.size != sizeof ask) {
        status = error_set(MR_CORRUPT, "malformed store request of %zu bytes", request->payload.size);
    } else {
        memcpy(&ask, request->payload.data, sizeof ask);
        switch (ask.ask) {
        case STORE_CLIENT_LEASE:
            status =
                store_server_lease(server->server, process, ask.kind, ask.size, now_us, &reply.extent, &reply.retry_us);
            break;
        case STORE_CLIENT_COLLECT:
            store_server_collect(server->server);
            status = MR_OK;
            break;
        case STORE_CLIENT_GIVE_BACK: status = store_server_give_back(server->server, process, ask.extent); break;
        case STORE_CLIENT_RESTORE: restore(server, process, request->token, &ask.ref, now_us); return;
        default: status = error_set(MR_INVALID, "malformed store request: unknown kind %u", (unsigned)ask.ask); break;
        }
    }
    reply.status = (uint32_t)status;
    answer_with(server, request->token, &reply);
}
