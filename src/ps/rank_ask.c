/* rank_ask.c — see rank.h and rank_core.h: what is asked, of whom, and what waits for its turn.
 * Tested by src/ps/rank_test.c. */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/list.h"
#include "base/mutation.h"
#include "ps/rank_core.h"

/* The copy at this place of the chain, counted around. */
static void ask_copy(rank *rank, uint32_t slot, uint32_t place, part *part) {
    const chart *chart = post_chart(rank->post);
    MR_ASSERT(slot < rank->slot_count && rank->slot_count == chart->slot_count);
    const chart_slot *chain = &chart->slots[slot];
    const chart_server *copy = chain->count == 0 ? NULL : chart_find(chart, chain->chain[place % chain->count].server);
    if (copy == NULL) return;
    part->slot = slot;
    part->rank = rank->options.rank;
    part->epoch = chain->epoch;
    part->priority = rank->lanes[slot].priority;
    post_add(rank->post, copy->address, part);
}

static void ask(rank *rank, uint32_t slot, part *part) { ask_copy(rank, slot, 0, part); }

void rank_ask_order(rank *rank) {
    uint32_t ledger = chart_ledger(post_chart(rank->post));
    if (rank->order_number != 0 && ledger != NO_LEDGER)
        ask(rank, ledger, &(part){.kind = PART_ORDER, .entry = (uint8_t)rank->order, .name = rank->order_number});
}

/* ---- Pushes. */

/* What is held of it may speak of memory that another server does not see. */
static bale *carry(rank *rank, uint32_t slot, part *part) {
    if (rank->options.carry == NULL || part->payload.size == 0) return NULL;
    bool afar = false;
    bale *own = rank->options.carry(rank->options.context, slot, part->payload, &afar);
    part->entry |= afar ? PART_PUSH_AFAR : 0;
    if (own == NULL) return NULL;
    part->payload = bale_bytes(own);
    part->bale = own;
    return own;
}

static void ask_push(rank *rank, uint32_t slot, const sent *sent, bool asks) {
    part part = {.kind = PART_PUSH, .name = sent->name, .prev = sent->prev, .entry = asks ? PART_PUSH_ASK : 0};
    if (!asks && sent->terms != NULL) part.terms = bale_bytes(sent->terms);
    if (!asks) part.payload = sent->payload;
    if (!asks) part.bale = sent->bale;
    if (!asks) part.tail = sent->tail;
    bale *own = part.tail.bytes.size != 0 ? NULL : carry(rank, slot, &part);
    ask(rank, slot, &part);
    bale_unref(own);
}

static uint64_t patience(const rank *rank) { return (uint64_t)RANK_PATIENCE * rank->touch_count; }

static bool waits(const lane *lane) { return lane->count != 0 && lane->window[lane->count - 1].state == SENT_WAITING; }

/* Have the slots without rounds acknowledged the step that this contribution ends? What they have of it, they keep. */
static bool is_free(rank *rank, uint64_t name) {
    if (!post_chart(rank->post)->mixed || MUTATED("ledger-first")) return true;
    for (; rank->free_passed < rank->touch_count; rank->free_passed++) {
        uint32_t slot = rank->touched[rank->free_passed];
        const lane *lane = &rank->lanes[slot];
        if (!rank_in_rounds(rank, slot) && lane->count != 0 && lane->window[0].name <= name_tick(name)) return false;
    }
    return true;
}

/* The ledger may have to be the last: a tick says that all other slots have taken what the rank has for the round, or,
 * if they have no rounds, have it. */
static bool may_tick(rank *rank, const lane *lane) {
    if (!rank_is_ledger(rank, rank_slot(rank, lane))) return true;
    return (!rank->terms.waits || rank->untaken == 0) && is_free(rank, lane->window[lane->count - 1].name);
}

/* At its purse, if it waits and may go. */
static void line_up(rank *rank, lane *lane) {
    if (lane->purse == RANK_NO_PURSE || !waits(lane) || !may_tick(rank, lane)) return;
    turns_wait(&rank->purses[lane->purse].turns, &lane->push_turn, lane->priority);
}

static bool is_taken_from(const rank *rank, const lane *lane) { /* by a head that has rounds */
    uint32_t slot = rank_slot(rank, lane);
    return rank_in_rounds(rank, slot) && !rank_is_ledger(rank, slot);
}

/* What is taken holds no credit. */
static void count_out(rank *rank, const lane *lane, const sent *sent) {
    purse *purse = sent->state == SENT_OUT && lane->purse != RANK_NO_PURSE ? &rank->purses[lane->purse] : NULL;
    MR_ASSERT(purse == NULL || purse->out >= sent->size);
    if (sent->state != SENT_TAKEN && is_taken_from(rank, lane)) rank->untaken--;
    if (purse != NULL) purse->out -= sent->size;
}
static void count_in(rank *rank, const lane *lane, const sent *sent) {
    if (sent->state != SENT_TAKEN && is_taken_from(rank, lane)) rank->untaken++;
    if (sent->state == SENT_OUT && lane->purse != RANK_NO_PURSE) rank->purses[lane->purse].out += sent->size;
}

static void leave_line(rank *rank, lane *lane) {
    if (lane->purse != RANK_NO_PURSE && !waits(lane)) turns_leave(&rank->purses[lane->purse].turns, &lane->push_turn);
}

void rank_set_state(rank *rank, lane *lane, sent *sent, sent_state state) {
    count_out(rank, lane, sent);
    sent->state = state;
    count_in(rank, lane, sent);
    if (state == SENT_WAITING)
        line_up(rank, lane);
    else
        leave_line(rank, lane);
}

/* Those before it may wait still: they are there, too, and the word of it was lost. */
void rank_end_state(rank *rank, lane *lane, const sent *gone) {
    count_out(rank, lane, gone);
    leave_line(rank, lane);
}

static sent *first_waiting(lane *lane) {
    size_t at = 0;
    MR_ASSERT(waits(lane));
    while (lane->window[at].state != SENT_WAITING) at++;
    return &lane->window[at];
}

static bool has_room(const purse *purse, size_t size) {
    return size == 0 || purse->out == 0 || purse->out + size <= purse->grant || MUTATED("no-credit");
}

/* Whoever is next goes, or nobody: a large part is not passed by until there is room for it. */
void rank_send_waiting(rank *rank, uint32_t index) {
    MR_ASSERT(index < rank->purse_count);
    purse *purse = &rank->purses[index];
    turn *next;
    while ((next = turns_next(&purse->turns, patience(rank))) != NULL) {
        lane *lane = container_of(next, struct lane, push_turn);
        sent *sent = first_waiting(lane);
        if (!has_room(purse, sent->size)) return;
        turns_go(&purse->turns, next);
        next->since = ++rank->ages;
        rank_set_state(rank, lane, sent, SENT_OUT);
        line_up(rank, lane);
        ask_push(rank, rank_slot(rank, lane), sent, false);
    }
}

/* Behind whatever waits there already. Where nobody waits it goes as it is, which is how most do: a line of one is a
 * line in vain. Without a purse a chart brings it. */
void rank_send_last(rank *rank, lane *lane) {
    MR_ASSERT(lane->count > 0 && lane->window[lane->count - 1].state == SENT_TAKEN); /* it holds no credit yet */
    sent *last = &lane->window[lane->count - 1];
    purse *purse = lane->purse == RANK_NO_PURSE ? NULL : &rank->purses[lane->purse];
    bool first = lane->count == 1 || last[-1].state != SENT_WAITING;
    if (first) lane->push_turn.since = ++rank->ages;
    if (first && purse != NULL && turns_empty(&purse->turns) && may_tick(rank, lane) && has_room(purse, last->size)) {
        rank_set_state(rank, lane, last, SENT_OUT);
        ask_push(rank, rank_slot(rank, lane), last, false);
        return;
    }
    rank_set_state(rank, lane, last, SENT_WAITING);
    if (purse != NULL) rank_send_waiting(rank, lane->purse);
}

/* Once between two ticks: of what was lost together one hears one by one. */
void rank_wait_again(rank *rank, lane *lane, uint64_t last) {
    if (lane->again) return;
    lane->again = true;
    for (size_t i = 0; i < lane->count; i++)
        if (lane->window[i].name > last) rank_set_state(rank, lane, &lane->window[i], SENT_WAITING);
}

void rank_tick_ledger(rank *rank) {
    const chart *chart = post_chart(rank->post);
    uint32_t ledger = chart_ledger(chart);
    if (ledger == NO_LEDGER || (!rank->terms.waits && !chart->mixed) || rank->lanes[ledger].purse == RANK_NO_PURSE)
        return;
    line_up(rank, &rank->lanes[ledger]);
    rank_send_waiting(rank, rank->lanes[ledger].purse);
}

/* ---- Pulls. */

/* Who is asked for the same again and again may know it by its name: so one who answers is asked the next time, too. */
static uint32_t place_of(rank *rank, uint32_t slot) {
    lane *lane = &rank->lanes[slot];
    bool hot = post_chart(rank->post)->slots[slot].more != 0;
    if (lane->fresh || rank->options.spread == RANK_HEADS) return 0;
    if (rank->options.spread == RANK_HOT) return hot ? rank->options.rank + slot + lane->tries : 0;
    return rank->options.rank + slot + lane->tries++;
}

static void ask_pull(rank *rank, uint32_t slot) {
    lane *lane = &rank->lanes[slot];
    uint32_t place = place_of(rank, slot);
    uint64_t known = lane->behind > lane->acknowledged ? lane->behind : lane->acknowledged;
    ask_copy(rank, slot, place,
             &(part){.kind = PART_PULL,
                     .entry = lane->fresh ? PART_PULL_FRESH : 0,
                     .name = lane->step,
                     .prev = known,
                     .lsn = lane->seen,
                     .commit = lane->request,
                     .payload = lane->query,
                     .bale = lane->query_bale});
}

void rank_set_pull(rank *rank, lane *lane, pull_state state) {
    MR_ASSERT(state != PULL_OUT || lane->known);
    if (!rank_is_ledger(rank, rank_slot(rank, lane))) rank->pulls_out += (state == PULL_OUT) - (lane->pull == PULL_OUT);
    lane->pull = state;
    turns_leave(&rank->pulls, &lane->pull_turn);
    if (state == PULL_WAITING) {
        lane->pull_turn.since = ++rank->ages;
        turns_wait(&rank->pulls, &lane->pull_turn, lane->priority);
    }
    if (state != PULL_NONE) return;
    bale_unref(lane->query_bale);
    lane->query = (span){0};
    lane->query_bale = NULL;
}

static void start_pull(rank *rank, lane *lane) {
    turns_go(&rank->pulls, &lane->pull_turn);
    rank_set_pull(rank, lane, PULL_OUT);
    ask_pull(rank, rank_slot(rank, lane));
}

static bool has_place(const rank *rank) {
    return rank->options.pulls_max == 0 || rank->pulls_out < rank->options.pulls_max;
}

/* The ledger's needs no place: a pull that has one may wait for others who wait for what this rank adds to a round. */
void rank_start_pulls(rank *rank) {
    turn *next;
    if (turns_empty(&rank->pulls)) return;
    uint32_t ledger = chart_ledger(post_chart(rank->post));
    if (ledger != NO_LEDGER && rank->lanes[ledger].pull == PULL_WAITING) start_pull(rank, &rank->lanes[ledger]);
    while (has_place(rank) && (next = turns_next(&rank->pulls, patience(rank))) != NULL)
        start_pull(rank, container_of(next, lane, pull_turn));
}

/* As rank_send_last. */
void rank_start_pull(rank *rank, lane *lane) {
    if (turns_empty(&rank->pulls) && has_place(rank)) {
        rank_set_pull(rank, lane, PULL_OUT);
        ask_pull(rank, rank_slot(rank, lane));
        return;
    }
    rank_set_pull(rank, lane, PULL_WAITING);
    rank_start_pulls(rank);
}

/* ---- Again. */

void rank_ask_again(rank *rank) {
    for (uint32_t i = 0; i < rank->touch_count; i++) {
        uint32_t slot = rank->touched[i];
        lane *lane = &rank->lanes[slot];
        lane->again = false;
        if (!lane->known) ask(rank, slot, &(part){.kind = PART_HELLO, .commit = rank->stint});
        for (size_t k = 0; lane->known && k < lane->count; k++)
            if (lane->window[k].state != SENT_WAITING) ask_push(rank, slot, &lane->window[k], true);
        if (!lane->known || lane->pull != PULL_OUT) continue;
        lane->tries += rank->options.spread == RANK_HOT; /* a copy that does not answer is passed over */
        ask_pull(rank, slot);
    }
    for (uint32_t i = 0; i < rank->purse_count; i++) rank_send_waiting(rank, i);
    rank_start_pulls(rank);
    rank_ask_order(rank);
}

/* Servers that were there before keep what they have granted. */
static uint32_t purse_of(rank *rank, purse *before, uint32_t before_count, uint32_t slot) {
    const chart *chart = post_chart(rank->post);
    if (chart->slots[slot].count == 0) return RANK_NO_PURSE;
    const chart_member *head = &chart->slots[slot].chain[0];
    for (uint32_t i = 0; i < rank->purse_count; i++)
        if (rank->purses[i].server == head->server && rank->purses[i].incarnation == head->incarnation) return i;
    purse purse = {.server = head->server, .incarnation = head->incarnation};
    for (uint32_t i = 0; i < before_count; i++)
        if (before[i].server == purse.server && before[i].incarnation == purse.incarnation)
            purse.grant = before[i].grant;
    MR_ASSERT(rank->purse_count < rank->touch_count);
    rank->purses[rank->purse_count++] = purse;
    return rank->purse_count - 1;
}

/* What it had under way at another head is over. */
static void wait_at(rank *rank, lane *lane, uint32_t purse) {
    lane->purse = purse;
    for (size_t i = 0; i < lane->count; i++) {
        sent *sent = &lane->window[i];
        rank->untaken += sent->state == SENT_TAKEN && is_taken_from(rank, lane);
        sent->state = SENT_WAITING;
    }
}

/* The same head, in the same epoch: a chart that is not about this slot calls nothing back. */
static void stay_at(rank *rank, lane *lane, uint32_t purse) {
    lane->purse = purse;
    for (size_t i = 0; i < lane->count; i++)
        if (lane->window[i].state == SENT_OUT) rank->purses[purse].out += lane->window[i].size;
}

static void find_head(rank *rank, purse *before, uint32_t before_count, uint32_t slot) {
    lane *lane = &rank->lanes[slot];
    uint64_t epoch = post_chart(rank->post)->slots[slot].epoch;
    uint32_t purse = purse_of(rank, before, before_count, slot);
    if (lane->epoch == epoch && purse != RANK_NO_PURSE)
        stay_at(rank, lane, purse);
    else
        wait_at(rank, lane, purse);
    lane->epoch = epoch;
}

void rank_ask_everything(rank *rank) {
    purse *before = rank->purses;
    uint32_t before_count = rank->purse_count;
    for (uint32_t i = 0; i < rank->touch_count; i++) {
        lane *lane = &rank->lanes[rank->touched[i]];
        if (lane->purse != RANK_NO_PURSE) turns_leave(&before[lane->purse].turns, &lane->push_turn);
    }
    rank->purses = xcalloc(rank->touch_count + 1, sizeof *rank->purses);
    rank->purse_count = 0;
    for (uint32_t i = 0; i < rank->touch_count; i++) find_head(rank, before, before_count, rank->touched[i]);
    for (uint32_t i = 0; i < rank->touch_count; i++) line_up(rank, &rank->lanes[rank->touched[i]]);
    for (uint32_t i = 0; i < before_count; i++) turns_fini(&before[i].turns);
    free(before);
    rank_ask_again(rank);
}
