/* rank.c — see rank.h. */
#include "ps/rank.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"

typedef struct sent {
    uint64_t name, prev;
    bale *bale;  /* shared */
    bale *terms; /* of its round, shared; NULL: none */
    bool taken;  /* the head has said so */
} sent;

typedef struct lane { /* to one slot */
    bool known;       /* CLOCK has come */
    uint64_t clock, version;
    uint64_t last; /* name pushed last */
    uint64_t seen; /* lsn */
    uint64_t acknowledged;
    size_t count;
    sent window[RANK_WINDOW]; /* in order of names */
    uint8_t priority;
    uint64_t pulls;         /* 1 + the step that is asked for; 0: none */
    uint64_t carrier;       /* the push that this pull goes with, while it is under way; 0: none */
    bool has, newer, fresh; /* it was shown values, at `seen`; asks for newer ones only; for the very last */
    uint64_t request;       /* number of the pull */
    uint32_t tries;         /* how often it was asked */
} lane;

struct rank {
    rank_options options;
    char director[PART_ADDRESS_MAX];
    post *post;
    bool begun, ready;
    int64_t next_tick_us;
    uint64_t generation;
    uint32_t slot_count, known;
    lane *lanes;       /* by slot, owned */
    uint32_t *touched; /* the slots that it uses, owned */
    uint32_t touch_count;
    uint64_t stint, requests;
    ledger_terms terms; /* that were shown last */
    bale *terms_bale;   /* as they are sent; NULL: none yet */
    tape_kind order;
    uint64_t order_number, orders; /* 0: nothing is ordered; how many there were */
};

/* ---- Asking. */

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

static bool is_ledger(const rank *rank, uint32_t slot) { return slot == chart_ledger(post_chart(rank->post)); }

static bool all_taken(const rank *rank) {
    for (uint32_t i = 0; i + 1 < rank->slot_count; i++)
        for (size_t k = 0; k < rank->lanes[i].count; k++)
            if (!rank->lanes[i].window[k].taken) return false;
    return true;
}

static void ask_push(rank *rank, uint32_t slot, const sent *sent) {
    const lane *lane = &rank->lanes[slot];
    part part = {.kind = PART_PUSH,
                 .name = sent->name,
                 .prev = sent->prev,
                 .terms = sent->terms == NULL ? (span){0} : bale_bytes(sent->terms),
                 .payload = bale_bytes(sent->bale)};
    if (is_ledger(rank, slot) && rank->terms.waits && !all_taken(rank)) return;
    if (lane->carrier == sent->name) {
        part.entry = PART_PUSH_PULL | (lane->newer ? PART_PULL_NEWER : 0);
        part.lsn = lane->seen;
        part.commit = lane->request;
    }
    ask(rank, slot, &part);
}

static void ask_order(rank *rank) {
    uint32_t ledger = chart_ledger(post_chart(rank->post));
    if (rank->order_number != 0 && ledger != NO_LEDGER)
        ask(rank, ledger, &(part){.kind = PART_ORDER, .entry = (uint8_t)rank->order, .name = rank->order_number});
}

/* A copy that does not answer is passed over the next time. */
static void ask_pull(rank *rank, uint32_t slot) {
    lane *lane = &rank->lanes[slot];
    uint32_t place = rank->options.spreads && !lane->fresh ? rank->options.rank + slot + lane->tries++ : 0;
    ask_copy(rank, slot, place,
             &(part){.kind = PART_PULL,
                     .entry = (uint8_t)((lane->newer ? PART_PULL_NEWER : 0) | (lane->fresh ? PART_PULL_FRESH : 0)),
                     .name = lane->pulls - 1,
                     .prev = lane->acknowledged,
                     .lsn = lane->seen,
                     .commit = lane->request});
}

static void ask_again(rank *rank, uint32_t slot) {
    const lane *lane = &rank->lanes[slot];
    if (!lane->known) ask(rank, slot, &(part){.kind = PART_HELLO, .commit = rank->stint});
    for (size_t i = 0; lane->known && i < lane->count; i++) ask_push(rank, slot, &lane->window[i]);
    if (lane->known && lane->pulls != 0 && lane->carrier == 0) ask_pull(rank, slot);
}

static void ask_all_again(rank *rank) {
    for (uint32_t i = 0; i < rank->touch_count; i++) ask_again(rank, rank->touched[i]);
    ask_order(rank);
}

/* NULL: the window is full. */
static sent *add_sent(rank *rank, uint32_t slot, uint64_t name, span payload) {
    MR_ASSERT(rank->ready && slot < rank->slot_count && name != 0);
    lane *lane = &rank->lanes[slot];
    if (lane->count == RANK_WINDOW) return NULL;
    sent *sent = &lane->window[lane->count++];
    *sent = (struct sent){.name = name, .prev = lane->last, .bale = bale_copy(payload)};
    if (rank->terms_bale != NULL && rank->terms.round + 1 == name) sent->terms = bale_ref(rank->terms_bale);
    if (name > lane->last) lane->last = name;
    return sent;
}

mr_status rank_push(rank *rank, uint32_t slot, uint64_t name, span payload) {
    const sent *sent = add_sent(rank, slot, name, payload);
    if (sent == NULL) return MR_BUSY;
    ask_push(rank, slot, sent);
    return MR_OK;
}

static void begin_pull(rank *rank, uint32_t slot, uint64_t step, bool newer, bool fresh, uint64_t carrier) {
    MR_ASSERT(rank->ready && slot < rank->slot_count);
    lane *lane = &rank->lanes[slot];
    lane->pulls = step + 1;
    lane->newer = newer && lane->has;
    lane->fresh = fresh;
    lane->carrier = carrier;
    lane->request = (rank->stint << 24) + ++rank->requests;
}

static mr_status push_pull(rank *rank, uint32_t slot, uint64_t name, span payload, bool newer) {
    const sent *sent = add_sent(rank, slot, name, payload);
    if (sent == NULL) return MR_BUSY;
    bool rounds = post_chart(rank->post)->consistency.kind == CONSISTENCY_BSP;
    begin_pull(rank, slot, rounds ? name : name_ended(name), newer, false, name);
    ask_push(rank, slot, sent);
    return MR_OK;
}

mr_status rank_push_pull(rank *rank, uint32_t slot, uint64_t name, span payload) {
    return push_pull(rank, slot, name, payload, false);
}
mr_status rank_push_pull_newer(rank *rank, uint32_t slot, uint64_t name, span payload) {
    return push_pull(rank, slot, name, payload, true);
}

void rank_pull(rank *rank, uint32_t slot, uint64_t step) {
    begin_pull(rank, slot, step, false, false, 0);
    ask_pull(rank, slot);
}
void rank_pull_newer(rank *rank, uint32_t slot, uint64_t step) {
    begin_pull(rank, slot, step, true, false, 0);
    ask_pull(rank, slot);
}
void rank_pull_fresh(rank *rank, uint32_t slot, uint64_t step) {
    begin_pull(rank, slot, step, false, true, 0);
    ask_pull(rank, slot);
}

void rank_prefer(rank *rank, uint32_t slot, uint8_t priority) {
    MR_ASSERT(rank->ready && slot < rank->slot_count);
    rank->lanes[slot].priority = priority;
}

/* Orders of a stint are above all those of the stints before it. */
void rank_order(rank *rank, tape_kind kind) {
    rank->order = kind;
    rank->order_number = rank->stint << 16 | ++rank->orders;
    ask_order(rank);
}

void rank_tell(rank *rank, const char *address, span bytes) {
    post_add(rank->post, address, &(part){.kind = PART_TOLD, .payload = bytes});
}

void rank_flush(rank *rank) { post_flush(rank->post); }

/* ---- Hearing. */

static void take_clock(rank *rank, lane *lane, const part *part) {
    if (part->status != PART_OK || lane->known || part->commit != rank->stint) return;
    lane->known = true;
    lane->clock = lane->last = lane->acknowledged = part->name;
    lane->version = part->lsn;
    if (++rank->known < rank->touch_count) return;
    rank->ready = true;
    rank->options.on_ready(rank->options.context);
}

static void drop_sent(lane *lane, size_t at) {
    bale_unref(lane->window[at].bale);
    bale_unref(lane->window[at].terms);
    memmove(&lane->window[at], &lane->window[at + 1], (lane->count - at - 1) * sizeof *lane->window);
    lane->count--;
}

static void tick_ledger(rank *rank) {
    uint32_t ledger = chart_ledger(post_chart(rank->post));
    if (ledger != NO_LEDGER && rank->terms.waits && all_taken(rank)) ask_again(rank, ledger);
}

static void take_pushed(rank *rank, lane *lane, const part *part) {
    bool over = part->status == PART_OK || part->status == PART_MISSED || part->status == PART_GONE;
    if (!over && part->status != PART_TAKEN) return; /* a chart or a tick sends it again */
    size_t at = 0;
    while (at < lane->count && lane->window[at].name != part->name) at++;
    if (at == lane->count) return;
    if (!over) {
        bool first = !lane->window[at].taken;
        lane->window[at].taken = true;
        if (first) tick_ledger(rank);
        return;
    }
    drop_sent(lane, at);
    if (part->name == lane->carrier) lane->carrier = 0; /* should its answer be lost, a pull is asked again */
    if (part->name > lane->acknowledged) lane->acknowledged = part->name;
    if (part->name > lane->clock) lane->clock = part->name;
    rank->options.on_pushed(rank->options.context, part->slot, part->name, part->status);
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
    bool same = part->status == PART_SAME && lane->newer && part->lsn >= lane->seen;
    bool gone = part->status == PART_GONE;
    if ((part->status != PART_OK && !same && !gone) || lane->pulls == 0) return;
    if (part->commit != lane->request) return; /* the answer to an earlier question */
    lane->pulls = lane->carrier = 0;
    if (gone) {
        rank->options.on_gone(rank->options.context, part->slot, part->name);
        return;
    }
    if (is_ledger(rank, part->slot)) {
        take_round(rank, part);
        return;
    }
    lane->seen = part->lsn;
    if (same) {
        rank->options.on_same(rank->options.context, part->slot, part->lsn);
        return;
    }
    lane->has = true;
    rank->options.on_pulled(rank->options.context, part->slot, part->name, part->lsn, part->payload);
}

static void on_part(void *context, const part_head *from, const part *part, bale *bale) {
    rank *rank = context;
    if (part->kind == PART_TOLD && rank->options.on_told != NULL && from->number <= post_chart(rank->post)->number)
        rank->options.on_told(rank->options.context, part->payload);
    if (part->slot >= rank->slot_count || part->rank != rank->options.rank) return;
    lane *lane = &rank->lanes[part->slot];
    if (part->kind == PART_CLOCK) take_clock(rank, lane, part);
    if (part->kind == PART_PUSHED) take_pushed(rank, lane, part);
    if (part->kind == PART_PULLED) take_pulled(rank, lane, part);
    if (part->kind == PART_ORDERED) take_ordered(rank, part);
}

static void open_lanes(rank *rank, uint32_t slot_count) {
    const rank_options *options = &rank->options;
    rank->slot_count = slot_count;
    rank->lanes = xcalloc(slot_count + 1, sizeof *rank->lanes);
    rank->touch_count = options->touches == NULL ? slot_count : options->touch_count;
    rank->touched = xcalloc(rank->touch_count + 1, sizeof *rank->touched);
    for (uint32_t i = 0; i < rank->touch_count; i++) {
        rank->touched[i] = options->touches == NULL ? i : options->touches[i];
        MR_ASSERT(rank->touched[i] < slot_count);
    }
}

static void close_lanes(rank *rank) {
    for (uint32_t i = 0; i < rank->touch_count; i++) {
        lane *lane = &rank->lanes[rank->touched[i]];
        while (lane->count != 0) drop_sent(lane, 0);
    }
    bale_unref(rank->terms_bale);
    free(rank->lanes);
    free(rank->touched);
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
    ask_all_again(rank);
}

static void send_bytes(void *context, const char *address, span bytes) {
    rank *rank = context;
    rank->options.send(rank->options.context, address, bytes);
}

/* ---- Life. */

rank *rank_create(const rank_options *options) {
    rank *rank = xcalloc(1, sizeof *rank);
    rank->options = *options;
    strncpy(rank->director, options->director, sizeof rank->director - 1);
    post_host host = {.send = send_bytes,
                      .on_chart = on_chart,
                      .on_part = on_part,
                      .context = rank,
                      .atlas = options->atlas,
                      .any_generation = options->any_generation};
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
    rank->begun = true;
    rank->stint = stint;
    post_set_incarnation(rank->post, stint);
    rank->next_tick_us = now_us;
}

void rank_take(rank *rank, span bytes) {
    if (rank->begun) post_take(rank->post, bytes);
}

int64_t rank_next_us(const rank *rank) { return rank->next_tick_us; }

/* The director is asked now and then: whoever it knows of may be gone. */
void rank_tick(rank *rank, int64_t now_us) {
    rank->next_tick_us = now_us + RANK_TICK_US;
    post_add(rank->post, rank->director, NULL);
    ask_all_again(rank);
    post_flush(rank->post);
}

bool rank_is_ready(const rank *rank) { return rank->ready; }
const chart *rank_chart(const rank *rank) { return post_chart(rank->post); }
uint64_t rank_clock(const rank *rank, uint32_t slot) { return rank->lanes[slot].clock; }
uint64_t rank_version(const rank *rank, uint32_t slot) { return rank->lanes[slot].version; }

size_t rank_unacknowledged(const rank *rank) {
    size_t count = 0;
    for (uint32_t i = 0; i < rank->touch_count; i++) count += rank->lanes[rank->touched[i]].count;
    return count;
}
