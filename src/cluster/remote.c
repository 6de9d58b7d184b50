/* remote.c — see remote.h. */
#include "cluster/remote.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/heap.h"
#include "base/list.h"
#include "base/map.h"

typedef struct request {
    heap_item deadline;
    uint64_t number;
    mr_status refused; /* it was never sent; else MR_OK */
    coordinator_done_fn *done;
    void *argument;
} request;

struct remote {
    coordinator_asker asker; /* first */
    const env *env;
    mail *mail;
    char address[MAIL_ADDRESS_MAX];
    map requests; /* number → request, owned */
    heap deadlines;
};

static void end_request(remote *remote, request *request, const coordinator_answer *answer) {
    MR_ASSERT(map_get(&remote->requests, request->number) == request); /* it is answered once */
    heap_remove(&remote->deadlines, &request->deadline);
    map_remove(&remote->requests, request->number);
    request->done(request->argument, answer);
    free(request);
}

void remote_destroy(remote *remote) {
    for (heap_item *item; (item = heap_first(&remote->deadlines)) != NULL;)
        end_request(remote, container_of(item, request, deadline), &(coordinator_answer){.status = MR_CLOSED});
    heap_fini(&remote->deadlines);
    map_fini(&remote->requests);
    free(remote);
}

/* The number is drawn, so that an answer to an earlier process is nobody's here. */
static void ask(coordinator_asker *asker, letter *letter, coordinator_done_fn *done, void *argument) {
    remote *remote = container_of(asker, struct remote, asker);
    int64_t timeout_us = letter->kind == LETTER_WATCH ? REMOTE_WATCH_US : REMOTE_TIMEOUT_US;
    MR_ASSERT(done != NULL && remote->requests.count == remote->deadlines.count); /* each has a deadline */
    request *request = xcalloc(1, sizeof *request);
    do request->number = rng_next(remote->env->rng);
    while (map_get(&remote->requests, request->number) != NULL);
    request->done = done;
    request->argument = argument;
    map_put(&remote->requests, request->number, request);
    heap_add(&remote->deadlines, &request->deadline, clock_deadline_us(clock_now_us(remote->env->clock), timeout_us));
    letter->request = request->number;
    if (letter->value.size > LETTER_VALUE_MAX || letter->key.size > LETTER_KEY_MAX) {
        request->refused = letter->value.size > LETTER_VALUE_MAX ? MR_TOO_LARGE : MR_INVALID;
        heap_add(&remote->deadlines, &request->deadline, clock_now_us(remote->env->clock));
        return;
    }
    size_t size;
    uint8_t *bytes = letter_write(letter, &size);
    mail_send(remote->mail, remote->address, span_of(bytes, size));
    free(bytes);
}

remote *remote_create(const env *env, mail *mail, const char *address) {
    MR_ASSERT(strlen(address) < MAIL_ADDRESS_MAX);
    remote *remote = xcalloc(1, sizeof *remote);
    remote->asker.ask = ask;
    remote->env = env;
    remote->mail = mail;
    strcpy(remote->address, address);
    return remote;
}

coordinator remote_coordinator(remote *remote) { return coordinator_of(&remote->asker); }

bool remote_take(remote *remote, const letter *letter) {
    if (letter->kind != LETTER_ANSWER) return false;
    request *request = map_get(&remote->requests, letter->request);
    if (request != NULL) /* else it came too late, or twice */
        end_request(
            remote, request,
            &(coordinator_answer){.status = letter->status, .version = letter->version, .value = letter->value});
    return true;
}

int64_t remote_next_us(const remote *remote) { return heap_next_us(&remote->deadlines); }

void remote_tick(remote *remote, int64_t now_us) {
    for (heap_item *item; (item = heap_pop_due(&remote->deadlines, now_us)) != NULL;) {
        request *request = container_of(item, struct request, deadline);
        mr_status status = request->refused != MR_OK ? request->refused : MR_TIMEOUT;
        end_request(remote, request, &(coordinator_answer){.status = status});
    }
}
