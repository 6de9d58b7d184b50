/* rank.c — see rank.h. */
#include "ps/rank.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/invariants.h"
#include "base/mutation.h"
#include "ps/rank_core.h"

/* ---- Asking. */

/* False: the window is full. */
static bool add_sent(rank *rank, uint32_t slot, uint64_t name, span payload, bale *bale) {
    MR_ASSERT(rank->ready && slot < rank->slot_count && name != 0);
    lane *lane = &rank->lanes[slot];
    MR_ASSERT(lane->count == 0 || lane->window[lane->count - 1].name < name); /* names of one slot grow */
    if (lane->count == RANK_WINDOW) return false;
    sent *sent = &lane->window[lane->count++];
    *sent = (struct sent){.name = name, .prev = lane->last, .bale = bale == NULL ? bale_copy(payload) : bale_ref(bale)};
    sent->payload = bale == NULL ? bale_bytes(sent->bale) : payload;
    sent->size = payload.size;
    sent->state = SENT_TAKEN;
    bool contributes = rank_in_rounds(rank, slot) && rank->terms_bale != NULL && rank->terms.round + 1 == name;
    if (contributes) sent->terms = bale_ref(rank->terms_bale);
    if (rank_is_ledger(rank, slot)) rank->free_passed = 0;
    if (name > lane->last) lane->last = name;
    return true;
}

mr_status rank_push_pieces(rank *rank, uint32_t slot, uint64_t name, span payload, bale *bale, bale_piece tail) {
    if (!add_sent(rank, slot, name, payload, bale)) return MR_BUSY;
    lane *lane = &rank->lanes[slot];
    lane->window[lane->count - 1].tail = (bale_piece){tail.bytes, bale_ref(tail.bale)};
    lane->window[lane->count - 1].size += tail.bytes.size;
    rank_send_last(rank, lane);
    CHECK_INVARIANTS(rank->touch_count, rank_check(rank));
    return MR_OK;
}

void rank_move(rank *rank, const bale *bale, span to) {
    post_flush(rank->post);
    for (uint32_t i = 0; i < rank->touch_count; i++) {
        lane *lane = &rank->lanes[rank->touched[i]];
        for (size_t k = 0; k < lane->count; k++)
            if (lane->window[k].tail.bale == bale) lane->window[k].tail.bytes = to;
    }
}

/* A query without a bale is copied. */
static lane *begin_pull(rank *rank, uint32_t slot, uint64_t step, span query, bale *bale) {
    MR_ASSERT(rank->ready && slot < rank->slot_count && rank->lanes[slot].known);
    lane *lane = &rank->lanes[slot];
    rank_set_pull(rank, lane, PULL_NONE);
    lane->query = query;
    if (query.size != 0) lane->query_bale = bale == NULL ? bale_copy(query) : bale_ref(bale);
    if (query.size != 0 && bale == NULL) lane->query = bale_bytes(lane->query_bale);
    lane->step = step;
    lane->fresh = false;
    lane->behind = 0;
    lane->request = (rank->stint << 24) + ++rank->requests;
    MR_ASSERT(lane->pull == PULL_NONE && (lane->query_bale == NULL) == (query.size == 0));
    return lane;
}

void rank_pull(rank *rank, uint32_t slot, uint64_t step, span query, bale *bale) {
    rank_start_pull(rank, begin_pull(rank, slot, step, query, bale));
}
void rank_pull_behind(rank *rank, uint32_t slot, uint64_t step, span query, bale *bale) {
    lane *lane = begin_pull(rank, slot, step, query, bale);
    lane->behind = lane->last;
    rank_start_pull(rank, lane);
}
void rank_pull_fresh(rank *rank, uint32_t slot, uint64_t step, span query, bale *bale) {
    lane *lane = begin_pull(rank, slot, step, query, bale);
    lane->fresh = true;
    rank_start_pull(rank, lane);
}

void rank_prefer(rank *rank, uint32_t slot, uint8_t priority) {
    MR_ASSERT(rank->ready && slot < rank->slot_count);
    lane *lane = &rank->lanes[slot];
    if (lane->priority == priority || MUTATED("no-priority")) return;
    lane->priority = priority;
    if (lane->purse != RANK_NO_PURSE) turns_prefer(&rank->purses[lane->purse].turns, &lane->push_turn, priority);
    turns_prefer(&rank->pulls, &lane->pull_turn, priority);
}

/* Orders of a stint are above all those of the stints before it. */
void rank_order(rank *rank, tape_kind kind) {
    MR_ASSERT(kind == TAPE_JOIN || kind == TAPE_LEAVE);
    rank->order = kind;
    rank->order_number = rank->stint << 16 | ++rank->orders;
    rank_ask_order(rank);
}

void rank_flush(rank *rank) { post_flush(rank->post); }

/* ---- Hearing. */

/* What a server lets this rank have under way. */
static void take_grant(rank *rank, const part_head *from, uint64_t grant) {
    for (uint32_t i = 0; i < rank->purse_count; i++)
        if (rank->purses[i].server == from->who && rank->purses[i].incarnation == from->incarnation)
            rank->purses[i].grant = grant;
}

static void take_clock(rank *rank, lane *lane, const part_head *from, const part *part) {
    if (part->status == PART_OK) take_grant(rank, from, part->prev);
    if (part->status != PART_OK || lane->known || part->commit != rank->stint) return;
    lane->known = true;
    lane->clock = lane->last = lane->acknowledged = part->name;
    lane->version = part->lsn;
    if (++rank->known < rank->touch_count) return;
    rank->ready = true;
    rank->options.on_ready(rank->options.context);
}

static void drop_sent(rank *rank, lane *lane, size_t at) {
    MR_ASSERT(at < lane->count && lane->count <= RANK_WINDOW);
    sent gone = lane->window[at];
    lane->count--;
    if (at < lane->count) memmove(&lane->window[at], &lane->window[at + 1], (lane->count - at) * sizeof *lane->window);
    rank_end_state(rank, lane, &gone);
    bale_unref(gone.bale);
    bale_unref(gone.tail.bale);
    bale_unref(gone.terms);
}

static void take_over(rank *rank, lane *lane, size_t at, const part *part) {
    drop_sent(rank, lane, at);
    if (part->name > lane->acknowledged) lane->acknowledged = part->name;
    if (part->name > lane->clock) lane->clock = part->name;
    rank->options.on_pushed(rank->options.context, part->slot, part->name, part->status);
}

/* Of LATER and WRONG nothing follows: a tick asks whether it came, a chart sends it elsewhere. */
static void take_pushed(rank *rank, lane *lane, const part_head *from, const part *part) {
    bool over = part->status == PART_OK || part->status == PART_MISSED || part->status == PART_GONE;
    uint32_t purse = lane->purse;
    size_t at = 0;
    take_grant(rank, from, part->commit);
    while (at < lane->count && lane->window[at].name != part->name) at++;
    if (at == lane->count) return;
    if (over || part->lsn == PART_FULL) lane->refused = !over;
    if (over) {
        take_over(rank, lane, at, part);
    } else if (part->status == PART_TAKEN && lane->window[at].state == SENT_OUT) {
        rank_set_state(rank, lane, &lane->window[at], SENT_TAKEN);
    } else if (part->status == PART_RESEND) {
        rank_wait_again(rank, lane, part->prev);
    }
    if (purse != RANK_NO_PURSE) rank_send_waiting(rank, purse);
    rank_tick_ledger(rank);
}

static void take_round(rank *rank, const part *part) {
    uint32_t rank_count = post_chart(rank->post)->rank_count;
    uint8_t bytes[LEDGER_TERMS_MAX];
    ledger ledger;
    if (!ledger_read(part->payload, rank_count, &ledger)) return;
    rank->terms = ledger_terms_of(&ledger);
    bale_unref(rank->terms_bale);
    rank->terms_bale = bale_copy(span_of(bytes, ledger_write_terms(&rank->terms, rank_count, bytes)));
    rank->options.on_round(rank->options.context, &rank->terms);
}

static void take_ordered(rank *rank, const part *part) {
    if (part->name != rank->order_number) return;
    rank->order_number = 0;
    rank->options.on_ordered(rank->options.context, rank->order, part->status == PART_OK, part->lsn);
}

static void take_pulled(rank *rank, lane *lane, const part *part) {
    bool gone = part->status == PART_GONE;
    if ((part->status != PART_OK && !gone) || lane->pull == PULL_NONE) return;
    if (part->commit != lane->request) return; /* the answer to an earlier question */
    rank_set_pull(rank, lane, PULL_NONE);
    rank_start_pulls(rank);
    if (gone) {
        rank->options.on_gone(rank->options.context, part->slot, part->name);
        return;
    }
    if (rank_is_ledger(rank, part->slot)) {
        take_round(rank, part);
        return;
    }
    lane->seen = part->lsn;
    rank->options.on_pulled(rank->options.context, part->slot, part->name, part->lsn, part->payload);
}

static void on_part(void *context, const part_head *from, const part *part, bale *bale) {
    rank *rank = context;
    if (part->slot >= rank->slot_count || part->rank != rank->options.rank) return;
    lane *lane = &rank->lanes[part->slot];
    if (part->kind == PART_CLOCK) take_clock(rank, lane, from, part);
    if (part->kind == PART_PUSHED) take_pushed(rank, lane, from, part);
    if (part->kind == PART_PULLED) take_pulled(rank, lane, part);
    if (part->kind == PART_ORDERED) take_ordered(rank, part);
}

static void open_lanes(rank *rank, uint32_t slot_count) {
    const rank_options *options = &rank->options;
    rank->slot_count = slot_count;
    rank->lanes = xcalloc(slot_count + 1, sizeof *rank->lanes);
    rank->touch_count = options->touches == NULL ? slot_count : options->touch_count;
    rank->touched = xcalloc(rank->touch_count + 1, sizeof *rank->touched);
    for (uint32_t i = 0; i < slot_count; i++) rank->lanes[i].purse = RANK_NO_PURSE;
    for (uint32_t i = 0; i < rank->touch_count; i++) {
        rank->touched[i] = options->touches == NULL ? i : options->touches[i];
        MR_ASSERT(rank->touched[i] < slot_count);
    }
}

static void close_lanes(rank *rank) {
    for (uint32_t i = 0; i < rank->touch_count; i++) {
        lane *lane = &rank->lanes[rank->touched[i]];
        while (lane->count != 0) drop_sent(rank, lane, 0);
        rank_set_pull(rank, lane, PULL_NONE);
    }
    rank->untaken = 0;
    rank->pulls_out = 0;
    bale_unref(rank->terms_bale);
    turns_fini(&rank->pulls);
    for (uint32_t i = 0; i < rank->purse_count; i++) turns_fini(&rank->purses[i].turns);
    free(rank->lanes);
    free(rank->touched);
    free(rank->purses);
    rank->purses = NULL;
    rank->purse_count = 0;
    rank->terms_bale = NULL;
}

static void begin_again(rank *rank) {
    close_lanes(rank);
    rank->terms = (ledger_terms){0};
    rank->order_number = 0;
    rank->known = 0;
    rank->ready = false;
    if (rank->options.on_over != NULL) rank->options.on_over(rank->options.context);
}

static void on_chart(void *context, const chart *chart) {
    rank *rank = context;
    bool first = rank->lanes == NULL, other = !first && rank->generation != chart->generation;
    if (other) begin_again(rank);
    if (first || other) open_lanes(rank, chart->slot_count);
    rank->generation = chart->generation;
    rank_ask_everything(rank);
}

/* ---- Life. */

rank *rank_create(const rank_options *options) {
    MR_ASSERT(options->rank < CHART_RANKS_MAX && options->send != NULL && options->on_ready != NULL);
    MR_ASSERT(strlen(options->director) < PART_ADDRESS_MAX);
    rank *rank = xcalloc(1, sizeof *rank);
    rank->options = *options;
    strncpy(rank->director, options->director, sizeof rank->director - 1);
    post_host host = {.send = options->send,
                      .send_context = options->context,
                      .send_pieces = options->send_pieces,
                      .on_chart = on_chart,
                      .on_part = on_part,
                      .context = rank,
                      .atlas = options->atlas};
    rank->post = post_create(&host, PART_RANK | options->rank, options->address);
    rank->next_tick_us = CLOCK_NEVER_US;
    return rank;
}

void rank_destroy(rank *rank) {
    close_lanes(rank);
    post_destroy(rank->post);
    free(rank);
}

void rank_begin(rank *rank, uint64_t stint, int64_t now_us) {
    MR_ASSERT(stint != 0 && !rank->begun); /* a rank is one stint */
    rank->begun = true;
    rank->stint = stint;
    post_set_incarnation(rank->post, stint);
    rank->next_tick_us = now_us;
}

void rank_take_bale(rank *rank, span bytes, bale *bale) {
    if (rank->begun) post_take_bale(rank->post, bytes, bale);
    CHECK_INVARIANTS(rank->touch_count, rank_check(rank));
}

int64_t rank_next_us(const rank *rank) { return rank->next_tick_us; }

/* The director is asked now and then: whoever it knows of may be gone. */
void rank_tick(rank *rank, int64_t now_us) {
    rank->next_tick_us = now_us + RANK_TICK_US;
    post_add(rank->post, rank->director, NULL);
    rank_ask_again(rank);
    post_flush(rank->post);
    CHECK_INVARIANTS(rank->touch_count, rank_check(rank));
}

const chart *rank_chart(const rank *rank) { return post_chart(rank->post); }
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
