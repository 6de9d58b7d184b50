/* invocation.c — see invocation.h. Tested by tests/runtime_task_test.c. */
#include "runtime/client/invocation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/mutation.h"
#include "runtime/client/core_worker.h"
#include "runtime/refs/attachment.h"

static mr_status keep_results(invocation *invocation, const invocation_plan *plan) {
    invocation->results = NULL;
    invocation->returns = plan->returns;
    invocation->result = plan->results[0];
    invocation->result->maker = invocation;
    if (plan->returns > 1) {
        MR_TRY(alloc_try(plan->returns * sizeof *invocation->results, &invocation->results));
        memcpy(invocation->results, plan->results, plan->returns * sizeof *invocation->results);
        for (uint32_t i = 1; i < plan->returns; i++) invocation->results[i]->maker = invocation;
    }
    return MR_OK;
}

/* Sets all fields but arguments, results and batch. */
static inline void fill_in(invocation *invocation, core_worker *worker, interned_name *name, bool streams) {
    list_init(&invocation->place);
    list_init(&invocation->group);
    invocation->held = false;
    invocation->streams = streams;
    invocation->holds = false;
    invocation->repeat = 0;
    invocation->parent = worker->run;
    invocation->worker = worker;
    invocation->name = interned_name_ref(name);
    invocation->since_us = core_worker_about_now(worker);
}

mr_status invocation_init(invocation *invocation, core_worker *worker, const invocation_plan *plan,
                          arguments_settled_fn *settled) {
    MR_ASSERT(plan->returns > 0);
    MR_TRY(arguments_init(&invocation->arguments, &worker->objects, plan->args, plan->count, plan->errors,
                          plan->straight, settled));
    mr_status status = keep_results(invocation, plan);
    if (status != MR_OK) {
        arguments_fini(&invocation->arguments);
        return status;
    }
    fill_in(invocation, worker, plan->name, plan->streams);
    invocation->held = plan->group != NULL && !MUTATED("no-hold");
    if (invocation->held) list_push_back(plan->group, &invocation->group);
    return MR_OK;
}

void invocation_fini(invocation *invocation) {
    arguments_fini(&invocation->arguments);
    interned_name_unref(invocation->name);
    if (invocation->results != NULL) free(invocation->results);
    invocation->worker = NULL;
}

void invocation_expect_failure(invocation *invocation) {
    invocation->result->seen = true;
    for (uint32_t i = 1; invocation->results != NULL && i < invocation->returns; i++)
        invocation->results[i]->seen = true;
}

typedef struct sending { /* a call that is being written */
    size_t size;         /* size of the message */
    uint8_t *values;     /* place of the value pack, if it is inline */
} sending;

/* Size of the name in a call to a worker that does not know it yet. */
static size_t name_room(const interned_name *name, const mr_actor *actor) {
    size_t code = name->code.size == 0 ? 0 : sizeof(uint64_t) + wire_padded(name->code.size);
    return (actor != NULL ? sizeof *actor : 0) + wire_padded(name->size) + code;
}

static void write_name(const interned_name *name, const mr_actor *actor, uint8_t *at, size_t room) {
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

/* Writes the message up to the values, for which out->values has room. */
static inline mr_status begin_sending(const invocation *invocation, const peer_link *link, const mr_actor *actor,
                                      size_t values_size, sending *out) {
    const interned_name *name = invocation->name;
    wire_head head = {.number = (uint16_t)name->number,
                      .returns = invocation->returns,
                      .flags = (invocation->streams ? WIRE_STREAM : 0) | (invocation->holds ? WIRE_HOLDS : 0)};
    size_t room = 0, repeat_room = 0;
    if (name->number == 0 || !peer_link_knows(link, name->number)) {
        head.name_size = name->size;
        if (name->code.size > 0) head.flags |= WIRE_CODE;
        room = name_room(name, actor);
    }
    if (__builtin_expect(invocation->repeat != 0, 0)) {
        head.flags |= WIRE_REPEATS;
        repeat_room = sizeof(wire_repeat);
    }
    out->size = sizeof head + repeat_room + room + values_size;
    uint8_t *at;
    MR_TRY(rpc_begin(invocation->worker->rpc, link->link, actor != NULL ? WORKER_ACTOR_CALL : WORKER_TASK, out->size,
                     &at));
    memcpy(at, &head, sizeof head);
    at += sizeof head;
    const wire_repeat repeat = {invocation->worker->objects.process, invocation->repeat};
    if (repeat_room != 0) memcpy(at, &repeat, sizeof repeat);
    at += repeat_room;
    if (room != 0) write_name(name, actor, at, room);
    out->values = at + room;
    return MR_OK;
}

static inline void written_down(const invocation *invocation) {
    const interned_name *name = invocation->name;
    event_writer_submit(&invocation->worker->writer, invocation->call.id, name->text, name->size, name->number);
}

/* Sends the values inside the message or, if they do not fit, in `body`, the value pack that contains them. */
static inline mr_status send_values(invocation *invocation, peer_link *link, const mr_actor *actor, span values,
                                    value_pack *body) {
    bool inside = values.size <= VALUE_PACK_INLINE_MAX;
    if (values.size == VALUE_PACK_EMPTY) values.size = 0;
    sending sending;
    MR_TRY(begin_sending(invocation, link, actor, inside ? values.size : 0, &sending));
    if (values.size <= ARGUMENTS_SMALL)
        bytes_copy_words(sending.values, values.data, values.size);
    else if (inside)
        memcpy(sending.values, values.data, values.size);
    wire_call_commit(invocation->worker->rpc, link->link, sending.size, inside ? NULL : body, &invocation->call);
    written_down(invocation);
    if (invocation->streams) stream_reader_sent(invocation, link->link);
    return MR_OK;
}

static mr_status send_packed(invocation *invocation, peer_link *link, const mr_actor *actor,
                             const value_pack_item *items, size_t count, size_t size) {
    sending sending;
    MR_TRY(begin_sending(invocation, link, actor, size, &sending));
    size_t packed = value_pack_pack_small(items, count, sending.values, size);
    MR_ASSERT(packed == size);
    wire_call_commit(invocation->worker->rpc, link->link, sending.size, NULL, &invocation->call);
    return MR_OK;
}

/* Sends the values as a body that is gathered from the caller's memory. MR_BUSY: no room for the whole body now. */
static mr_status send_spread(invocation *invocation, peer_link *link, const mr_actor *actor,
                             const value_pack_item *items, size_t count) {
    sending sending;
    value_pack_spread spread;
    MR_TRY(begin_sending(invocation, link, actor, 0, &sending));
    value_pack_spread_init(&spread, items, count);
    bool sent = wire_call_commit_now(invocation->worker->rpc, link->link, sending.size, spread.pieces, spread.count,
                                     &invocation->call);
    return sent ? MR_OK : MR_BUSY;
}

mr_status invocation_send_straight(invocation *invocation, peer_link *link, const mr_actor *actor,
                                   const invocation_plan *plan) {
    enum { FEW = 8 };
    value_pack_item few[FEW], *items = few;
    if (plan->count > FEW) MR_TRY(alloc_try(plan->count * sizeof(value_pack_item), &items));
    for (size_t i = 0; i < plan->count; i++) items[i].arg = &plan->args[i];
    mr_status status = *plan->straight <= VALUE_PACK_INLINE_MAX
                           ? send_packed(invocation, link, actor, items, plan->count, *plan->straight)
                           : send_spread(invocation, link, actor, items, plan->count);
    if (status == MR_OK) {
        written_down(invocation);
        if (invocation->streams) stream_reader_sent(invocation, link->link);
    }
    if (items != few) free(items);
    return status;
}

size_t invocation_words_of(const mr_arg *args, size_t count, uint64_t *words, size_t room) {
    enum { FEW = 8 };
    value_pack_item items[FEW];
    if (count > FEW || args == NULL) return 0;
    for (size_t i = 0; i < count; i++) {
        if (arguments_is_future(&args[i])) return 0;
        items[i].arg = &args[i];
        items[i].fill = NULL;
    }
    size_t size = value_pack_pack_small(items, count, (uint8_t *)&words[1], (room - 1) * sizeof words[0]);
    return size == 0 ? 0 : 1 + size / sizeof words[0];
}

void invocation_sent(invocation *invocation, core_worker *worker, interned_name *name, object *result) {
    mr_status status = arguments_init(&invocation->arguments, &worker->objects, NULL, 0, false, NULL, NULL);
    MR_ASSERT(status == MR_OK);
    invocation->results = NULL;
    invocation->returns = 1;
    invocation->result = result;
    result->maker = invocation;
    fill_in(invocation, worker, name, false);
    written_down(invocation);
}

void invocation_keep_words(invocation *invocation, const uint64_t words[INVOCATION_WORDS], size_t count) {
    arguments *arguments = &invocation->arguments;
    MR_ASSERT(count > 1 && count <= INVOCATION_WORDS);
    arguments->small_size = (uint32_t)((count - 1) * sizeof words[0]);
    bytes_copy_words(arguments->small, &words[1], arguments->small_size);
}

mr_status invocation_keep(invocation *invocation, const invocation_plan *plan, arguments_settled_fn *settled) {
    return arguments_init(&invocation->arguments, &invocation->worker->objects, plan->args, plan->count, plan->errors,
                          NULL, settled);
}

mr_status invocation_cancel(const object *result, wire_how how) {
    invocation *invocation = result->maker;
    if (invocation == NULL)
        return error_set(MR_NOT_FOUND, "object " OBJECT_ID " is not pending: nothing to cancel",
                         OBJECT_ID_OF(result->ref));
    return invocation->ops->cancel(invocation, how);
}

void invocation_maker(const object *result, char out[INVOCATION_MAKER_MAX]) {
    const invocation *invocation = result->maker;
    snprintf(out, INVOCATION_MAKER_MAX, "a value of another process");
    if (invocation != NULL) invocation->ops->describe(invocation, out, INVOCATION_MAKER_MAX);
}

mr_status invocation_spare_children(const invocation *invocation, const peer_link *link) {
    uint64_t number = invocation->call.id.number;
    mr_status status = wire_tell(invocation->worker->rpc, link->link, WORKER_ALONE, span_of(&number, sizeof number));
    return status == MR_BUSY ? status : MR_OK; /* MR_CLOSED: the invocation ends with the link */
}

/* The end of one invocation may end others and create new ones: the loop visits the slab's current content. */
void invocations_cancel_children(const slab *slab, uint64_t parent) {
    for (uint32_t i = 0; i < slab->count; i++) {
        invocation *invocation = slab_at(slab, i);
        if (invocation->worker == NULL || invocation->call.ended || invocation->parent != parent) continue;
        if (invocation->ops->cancel(invocation, WIRE_WITH_CHILDREN) != MR_OK) error_clear(); /* it has just ended */
    }
}

void invocations_start(list *group) {
    for (list *at; (at = list_pop_front(group)) != NULL;) {
        invocation *invocation = container_of(at, struct invocation, group);
        invocation->held = false;
        invocation->ops->start(invocation);
    }
}

/* Cancels from the last to the first: dependent invocations end before their inputs, so none fails because of an
 * input. */
void invocations_drop(list *group) {
    while (!list_empty(group)) {
        invocation *invocation = container_of(group->prev, struct invocation, group);
        invocation->held = false;
        invocation_end_failure(invocation, failure_create(MR_CANCELLED, "its batch was dropped", "", NULL));
    }
}

mr_status invocation_send(invocation *invocation, peer_link *link, const mr_actor *actor) {
    value_pack *values = invocation->arguments.values, *dressed;
    if (values == NULL || values->attachment == NULL)
        return send_values(invocation, link, actor, arguments_bytes(&invocation->arguments), values);
    MR_TRY(attachment_dress(values, &dressed)); /* the value pack with its table of references (attachment.h) */
    mr_status status = send_values(invocation, link, actor, span_of(dressed->bytes, dressed->size), dressed);
    value_pack_unref(dressed);
    return status;
}

static failure *failure_of(const invocation *invocation, mr_status code, const char *message, failure *cause) {
    char origin[INVOCATION_MAKER_MAX];
    invocation->ops->describe(invocation, origin, sizeof origin);
    return failure_create(code, message, origin, cause);
}

failure *invocation_lost(const invocation *invocation, mr_status code, const char *message, failure *cause) {
    failure *over = invocation->worker->over;
    if (over == NULL) return failure_of(invocation, code, message, cause);
    failure_unref(cause);
    return failure_of(invocation, over->code, "was lost", failure_ref(over));
}

/* Takes the store objects and references of received values. */
static mr_status take_named(invocation *invocation, wire_values *values) {
    core_worker *worker = invocation->worker;
    MR_TRY(wire_values_keep(values));
    MR_TRY(attachment_receive(&worker->objects, values->owner));
    if (values->owner->attachment != NULL)
        result_holds_arrived(&worker->holds, invocation->call.answered, values->owner);
    return MR_OK;
}

static mr_status read_values(invocation *invocation, const rpc_call_result *result, wire_values *values,
                             failure **failed) {
    MR_TRY(wire_read(&invocation->call, result, values, failed));
    if (*failed != NULL) return MR_OK;
    mr_status status = values->view.count == invocation->returns
                           ? MR_OK
                           : error_set(MR_CORRUPT, "malformed result of %s: %u values instead of %u",
                                       invocation->name->text, values->view.count, invocation->returns);
    if (status == MR_OK && !values->view.plain) status = take_named(invocation, values);
    if (status != MR_OK) value_pack_unref(values->owner);
    return status;
}

bool invocation_end_small(invocation *invocation, const rpc_call_result *result) {
    span value;
    if (result->status != MR_OK || invocation->results != NULL || !wire_read_small(result, &value) ||
        value.size > OBJECT_SMALL)
        return false;
    objects *objects = &invocation->worker->objects;
    object *object = invocation->result;
    list_remove(&invocation->place);
    wire_call_end(&invocation->call);
    object_fulfil_small(objects, object, value);
    object_drop(objects, object);
    return true;
}

failure *invocation_outcome(invocation *invocation, const rpc_call_result *result, wire_values *values, bool *lost) {
    failure *failed = NULL;
    *lost = result->why != NULL;
    if (result->status != MR_OK) {
        char origin[INVOCATION_MAKER_MAX];
        invocation->ops->describe(invocation, origin, sizeof origin);
        return wire_failure(result, origin);
    }
    mr_status status = read_values(invocation, result, values, &failed);
    *lost = status == MR_OBJECT_LOST;
    return status == MR_OK ? failed : failure_of(invocation, status, mr_last_error(), NULL);
}

/* Frees the record, and passes its holds on the result objects to the caller. Returns `one`, or an array to be
 * freed. */
static object **leave_record(invocation *invocation, object **one) {
    object **results = invocation->results;
    *one = invocation->result;
    invocation->results = NULL;
    list_remove(&invocation->place);
    list_remove(&invocation->group);
    wire_call_end(&invocation->call);
    return results != NULL ? results : one;
}

/* Whether all values fit into their objects; the memory of larger values must be kept. */
static bool are_small(const value_pack_view *view) {
    for (uint32_t i = 0; i < view->count; i++) {
        value_pack_entry entry = value_pack_view_entry(view, i);
        if (!object_is_small(&entry)) return false;
    }
    return true;
}

void invocation_end_values(invocation *invocation, wire_values *values) {
    mr_status status = values->owner == NULL && !are_small(&values->view) ? wire_values_keep(values) : MR_OK;
    if (status != MR_OK) {
        invocation_end_failure(invocation, failure_create(status, mr_last_error(), "", NULL));
        return;
    }
    objects *objects = &invocation->worker->objects;
    uint32_t count = invocation->returns;
    object *one, **all = leave_record(invocation, &one);
    for (uint32_t i = 0; i < count; i++) {
        if (values->owner != NULL)
            object_fulfil(objects, all[i], values->owner, i);
        else
            object_fulfil_small(objects, all[i], value_pack_view_entry(&values->view, i).bytes);
        object_drop(objects, all[i]);
    }
    value_pack_unref(values->owner);
    if (all != &one) free(all);
}

void invocation_end_failure(invocation *invocation, failure *failed) {
    objects *objects = &invocation->worker->objects;
    uint32_t count = invocation->returns;
    object *one, **all = leave_record(invocation, &one);
    for (uint32_t i = 0; i < count; i++) {
        object_fail(objects, all[i], failed);
        object_drop(objects, all[i]);
    }
    failure_unref(failed);
    if (all != &one) free(all);
}

void invocation_fail(invocation *invocation, mr_status code, const char *message, failure *cause) {
    invocation_end_failure(invocation, failure_of(invocation, code, message, cause));
}
