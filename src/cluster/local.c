/* local.c — see local.h. */
#include "cluster/local.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/list.h"
#include "base/map.h"

typedef struct request {
    list queued; /* in the queue until a tick has asked */
    letter question;
    uint8_t *bytes; /* of key and value, owned */
    mr_status refused;
    coordinator_done_fn *done;
    void *argument;
} request;

struct local {
    coordinator_asker asker; /* first */
    clerk *clerk;
    map requests; /* number → request, owned */
    list queue;
    uint64_t next_number;
};

static void end_request(local *local, request *request, const coordinator_answer *answer) {
    MR_ASSERT(map_get(&local->requests, request->question.request) == request); /* it is answered once */
    list_remove(&request->queued);
    map_remove(&local->requests, request->question.request);
    request->done(request->argument, answer);
    free(request->bytes);
    free(request);
}

static void on_answer(void *context, link_id link, const letter *answer) {
    local *local = context;
    request *request = map_get(&local->requests, answer->request);
    MR_ASSERT(request != NULL);
    end_request(local, request, &(coordinator_answer){answer->status, answer->version, answer->value});
}

void local_destroy(local *local) {
    clerk_destroy(local->clerk);
    map_slot slot;
    while (map_next(&local->requests, 0, &slot) != 0)
        end_request(local, slot.value, &(coordinator_answer){.status = MR_CLOSED});
    map_fini(&local->requests);
    free(local);
}

static void ask(coordinator_asker *asker, letter *question, coordinator_done_fn *done, void *argument) {
    MR_ASSERT(done != NULL);
    local *local = container_of(asker, struct local, asker);
    request *request = xcalloc(1, sizeof *request);
    size_t key_size = question->key.size, value_size = question->value.size;
    request->refused = local->requests.count >= LOCAL_OPEN_MAX ? MR_BUSY : MR_OK;
    request->question = *question;
    request->question.request = ++local->next_number;
    request->bytes = xmalloc(key_size + value_size + 1);
    if (key_size != 0) memcpy(request->bytes, question->key.data, key_size);
    if (value_size != 0) memcpy(request->bytes + key_size, question->value.data, value_size);
    request->question.key = span_of(request->bytes, key_size);
    request->question.value = span_of(request->bytes + key_size, value_size);
    request->done = done;
    request->argument = argument;
    map_put(&local->requests, request->question.request, request);
    list_init(&request->queued);
    list_push_back(&local->queue, &request->queued);
}

local *local_create(keeper *keeper) {
    local *local = xcalloc(1, sizeof *local);
    local->asker.ask = ask;
    local->clerk = clerk_create(keeper, on_answer, local);
    list_init(&local->queue);
    return local;
}

coordinator local_coordinator(local *local) { return coordinator_of(&local->asker); }

int64_t local_next_us(const local *local) {
    return list_empty(&local->queue) ? clerk_next_us(local->clerk) : INT64_MIN;
}

/* What the answers ask for in turn is for the next tick. */
void local_tick(local *local, int64_t now_us) {
    uint64_t last = local->next_number;
    clerk_tick(local->clerk, now_us);
    while (!list_empty(&local->queue)) {
        request *request = container_of(local->queue.next, struct request, queued);
        if (request->question.request > last) break;
        list_remove(&request->queued);
        if (request->refused != MR_OK)
            end_request(local, request, &(coordinator_answer){.status = request->refused});
        else
            clerk_take(local->clerk, (link_id){0}, &request->question, now_us);
    }
}
