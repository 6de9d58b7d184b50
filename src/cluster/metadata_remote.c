/* metadata_remote.c — see metadata_remote.h. */
#include "cluster/metadata_remote.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/list.h"
#include "base/map.h"
#include "base/timer_heap.h"

typedef struct request {
    timer_heap_item deadline;
    uint64_t number;
    mr_status refused; /* MR_OK: sent; otherwise the status with which the request ends */
    metadata_store_done_fn *done;
    void *argument;
} request;

struct metadata_remote {
    metadata_store_asker asker; /* must be first */
    const env *env;
    messenger *messenger;
    char address[MESSENGER_ADDRESS_MAX];
    map requests; /* number → request, owned */
    timer_heap deadlines;
};

static void end_request(metadata_remote *remote, request *request, const metadata_store_answer *answer) {
    MR_ASSERT(map_get(&remote->requests, request->number) == request); /* each request is answered once */
    timer_heap_remove(&remote->deadlines, &request->deadline);
    map_remove(&remote->requests, request->number);
    request->done(request->argument, answer);
    free(request);
}

void metadata_remote_destroy(metadata_remote *remote) {
    for (timer_heap_item *item; (item = timer_heap_first(&remote->deadlines)) != NULL;)
        end_request(remote, container_of(item, request, deadline), &(metadata_store_answer){.status = MR_CLOSED});
    timer_heap_fini(&remote->deadlines);
    map_fini(&remote->requests);
    free(remote);
}

/* Request numbers are random, so that an answer to an earlier process matches no request here. */
static void ask(metadata_store_asker *asker, control_message *message, metadata_store_done_fn *done, void *argument) {
    metadata_remote *remote = container_of(asker, struct metadata_remote, asker);
    int64_t timeout_us = message->kind == CONTROL_MESSAGE_WATCH ? METADATA_REMOTE_WATCH_US : METADATA_REMOTE_TIMEOUT_US;
    MR_ASSERT(done != NULL && remote->requests.count == remote->deadlines.count); /* each request has a deadline */
    request *request = XNEW(struct request, .done = done, .argument = argument);
    do request->number = rng_next(remote->env->rng);
    while (map_get(&remote->requests, request->number) != NULL);
    map_put(&remote->requests, request->number, request);
    timer_heap_add(&remote->deadlines, &request->deadline,
                   clock_deadline_us(clock_now_us(remote->env->clock), timeout_us));
    message->request = request->number;
    if (message->value.size > CONTROL_MESSAGE_VALUE_MAX || message->key.size > CONTROL_MESSAGE_KEY_MAX) {
        request->refused = message->value.size > CONTROL_MESSAGE_VALUE_MAX ? MR_TOO_LARGE : MR_INVALID;
        timer_heap_add(&remote->deadlines, &request->deadline, clock_now_us(remote->env->clock));
        return;
    }
    size_t size;
    uint8_t *bytes = control_message_write(message, &size);
    messenger_send(remote->messenger, remote->address, span_of(bytes, size));
    free(bytes);
}

metadata_remote *metadata_remote_create(const env *env, messenger *messenger, const char *address) {
    MR_ASSERT(strlen(address) < MESSENGER_ADDRESS_MAX);
    metadata_remote *remote = XNEW(metadata_remote, .asker.ask = ask, .env = env, .messenger = messenger);
    strcpy(remote->address, address);
    return remote;
}

metadata_store metadata_remote_metadata(metadata_remote *remote) { return metadata_store_of(&remote->asker); }

bool metadata_remote_take(metadata_remote *remote, const control_message *message) {
    if (message->kind != CONTROL_MESSAGE_ANSWER) return false;
    request *request = map_get(&remote->requests, message->request);
    if (request != NULL) /* otherwise the answer is late or repeated */
        end_request(remote, request, &(metadata_store_answer){message->status, message->version, message->value});
    return true;
}

int64_t metadata_remote_next_us(const metadata_remote *remote) { return timer_heap_next_us(&remote->deadlines); }

void metadata_remote_tick(metadata_remote *remote, int64_t now_us) {
    for (timer_heap_item *item; (item = timer_heap_pop_due(&remote->deadlines, now_us)) != NULL;) {
        request *request = container_of(item, struct request, deadline);
        mr_status status = request->refused != MR_OK ? request->refused : MR_TIMEOUT;
        end_request(remote, request, &(metadata_store_answer){.status = status});
    }
}
