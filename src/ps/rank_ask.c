/* rank_ask.c — see rank.h and rank_core.h: what is asked, of whom, and what waits for its turn. */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "ps/rank_core.h"

/* The copy at this place of the chain, counted around. */
static void ask_copy(rank *rank, uint32_t slot, uint32_t place, part *part) {
    const chart *chart = post_chart(rank->post);
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

/* ---- Turns. */

static bool goes_before(const rank *rank, const lane *a, const turn *a_turn, const lane *b, const turn *b_turn) {
    uint64_t patience = (uint64_t)RANK_PATIENCE * rank->touch_count;
    bool a_first = a_turn->passed >= patience, b_first = b_turn->passed >= patience;
    if (a_first != b_first) return a_first;
    if (!a_first && a->priority != b->priority) return a->priority > b->priority;
    return a_turn->since < b_turn->since;
}

/* ---- Pushes. */

/* A pull that it carries needs its payload, too: it goes when that goes, or by itself once the push is known to be
 * there. */
static void ask_push(rank *rank, uint32_t slot, const sent *sent, bool asks) {
    const lane *lane = &rank->lanes[slot];
    part part = {.kind = PART_PUSH, .name = sent->name, .prev = sent->prev, .entry = asks ? PART_PUSH_ASK : 0};
    if (!asks && sent->terms != NULL) part.terms = bale_bytes(sent->terms);
    if (!asks) part.payload = sent->payload;
    if (!asks) part.bale = sent->bale;
    if (!asks && lane->pull == PULL_CARRIED && lane->carrier == sent->name) {
        part.entry |= PART_PUSH_PULL | (lane->newer ? PART_PULL_NEWER : 0);
        part.lsn = lane->seen;
        part.commit = lane->request;
    }
    ask(rank, slot, &part);
}

static bool all_taken(const rank *rank) {
    for (uint32_t i = 0; i + 1 < rank->slot_count; i++)
        for (size_t k = 0; k < rank->lanes[i].count; k++)
            if (rank->lanes[i].window[k].state != SENT_TAKEN) return false;
    return true;
}

void rank_set_state(rank *rank, lane *lane, sent *sent, sent_state state) {
    purse *purse = lane->purse == RANK_NO_PURSE ? NULL : &rank->purses[lane->purse];
    if (purse != NULL && sent->state == SENT_OUT) purse->out -= sent->payload.size;
    if (purse != NULL && sent->state == SENT_WAITING) purse->waiting--;
    sent->state = state;
    if (purse != NULL && sent->state == SENT_OUT) purse->out += sent->payload.size;
    if (purse != NULL && sent->state == SENT_WAITING) purse->waiting++;
}

/* The first of its parts that waits; NULL: none, or it must not go yet. */
static sent *first_waiting(rank *rank, uint32_t slot) {
    lane *lane = &rank->lanes[slot];
    if (!lane->known || (rank_is_ledger(rank, slot) && rank->terms.waits && !all_taken(rank))) return NULL;
    for (size_t i = 0; i < lane->count; i++)
        if (lane->window[i].state == SENT_WAITING) return &lane->window[i];
    return NULL;
}

/* The slot that is next at this purse; slot_count: none. */
static uint32_t next_slot(rank *rank, uint32_t purse) {
    uint32_t best = rank->slot_count;
    for (uint32_t i = 0; i < rank->touch_count; i++) {
        uint32_t slot = rank->touched[i];
        const lane *lane = &rank->lanes[slot];
        if (lane->purse != purse || first_waiting(rank, slot) == NULL) continue;
        if (best == rank->slot_count ||
            goes_before(rank, lane, &lane->push_turn, &rank->lanes[best], &rank->lanes[best].push_turn))
            best = slot;
    }
    return best;
}

static void pass_over(rank *rank, uint32_t purse, uint32_t slot) {
    for (uint32_t i = 0; i < rank->touch_count; i++) {
        lane *lane = &rank->lanes[rank->touched[i]];
        bool waits = lane->count != 0 && lane->window[lane->count - 1].state == SENT_WAITING;
        if (waits && lane->purse == purse && rank->touched[i] != slot) lane->push_turn.passed++;
    }
    rank->lanes[slot].push_turn = (turn){.since = ++rank->turns};
}

/* Whoever is next goes, or nobody: a large part is not passed by until there is room for it. */
void rank_send_waiting(rank *rank, uint32_t index) {
    purse *purse = &rank->purses[index];
    while (purse->waiting != 0) {
        uint32_t slot = next_slot(rank, index);
        if (slot == rank->slot_count) return;
        sent *sent = first_waiting(rank, slot);
        size_t size = sent->payload.size;
        bool room = size == 0 || purse->out == 0 || purse->out + size <= purse->grant;
        if (!room && !rank->options.no_credit) return;
        rank_set_state(rank, &rank->lanes[slot], sent, SENT_OUT);
        pass_over(rank, index, slot);
        ask_push(rank, slot, sent, false);
    }
}

/* Once between two ticks: of what was lost together one hears one by one. */
void rank_wait_again(rank *rank, lane *lane, uint64_t last) {
    if (lane->again) return;
    lane->again = true;
    for (size_t i = 0; i < lane->count; i++)
        if (lane->window[i].name > last) rank_set_state(rank, lane, &lane->window[i], SENT_WAITING);
}

void rank_tick_ledger(rank *rank) {
    uint32_t ledger = chart_ledger(post_chart(rank->post));
    if (ledger == NO_LEDGER || !rank->terms.waits || rank->lanes[ledger].purse == RANK_NO_PURSE) return;
    rank_send_waiting(rank, rank->lanes[ledger].purse);
}

/* ---- Pulls. */

/* A copy that does not answer is passed over the next time. */
static void ask_pull(rank *rank, uint32_t slot) {
    lane *lane = &rank->lanes[slot];
    uint32_t place = rank->options.spreads && !lane->fresh ? rank->options.rank + slot + lane->tries++ : 0;
    ask_copy(rank, slot, place,
             &(part){.kind = PART_PULL,
                     .entry = (uint8_t)((lane->newer ? PART_PULL_NEWER : 0) | (lane->fresh ? PART_PULL_FRESH : 0)),
                     .name = lane->step,
                     .prev = lane->acknowledged,
                     .lsn = lane->seen,
                     .commit = lane->request,
                     .payload = lane->query,
                     .bale = lane->query_bale});
}

void rank_set_pull(rank *rank, lane *lane, pull_state state) {
    rank->pulls_out += (state == PULL_OUT) - (lane->pull == PULL_OUT);
    rank->pulls_waiting += (state == PULL_WAITING) - (lane->pull == PULL_WAITING);
    if (state == PULL_WAITING) lane->pull_turn = (turn){.since = ++rank->turns};
    lane->pull = state;
    if (state != PULL_NONE) return;
    bale_unref(lane->query_bale);
    lane->query = (span){0};
    lane->query_bale = NULL;
}

static uint32_t next_pull(const rank *rank) {
    uint32_t best = rank->slot_count;
    for (uint32_t i = 0; i < rank->touch_count; i++) {
        uint32_t slot = rank->touched[i];
        const lane *lane = &rank->lanes[slot];
        if (lane->pull != PULL_WAITING || !lane->known) continue;
        if (best == rank->slot_count ||
            goes_before(rank, lane, &lane->pull_turn, &rank->lanes[best], &rank->lanes[best].pull_turn))
            best = slot;
    }
    return best;
}

void rank_start_pulls(rank *rank) {
    uint32_t most = rank->options.pulls_max == 0 ? UINT32_MAX : rank->options.pulls_max;
    while (rank->pulls_waiting != 0 && rank->pulls_out < most) {
        uint32_t slot = next_pull(rank);
        if (slot == rank->slot_count) return;
        for (uint32_t i = 0; i < rank->touch_count; i++) rank->lanes[rank->touched[i]].pull_turn.passed++;
        rank_set_pull(rank, &rank->lanes[slot], PULL_OUT);
        ask_pull(rank, slot);
    }
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
        if (lane->known && lane->pull == PULL_OUT) ask_pull(rank, slot);
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
    rank->purses[rank->purse_count++] = purse;
    return rank->purse_count - 1;
}

void rank_ask_everything(rank *rank) {
    purse *before = rank->purses;
    uint32_t before_count = rank->purse_count;
    rank->purses = xcalloc(rank->touch_count + 1, sizeof *rank->purses);
    rank->purse_count = 0;
    for (uint32_t i = 0; i < rank->touch_count; i++) {
        lane *lane = &rank->lanes[rank->touched[i]];
        lane->purse = purse_of(rank, before, before_count, rank->touched[i]); /* what it had at another one is over */
        for (size_t k = 0; k < lane->count; k++) lane->window[k].state = SENT_WAITING;
        if (lane->purse != RANK_NO_PURSE) rank->purses[lane->purse].waiting += (uint32_t)lane->count;
    }
    free(before);
    rank_ask_again(rank);
}
