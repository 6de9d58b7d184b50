/* vault_client.c — see vault_client.h. */
#include "store/vault_client.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "store/vault_service.h"
#include "store/vault_wire.h"

typedef struct question {
    vault_client *client;
    store_request request;
} question;

/* What the vault said; the thread's last error is its text. */
static mr_status read_reply(const call_result *result, vault_reply *out) {
    *out = (vault_reply){0};
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

static void on_answer(void *argument, call_id id, const call_result *result) {
    question *question = argument;
    vault_client *client = question->client;
    vault_reply reply;
    mr_status status = read_reply(result, &reply);
    const store_request *request = &question->request;
    client->open--;
    if (request->ask == STORE_LEASE && request->kind == LEASE_DESK) {
        client->joined = status == MR_OK;
        client->failed = status;
        client->desk = reply.extent;
    } else if (request->ask != STORE_GIVE_BACK && client->store != NULL) {
        store_answer(client->store, request, status, reply.extent, reply.retry_us);
    }
    free(question);
    if (client->answered != NULL) client->answered(client->context);
}

static mr_status ask(void *context, const store_request *request) {
    vault_client *client = context;
    uint8_t *at;
    MR_TRY(calls_begin(client->calls, client->link, VAULT_METHOD, sizeof(vault_ask), &at));
    vault_ask message = {.ask = (uint32_t)request->ask,
                         .kind = (uint32_t)request->kind,
                         .size = request->size,
                         .extent = request->extent,
                         .ref = request->ref};
    memcpy(at, &message, sizeof message);
    question *question = xmalloc(sizeof *question);
    question->client = client;
    question->request = *request;
    client->open++;
    calls_commit(client->calls, 0, client->link, sizeof message, NULL, on_answer, question);
    return MR_OK;
}

static const store_ops client_ops = {.ask = ask};

mr_status vault_client_join(vault_client *client, calls *calls, link_id link) {
    *client = (vault_client){.calls = calls, .link = link};
    return ask(client, &(store_request){.ask = STORE_LEASE, .kind = LEASE_DESK});
}

mr_status vault_client_open(vault_client *client, const arena *arena, uint64_t process, clock_source clock,
                            store **out) {
    MR_ASSERT(client->joined && client->store == NULL);
    MR_TRY(store_open(arena, client->desk, &client_ops, client, &(store_options){process, clock}, &client->store));
    *out = client->store;
    return MR_OK;
}

void vault_client_close_keeping(vault_client *client, bool alone, lens *out) {
    store_close_keeping(client->store, alone, out);
    client->store = NULL;
}
