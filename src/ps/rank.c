/* rank.c — see rank.h. */
#include "ps/rank.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/invariants.h"
#include "base/mutation.h"
#include "ps/rank_internal.h"

/* ---- Requests. */

/* False: the window is full. */
static bool add_sent(rank *rank, uint32_t slot, uint64_t name, span payload, shared_bytes *bytes) {
    MR_ASSERT(rank->ready && slot < rank->slot_count && name != 0);
    rank_lane *lane = &rank->lanes[slot];
    MR_ASSERT(lane->count == 0 || lane->window[lane->count - 1].name < name); /* seqs of a slot grow */
    if (lane->count == RANK_WINDOW) return false;
    sent *sent = &lane->window[lane->count++];
    *sent = (struct sent){.name = name,
                          .prev = lane->last,
                          .bytes = bytes == NULL ? shared_bytes_copy(payload) : shared_bytes_ref(bytes)};
    sent->payload = bytes == NULL ? shared_bytes_bytes(sent->bytes) : payload;
    sent->size = payload.size;
    sent->state = SENT_TAKEN;
    bool contributes = rank_in_rounds(rank, slot) && rank->terms_bytes != NULL && rank->terms.round + 1 == name;
    if (contributes) sent->terms = shared_bytes_ref(rank->terms_bytes);
    if (rank_is_round_state(rank, slot)) rank->free_passed = 0;
    if (name > lane->last) lane->last = name;
    return true;
}

mr_status rank_push_pieces(rank *rank, uint32_t slot, uint64_t name, span payload, shared_bytes *bytes,
                           shared_bytes_piece tail) {
    if (!add_sent(rank, slot, name, payload, bytes)) return MR_BUSY;
    rank_lane *lane = &rank->lanes[slot];
    lane->window[lane->count - 1].tail = (shared_bytes_piece){tail.bytes, shared_bytes_ref(tail.shared)};
    lane->window[lane->count - 1].size += tail.bytes.size;
    rank_send_last(rank, lane);
    CHECK_INVARIANTS(rank->touch_count, rank_check(rank));
    return MR_OK;
}

void rank_move(rank *rank, const shared_bytes *bytes, span to) {
    batcher_flush(rank->batcher);
    batcher_move(rank->batcher, bytes, to);
    for (uint32_t i = 0; i < rank->touch_count; i++) {
        rank_lane *lane = &rank->lanes[rank->touched[i]];
        for (size_t k = 0; k < lane->count; k++)
            if (lane->window[k].tail.shared == bytes) lane->window[k].tail.bytes = to;
    }
}

/* A query without a shared buffer is copied. */
void rank_pull(rank *rank, uint32_t slot, uint64_t step, span query, shared_bytes *bytes, rank_pull_kind kind) {
    MR_ASSERT(rank->ready && slot < rank->slot_count && rank->lanes[slot].known);
    rank_lane *lane = &rank->lanes[slot];
    rank_set_pull(rank, lane, PULL_NONE);
    lane->query = query;
    if (query.size != 0) lane->query_bytes = bytes == NULL ? shared_bytes_copy(query) : shared_bytes_ref(bytes);
    if (query.size != 0 && bytes == NULL) lane->query = shared_bytes_bytes(lane->query_bytes);
    lane->step = step;
    lane->fresh = kind == RANK_PULL_FRESH;
    lane->behind = kind == RANK_PULL_BEHIND ? lane->last : 0;
    lane->request = (rank->term << 24) + ++rank->requests;
    MR_ASSERT(lane->pull == PULL_NONE && (lane->query_bytes == NULL) == (query.size == 0));
    rank_start_pull(rank, lane);
}

void rank_prefer(rank *rank, uint32_t slot, uint8_t priority) {
    MR_ASSERT(rank->ready && slot < rank->slot_count);
    rank_lane *lane = &rank->lanes[slot];
    if (lane->priority == priority || MUTATED("no-priority")) return;
    lane->priority = priority;
    if (lane->credit_window != RANK_NO_WINDOW)
        priority_queue_prefer(&rank->windows[lane->credit_window].queue, &lane->push_entry, priority);
    priority_queue_prefer(&rank->pulls, &lane->pull_entry, priority);
}

/* Orders of a term have higher numbers than those of earlier terms. */
void rank_order(rank *rank, replica_log_kind kind) {
    MR_ASSERT(kind == REPLICA_LOG_JOIN || kind == REPLICA_LOG_LEAVE);
    rank->order = kind;
    rank->order_number = rank->term << 16 | ++rank->orders;
    rank_ask_order(rank);
}

void rank_flush(rank *rank) { batcher_flush(rank->batcher); }

void rank_sync(rank *rank) {
    MR_ASSERT(rank->ready);
    for (uint32_t i = 0; i < rank->touch_count; i++) {
        rank_lane *lane = &rank->lanes[rank->touched[i]];
        MR_ASSERT(lane->count == 0 && lane->pull == PULL_NONE);
        lane->known = false;
    }
    rank->known = 0;
    rank->ready = false;
    rank_ask_again(rank);
    batcher_flush(rank->batcher);
    CHECK_INVARIANTS(rank->touch_count, rank_check(rank));
}

/* ---- Answers. */

/* Stores the bytes that this rank may have in flight to a server. */
static void take_grant(rank *rank, const slot_message_head *from, uint64_t grant) {
    for (uint32_t i = 0; i < rank->window_count; i++)
        if (rank->windows[i].server == from->who && rank->windows[i].incarnation == from->incarnation)
            rank->windows[i].grant = grant;
}

static void take_clock(rank *rank, rank_lane *lane, const slot_message_head *from, const slot_message *message) {
    if (message->status == SLOT_MESSAGE_OK) take_grant(rank, from, message->prev);
    if (message->status != SLOT_MESSAGE_OK || lane->known || message->commit != rank->term) return;
    bool rounds = rank_in_rounds(rank, message->slot);
    if (rounds ? message->lsn < lane->version : message->name < lane->acknowledged) return; /* before rank_sync */
    lane->known = true;
    lane->clock = lane->last = lane->acknowledged = message->name;
    lane->version = message->lsn;
    if (++rank->known < rank->touch_count) return;
    rank->ready = true;
    rank->options.on_ready(rank->options.context);
}

static void drop_sent(rank *rank, rank_lane *lane, size_t at) {
    MR_ASSERT(at < lane->count && lane->count <= RANK_WINDOW);
    sent gone = lane->window[at];
    lane->count--;
    if (at < lane->count) memmove(&lane->window[at], &lane->window[at + 1], (lane->count - at) * sizeof *lane->window);
    rank_end_state(rank, lane, &gone);
    shared_bytes_unref(gone.bytes);
    shared_bytes_unref(gone.tail.shared);
    shared_bytes_unref(gone.terms);
}

static void take_over(rank *rank, rank_lane *lane, size_t at, const slot_message *message) {
    drop_sent(rank, lane, at);
    if (message->name > lane->acknowledged) lane->acknowledged = message->name;
    if (message->name > lane->clock) lane->clock = message->name;
    rank->options.on_pushed(rank->options.context, message->slot, message->name, message->status);
}

/* LATER and WRONG change nothing: the next tick asks whether the push arrived, a new cluster map sends it elsewhere. */
static void take_pushed(rank *rank, rank_lane *lane, const slot_message_head *from, const slot_message *message) {
    bool over = message->status == SLOT_MESSAGE_OK || message->status == SLOT_MESSAGE_MISSED ||
                message->status == SLOT_MESSAGE_GONE;
    uint32_t window = lane->credit_window;
    size_t at = 0;
    take_grant(rank, from, message->commit);
    while (at < lane->count && lane->window[at].name != message->name) at++;
    if (at == lane->count) return;
    if (over || message->lsn == SLOT_MESSAGE_FULL) lane->refused = !over;
    if (over) {
        take_over(rank, lane, at, message);
    } else if (message->status == SLOT_MESSAGE_TAKEN && lane->window[at].state == SENT_OUT) {
        rank_set_state(rank, lane, &lane->window[at], SENT_TAKEN);
    } else if (message->status == SLOT_MESSAGE_RESEND) {
        rank_wait_again(rank, lane, message->prev);
    }
    if (window != RANK_NO_WINDOW) rank_send_waiting(rank, window);
    rank_tick_round_state(rank);
}

static void take_round(rank *rank, const slot_message *message) {
    uint32_t rank_count = batcher_map(rank->batcher)->rank_count;
    uint8_t bytes[ROUND_STATE_TERMS_MAX];
    round_state state;
    if (!round_state_read(message->payload, rank_count, &state)) return;
    rank->terms = round_state_terms_of(&state);
    shared_bytes_unref(rank->terms_bytes);
    rank->terms_bytes = shared_bytes_copy(span_of(bytes, round_state_write_terms(&rank->terms, rank_count, bytes)));
    rank->options.on_round(rank->options.context, &rank->terms);
}

static void take_ordered(rank *rank, const slot_message *message) {
    if (message->name != rank->order_number) return;
    rank->order_number = 0;
    rank->options.on_ordered(rank->options.context, rank->order, message->status == SLOT_MESSAGE_OK, message->lsn);
}

static void take_pulled(rank *rank, rank_lane *lane, const slot_message *message) {
    bool gone = message->status == SLOT_MESSAGE_GONE;
    if ((message->status != SLOT_MESSAGE_OK && !gone) || lane->pull == PULL_NONE) return;
    if (message->commit != lane->request) return; /* the answer to an earlier pull */
    rank_set_pull(rank, lane, PULL_NONE);
    rank_start_pulls(rank);
    if (gone) {
        rank->options.on_gone(rank->options.context, message->slot, message->name);
        return;
    }
    if (rank_is_round_state(rank, message->slot)) {
        take_round(rank, message);
        return;
    }
    lane->seen = message->lsn;
    rank->options.on_pulled(rank->options.context, message->slot, message->name, message->lsn, message->payload);
}

static void on_part(void *context, const slot_message_head *from, const slot_message *message, shared_bytes *bytes) {
    rank *rank = context;
    if (message->slot >= rank->slot_count || message->rank != rank->options.rank) return;
    rank_lane *lane = &rank->lanes[message->slot];
    if (message->kind == SLOT_MESSAGE_CLOCK) take_clock(rank, lane, from, message);
    if (message->kind == SLOT_MESSAGE_PUSHED) take_pushed(rank, lane, from, message);
    if (message->kind == SLOT_MESSAGE_PULLED) take_pulled(rank, lane, message);
    if (message->kind == SLOT_MESSAGE_ORDERED) take_ordered(rank, message);
}

static void open_lanes(rank *rank, uint32_t slot_count) {
    const rank_options *options = &rank->options;
    rank->slot_count = slot_count;
    rank->lanes = xcalloc(slot_count + 1, sizeof *rank->lanes);
    rank->touch_count = options->touches == NULL ? slot_count : options->touch_count;
    rank->touched = xcalloc(rank->touch_count + 1, sizeof *rank->touched);
    for (uint32_t i = 0; i < slot_count; i++) rank->lanes[i].credit_window = RANK_NO_WINDOW;
    for (uint32_t i = 0; i < rank->touch_count; i++) {
        rank->touched[i] = options->touches == NULL ? i : options->touches[i];
        MR_ASSERT(rank->touched[i] < slot_count);
    }
}

static void close_lanes(rank *rank) {
    for (uint32_t i = 0; i < rank->touch_count; i++) {
        rank_lane *lane = &rank->lanes[rank->touched[i]];
        while (lane->count != 0) drop_sent(rank, lane, 0);
        rank_set_pull(rank, lane, PULL_NONE);
    }
    rank->untaken = 0;
    rank->pulls_out = 0;
    shared_bytes_unref(rank->terms_bytes);
    priority_queue_fini(&rank->pulls);
    for (uint32_t i = 0; i < rank->window_count; i++) priority_queue_fini(&rank->windows[i].queue);
    free(rank->lanes);
    free(rank->touched);
    free(rank->windows);
    rank->windows = NULL;
    rank->window_count = 0;
    rank->terms_bytes = NULL;
}

static void begin_again(rank *rank) {
    close_lanes(rank);
    rank->terms = (round_state_terms){0};
    rank->order_number = 0;
    rank->known = 0;
    rank->ready = false;
    if (rank->options.on_over != NULL) rank->options.on_over(rank->options.context);
}

static void on_map(void *context, const cluster_map *map) {
    rank *rank = context;
    bool first = rank->lanes == NULL, other = !first && rank->generation != map->generation;
    if (other) begin_again(rank);
    if (first || other) open_lanes(rank, map->slot_count);
    rank->generation = map->generation;
    rank_ask_everything(rank);
}

/* ---- Creation and death. */

rank *rank_create(const rank_options *options) {
    MR_ASSERT(options->rank < CLUSTER_MAP_RANKS_MAX && options->send != NULL && options->on_ready != NULL);
    MR_ASSERT(strlen(options->controller) < SLOT_MESSAGE_ADDRESS_MAX);
    rank *rank = XNEW(struct rank, .options = *options, .next_tick_us = CLOCK_NEVER_US);
    batcher_host host = {.send = options->send,
                         .send_context = options->context,
                         .send_pieces = options->send_pieces,
                         .on_map = on_map,
                         .on_part = on_part,
                         .context = rank,
                         .controller = options->controller,
                         .cache = options->cache,
                         .piece = options->piece};
    rank->batcher = batcher_create(&host, SLOT_MESSAGE_RANK | options->rank, options->address);
    return rank;
}

void rank_destroy(rank *rank) {
    close_lanes(rank);
    batcher_destroy(rank->batcher);
    free(rank);
}

void rank_begin(rank *rank, uint64_t term, int64_t now_us) {
    MR_ASSERT(term != 0 && !rank->begun); /* a rank object has one term */
    rank->begun = true;
    rank->term = term;
    batcher_set_incarnation(rank->batcher, term);
    rank->next_tick_us = now_us;
}

void rank_take_bytes(rank *rank, span bytes, shared_bytes *shared) {
    if (rank->begun) batcher_take_bytes(rank->batcher, bytes, shared);
    CHECK_INVARIANTS(rank->touch_count, rank_check(rank));
}

int64_t rank_next_us(const rank *rank) { return rank->next_tick_us; }

/* A heartbeat to the controller asks for newer cluster maps: the known servers may be gone. */
void rank_tick(rank *rank, int64_t now_us) {
    rank->next_tick_us = now_us + RANK_TICK_US;
    batcher_add(rank->batcher, rank->options.controller, NULL);
    rank_ask_again(rank);
    batcher_flush(rank->batcher);
    CHECK_INVARIANTS(rank->touch_count, rank_check(rank));
}

const cluster_map *rank_map(const rank *rank) { return batcher_map(rank->batcher); }
uint64_t rank_clock(const rank *rank, uint32_t slot) { return rank->lanes[slot].clock; }
uint64_t rank_version(const rank *rank, uint32_t slot) { return rank->lanes[slot].version; }

bool rank_refused(const rank *rank, uint32_t *slot) {
    for (uint32_t i = 0; i < rank->touch_count; i++) {
        if (!rank->lanes[rank->touched[i]].refused) continue;
        *slot = rank->touched[i];
        return true;
    }
    return false;
}
