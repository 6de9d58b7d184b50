/* borrow_serve.c — owner's side of fetching: processes that wait for an outcome of this one, answered when it is
 * ready. See borrow_rpc.h. */
#include <stdlib.h>

#include "base/alloc.h"
#include "runtime/client/borrow_rpc.h"
#include "runtime/client/core_worker.h"
#include "runtime/refs/attachment.h"

typedef struct asker { /* fetch of an object of this process by another process */
    object_waiter waiter;
    list place;
    borrow_rpc *rpc;
    rpc_call_token token;
    object *object; /* held */
    bool keeps;     /* fetched to be kept, and not read yet */
} asker;

static void asker_free(asker *asker) {
    objects *objects = &asker->rpc->worker->objects;
    object *object = asker->object;
    object_unwait(&asker->waiter);
    list_remove(&asker->place);
    free(asker);
    object_drop(objects, object);
}

static mr_status answer_values(borrow_rpc *rpc, rpc_call_token token, const object *object) {
    core_worker *worker = rpc->worker;
    value_pack *values;
    value_pack_item item = attachment_item_of_object(object);
    MR_TRY(attachment_repack(&worker->objects, &item, 1, &values));
    mr_status status = wire_answer_values(worker->rpc, token, values);
    if (status == MR_OK && values->attachment != NULL) result_holds_keep(&worker->holds, token, values);
    value_pack_unref(values);
    return status;
}

/* Answers a fetch whose object is settled. */
static void answer(asker *asker) {
    borrow_rpc *rpc = asker->rpc;
    const object *object = asker->object;
    mr_status status = object->state == OBJECT_FAILED
                           ? wire_answer_failure(rpc->worker->rpc, asker->token, object->failure)
                           : answer_values(rpc, asker->token, object);
    if (status == MR_BUSY) {
        list_remove(&asker->place);
        list_push_back(&rpc->answers, &asker->place);
        return;
    }
    if (status != MR_OK && status != MR_CLOSED) wire_refuse(rpc->worker->rpc, asker->token, status, mr_last_error());
    asker_free(asker);
}

static void settled(object_waiter *waiter, object *object) {
    asker *asker = container_of(waiter, struct asker, waiter);
    if (!asker->keeps) object->seen = true; /* the borrower reports the failure */
    answer(asker);
}

void borrow_rpc_fetch_asked(borrow_rpc *rpc, const rpc_call_request *request) {
    objects *objects = &rpc->worker->objects;
    reader reader = reader_of(request->payload.data, request->payload.size);
    uint64_t serial = reader_u64(&reader);
    bool keeps = reader_u8(&reader) != 0;
    object *object = reader.failed ? NULL : object_known(objects, (mr_ref){{objects->process, serial}});
    if (object == NULL) {
        wire_refuse(rpc->worker->rpc, request->token, MR_OBJECT_LOST, "its owner has released it");
        return;
    }
    asker *made = XNEW(asker, .waiter.fn = settled, .rpc = rpc, .token = request->token, .object = object_hold(object),
                       .keeps = keeps);
    list_init(&made->waiter.place);
    list_push_back(&rpc->askers, &made->place);
    if (object->state == OBJECT_PENDING)
        object_wait(objects, object, &made->waiter);
    else
        settled(&made->waiter, object);
}

void borrow_rpc_answer_again(borrow_rpc *rpc) {
    list_for_each (at, &rpc->answers) answer(container_of(at, asker, place));
}

static void forget_askers(list *askers, link_id link) {
    list_for_each (at, askers) {
        asker *asker = container_of(at, struct asker, place);
        if (asker->token.link.v == link.v) asker_free(asker);
    }
}

static asker *find(list *askers, rpc_call_token token) {
    list_for_each (at, askers) {
        asker *asker = container_of(at, struct asker, place);
        if (asker->token.link.v == token.link.v && asker->token.number == token.number) return asker;
    }
    return NULL;
}

void borrow_rpc_cancelled(borrow_rpc *rpc, rpc_call_token token) {
    asker *asker = find(&rpc->askers, token);
    if (asker == NULL) asker = find(&rpc->answers, token);
    if (asker != NULL) asker_free(asker);
}

void borrow_rpc_forget_askers(borrow_rpc *rpc, link_id link) {
    forget_askers(&rpc->askers, link);
    forget_askers(&rpc->answers, link);
}

void borrow_rpc_askers_fini(borrow_rpc *rpc) {
    while (!list_empty(&rpc->askers)) asker_free(container_of(rpc->askers.next, asker, place));
    while (!list_empty(&rpc->answers)) asker_free(container_of(rpc->answers.next, asker, place));
}
