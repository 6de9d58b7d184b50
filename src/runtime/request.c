/* request.c — see request.h. Tested by tests/runtime_task_test.c. */
#include "runtime/request.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/mutation.h"
#include "runtime/client.h"
#include "runtime/refs/cargo.h"

static mr_status keep_results(request *request, const request_plan *plan) {
    request->results = NULL;
    request->returns = plan->returns;
    request->result = plan->results[0];
    request->result->maker = request;
    if (plan->returns > 1) {
        MR_TRY(alloc_try(plan->returns * sizeof *request->results, &request->results));
        memcpy(request->results, plan->results, plan->returns * sizeof *request->results);
        for (uint32_t i = 1; i < plan->returns; i++) request->results[i]->maker = request;
    }
    return MR_OK;
}

/* All but arguments, results and group. */
static inline void fill_in(request *request, client *client, name *name, bool streams) {
    list_init(&request->place);
    list_init(&request->group);
    request->held = false;
    request->streams = streams;
    request->parent = client->run;
    request->client = client;
    request->name = name_ref(name);
    request->since_us = client_about_now(client);
}

mr_status request_init(request *request, client *client, const request_plan *plan, arguments_settled_fn *settled) {
    MR_ASSERT(plan->returns > 0);
    MR_TRY(arguments_init(&request->arguments, &client->objects, plan->args, plan->count, plan->errors, plan->straight,
                          settled));
    mr_status status = keep_results(request, plan);
    if (status != MR_OK) {
        arguments_fini(&request->arguments);
        return status;
    }
    fill_in(request, client, plan->name, plan->streams);
    request->held = plan->group != NULL && !MUTATED("no-hold");
    if (request->held) list_push_back(plan->group, &request->group);
    return MR_OK;
}

void request_fini(request *request) {
    arguments_fini(&request->arguments);
    name_unref(request->name);
    if (request->results != NULL) free(request->results);
}

void request_expect_failure(request *request) {
    request->result->seen = true;
    for (uint32_t i = 1; request->results != NULL && i < request->returns; i++) request->results[i]->seen = true;
}

typedef struct sending { /* a call that is being written */
    size_t size;         /* of the message */
    uint8_t *values;     /* where the bundle goes, if it goes inside */
} sending;

/* The name as a worker reads it that does not have it yet. */
static size_t name_room(const name *name, const mr_actor *actor) {
    size_t code = name->code.size == 0 ? 0 : sizeof(uint64_t) + wire_padded(name->code.size);
    return (actor != NULL ? sizeof *actor : 0) + wire_padded(name->size) + code;
}

static void write_name(const name *name, const mr_actor *actor, uint8_t *at, size_t room) {
    memset(at, 0, room);
    if (actor != NULL) memcpy(at, actor, sizeof *actor);
    at += actor != NULL ? sizeof *actor : 0;
    memcpy(at, name->text, name->size);
    if (name->code.size == 0) return;
    at += wire_padded(name->size);
    uint64_t size = name->code.size;
    memcpy(at, &size, sizeof size);
    memcpy(at + sizeof size, name->code.data, name->code.size);
}

/* Everything but the values, for which there is room then. */
static inline mr_status begin_sending(const request *request, const route *route, const mr_actor *actor,
                                      size_t values_size, sending *out) {
    const name *name = request->name;
    wire_head head = {
        .number = (uint16_t)name->number, .returns = request->returns, .flags = request->streams ? WIRE_STREAM : 0};
    size_t room = 0;
    if (name->number == 0 || !route_knows(route, name->number)) {
        head.name_size = name->size;
        if (name->code.size > 0) head.flags |= WIRE_CODE;
        room = name_room(name, actor);
    }
    out->size = sizeof head + room + values_size;
    uint8_t *at;
    MR_TRY(calls_begin(request->client->calls, route->link, actor != NULL ? WORKER_ACTOR_CALL : WORKER_TASK, out->size,
                       &at));
    memcpy(at, &head, sizeof head);
    if (room != 0) write_name(name, actor, at + sizeof head, room);
    out->values = at + sizeof head + room;
    return MR_OK;
}

static inline void written_down(const request *request) {
    const name *name = request->name;
    diary_submit(&request->client->diary, request->call.id, name->text, name->size, name->number);
}

/* `body` is what the values lie in, if they do not fit into the message. */
static inline mr_status send_values(request *request, route *route, const mr_actor *actor, span values, bundle *body) {
    bool inside = values.size <= BUNDLE_INLINE_MAX;
    if (values.size == BUNDLE_EMPTY) values.size = 0;
    sending sending;
    MR_TRY(begin_sending(request, route, actor, inside ? values.size : 0, &sending));
    if (values.size <= ARGUMENTS_SMALL)
        bytes_copy_words(sending.values, values.data, values.size);
    else if (inside)
        memcpy(sending.values, values.data, values.size);
    wire_call_commit(request->client->calls, route->link, sending.size, inside ? NULL : body, &request->call);
    written_down(request);
    if (request->streams) flow_sent(request, route->link);
    return MR_OK;
}

static mr_status send_packed(request *request, route *route, const mr_actor *actor, const bundle_item *items,
                             size_t count, size_t size) {
    sending sending;
    MR_TRY(begin_sending(request, route, actor, size, &sending));
    size_t packed = bundle_pack_small(items, count, sending.values, size);
    MR_ASSERT(packed == size);
    wire_call_commit(request->client->calls, route->link, sending.size, NULL, &request->call);
    return MR_OK;
}

/* As a body that is not packed before. MR_BUSY: there is no room for all of it now. */
static mr_status send_spread(request *request, route *route, const mr_actor *actor, const bundle_item *items,
                             size_t count) {
    sending sending;
    bundle_spread spread;
    MR_TRY(begin_sending(request, route, actor, 0, &sending));
    bundle_spread_init(&spread, items, count);
    bool sent = wire_call_commit_now(request->client->calls, route->link, sending.size, spread.pieces, spread.count,
                                     &request->call);
    return sent ? MR_OK : MR_BUSY;
}

mr_status request_send_straight(request *request, route *route, const mr_actor *actor, const request_plan *plan) {
    enum { FEW = 8 };
    bundle_item few[FEW], *items = few;
    if (plan->count > FEW) MR_TRY(alloc_try(plan->count * sizeof(bundle_item), &items));
    for (size_t i = 0; i < plan->count; i++) items[i].arg = &plan->args[i];
    mr_status status = *plan->straight <= BUNDLE_INLINE_MAX
                           ? send_packed(request, route, actor, items, plan->count, *plan->straight)
                           : send_spread(request, route, actor, items, plan->count);
    if (status == MR_OK) {
        written_down(request);
        if (request->streams) flow_sent(request, route->link);
    }
    if (items != few) free(items);
    return status;
}

size_t request_words_of(const mr_arg *args, size_t count, uint64_t *words, size_t room) {
    enum { FEW = 8 };
    bundle_item items[FEW];
    if (count > FEW || args == NULL) return 0;
    for (size_t i = 0; i < count; i++) {
        if (arguments_is_future(&args[i])) return 0;
        items[i].arg = &args[i];
        items[i].fill = NULL;
    }
    size_t size = bundle_pack_small(items, count, (uint8_t *)&words[1], (room - 1) * sizeof words[0]);
    return size == 0 ? 0 : 1 + size / sizeof words[0];
}

void request_sent(request *request, client *client, name *name, object *result) {
    mr_status status = arguments_init(&request->arguments, &client->objects, NULL, 0, false, NULL, NULL);
    MR_ASSERT(status == MR_OK);
    request->results = NULL;
    request->returns = 1;
    request->result = result;
    result->maker = request;
    fill_in(request, client, name, false);
    written_down(request);
}

void request_keep_words(request *request, const uint64_t words[REQUEST_WORDS], size_t count) {
    arguments *arguments = &request->arguments;
    MR_ASSERT(count > 1 && count <= REQUEST_WORDS);
    arguments->small_size = (uint32_t)((count - 1) * sizeof words[0]);
    bytes_copy_words(arguments->small, &words[1], arguments->small_size);
}

mr_status request_keep(request *request, const request_plan *plan, arguments_settled_fn *settled) {
    return arguments_init(&request->arguments, &request->client->objects, plan->args, plan->count, plan->errors, NULL,
                          settled);
}

mr_status request_cancel(const object *result, wire_how how) {
    request *request = result->maker;
    if (request == NULL)
        return error_set(MR_NOT_FOUND, "object " OBJECT_ID " is not pending: nothing to cancel",
                         OBJECT_ID_OF(result->ref));
    return request->ops->cancel(request, how);
}

mr_status request_spare_children(const request *request, const route *route) {
    uint64_t number = request->call.id.number;
    mr_status status = wire_tell(request->client->calls, route->link, WORKER_ALONE, span_of(&number, sizeof number));
    return status == MR_BUSY ? status : MR_OK; /* a link that closes takes it along anyway */
}

void requests_start(list *group) {
    for (list *at; (at = list_pop_front(group)) != NULL;) {
        request *request = container_of(at, struct request, group);
        request->held = false;
        request->ops->start(request);
    }
}

/* From the last to the first: what depends on others goes before them, and nothing is told as their failure. */
void requests_drop(list *group) {
    while (!list_empty(group)) {
        request *request = container_of(group->prev, struct request, group);
        request->held = false;
        request->ops->fail(request, failure_create(MR_CANCELLED, "its batch was dropped", "", NULL));
    }
}

mr_status request_send(request *request, route *route, const mr_actor *actor) {
    bundle *values = request->arguments.values, *dressed;
    if (values == NULL || values->cargo == NULL)
        return send_values(request, route, actor, arguments_bytes(&request->arguments), values);
    MR_TRY(cargo_dress(values, &dressed)); /* with what the values refer to */
    mr_status status = send_values(request, route, actor, span_of(dressed->bytes, dressed->size), dressed);
    bundle_unref(dressed);
    return status;
}

failure *request_failure(const request *request, request_describe_fn *describe, mr_status code, const char *message,
                         failure *cause) {
    char origin[REQUEST_TEXT_MAX];
    describe(request, origin, sizeof origin);
    return failure_create(code, message, origin, cause);
}

/* What the values name and refer to. */
static mr_status take_named(request *request, wire_values *values) {
    client *client = request->client;
    MR_TRY(wire_values_keep(values));
    MR_TRY(cargo_receive(&client->objects, values->owner));
    if (values->owner->cargo != NULL) transit_arrived(&client->transit, request->call.answered, values->owner);
    return MR_OK;
}

static mr_status read_values(request *request, const call_result *result, wire_values *values, failure **failed) {
    MR_TRY(wire_read(&request->call, result, values, failed));
    if (*failed != NULL) return MR_OK;
    mr_status status = values->view.count == request->returns
                           ? MR_OK
                           : error_set(MR_CORRUPT, "malformed result of %s: %u values instead of %u",
                                       request->name->text, values->view.count, request->returns);
    if (status == MR_OK && !values->view.plain) status = take_named(request, values);
    if (status != MR_OK) bundle_unref(values->owner);
    return status;
}

bool request_end_small(request *request, const call_result *result) {
    span value;
    if (result->status != MR_OK || request->results != NULL || !wire_read_small(result, &value) ||
        value.size > OBJECT_SMALL)
        return false;
    objects *objects = &request->client->objects;
    object *object = request->result;
    list_remove(&request->place);
    wire_call_end(&request->call);
    object_fulfil_small(objects, object, value);
    object_drop(objects, object);
    return true;
}

failure *request_outcome(request *request, const call_result *result, request_describe_fn *describe,
                         wire_values *values, bool *lost) {
    failure *failed = NULL;
    *lost = result->why != NULL;
    if (result->status != MR_OK) {
        char origin[REQUEST_TEXT_MAX];
        describe(request, origin, sizeof origin);
        return wire_failure(result, origin);
    }
    mr_status status = read_values(request, result, values, &failed);
    *lost = status == MR_OBJECT_LOST;
    return status == MR_OK ? failed : request_failure(request, describe, status, mr_last_error(), NULL);
}

/* The objects that an ended request has made, and now gives away. */
typedef struct results {
    objects *objects;
    object *one, **all;
    uint32_t count;
} results;

/* The record goes, the objects stay held by us. */
static results leave_record(request *request) {
    results results = {&request->client->objects, request->result, request->results, request->returns};
    request->results = NULL;
    list_remove(&request->place);
    list_remove(&request->group);
    wire_call_end(&request->call);
    return results;
}

static object *result_at(const results *results, uint32_t index) {
    return results->all == NULL ? results->one : results->all[index];
}

static void fail_results(const results *results, failure *failed) {
    for (uint32_t i = 0; i < results->count; i++) {
        object *object = result_at(results, i);
        object_fail(results->objects, object, failed);
        object_drop(results->objects, object);
    }
    failure_unref(failed);
    free(results->all);
}

/* Values that do not fit into their objects must last. */
static bool are_small(const bundle_view *view) {
    for (uint32_t i = 0; i < view->count; i++) {
        bundle_entry entry = bundle_view_entry(view, i);
        if (!object_is_small(&entry)) return false;
    }
    return true;
}

void request_end_values(request *request, wire_values *values) {
    mr_status status = values->owner == NULL && !are_small(&values->view) ? wire_values_keep(values) : MR_OK;
    results results = leave_record(request);
    if (status != MR_OK) {
        fail_results(&results, failure_create(status, mr_last_error(), "", NULL));
        return;
    }
    for (uint32_t i = 0; i < results.count; i++) {
        object *object = result_at(&results, i);
        if (values->owner != NULL)
            object_fulfil(results.objects, object, values->owner, i);
        else
            object_fulfil_small(results.objects, object, bundle_view_entry(&values->view, i).bytes);
        object_drop(results.objects, object);
    }
    bundle_unref(values->owner);
    free(results.all);
}

void request_end_failure(request *request, failure *failed) {
    results results = leave_record(request);
    fail_results(&results, failed);
}
