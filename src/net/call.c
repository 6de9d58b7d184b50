/* call.c — RPC: links, the transport's events, and creation and destruction of a `calls` object. See call.h for the
 * promises and call_core.h for the design. */
#include "net/call.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/invariants.h"
#include "net/call_core.h"

/* ---- The stack and the links it points to. */

static void free_link(call_link *link) {
    call_places_fini(&link->places);
    call_window_fini(&link->window);
    free(link->condemned);
    free(link);
}

void call_bury(calls *calls) {
    while (calls->graves != NULL) {
        call_link *link = calls->graves;
        calls->graves = link->next_grave;
        free_link(link);
    }
}

call_link *call_link_look_up(calls *calls, link_id id) {
    call_link *link = map_get(&calls->links, id.v);
    if (link != NULL) calls->recent = link;
    return link;
}

/* Nobody finds it afterwards; its memory goes when the stack is done with it. */
static void bury(calls *calls, call_link *link) {
    MR_ASSERT(link->over && calls->depth > 0);
    map_remove(&calls->links, link->id.v);
    if (calls->recent == link) calls->recent = NULL;
    link->next_grave = calls->graves;
    calls->graves = link;
}

void call_condemn(calls *calls, call_link *link, mr_status status, const char *text) {
    MR_ASSERT(status != MR_OK && !link->over);
    link->condemned = xmalloc(sizeof *link->condemned);
    cause_set(link->condemned, status, "RPC link %u: %s", link->id.v, text);
    link->over = true;
    transport transport = calls->env->transport;
    transport.ops->close(transport.self, link->id);
    call_end_all(calls, link, link->condemned);
}

void call_bad_message(calls *calls, call_link *link, const char *text) {
    calls->stats.bad_messages++;
    call_condemn(calls, link, MR_CORRUPT, text);
}

/* ---- Sending. */

void call_commit_body(calls *calls, call_link *link, const call_head *head, size_t size, span body, body_sent_fn *sent,
                      void *argument) {
    MR_ASSERT(sent != NULL);
    transport transport = calls->env->transport;
    link->begun_kind = 0;
    size_t whole = call_head_encode(head, link->begun, size);
    transport.ops->commit_body(transport.self, link->id, whole, body, sent, argument);
}

mr_status call_send(calls *calls, call_link *link, const call_head *head, span payload) {
    uint8_t *place;
    MR_TRY(call_begin(calls, link, head->kind, payload.size, &place));
    if (payload.size != 0) memcpy(place, payload.data, payload.size);
    call_commit(calls, link, head, payload.size);
    return MR_OK;
}

bool calls_has_link(const calls *calls, link_id id) { return map_get(&calls->links, id.v) != NULL; }

void calls_foresee(calls *calls, link_id id) {
    const call_link *link = calls->recent;
    if (link != NULL && link->id.v == id.v && link->lane != NULL) lane_foresee(link->lane);
}

/* ---- What the transport brings. */

static void event_message(void *context, link_id id, const message *message) {
    calls *calls = context;
    call_link *link = call_link_find(calls, id);
    if (link == NULL || link->over) return;
    call_enter(calls);
    call_head head;
    span payload;
    if (call_head_decode(message->head, &head, &payload) != MR_OK ||
        (head.kind == CALL_CANCEL && message->body.size != 0))
        call_bad_message(calls, link, "malformed message: it is not a request, a response or a cancellation");
    else if (head.kind == CALL_REQUEST)
        call_on_request(calls, link, &head, payload, &message->body);
    else if (head.kind == CALL_ANSWER)
        call_on_answer(calls, link, &head, payload, &message->body);
    else
        call_on_cancel(calls, link, &head);
    call_leave(calls);
    CHECK_INVARIANTS(calls->links.count * CALL_WINDOW, calls_check(calls));
}

/* Nothing is refused: a message that is bad, late or unwanted loses its body and is judged when it has come. */
static void *event_body(void *context, link_id id, span bytes, uint64_t size) {
    calls *calls = context;
    call_link *link = call_link_find(calls, id);
    call_head head;
    span payload;
    if (link == NULL || link->over || call_head_decode(bytes, &head, &payload) != MR_OK) return BODY_DISCARD;
    call_enter(calls);
    void *memory = NULL;
    if (head.kind == CALL_REQUEST)
        memory = call_request_body(calls, link, &head, payload, size);
    else if (head.kind == CALL_ANSWER)
        memory = call_answer_body(calls, link, &head, payload, size);
    call_leave(calls);
    return memory == NULL ? BODY_DISCARD : memory;
}

static void event_room(void *context, link_id id) {
    calls *calls = context;
    call_link *link = call_link_find(calls, id);
    if (link == NULL || link->over || call_send_unsent(calls, link) == MR_BUSY) return;
    call_enter(calls);
    if (calls->handlers->on_room != NULL) calls->handlers->on_room(calls->context, id);
    call_leave(calls);
}

static void event_open(void *context, link_id id, const peer *peer) {
    calls *calls = context;
    call_link *link = xcalloc_lines(sizeof *link);
    transport transport = calls->env->transport;
    link->id = id;
    link->lane = transport.ops->lane == NULL ? NULL : transport.ops->lane(transport.self, id);
    list_init(&link->unsent);
    void *before = map_put(&calls->links, id.v, link);
    MR_ASSERT(before == NULL);
    call_enter(calls);
    if (calls->handlers->on_link_open != NULL) calls->handlers->on_link_open(calls->context, id, peer);
    call_leave(calls);
}

static void event_closed(void *context, link_id id, const cause *why) {
    calls *calls = context;
    call_link *link = call_link_find(calls, id); /* NULL if it never opened */
    call_enter(calls);
    if (link != NULL) {
        link->over = link->closed = true;
        link->lane = NULL;
        if (link->condemned != NULL) why = link->condemned;
        call_end_all(calls, link, why);
        bury(calls, link);
    }
    if (calls->handlers->on_link_closed != NULL) calls->handlers->on_link_closed(calls->context, id, why);
    call_leave(calls);
    CHECK_INVARIANTS(calls->links.count * CALL_WINDOW, calls_check(calls));
}

const transport_events calls_events = {
    .on_open = event_open,
    .on_message = event_message,
    .on_body = event_body,
    .on_room = event_room,
    .on_closed = event_closed,
};

/* ---- Life. */

calls *calls_create(const env *env, const call_handlers *handlers, void *context) {
    MR_ASSERT(env != NULL && handlers != NULL && handlers->on_request != NULL);
    calls *calls = xcalloc_lines(sizeof *calls);
    calls->env = env;
    calls->handlers = handlers;
    calls->context = context;
    return calls;
}

void calls_destroy(calls *calls) {
    MR_ASSERT(calls->depth == 0);
    call_enter(calls);
    cause why;
    cause_set(&why, MR_CLOSED, "this process shut down its RPCs (%zu were open)", calls->open_count);
    for (map_slot slot; map_next(&calls->links, 0, &slot) != 0;) {
        call_link *link = slot.value;
        link->over = true;
        call_end_all(calls, link, &why);
        bury(calls, link);
    }
    call_leave(calls);
    map_fini(&calls->links);
    heap_fini(&calls->timers);
    free(calls);
}

size_t calls_open_count(const calls *calls) { return calls->open_count; }
call_stats calls_stats(const calls *calls) { return calls->stats; }
