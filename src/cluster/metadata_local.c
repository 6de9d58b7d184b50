/* metadata_local.c — see metadata_local.h. */
#include "cluster/metadata_local.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/list.h"
#include "base/map.h"

typedef struct request {
    list queued; /* in the queue until a tick sends it */
    control_message question;
    uint8_t *bytes; /* key and value, owned */
    mr_status refused;
    metadata_store_done_fn *done;
    void *argument;
} request;

struct metadata_local {
    metadata_store_asker asker; /* must be first */
    metadata_service *service;
    map requests; /* number → request, owned */
    list queue;
    uint64_t next_number;
};

static void end_request(metadata_local *local, request *request, const metadata_store_answer *answer) {
    MR_ASSERT(map_get(&local->requests, request->question.request) == request); /* each request is answered once */
    list_remove(&request->queued);
    map_remove(&local->requests, request->question.request);
    request->done(request->argument, answer);
    free(request->bytes);
    free(request);
}

static void on_answer(void *context, link_id link, const control_message *answer) {
    metadata_local *local = context;
    request *request = map_get(&local->requests, answer->request);
    MR_ASSERT(request != NULL);
    end_request(local, request, &(metadata_store_answer){answer->status, answer->version, answer->value});
}

void metadata_local_destroy(metadata_local *local) {
    metadata_service_destroy(local->service);
    map_entry entry;
    while (map_next(&local->requests, 0, &entry) != 0)
        end_request(local, entry.value, &(metadata_store_answer){.status = MR_CLOSED});
    map_fini(&local->requests);
    free(local);
}

static void ask(metadata_store_asker *asker, control_message *question, metadata_store_done_fn *done, void *argument) {
    MR_ASSERT(done != NULL);
    metadata_local *local = container_of(asker, struct metadata_local, asker);
    size_t key_size = question->key.size, value_size = question->value.size;
    request *request = XNEW(struct request, .question = *question, .done = done, .argument = argument);
    request->refused = local->requests.count >= METADATA_LOCAL_OPEN_MAX ? MR_BUSY : MR_OK;
    request->question.request = ++local->next_number;
    request->bytes = xmalloc(key_size + value_size + 1);
    if (key_size != 0) memcpy(request->bytes, question->key.data, key_size);
    if (value_size != 0) memcpy(request->bytes + key_size, question->value.data, value_size);
    request->question.key = span_of(request->bytes, key_size);
    request->question.value = span_of(request->bytes + key_size, value_size);
    map_put(&local->requests, request->question.request, request);
    list_init(&request->queued);
    list_push_back(&local->queue, &request->queued);
}

metadata_local *metadata_local_create(metadata_db *db) {
    metadata_local *local = XNEW(metadata_local, .asker.ask = ask);
    local->service = metadata_service_create(db, on_answer, local);
    list_init(&local->queue);
    return local;
}

metadata_store metadata_local_metadata(metadata_local *local) { return metadata_store_of(&local->asker); }

int64_t metadata_local_next_us(const metadata_local *local) {
    return list_empty(&local->queue) ? metadata_service_next_us(local->service) : INT64_MIN;
}

/* Requests that answers make wait for the next tick. */
void metadata_local_tick(metadata_local *local, int64_t now_us) {
    uint64_t last = local->next_number;
    metadata_service_tick(local->service, now_us);
    while (!list_empty(&local->queue)) {
        request *request = container_of(local->queue.next, struct request, queued);
        if (request->question.request > last) break;
        list_remove(&request->queued);
        if (request->refused != MR_OK)
            end_request(local, request, &(metadata_store_answer){.status = request->refused});
        else
            metadata_service_take(local->service, (link_id){0}, &request->question, now_us);
    }
}
