/* rpc_pair.c — see rpc_pair.h. */
#include "tests/support/rpc_pair.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"

static int64_t counted_monotonic(void *self) {
    rpc_pair *pair = self;
    pair->clock_reads++;
    return pair->clock.now_us;
}

static int64_t counted_wall(void *self) { MR_UNREACHABLE(); }

static const clock_ops counted = {.monotonic_us = counted_monotonic, .wall_us = counted_wall};

static void copy_text(char *to, span from) {
    snprintf(to, RPC_TEXT_KEPT, "%.*s", (int)from.size, from.size == 0 ? "" : (const char *)from.data);
}

static void on_request(void *context, const rpc_call_request *request) {
    rpc_side *side = context;
    if (side->peek != NULL) side->peek(side, request);
    MR_ASSERT(side->seen_count < RPC_LOG_MAX);
    rpc_seen *seen = &side->seen[side->seen_count++];
    *seen = (rpc_seen){
        .token = request->token, .method = request->method, .deadline_us = request->deadline_us, .body = request->body};
    copy_text(seen->payload, request->payload);
    if (side->habit != RPC_ECHO) return;
    uint8_t *payload;
    if (rpc_reply_begin(side->rpc, request->token, request->payload.size, &payload) != MR_OK) return;
    if (request->payload.size != 0) memcpy(payload, request->payload.data, request->payload.size);
    rpc_reply_commit(side->rpc, request->token, request->payload.size);
}

static void on_cancel(void *context, rpc_call_token token) {
    rpc_side *side = context;
    MR_ASSERT(side->cancelled_count < sizeof side->cancelled / sizeof *side->cancelled);
    side->cancelled[side->cancelled_count++] = token;
    if (side->peek_cancel != NULL) side->peek_cancel(side, token);
}

static void on_crossed(void *context, rpc_call_token token) { ((rpc_side *)context)->crossed_count++; }

static void *on_body(void *context, link_id link, uint32_t method, span payload, uint64_t size) {
    rpc_side *side = context;
    side->bodies++;
    return side->refuse_bodies || size > sizeof side->body ? NULL : side->body;
}

static void on_link_open(void *context, link_id link, const peer *peer) { ((rpc_side *)context)->opened++; }

static void on_link_closed(void *context, link_id link, const cause *why) {
    rpc_side *side = context;
    side->closed++;
    side->closed_why = *why;
}

static void on_room(void *context, link_id link) {
    rpc_side *side = context;
    side->rooms++;
    if (side->peek_room != NULL) side->peek_room(side);
}

static const rpc_call_handlers handlers = {
    .on_request = on_request,
    .on_cancel = on_cancel,
    .on_crossed = on_crossed,
    .on_body = on_body,
    .on_link_open = on_link_open,
    .on_link_closed = on_link_closed,
    .on_room = on_room,
};

int rpc_pair_setup(void **state) {
    rpc_pair *pair = xcalloc(1, sizeof *pair);
    loopback_init(&pair->loopback);
    pair->clock.now_us = 1000;
    pair->slots = xcalloc(RPC_LOG_MAX, sizeof *pair->slots);
    for (int i = 0; i < 2; i++) {
        rpc_side *side = &pair->sides[i];
        side->pair = pair;
        side->end = i;
        side->seen = xcalloc(RPC_LOG_MAX, sizeof *side->seen);
        side->env.clock = (clock_source){.ops = &counted, .self = pair};
        side->rpc = rpc_create(&side->env, &handlers, side);
        side->env.transport = loopback_transport(&pair->loopback, i);
        loopback_listen(&pair->loopback, i, &rpc_events, side->rpc);
    }
    pair->link = loopback_join(&pair->loopback);
    *state = pair;
    return 0;
}

int rpc_pair_teardown(void **state) {
    rpc_pair *pair = *state;
    pair->over = true;
    for (int i = 0; i < 2; i++) {
        if (pair->sides[i].rpc != NULL) rpc_destroy(pair->sides[i].rpc);
        free(pair->sides[i].seen);
    }
    loopback_fini(&pair->loopback);
    free(pair->slots);
    free(pair);
    return 0;
}

link_id rpc_pair_link(const rpc_pair *pair, int end) { return loopback_link(pair->link, end); }

static void note(rpc_outcome *outcome, rpc_call_id id, const rpc_call_result *result) {
    outcome->count++;
    outcome->id = id;
    outcome->status = result->status;
    copy_text(outcome->payload, result->payload);
    outcome->payload_size = result->payload.size;
    outcome->body = result->body;
    outcome->lost = result->why != NULL;
    if (outcome->lost) outcome->why = result->why->status;
}

void rpc_outcome_done(void *argument, rpc_call_id id, const rpc_call_result *result) { note(argument, id, result); }

static void slot_done(void *argument, rpc_call_id id, const rpc_call_result *result) {
    rpc_slot *slot = argument;
    if (!slot->pair->over) note(slot->outcome, id, result);
}

mr_status rpc_pair_start(rpc_pair *pair, int end, const char *text, const rpc_call_options *options,
                         rpc_outcome *outcome) {
    rpc *rpc = pair->sides[end].rpc;
    uint8_t *payload;
    MR_TRY(rpc_begin(rpc, rpc_pair_link(pair, end), 7, strlen(text), &payload));
    memcpy(payload, text, strlen(text));
    MR_ASSERT(pair->slot_count < RPC_LOG_MAX);
    rpc_slot *slot = &pair->slots[pair->slot_count++];
    *slot = (rpc_slot){.pair = pair, .outcome = outcome};
    *outcome = (rpc_outcome){0};
    outcome->id = rpc_commit(rpc, pair->clock.now_us, rpc_pair_link(pair, end), strlen(text), options, slot_done, slot);
    return MR_OK;
}

mr_status rpc_pair_reply(rpc_pair *pair, int end, rpc_call_token token, const char *text) {
    uint8_t *payload;
    MR_TRY(rpc_reply_begin(pair->sides[end].rpc, token, strlen(text), &payload));
    memcpy(payload, text, strlen(text));
    rpc_reply_commit(pair->sides[end].rpc, token, strlen(text));
    return MR_OK;
}

void rpc_pair_advance(rpc_pair *pair, int64_t to_us) {
    pair->clock.now_us = to_us;
    for (int i = 0; i < 2; i++) rpc_tick(pair->sides[i].rpc, to_us);
}
