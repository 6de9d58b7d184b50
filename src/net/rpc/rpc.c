/* rpc.c — RPC: links, the transport's events, and creation and destruction of a `rpc` object. See rpc.h for the
 * promises and rpc_internal.h for the design. */
#include "net/rpc/rpc.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/invariants.h"
#include "net/rpc/rpc_internal.h"

/* ---- Links, and their lifetime while callbacks run. */

static void free_link(rpc_call_link *link) {
    rpc_pending_fini(&link->pending);
    rpc_dedup_fini(&link->dedup);
    free(link->condemned);
    free(link);
}

void rpc_call_bury(rpc *rpc) {
    while (rpc->graves != NULL) {
        rpc_call_link *link = rpc->graves;
        rpc->graves = link->next_grave;
        free_link(link);
    }
}

rpc_call_link *rpc_call_link_look_up(rpc *rpc, link_id id) {
    rpc_call_link *link = map_get(&rpc->links, id.v);
    if (link != NULL) rpc->recent = link;
    return link;
}

/* Removes the link from all tables; its memory is freed when the outermost entry leaves. */
static void bury(rpc *rpc, rpc_call_link *link) {
    MR_ASSERT(link->over && rpc->depth > 0);
    map_remove(&rpc->links, link->id.v);
    if (rpc->recent == link) rpc->recent = NULL;
    link->next_grave = rpc->graves;
    rpc->graves = link;
}

void rpc_call_condemn(rpc *rpc, rpc_call_link *link, mr_status status, const char *text) {
    MR_ASSERT(status != MR_OK && !link->over);
    link->condemned = xmalloc(sizeof *link->condemned);
    cause_set(link->condemned, status, "RPC link %u: %s", link->id.v, text);
    link->over = true;
    transport transport = rpc->env->transport;
    transport.ops->close(transport.self, link->id);
    rpc_call_end_all(rpc, link, link->condemned);
}

void rpc_call_bad_message(rpc *rpc, rpc_call_link *link, const char *text) {
    rpc->stats.bad_messages++;
    rpc_call_condemn(rpc, link, MR_CORRUPT, text);
}

/* ---- Sending. */

void rpc_call_commit_body(rpc *rpc, rpc_call_link *link, const rpc_header *header, size_t size, span body,
                          body_sent_fn *sent, void *argument) {
    MR_ASSERT(sent != NULL);
    transport transport = rpc->env->transport;
    link->begun_kind = 0;
    size_t whole = rpc_header_encode(header, link->begun, size);
    transport.ops->commit_body(transport.self, link->id, whole, body, sent, argument);
}

mr_status rpc_call_send(rpc *rpc, rpc_call_link *link, const rpc_header *header, span payload) {
    uint8_t *place;
    MR_TRY(rpc_call_begin(rpc, link, header->kind, payload.size, &place));
    if (payload.size != 0) memcpy(place, payload.data, payload.size);
    rpc_call_commit(rpc, link, header, payload.size);
    return MR_OK;
}

bool rpc_has_link(const rpc *rpc, link_id id) { return map_get(&rpc->links, id.v) != NULL; }

void rpc_foresee(rpc *rpc, link_id id) {
    const rpc_call_link *link = rpc->recent;
    if (link != NULL && link->id.v == id.v && link->lane != NULL) lane_foresee(link->lane);
}

/* ---- Events of the transport. */

static void event_message(void *context, link_id id, const message *message) {
    rpc *rpc = context;
    rpc_call_link *link = rpc_call_link_find(rpc, id);
    if (link == NULL || link->over) return;
    rpc_call_enter(rpc);
    rpc_header header;
    span payload;
    if (rpc_header_decode(message->head, &header, &payload) != MR_OK ||
        (header.kind == RPC_CALL_CANCEL && message->body.size != 0))
        rpc_call_bad_message(rpc, link, "malformed message: it is not a request, a response or a cancellation");
    else if (header.kind == RPC_CALL_REQUEST)
        rpc_call_on_request(rpc, link, &header, payload, &message->body);
    else if (header.kind == RPC_CALL_ANSWER)
        rpc_call_on_answer(rpc, link, &header, payload, &message->body);
    else
        rpc_call_on_cancel(rpc, link, &header);
    rpc_call_leave(rpc);
    CHECK_INVARIANTS(rpc->links.count * RPC_CALL_WINDOW, rpc_check(rpc));
}

/* Never refuses a body: the body of an invalid, late or unwanted message is discarded, and the message is checked when
 * it has arrived. */
static void *event_body(void *context, link_id id, span bytes, uint64_t size) {
    rpc *rpc = context;
    rpc_call_link *link = rpc_call_link_find(rpc, id);
    rpc_header header;
    span payload;
    if (link == NULL || link->over || rpc_header_decode(bytes, &header, &payload) != MR_OK) return BODY_DISCARD;
    rpc_call_enter(rpc);
    void *memory = NULL;
    if (header.kind == RPC_CALL_REQUEST)
        memory = rpc_call_request_body(rpc, link, &header, payload, size);
    else if (header.kind == RPC_CALL_ANSWER)
        memory = rpc_call_answer_body(rpc, link, &header, payload, size);
    rpc_call_leave(rpc);
    return memory == NULL ? BODY_DISCARD : memory;
}

static void event_room(void *context, link_id id) {
    rpc *rpc = context;
    rpc_call_link *link = rpc_call_link_find(rpc, id);
    if (link == NULL || link->over || rpc_call_send_unsent(rpc, link) == MR_BUSY) return;
    rpc_call_enter(rpc);
    if (rpc->handlers->on_room != NULL) rpc->handlers->on_room(rpc->context, id);
    rpc_call_leave(rpc);
}

static void event_open(void *context, link_id id, const peer *peer) {
    rpc *rpc = context;
    rpc_call_link *link = xcalloc_lines(sizeof *link);
    transport transport = rpc->env->transport;
    link->id = id;
    link->lane = transport.ops->lane == NULL ? NULL : transport.ops->lane(transport.self, id);
    list_init(&link->unsent);
    void *before = map_put(&rpc->links, id.v, link);
    MR_ASSERT(before == NULL);
    rpc_call_enter(rpc);
    if (rpc->handlers->on_link_open != NULL) rpc->handlers->on_link_open(rpc->context, id, peer);
    rpc_call_leave(rpc);
}

static void event_closed(void *context, link_id id, const cause *why) {
    rpc *rpc = context;
    rpc_call_link *link = rpc_call_link_find(rpc, id); /* NULL if the link never opened */
    rpc_call_enter(rpc);
    if (link != NULL) {
        link->over = link->closed = true;
        link->lane = NULL;
        if (link->condemned != NULL) why = link->condemned;
        rpc_call_end_all(rpc, link, why);
        bury(rpc, link);
    }
    if (rpc->handlers->on_link_closed != NULL) rpc->handlers->on_link_closed(rpc->context, id, why);
    rpc_call_leave(rpc);
    CHECK_INVARIANTS(rpc->links.count * RPC_CALL_WINDOW, rpc_check(rpc));
}

const transport_events rpc_events = {
    .on_open = event_open,
    .on_message = event_message,
    .on_body = event_body,
    .on_room = event_room,
    .on_closed = event_closed,
};

/* ---- Creation and destruction. */

rpc *rpc_create(const env *env, const rpc_call_handlers *handlers, void *context) {
    MR_ASSERT(env != NULL && handlers != NULL && handlers->on_request != NULL);
    rpc *rpc = xcalloc_lines(sizeof *rpc);
    *rpc = (struct rpc){.env = env, .handlers = handlers, .context = context};
    return rpc;
}

void rpc_destroy(rpc *rpc) {
    MR_ASSERT(rpc->depth == 0);
    rpc_call_enter(rpc);
    cause why;
    cause_set(&why, MR_CLOSED, "this process shut down its RPCs (%zu were open)", rpc->open_count);
    for (map_entry entry; map_next(&rpc->links, 0, &entry) != 0;) {
        rpc_call_link *link = entry.value;
        link->over = true;
        rpc_call_end_all(rpc, link, &why);
        bury(rpc, link);
    }
    rpc_call_leave(rpc);
    map_fini(&rpc->links);
    timer_heap_fini(&rpc->timers);
    free(rpc);
}

size_t rpc_open_count(const rpc *rpc) { return rpc->open_count; }
rpc_call_stats rpc_stats(const rpc *rpc) { return rpc->stats; }
