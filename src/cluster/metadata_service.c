/* metadata_service.c — see metadata_service.h. */
#include "cluster/metadata_service.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/invariants.h"
#include "base/list.h"
#include "base/timer_heap.h"

typedef struct watch {
    timer_heap_item deadline;
    list waiting;
    link_id link;
    uint64_t request, known;
    char key[METADATA_DB_KEY_MAX];
    size_t key_size;
} watch;

struct metadata_service {
    metadata_db *db;
    metadata_service_answer_fn *answer;
    void *context;
    list waiting; /* watches in order of arrival, owned */
    timer_heap deadlines;
};

metadata_service *metadata_service_create(metadata_db *db, metadata_service_answer_fn *answer, void *context) {
    metadata_service *service = XNEW(metadata_service, .db = db, .answer = answer, .context = context);
    list_init(&service->waiting);
    return service;
}

static void drop(metadata_service *service, watch *watch) {
    timer_heap_remove(&service->deadlines, &watch->deadline);
    list_remove(&watch->waiting);
    free(watch);
}

void metadata_service_destroy(metadata_service *service) {
    list_for_each (at, &service->waiting) drop(service, container_of(at, watch, waiting));
    timer_heap_fini(&service->deadlines);
    free(service);
}

static void answer_watch(metadata_service *service, watch *watch, mr_status status) {
    control_message answer = {.kind = CONTROL_MESSAGE_ANSWER, .request = watch->request, .status = status};
    metadata_db_get(service->db, span_of(watch->key, watch->key_size), &answer.version, &answer.value);
    link_id link = watch->link;
    drop(service, watch);
    service->answer(service->context, link, &answer);
}

/* Answers watches whose value has changed; called after every possible change. */
static void look(metadata_service *service) {
    list_for_each (at, &service->waiting) {
        watch *watch = container_of(at, struct watch, waiting);
        uint64_t version;
        span value;
        metadata_db_get(service->db, span_of(watch->key, watch->key_size), &version, &value);
        if (version > watch->known) answer_watch(service, watch, MR_OK);
    }
}

static void wait(metadata_service *service, link_id link, const control_message *question, int64_t now_us) {
    MR_ASSERT(question->key.size > 0 && question->key.size <= METADATA_DB_KEY_MAX);
    MR_ASSERT(service->deadlines.count < METADATA_SERVICE_WAITING_MAX);
    watch *watch = XNEW(struct watch, .link = link, .request = question->request, .known = question->version,
                        .key_size = question->key.size);
    memcpy(watch->key, question->key.data, question->key.size);
    list_push_back(&service->waiting, &watch->waiting);
    timer_heap_add(&service->deadlines, &watch->deadline, now_us + METADATA_SERVICE_WATCH_US);
}

bool metadata_service_take(metadata_service *service, link_id link, const control_message *question, int64_t now_us) {
    uint8_t kind = question->kind;
    if (kind != CONTROL_MESSAGE_GET && kind != CONTROL_MESSAGE_SWAP && kind != CONTROL_MESSAGE_WATCH &&
        kind != CONTROL_MESSAGE_LEASE)
        return false;
    control_message answer;
    metadata_db_answer(service->db, question, now_us, &answer);
    bool waits = kind == CONTROL_MESSAGE_WATCH && answer.status == MR_OK && answer.version <= question->version;
    if (waits && service->deadlines.count < METADATA_SERVICE_WAITING_MAX && question->key.size != 0) {
        wait(service, link, question, now_us);
        return true;
    }
    if (waits) answer.status = MR_BUSY;
    service->answer(service->context, link, &answer);
    look(service);
    CHECK_INVARIANTS(service->deadlines.count, metadata_service_check(service));
    return true;
}

int64_t metadata_service_next_us(const metadata_service *service) {
    return clock_earlier_us(timer_heap_next_us(&service->deadlines), metadata_db_next_us(service->db));
}

void metadata_service_tick(metadata_service *service, int64_t now_us) {
    metadata_db_tick(service->db, now_us);
    look(service);
    for (timer_heap_item *item; (item = timer_heap_pop_due(&service->deadlines, now_us)) != NULL;)
        answer_watch(service, container_of(item, watch, deadline), MR_TIMEOUT);
    CHECK_INVARIANTS(service->deadlines.count, metadata_service_check(service));
}

void metadata_service_check(const metadata_service *service) {
    size_t count = 0;
    list_for_each (at, &service->waiting) {
        const watch *watch = container_of(at, struct watch, waiting);
        uint64_t version;
        span value;
        metadata_db_get(service->db, span_of(watch->key, watch->key_size), &version, &value);
        MR_ASSERT(timer_heap_holds(&watch->deadline) && watch->key_size > 0); /* 1 */
        MR_ASSERT(version <= watch->known);                                   /* 2 */
        count++;
    }
    MR_ASSERT(count == service->deadlines.count && count <= METADATA_SERVICE_WAITING_MAX); /* 1 */
}
