/* diary.c — see diary.h. */
#include "runtime/look/diary.h"

#include "base/list.h"

void diary_init(diary *diary, const arena *arena, clock_source clock, const events_identity *who) {
    *diary = (struct diary){.arena = arena, .clock = clock, .who = *who};
}

void diary_fini(diary *diary) { map_fini(&diary->callers); }

static void answered(wire_call *call, const call_result *result) {
    diary *diary = container_of(call, struct diary, asking);
    reader reader = reader_of(result->payload.data, result->payload.size);
    extent extent = {.offset = reader_u64(&reader), .size = reader_u64(&reader)};
    *call = (wire_call){.done = call->done};
    if (result->status != MR_OK || reader.failed || diary->closed || extent.size == 0) return;
    if (!arena_holds(diary->arena, extent) || events_capacity(extent.size) == 0) return;
    diary->submits = diary->who.role == WIRE_DRIVER;
    events_open(&diary->events, arena_at(diary->arena, extent.offset), extent.size, diary->clock, &diary->who);
}

void diary_join(diary *diary, calls *calls, link_id node) {
    if (diary->arena == NULL || diary->asked || diary->closed) return;
    diary->asking = (wire_call){.done = answered};
    diary->asked = wire_ask(calls, node, NODE_EVENTS, &(wire_message){0}, &diary->asking) != MR_BUSY;
}

void diary_close(diary *diary) {
    diary->closed = true;
    diary->submits = false;
    events_close(&diary->events);
}

void diary_link(diary *diary, link_id link, uint64_t process) {
    if (process != 0) map_put(&diary->callers, link.v, (void *)(uintptr_t)process);
}

void diary_unlink(diary *diary, link_id link) {
    map_remove(&diary->callers, link.v);
    if (diary->last_link.v == link.v) diary->last_caller = 0;
}

static uint64_t caller_of(diary *diary, link_id link) {
    if (diary->last_caller == 0 || diary->last_link.v != link.v) {
        diary->last_link = link;
        diary->last_caller = (uint64_t)(uintptr_t)map_get(&diary->callers, link.v);
    }
    return diary->last_caller;
}

uint64_t diary_begin_slowly(diary *diary, event_kind kind, call_token token, const char *name, size_t name_size,
                            uint64_t key) {
    if (!events_on(&diary->events)) return 0;
    return events_enter(&diary->events, &(events_call){.kind = kind,
                                                       .name = name,
                                                       .name_size = name_size,
                                                       .process = caller_of(diary, token.link),
                                                       .call = token.number,
                                                       .key = key});
}

void diary_submit_slowly(diary *diary, call_id call, const char *name, size_t name_size, uint32_t number) {
    call_token token = {.link = call.link, .number = call.number};
    uint64_t key = diary_key(EVENT_SUBMIT, call.link, number);
    events_leave(&diary->events, diary_begin_slowly(diary, EVENT_SUBMIT, token, name, name_size, key), MR_OK);
}
