/* lender_answer.c — owner's side of fetching: processes that wait for an outcome of this one, answered when it is
 * ready. See lender.h. */
#include <stdlib.h>

#include "base/alloc.h"
#include "runtime/client.h"
#include "runtime/refs/cargo.h"
#include "runtime/refs/lender.h"

typedef struct asker { /* who waits for an object of ours */
    object_waiter waiter;
    list place;
    lender *lender;
    call_token token;
    object *object; /* held */
    bool keeps;     /* it wants to have it, and has not looked at it */
} asker;

static void asker_free(asker *asker) {
    objects *objects = &asker->lender->client->objects;
    object *object = asker->object;
    object_unwait(&asker->waiter);
    list_remove(&asker->place);
    free(asker);
    object_drop(objects, object);
}

static mr_status answer_values(lender *lender, call_token token, const object *object) {
    client *client = lender->client;
    bundle *values;
    bundle_item item = cargo_item_of_object(object);
    MR_TRY(cargo_repack(&client->objects, &item, 1, &values));
    mr_status status = wire_answer_values(client->calls, token, values);
    if (status == MR_OK && values->cargo != NULL) transit_keep(&client->transit, token, values);
    bundle_unref(values);
    return status;
}

/* Its object is settled. */
static void answer(asker *asker) {
    lender *lender = asker->lender;
    const object *object = asker->object;
    mr_status status = object->state == OBJECT_FAILED
                           ? wire_answer_failure(lender->client->calls, asker->token, object->failure)
                           : answer_values(lender, asker->token, object);
    if (status == MR_BUSY) {
        list_remove(&asker->place);
        list_push_back(&lender->answers, &asker->place);
        return;
    }
    if (status != MR_OK && status != MR_CLOSED)
        wire_refuse(lender->client->calls, asker->token, status, mr_last_error());
    asker_free(asker);
}

static void settled(object_waiter *waiter, object *object) {
    asker *asker = container_of(waiter, struct asker, waiter);
    if (!asker->keeps) object->seen = true; /* whoever fetched it hears of it */
    answer(asker);
}

void lender_fetch_asked(lender *lender, const call_request *request) {
    objects *objects = &lender->client->objects;
    reader reader = reader_of(request->payload.data, request->payload.size);
    uint64_t serial = reader_u64(&reader);
    bool keeps = reader_u8(&reader) != 0;
    object *object = reader.failed ? NULL : object_known(objects, (mr_ref){{objects->process, serial}});
    if (object == NULL) {
        wire_refuse(lender->client->calls, request->token, MR_OBJECT_LOST, "its owner has released it");
        return;
    }
    asker *made = XNEW(asker, .waiter.fn = settled, .lender = lender, .token = request->token,
                       .object = object_hold(object), .keeps = keeps);
    list_init(&made->waiter.place);
    list_push_back(&lender->askers, &made->place);
    if (object->state == OBJECT_PENDING)
        object_wait(objects, object, &made->waiter);
    else
        settled(&made->waiter, object);
}

void lender_answer_again(lender *lender) {
    list_for_each (at, &lender->answers) answer(container_of(at, asker, place));
}

static void forget_askers(list *askers, link_id link) {
    list_for_each (at, askers) {
        asker *asker = container_of(at, struct asker, place);
        if (asker->token.link.v == link.v) asker_free(asker);
    }
}

static asker *find(list *askers, call_token token) {
    list_for_each (at, askers) {
        asker *asker = container_of(at, struct asker, place);
        if (asker->token.link.v == token.link.v && asker->token.number == token.number) return asker;
    }
    return NULL;
}

void lender_cancelled(lender *lender, call_token token) {
    asker *asker = find(&lender->askers, token);
    if (asker == NULL) asker = find(&lender->answers, token);
    if (asker != NULL) asker_free(asker);
}

void lender_forget_askers(lender *lender, link_id link) {
    forget_askers(&lender->askers, link);
    forget_askers(&lender->answers, link);
}

void lender_askers_fini(lender *lender) {
    while (!list_empty(&lender->askers)) asker_free(container_of(lender->askers.next, asker, place));
    while (!list_empty(&lender->answers)) asker_free(container_of(lender->answers.next, asker, place));
}
