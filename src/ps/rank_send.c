/* rank_send.c — see rank.h and rank_internal.h: sending of requests, and the queues of waiting ones.
 * Tested by src/ps/rank_test.c. */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/list.h"
#include "base/mutation.h"
#include "ps/rank_internal.h"

/* Sends to the replica at this place of the chain, modulo its length. */
static void ask_copy(rank *rank, uint32_t slot, uint32_t place, slot_message *message) {
    const cluster_map *map = batcher_map(rank->batcher);
    MR_ASSERT(slot < rank->slot_count && rank->slot_count == map->slot_count);
    const cluster_map_slot *chain = &map->slots[slot];
    const cluster_map_server *copy =
        chain->count == 0 ? NULL : cluster_map_find(map, chain->chain[place % chain->count].server);
    if (copy == NULL) return;
    message->slot = slot;
    message->rank = rank->options.rank;
    message->epoch = chain->epoch;
    message->priority = rank->lanes[slot].priority;
    batcher_add(rank->batcher, copy->address, message);
}

static void ask(rank *rank, uint32_t slot, slot_message *message) { ask_copy(rank, slot, 0, message); }

void rank_ask_order(rank *rank) {
    uint32_t round_state = cluster_map_round_state(batcher_map(rank->batcher));
    if (rank->order_number != 0 && round_state != NO_ROUND_STATE)
        ask(rank, round_state,
            &(slot_message){.kind = SLOT_MESSAGE_ORDER, .entry = (uint8_t)rank->order, .name = rank->order_number});
}

/* ---- Pushes. */

/* Lets the host convert a payload that refers to memory which the slot's server does not map. */
static shared_bytes *carry(rank *rank, uint32_t slot, slot_message *message) {
    if (rank->options.carry == NULL || message->payload.size == 0) return NULL;
    bool afar = false;
    shared_bytes *own = rank->options.carry(rank->options.context, slot, message->payload, &afar);
    message->entry |= afar ? SLOT_MESSAGE_PUSH_AFAR : 0;
    if (own == NULL) return NULL;
    message->payload = shared_bytes_bytes(own);
    message->bytes = own;
    return own;
}

static void ask_push(rank *rank, uint32_t slot, const sent *sent, bool asks) {
    slot_message message = {
        .kind = SLOT_MESSAGE_PUSH, .name = sent->name, .prev = sent->prev, .entry = asks ? SLOT_MESSAGE_PUSH_ASK : 0};
    if (!asks && sent->terms != NULL) message.terms = shared_bytes_bytes(sent->terms);
    if (!asks) message.payload = sent->payload;
    if (!asks) message.bytes = sent->bytes;
    if (!asks) message.tail = sent->tail;
    shared_bytes *own = message.tail.bytes.size != 0 ? NULL : carry(rank, slot, &message);
    ask(rank, slot, &message);
    shared_bytes_unref(own);
}

static uint64_t patience(const rank *rank) { return (uint64_t)RANK_PATIENCE * rank->touch_count; }

static bool waits(const rank_lane *lane) {
    return lane->count != 0 && lane->window[lane->count - 1].state == SENT_WAITING;
}

/* Whether the slots without rounds have acknowledged all pushes up to the step that this contribution ends.
 * `free_passed` advances past such slots, which cannot block this contribution again. */
static bool is_free(rank *rank, uint64_t name) {
    if (!batcher_map(rank->batcher)->mixed || MUTATED("ledger-first")) return true;
    for (; rank->free_passed < rank->touch_count; rank->free_passed++) {
        uint32_t slot = rank->touched[rank->free_passed];
        const rank_lane *lane = &rank->lanes[slot];
        if (!rank_in_rounds(rank, slot) && lane->count != 0 && lane->window[0].name <= seq_tick(name)) return false;
    }
    return true;
}

/* A contribution to the round state may have to be last: it states that all other slots with rounds have taken the
 * rank's pushes for the round, and that slots without rounds have acknowledged theirs. */
static bool may_tick(rank *rank, const rank_lane *lane) {
    if (!rank_is_round_state(rank, rank_slot(rank, lane))) return true;
    return (!rank->terms.waits || rank->untaken == 0) && is_free(rank, lane->window[lane->count - 1].name);
}

/* Queues the lane at its credit window if a push waits and may be sent. */
static void line_up(rank *rank, rank_lane *lane) {
    if (lane->credit_window == RANK_NO_WINDOW || !waits(lane) || !may_tick(rank, lane)) return;
    priority_queue_wait(&rank->windows[lane->credit_window].queue, &lane->push_entry, lane->priority);
}

static bool is_taken_from(const rank *rank, const rank_lane *lane) { /* a slot whose head answers TAKEN */
    uint32_t slot = rank_slot(rank, lane);
    return rank_in_rounds(rank, slot) && !rank_is_round_state(rank, slot);
}

/* A push in the state TAKEN holds no credit. */
static void count_out(rank *rank, const rank_lane *lane, const sent *sent) {
    credit_window *window =
        sent->state == SENT_OUT && lane->credit_window != RANK_NO_WINDOW ? &rank->windows[lane->credit_window] : NULL;
    MR_ASSERT(window == NULL || window->out >= sent->size);
    if (sent->state != SENT_TAKEN && is_taken_from(rank, lane)) rank->untaken--;
    if (window != NULL) window->out -= sent->size;
}
static void count_in(rank *rank, const rank_lane *lane, const sent *sent) {
    if (sent->state != SENT_TAKEN && is_taken_from(rank, lane)) rank->untaken++;
    if (sent->state == SENT_OUT && lane->credit_window != RANK_NO_WINDOW)
        rank->windows[lane->credit_window].out += sent->size;
}

static void leave_line(rank *rank, rank_lane *lane) {
    if (lane->credit_window != RANK_NO_WINDOW && !waits(lane))
        priority_queue_leave(&rank->windows[lane->credit_window].queue, &lane->push_entry);
}

void rank_set_state(rank *rank, rank_lane *lane, sent *sent, sent_state state) {
    count_out(rank, lane, sent);
    sent->state = state;
    count_in(rank, lane, sent);
    if (state == SENT_WAITING)
        line_up(rank, lane);
    else
        leave_line(rank, lane);
}

/* Earlier pushes of the lane may still wait: they have arrived, and their answers were lost. */
void rank_end_state(rank *rank, rank_lane *lane, const sent *gone) {
    count_out(rank, lane, gone);
    leave_line(rank, lane);
}

static sent *first_waiting(rank_lane *lane) {
    size_t at = 0;
    MR_ASSERT(waits(lane));
    while (lane->window[at].state != SENT_WAITING) at++;
    return &lane->window[at];
}

static bool has_room(const credit_window *window, size_t size) {
    return size == 0 || window->out == 0 || window->out + size <= window->grant || MUTATED("no-credit");
}

/* Sends pushes in queue order until one has no room: a large push is not overtaken. */
void rank_send_waiting(rank *rank, uint32_t index) {
    MR_ASSERT(index < rank->window_count);
    credit_window *window = &rank->windows[index];
    priority_entry *next;
    while ((next = priority_queue_next(&window->queue, patience(rank))) != NULL) {
        rank_lane *lane = container_of(next, struct rank_lane, push_entry);
        sent *sent = first_waiting(lane);
        if (!has_room(window, sent->size)) return;
        priority_queue_go(&window->queue, next);
        next->since = ++rank->ages;
        rank_set_state(rank, lane, sent, SENT_OUT);
        line_up(rank, lane);
        ask_push(rank, rank_slot(rank, lane), sent, false);
    }
}

/* Queues the push behind waiting ones. If none waits, the push is sent at once without the cost of the queue. Without
 * a credit window the next cluster map sends it. */
void rank_send_last(rank *rank, rank_lane *lane) {
    MR_ASSERT(lane->count > 0 && lane->window[lane->count - 1].state == SENT_TAKEN); /* the push holds no credit yet */
    sent *last = &lane->window[lane->count - 1];
    credit_window *window = lane->credit_window == RANK_NO_WINDOW ? NULL : &rank->windows[lane->credit_window];
    bool first = lane->count == 1 || last[-1].state != SENT_WAITING;
    if (first) lane->push_entry.since = ++rank->ages;
    if (first && window != NULL && priority_queue_empty(&window->queue) && may_tick(rank, lane) &&
        has_room(window, last->size)) {
        rank_set_state(rank, lane, last, SENT_OUT);
        ask_push(rank, rank_slot(rank, lane), last, false);
        return;
    }
    rank_set_state(rank, lane, last, SENT_WAITING);
    if (window != NULL) rank_send_waiting(rank, lane->credit_window);
}

/* Once between two ticks: pushes that were lost together are answered by one RESEND each. */
void rank_wait_again(rank *rank, rank_lane *lane, uint64_t last) {
    if (lane->again) return;
    lane->again = true;
    for (size_t i = 0; i < lane->count; i++)
        if (lane->window[i].name > last) rank_set_state(rank, lane, &lane->window[i], SENT_WAITING);
}

void rank_tick_round_state(rank *rank) {
    const cluster_map *map = batcher_map(rank->batcher);
    uint32_t round_state = cluster_map_round_state(map);
    if (round_state == NO_ROUND_STATE || (!rank->terms.waits && !map->mixed) ||
        rank->lanes[round_state].credit_window == RANK_NO_WINDOW)
        return;
    line_up(rank, &rank->lanes[round_state]);
    rank_send_waiting(rank, rank->lanes[round_state].credit_window);
}

/* ---- Pulls. */

/* The replica at which a pull is directed. A replica that answers is asked again, since it may have cached the
 * query. */
static uint32_t place_of(rank *rank, uint32_t slot) {
    rank_lane *lane = &rank->lanes[slot];
    bool hot = batcher_map(rank->batcher)->slots[slot].more != 0;
    if (lane->fresh || lane->step == CONSISTENCY_NEWEST || rank->options.spread == RANK_HEADS) return 0;
    if (rank->options.spread == RANK_HOT) return hot ? rank->options.rank + slot + lane->tries : 0;
    return rank->options.rank + slot + lane->tries++;
}

static void ask_pull(rank *rank, uint32_t slot) {
    rank_lane *lane = &rank->lanes[slot];
    uint32_t place = place_of(rank, slot);
    uint64_t known = lane->behind > lane->acknowledged ? lane->behind : lane->acknowledged;
    ask_copy(rank, slot, place,
             &(slot_message){.kind = SLOT_MESSAGE_PULL,
                             .entry = lane->fresh ? SLOT_MESSAGE_PULL_FRESH : 0,
                             .name = lane->step,
                             .prev = known,
                             .lsn = lane->seen,
                             .commit = lane->request,
                             .payload = lane->query,
                             .bytes = lane->query_bytes});
}

void rank_set_pull(rank *rank, rank_lane *lane, pull_state state) {
    MR_ASSERT(state != PULL_OUT || lane->known);
    if (!rank_is_round_state(rank, rank_slot(rank, lane)))
        rank->pulls_out += (state == PULL_OUT) - (lane->pull == PULL_OUT);
    lane->pull = state;
    priority_queue_leave(&rank->pulls, &lane->pull_entry);
    if (state == PULL_WAITING) {
        lane->pull_entry.since = ++rank->ages;
        priority_queue_wait(&rank->pulls, &lane->pull_entry, lane->priority);
    }
    if (state != PULL_NONE) return;
    shared_bytes_unref(lane->query_bytes);
    lane->query = (span){0};
    lane->query_bytes = NULL;
}

static void start_pull(rank *rank, rank_lane *lane) {
    priority_queue_go(&rank->pulls, &lane->pull_entry);
    rank_set_pull(rank, lane, PULL_OUT);
    ask_pull(rank, rank_slot(rank, lane));
}

static bool has_place(const rank *rank) {
    return rank->options.pulls_max == 0 || rank->pulls_out < rank->options.pulls_max;
}

/* A pull of the round state needs no place: the pulls that have places may wait for other ranks that wait for this
 * rank's contribution. */
void rank_start_pulls(rank *rank) {
    priority_entry *next;
    if (priority_queue_empty(&rank->pulls)) return;
    uint32_t round_state = cluster_map_round_state(batcher_map(rank->batcher));
    if (round_state != NO_ROUND_STATE && rank->lanes[round_state].pull == PULL_WAITING)
        start_pull(rank, &rank->lanes[round_state]);
    while (has_place(rank) && (next = priority_queue_next(&rank->pulls, patience(rank))) != NULL)
        start_pull(rank, container_of(next, rank_lane, pull_entry));
}

/* As rank_send_last. */
void rank_start_pull(rank *rank, rank_lane *lane) {
    if (priority_queue_empty(&rank->pulls) && has_place(rank)) {
        rank_set_pull(rank, lane, PULL_OUT);
        ask_pull(rank, rank_slot(rank, lane));
        return;
    }
    rank_set_pull(rank, lane, PULL_WAITING);
    rank_start_pulls(rank);
}

/* ---- Repetition. */

void rank_ask_again(rank *rank) {
    for (uint32_t i = 0; i < rank->touch_count; i++) {
        uint32_t slot = rank->touched[i];
        rank_lane *lane = &rank->lanes[slot];
        lane->again = false;
        if (!lane->known) ask(rank, slot, &(slot_message){.kind = SLOT_MESSAGE_HELLO, .commit = rank->term});
        for (size_t k = 0; lane->known && k < lane->count; k++)
            if (lane->window[k].state != SENT_WAITING) ask_push(rank, slot, &lane->window[k], true);
        if (!lane->known || lane->pull != PULL_OUT) continue;
        lane->tries += rank->options.spread == RANK_HOT; /* a replica that does not answer is passed over */
        ask_pull(rank, slot);
    }
    for (uint32_t i = 0; i < rank->window_count; i++) rank_send_waiting(rank, i);
    rank_start_pulls(rank);
    rank_ask_order(rank);
}

/* Index of the window of the slot's head; a server that had a window before keeps its grant. */
static uint32_t credit_window_of(rank *rank, credit_window *before, uint32_t before_count, uint32_t slot) {
    const cluster_map *map = batcher_map(rank->batcher);
    if (map->slots[slot].count == 0) return RANK_NO_WINDOW;
    const cluster_map_member *head = &map->slots[slot].chain[0];
    for (uint32_t i = 0; i < rank->window_count; i++)
        if (rank->windows[i].server == head->server && rank->windows[i].incarnation == head->incarnation) return i;
    credit_window window = {.server = head->server, .incarnation = head->incarnation};
    for (uint32_t i = 0; i < before_count; i++)
        if (before[i].server == window.server && before[i].incarnation == window.incarnation)
            window.grant = before[i].grant;
    MR_ASSERT(rank->window_count < rank->touch_count);
    rank->windows[rank->window_count++] = window;
    return rank->window_count - 1;
}

/* The slot's head or epoch changed: all pushes wait to be sent again. */
static void wait_at(rank *rank, rank_lane *lane, uint32_t window) {
    lane->credit_window = window;
    for (size_t i = 0; i < lane->count; i++) {
        sent *sent = &lane->window[i];
        rank->untaken += sent->state == SENT_TAKEN && is_taken_from(rank, lane);
        sent->state = SENT_WAITING;
    }
}

/* The head and the epoch are unchanged: pushes in flight still count. */
static void stay_at(rank *rank, rank_lane *lane, uint32_t window) {
    lane->credit_window = window;
    for (size_t i = 0; i < lane->count; i++)
        if (lane->window[i].state == SENT_OUT) rank->windows[window].out += lane->window[i].size;
}

static void find_head(rank *rank, credit_window *before, uint32_t before_count, uint32_t slot) {
    rank_lane *lane = &rank->lanes[slot];
    uint64_t epoch = batcher_map(rank->batcher)->slots[slot].epoch;
    uint32_t window = credit_window_of(rank, before, before_count, slot);
    if (lane->epoch == epoch && window != RANK_NO_WINDOW)
        stay_at(rank, lane, window);
    else
        wait_at(rank, lane, window);
    lane->epoch = epoch;
}

void rank_ask_everything(rank *rank) {
    credit_window *before = rank->windows;
    uint32_t before_count = rank->window_count;
    for (uint32_t i = 0; i < rank->touch_count; i++) {
        rank_lane *lane = &rank->lanes[rank->touched[i]];
        if (lane->credit_window != RANK_NO_WINDOW)
            priority_queue_leave(&before[lane->credit_window].queue, &lane->push_entry);
    }
    rank->windows = xcalloc(rank->touch_count + 1, sizeof *rank->windows);
    rank->window_count = 0;
    for (uint32_t i = 0; i < rank->touch_count; i++) find_head(rank, before, before_count, rank->touched[i]);
    for (uint32_t i = 0; i < rank->touch_count; i++) line_up(rank, &rank->lanes[rank->touched[i]]);
    for (uint32_t i = 0; i < before_count; i++) priority_queue_fini(&before[i].queue);
    free(before);
    rank_ask_again(rank);
}
