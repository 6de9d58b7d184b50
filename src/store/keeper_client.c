/* keeper_client.c — see keeper_client.h. */
#include "store/keeper_client.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "store/keeper_service.h"
#include "store/keeper_wire.h"

typedef struct question {
    keeper_client *client;
    store_request request;
} question;

/* What the keeper said; the thread's last error is its text. */
static mr_status read_reply(const call_result *result, keeper_reply *out) {
    *out = (keeper_reply){0};
    if (result->status != MR_OK)
        return error_set(result->status, "the keeper did not answer: %s", mr_status_text(result->status));
    if (result->payload.size < sizeof *out) return error_set(MR_CORRUPT, "the keeper's answer is too short");
    memcpy(out, result->payload.data, sizeof *out);
    if (out->status == MR_OK) return MR_OK;
    return error_set((mr_status)out->status, "%.*s", (int)(result->payload.size - sizeof *out),
                     (const char *)result->payload.data + sizeof *out);
}

static void on_answer(void *argument, call_id id, const call_result *result) {
    question *question = argument;
    keeper_client *client = question->client;
    keeper_reply reply;
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
}

static mr_status ask(void *context, const store_request *request) {
    keeper_client *client = context;
    uint8_t *at;
    MR_TRY(calls_begin(client->calls, client->link, KEEPER_METHOD, sizeof(keeper_ask), &at));
    keeper_ask message = {.ask = (uint32_t)request->ask,
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

mr_status keeper_client_join(keeper_client *client, calls *calls, link_id link) {
    *client = (keeper_client){.calls = calls, .link = link};
    return ask(client, &(store_request){.ask = STORE_LEASE, .kind = LEASE_DESK});
}

mr_status keeper_client_open(keeper_client *client, const arena *arena, uint64_t process, clock_source clock,
                             store **out) {
    MR_ASSERT(client->joined && client->store == NULL);
    MR_TRY(store_open(arena, client->desk, &client_ops, client, &(store_options){process, clock}, &client->store));
    *out = client->store;
    return MR_OK;
}

void keeper_client_close(keeper_client *client) {
    store_close(client->store);
    client->store = NULL;
}
