/* flow.c — see flow.h. Tested by tests/yield_test.c. */
#include "runtime/flow.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/mutation.h"
#include "runtime/client.h"
#include "runtime/refs/cargo.h"

enum { WINDOW_FIRST = 4 /* pulls at the beginning; one more for each that has come */ };

struct flow {
    flows *flows;
    object *whole; /* held */
    object_waiter ended;
    list pulls; /* of pull: not taken, in order */
    uint32_t count, window, ahead;
    link_id link;    /* that the request was sent on, */
    uint64_t number; /* and its call; 0: not sent, or over */
    failure *failed; /* how it ended, not told yet */
    bool began, over;
};

typedef struct pull {
    wire_call call;
    list place;
    flow *flow;     /* NULL: abandoned or taken, and only the call is still to end */
    object *object; /* held */
    bool peeked;    /* the program has a reference to it, borrowed from us */
} pull;

/* ---- Pulls. */

static mr_status receive(pull *pull, const call_result *result, bundle **values, failure **failed) {
    client *client = pull->flow->flows->client;
    wire_outcome(&pull->call, result, "a result of a stream", values, failed);
    if (*failed != NULL) return MR_OK;
    mr_status status =
        (*values)->count == 1
            ? cargo_receive(&client->objects, *values)
            : error_set(MR_CORRUPT, "malformed result of a stream: %u values instead of 1", (*values)->count);
    if (status == MR_OK && (*values)->cargo != NULL) transit_arrived(&client->transit, pull->call.answered, *values);
    return status;
}

static void fill(flow *flow);

static void pulled(wire_call *call, const call_result *result) {
    pull *pull = container_of(call, struct pull, call);
    if (pull->flow == NULL) {
        wire_call_end(call);
        return;
    }
    if (result->status != MR_OK) return; /* it is idle again: the end of the request says why */
    flows *flows = pull->flow->flows;
    objects *objects = &flows->client->objects;
    bundle *values = NULL;
    failure *failed = NULL;
    mr_status status = receive(pull, result, &values, &failed);
    if (status != MR_OK) failed = failure_create(status, mr_last_error(), "a result of a stream", NULL);
    pull->flow->began = true;
    object *whole = object_hold(pull->flow->whole); /* what waits for the result may abandon the stream */
    if (failed != NULL)
        object_fail(objects, pull->object, failed);
    else
        object_fulfil(objects, pull->object, values, 0);
    bundle_unref(values);
    failure_unref(failed);
    flow *flow = flow_find(flows, whole);
    if (flow != NULL && flow->window < flow->ahead) {
        flow->window++;
        fill(flow);
    }
    object_drop(objects, whole);
}

/* Leaves the line; the record goes when its call has ended. */
static void pull_drop(pull *pull) {
    client *client = pull->flow->flows->client;
    object *object = pull->object;
    bool peeked = pull->peeked;
    list_remove(&pull->place);
    pull->flow->count--;
    pull->flow = NULL;
    if (pull->call.id.number == 0)
        wire_call_end(&pull->call);
    else if (calls_cancel(client->calls, pull->call.id) != MR_OK) /* it ends in `pulled` */
        error_clear();
    if (peeked) object_unname(&client->objects, object);
    object_drop(&client->objects, object);
}

static mr_status pull_ask(pull *pull) {
    const flow *flow = pull->flow;
    wire_message message = {.fields = span_of(&flow->number, sizeof flow->number)};
    return wire_ask(flow->flows->client->calls, flow->link, WORKER_NEXT, &message, &pull->call);
}

static void feed(flow *flow) {
    if (flow->number == 0) return;
    list_for_each (at, &flow->pulls) {
        pull *pull = container_of(at, struct pull, place);
        if (pull->object->state != OBJECT_PENDING || pull->call.id.number != 0) continue;
        if (pull_ask(pull) != MR_OK) return; /* on_room, or the link's end, comes */
    }
    client_stir(flow->flows->client);
}

/* How the next result that will not come ends: the failure is told once. */
static void fail_pull(flow *flow, pull *pull) {
    failure *failed = flow->failed;
    flow->failed = NULL;
    if (failed == NULL) failed = failure_create(MR_END, "the stream has no more results", "", NULL);
    object_fail(&flow->flows->client->objects, pull->object, failed);
    failure_unref(failed);
}

static mr_status add_pull(flow *flow) {
    objects *objects = &flow->flows->client->objects;
    pull *made;
    MR_TRY(alloc_try(sizeof(pull), &made));
    *made = (pull){.call = {.done = pulled, .free = wire_call_free}, .flow = flow};
    made->object = object_create(objects, false);
    if (made->object == NULL) {
        free(made);
        return MR_NOMEM;
    }
    made->object->seen = true; /* the program has not got it yet */
    list_push_back(&flow->pulls, &made->place);
    flow->count++;
    if (flow->over) fail_pull(flow, made);
    return MR_OK;
}

/* As many as may wait; what finds no memory now is asked for when the next one is taken. */
static void fill(flow *flow) {
    uint32_t more = MUTATED("no-ahead") ? 3 : 0;
    while (!flow->over && flow->count < flow->window + more && flow->count < flow->ahead + more)
        if (add_pull(flow) != MR_OK) break;
    feed(flow);
}

/* ---- The request. */

static void whole_settled(object_waiter *waiter, object *whole) {
    flow *flow = container_of(waiter, struct flow, ended);
    flow->over = true;
    flow->number = 0;
    flow->failed = whole->state == OBJECT_FAILED ? failure_ref(whole->failure) : NULL;
    object_hold(whole); /* what waits for a result may abandon the stream, but not this */
    list_for_each (at, &flow->pulls) {
        pull *pull = container_of(at, struct pull, place);
        if (pull->object->state != OBJECT_PENDING || MUTATED("no-end")) continue;
        if (pull->call.id.number != 0 && calls_cancel(flow->flows->client->calls, pull->call.id) != MR_OK)
            error_clear();
        fail_pull(flow, pull);
    }
    object_drop(&flow->flows->client->objects, whole);
}

void flow_sent(request *request, link_id link) {
    flow *flow = flow_find(&request->client->flows, request->result);
    if (flow == NULL) return; /* abandoned meanwhile: its cancellation follows */
    flow->link = link;
    flow->number = request->call.id.number;
    fill(flow);
}

void flow_unsent(const request *request) {
    flow *flow = flow_find(&request->client->flows, request->result);
    if (flow == NULL) return;
    flow->number = 0; /* nothing is asked until it is sent again */
    list_for_each (at, &flow->pulls) {
        pull *pull = container_of(at, struct pull, place);
        if (pull->call.id.number == 0) continue;
        if (calls_cancel(request->client->calls, pull->call.id) != MR_OK) error_clear();
    }
}

bool flow_began(const request *request) {
    const flow *flow = flow_find(&request->client->flows, request->result);
    return flow == NULL || (flow->began && !MUTATED("no-began"));
}

/* ---- Life. */

void flows_init(flows *flows, client *client) { *flows = (struct flows){.client = client}; }

mr_status flow_open(flows *flows, object *whole, uint32_t ahead) {
    flow *made;
    MR_TRY(alloc_try(sizeof(flow), &made));
    *made = (flow){.flows = flows, .whole = object_hold(whole), .ended.fn = whole_settled, .ahead = ahead};
    made->window = ahead < WINDOW_FIRST ? ahead : WINDOW_FIRST;
    list_init(&made->pulls);
    whole->streams = true;
    whole->seen = true; /* a failure is told by the result that will not come */
    object_wait(&flows->client->objects, whole, &made->ended);
    map_put(&flows->by_serial, whole->ref.word[1], made);
    return MR_OK;
}

flow *flow_find(const flows *flows, const object *whole) {
    return whole->streams ? map_get(&flows->by_serial, whole->ref.word[1]) : NULL;
}

static void flow_free(flow *flow) {
    while (!list_empty(&flow->pulls)) pull_drop(container_of(flow->pulls.next, pull, place));
    object_unwait(&flow->ended);
    failure_unref(flow->failed);
    object_drop(&flow->flows->client->objects, flow->whole);
    free(flow);
}

void flow_abandon(flows *flows, object *whole) {
    flow *flow = map_remove(&flows->by_serial, whole->ref.word[1]);
    if (flow == NULL) return;
    bool silent = whole->maker == NULL || MUTATED("no-abandon");
    if (!silent && request_cancel(whole, WIRE_WITH_CHILDREN) != MR_OK) error_clear(); /* whoever waits hears of it */
    flow_free(flow);
}

void flows_fini(flows *flows) {
    for (map_slot slot; map_next(&flows->by_serial, 0, &slot) != 0;) flow_free(map_remove(&flows->by_serial, slot.key));
    map_fini(&flows->by_serial);
}

void flows_feed(flows *flows) {
    map_for_each (slot, &flows->by_serial) feed(slot.value);
}

/* ---- Taking. */

mr_status flow_head(flow *flow, object **out) {
    if (list_empty(&flow->pulls)) MR_TRY(add_pull(flow));
    feed(flow);
    *out = container_of(flow->pulls.next, pull, place)->object;
    return MR_OK;
}

mr_status flow_peek(flow *flow, object **out) {
    MR_TRY(flow_head(flow, out));
    pull *head = container_of(flow->pulls.next, pull, place);
    if (!head->peeked) object_name(head->object);
    head->peeked = true;
    return MR_OK;
}

object *flow_take(flow *flow) {
    pull *head = container_of(flow->pulls.next, pull, place);
    object *object = head->object;
    MR_ASSERT(object->state != OBJECT_PENDING);
    if (!head->peeked || object->names == 0) object_name(object);
    head->peeked = false; /* it is the program's own */
    object->seen = false;
    pull_drop(head);
    fill(flow);
    return object;
}
