/* event_writer.c — see event_writer.h. */
#include "runtime/client/event_writer.h"

#include "base/list.h"

void event_writer_init(event_writer *writer, const arena *arena, clock_source clock, const event_ring_identity *who) {
    *writer = (struct event_writer){.arena = arena, .clock = clock, .who = *who};
}

void event_writer_fini(event_writer *writer) { map_fini(&writer->callers); }

static void answered(wire_call *call, const rpc_call_result *result) {
    event_writer *writer = container_of(call, struct event_writer, asking);
    reader reader = reader_of(result->payload.data, result->payload.size);
    extent extent = {.offset = reader_u64(&reader), .size = reader_u64(&reader)};
    *call = (wire_call){.done = call->done};
    if (result->status != MR_OK || reader.failed || writer->closed || extent.size == 0) return;
    if (!arena_holds(writer->arena, extent) || event_ring_capacity(extent.size) == 0) return;
    writer->submits = writer->who.role == WIRE_DRIVER;
    arena_allow(writer->arena, extent);
    event_ring_open(&writer->ring, arena_at(writer->arena, extent.offset), extent.size, writer->clock, &writer->who);
}

void event_writer_join(event_writer *writer, rpc *rpc, link_id node) {
    if (writer->arena == NULL || writer->asked || writer->closed) return;
    writer->asking = (wire_call){.done = answered};
    writer->asked = wire_ask(rpc, node, NODE_EVENTS, &(wire_message){0}, &writer->asking) != MR_BUSY;
}

void event_writer_close(event_writer *writer) {
    writer->closed = true;
    writer->submits = false;
    event_ring_close(&writer->ring);
}

void event_writer_link(event_writer *writer, link_id link, uint64_t process) {
    if (process != 0) map_put(&writer->callers, link.v, (void *)(uintptr_t)process);
}

void event_writer_unlink(event_writer *writer, link_id link) {
    map_remove(&writer->callers, link.v);
    if (writer->last_link.v == link.v) writer->last_caller = 0;
}

static uint64_t caller_of(event_writer *writer, link_id link) {
    if (writer->last_caller == 0 || writer->last_link.v != link.v) {
        writer->last_link = link;
        writer->last_caller = (uint64_t)(uintptr_t)map_get(&writer->callers, link.v);
    }
    return writer->last_caller;
}

uint64_t event_writer_begin_slowly(event_writer *writer, event_kind kind, rpc_call_token token, const char *name,
                                   size_t name_size, uint64_t key) {
    if (!event_ring_on(&writer->ring)) return 0;
    return event_ring_enter(&writer->ring, &(event_ring_call){.kind = kind,
                                                              .name = name,
                                                              .name_size = name_size,
                                                              .process = caller_of(writer, token.link),
                                                              .call = token.number,
                                                              .key = key});
}

void event_writer_submit_slowly(event_writer *writer, rpc_call_id call, const char *name, size_t name_size,
                                uint32_t number) {
    rpc_call_token token = {.link = call.link, .number = call.number};
    uint64_t key = event_writer_key(EVENT_SUBMIT, call.link, number);
    event_ring_leave(&writer->ring, event_writer_begin_slowly(writer, EVENT_SUBMIT, token, name, name_size, key),
                     MR_OK);
}
