/* call_pair.c — see call_pair.h. */
#include "tests/support/call_pair.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"

static int64_t counted_monotonic(void *self) {
    call_pair *pair = self;
    pair->clock_reads++;
    return pair->clock.now_us;
}

static int64_t counted_wall(void *self) { MR_UNREACHABLE(); }

static const clock_ops counted = {.monotonic_us = counted_monotonic, .wall_us = counted_wall};

static void copy_text(char *to, span from) {
    snprintf(to, CALL_TEXT_KEPT, "%.*s", (int)from.size, from.size == 0 ? "" : (const char *)from.data);
}

static void on_request(void *context, const call_request *request) {
    call_side *side = context;
    if (side->peek != NULL) side->peek(side, request);
    MR_ASSERT(side->seen_count < CALL_LOG_MAX);
    call_seen *seen = &side->seen[side->seen_count++];
    *seen = (call_seen){
        .token = request->token, .method = request->method, .deadline_us = request->deadline_us, .body = request->body};
    copy_text(seen->payload, request->payload);
    if (side->habit != CALL_ECHO) return;
    uint8_t *payload;
    if (calls_reply_begin(side->calls, request->token, request->payload.size, &payload) != MR_OK) return;
    if (request->payload.size != 0) memcpy(payload, request->payload.data, request->payload.size);
    calls_reply_commit(side->calls, request->token, request->payload.size);
}

static void on_cancel(void *context, call_token token) {
    call_side *side = context;
    MR_ASSERT(side->cancelled_count < sizeof side->cancelled / sizeof *side->cancelled);
    side->cancelled[side->cancelled_count++] = token;
    if (side->peek_cancel != NULL) side->peek_cancel(side, token);
}

static void on_crossed(void *context, call_token token) { ((call_side *)context)->crossed_count++; }

static void *on_body(void *context, link_id link, uint32_t method, span payload, uint64_t size) {
    call_side *side = context;
    side->bodies++;
    return side->refuse_bodies || size > sizeof side->body ? NULL : side->body;
}

static void on_link_open(void *context, link_id link, const peer *peer) { ((call_side *)context)->opened++; }

static void on_link_closed(void *context, link_id link, const cause *why) {
    call_side *side = context;
    side->closed++;
    side->closed_why = *why;
}

static void on_room(void *context, link_id link) {
    call_side *side = context;
    side->rooms++;
    if (side->peek_room != NULL) side->peek_room(side);
}

static const call_handlers handlers = {
    .on_request = on_request,
    .on_cancel = on_cancel,
    .on_crossed = on_crossed,
    .on_body = on_body,
    .on_link_open = on_link_open,
    .on_link_closed = on_link_closed,
    .on_room = on_room,
};

int call_pair_setup(void **state) {
    call_pair *pair = xcalloc(1, sizeof *pair);
    loopback_init(&pair->loopback);
    pair->clock.now_us = 1000;
    pair->slots = xcalloc(CALL_LOG_MAX, sizeof *pair->slots);
    for (int i = 0; i < 2; i++) {
        call_side *side = &pair->sides[i];
        side->pair = pair;
        side->end = i;
        side->seen = xcalloc(CALL_LOG_MAX, sizeof *side->seen);
        side->env.clock = (clock_source){.ops = &counted, .self = pair};
        side->calls = calls_create(&side->env, &handlers, side);
        side->env.transport = loopback_transport(&pair->loopback, i);
        loopback_listen(&pair->loopback, i, &calls_events, side->calls);
    }
    pair->link = loopback_join(&pair->loopback);
    *state = pair;
    return 0;
}

int call_pair_teardown(void **state) {
    call_pair *pair = *state;
    pair->over = true;
    for (int i = 0; i < 2; i++) {
        if (pair->sides[i].calls != NULL) calls_destroy(pair->sides[i].calls);
        free(pair->sides[i].seen);
    }
    loopback_fini(&pair->loopback);
    free(pair->slots);
    free(pair);
    return 0;
}

link_id call_pair_link(const call_pair *pair, int end) { return loopback_link(pair->link, end); }

static void note(call_outcome *outcome, call_id id, const call_result *result) {
    outcome->count++;
    outcome->id = id;
    outcome->status = result->status;
    copy_text(outcome->payload, result->payload);
    outcome->payload_size = result->payload.size;
    outcome->body = result->body;
    outcome->lost = result->why != NULL;
    if (outcome->lost) outcome->why = result->why->status;
}

void call_outcome_done(void *argument, call_id id, const call_result *result) { note(argument, id, result); }

static void slot_done(void *argument, call_id id, const call_result *result) {
    call_slot *slot = argument;
    if (!slot->pair->over) note(slot->outcome, id, result);
}

mr_status call_pair_start(call_pair *pair, int end, const char *text, const call_options *options,
                          call_outcome *outcome) {
    calls *calls = pair->sides[end].calls;
    uint8_t *payload;
    MR_TRY(calls_begin(calls, call_pair_link(pair, end), 7, strlen(text), &payload));
    memcpy(payload, text, strlen(text));
    MR_ASSERT(pair->slot_count < CALL_LOG_MAX);
    call_slot *slot = &pair->slots[pair->slot_count++];
    *slot = (call_slot){.pair = pair, .outcome = outcome};
    *outcome = (call_outcome){0};
    outcome->id =
        calls_commit(calls, pair->clock.now_us, call_pair_link(pair, end), strlen(text), options, slot_done, slot);
    return MR_OK;
}

mr_status call_pair_reply(call_pair *pair, int end, call_token token, const char *text) {
    uint8_t *payload;
    MR_TRY(calls_reply_begin(pair->sides[end].calls, token, strlen(text), &payload));
    memcpy(payload, text, strlen(text));
    calls_reply_commit(pair->sides[end].calls, token, strlen(text));
    return MR_OK;
}

void call_pair_advance(call_pair *pair, int64_t to_us) {
    pair->clock.now_us = to_us;
    for (int i = 0; i < 2; i++) calls_tick(pair->sides[i].calls, to_us);
}
