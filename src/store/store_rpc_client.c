/* store_rpc_client.c — see store_rpc_client.h. */
#include "store/store_rpc_client.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "store/store_rpc_server.h"
#include "store/store_wire.h"

typedef struct question {
    store_rpc_client *client;
    store_client_request request;
} question;

/* Returns the store server's status and sets the thread's last error to the text of the reply. */
static mr_status read_reply(const rpc_call_result *result, store_server_reply *out) {
    *out = (store_server_reply){0};
    if (result->why != NULL) return error_set(MR_CLOSED, "lost the node: %s", result->why->text);
    if (result->status != MR_OK)
        return error_set(result->status, "the object store did not answer: %s", mr_status_text(result->status));
    if (result->payload.size < sizeof *out)
        return error_set(MR_CORRUPT, "malformed store reply of %zu bytes", result->payload.size);
    memcpy(out, result->payload.data, sizeof *out);
    if (out->status == MR_OK) return MR_OK;
    return error_set((mr_status)out->status, "%.*s", (int)(result->payload.size - sizeof *out),
                     (const char *)result->payload.data + sizeof *out);
}

static void on_answer(void *argument, rpc_call_id id, const rpc_call_result *result) {
    question *question = argument;
    store_rpc_client *client = question->client;
    store_server_reply reply;
    mr_status status = read_reply(result, &reply);
    const store_client_request *request = &question->request;
    client->open--;
    if (request->ask == STORE_CLIENT_LEASE && request->kind == LEASE_PAGE) {
        client->joined = status == MR_OK;
        client->failed = status;
        client->lease_page = reply.extent;
    } else if (request->ask != STORE_CLIENT_GIVE_BACK && client->store != NULL) {
        store_client_answer(client->store, request, status, reply.extent, reply.retry_us);
    }
    free(question);
    if (client->answered != NULL) client->answered(client->context);
}

static mr_status ask(void *context, const store_client_request *request) {
    store_rpc_client *client = context;
    uint8_t *at;
    MR_TRY(rpc_begin(client->rpc, client->link, STORE_SERVER_METHOD, sizeof *request, &at));
    memcpy(at, request, sizeof *request);
    client->open++;
    rpc_commit(client->rpc, 0, client->link, sizeof *request, NULL, on_answer,
               XNEW(question, .client = client, .request = *request));
    return MR_OK;
}

static const store_client_ops client_ops = {.ask = ask};

mr_status store_rpc_client_join(store_rpc_client *client, rpc *rpc, link_id link) {
    *client = (store_rpc_client){.rpc = rpc, .link = link};
    return ask(client, &(store_client_request){.ask = STORE_CLIENT_LEASE, .kind = LEASE_PAGE});
}

mr_status store_rpc_client_open(store_rpc_client *client, const arena *arena, uint64_t process, clock_source clock,
                                store_client **out) {
    MR_ASSERT(client->joined && client->store == NULL);
    MR_TRY(store_client_open(arena, client->lease_page, &client_ops, client, &(store_client_options){process, clock},
                             &client->store));
    *out = client->store;
    return MR_OK;
}

void store_rpc_client_close_keeping(store_rpc_client *client, bool alone, private_mapping *out) {
    store_client_close_keeping(client->store, alone, out);
    client->store = NULL;
}
