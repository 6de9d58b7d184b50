/* clerk.c — see clerk.h. */
#include "cluster/clerk.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/heap.h"
#include "base/invariants.h"
#include "base/list.h"

typedef struct watch {
    heap_item deadline;
    list waiting;
    link_id link;
    uint64_t request, known;
    char key[KEEPER_KEY_MAX];
    size_t key_size;
} watch;

struct clerk {
    keeper *keeper;
    clerk_answer_fn *answer;
    void *context;
    list waiting; /* watches, in the order they came; owned */
    heap deadlines;
};

clerk *clerk_create(keeper *keeper, clerk_answer_fn *answer, void *context) {
    clerk *clerk = xcalloc(1, sizeof *clerk);
    clerk->keeper = keeper;
    clerk->answer = answer;
    clerk->context = context;
    list_init(&clerk->waiting);
    return clerk;
}

static void drop(clerk *clerk, watch *watch) {
    heap_remove(&clerk->deadlines, &watch->deadline);
    list_remove(&watch->waiting);
    free(watch);
}

void clerk_destroy(clerk *clerk) {
    list_for_each (at, &clerk->waiting) drop(clerk, container_of(at, watch, waiting));
    heap_fini(&clerk->deadlines);
    free(clerk);
}

static void answer_watch(clerk *clerk, watch *watch, mr_status status) {
    letter answer = {.kind = LETTER_ANSWER, .request = watch->request, .status = status};
    keeper_get(clerk->keeper, span_of(watch->key, watch->key_size), &answer.version, &answer.value);
    link_id link = watch->link;
    drop(clerk, watch);
    clerk->answer(clerk->context, link, &answer);
}

/* After everything that may have changed a value. */
static void look(clerk *clerk) {
    list_for_each (at, &clerk->waiting) {
        watch *watch = container_of(at, struct watch, waiting);
        uint64_t version;
        span value;
        keeper_get(clerk->keeper, span_of(watch->key, watch->key_size), &version, &value);
        if (version > watch->known) answer_watch(clerk, watch, MR_OK);
    }
}

static void wait(clerk *clerk, link_id link, const letter *question, int64_t now_us) {
    MR_ASSERT(question->key.size > 0 && question->key.size <= KEEPER_KEY_MAX);
    MR_ASSERT(clerk->deadlines.count < CLERK_WAITING_MAX);
    watch *watch = xcalloc(1, sizeof *watch);
    watch->link = link;
    watch->request = question->request;
    watch->known = question->version;
    watch->key_size = question->key.size;
    memcpy(watch->key, question->key.data, question->key.size);
    list_push_back(&clerk->waiting, &watch->waiting);
    heap_add(&clerk->deadlines, &watch->deadline, now_us + CLERK_WATCH_US);
}

bool clerk_take(clerk *clerk, link_id link, const letter *question, int64_t now_us) {
    uint8_t kind = question->kind;
    if (kind != LETTER_GET && kind != LETTER_SWAP && kind != LETTER_WATCH && kind != LETTER_LEASE) return false;
    letter answer;
    keeper_answer(clerk->keeper, question, now_us, &answer);
    bool waits = kind == LETTER_WATCH && answer.status == MR_OK && answer.version <= question->version;
    if (waits && clerk->deadlines.count < CLERK_WAITING_MAX && question->key.size != 0) {
        wait(clerk, link, question, now_us);
        return true;
    }
    if (waits) answer.status = MR_BUSY;
    clerk->answer(clerk->context, link, &answer);
    look(clerk);
    CHECK_INVARIANTS(clerk->deadlines.count, clerk_check(clerk));
    return true;
}

int64_t clerk_next_us(const clerk *clerk) {
    int64_t watch_us = heap_next_us(&clerk->deadlines), lease_us = keeper_next_us(clerk->keeper);
    return watch_us < lease_us ? watch_us : lease_us;
}

void clerk_tick(clerk *clerk, int64_t now_us) {
    keeper_tick(clerk->keeper, now_us);
    look(clerk);
    for (heap_item *item; (item = heap_pop_due(&clerk->deadlines, now_us)) != NULL;)
        answer_watch(clerk, container_of(item, watch, deadline), MR_TIMEOUT);
    CHECK_INVARIANTS(clerk->deadlines.count, clerk_check(clerk));
}

void clerk_check(const clerk *clerk) {
    size_t count = 0;
    list_for_each (at, &clerk->waiting) {
        const watch *watch = container_of(at, struct watch, waiting);
        uint64_t version;
        span value;
        keeper_get(clerk->keeper, span_of(watch->key, watch->key_size), &version, &value);
        MR_ASSERT(heap_holds(&watch->deadline) && watch->key_size > 0); /* 1 */
        MR_ASSERT(version <= watch->known);                             /* 2 */
        count++;
    }
    MR_ASSERT(count == clerk->deadlines.count && count <= CLERK_WAITING_MAX); /* 1 */
}
