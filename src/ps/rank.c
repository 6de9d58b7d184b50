/* rank.c — see rank.h. */
#include "ps/rank.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"

typedef struct sent {
    uint64_t name, prev;
    bale *bale; /* shared */
} sent;

typedef struct lane { /* to one slot */
    bool known;       /* CLOCK has come */
    uint64_t clock, version;
    uint64_t last; /* name pushed last */
    uint64_t seen; /* lsn */
    uint64_t acknowledged;
    size_t count;
    sent window[RANK_WINDOW]; /* in order of names */
    uint64_t pulls;           /* 1 + the step that is asked for; 0: none */
    bool has, newer;          /* it was shown values, at `seen`; and asks for newer ones only */
} lane;

struct rank {
    rank_options options;
    char director[PART_ADDRESS_MAX];
    post *post;
    bool begun, ready;
    int64_t next_tick_us;
    uint32_t slot_count, known;
    lane *lanes;       /* by slot, owned */
    uint32_t *touched; /* the slots that it uses, owned */
    uint32_t touch_count;
};

/* ---- Asking. */

static void ask(rank *rank, uint32_t slot, part *part) {
    const chart *chart = post_chart(rank->post);
    const chart_slot *chain = &chart->slots[slot];
    const chart_server *head = chain->count == 0 ? NULL : chart_find(chart, chain->chain[0].server);
    if (head == NULL) return;
    part->slot = slot;
    part->rank = rank->options.rank;
    part->epoch = chain->epoch;
    post_add(rank->post, head->address, part);
}

static void ask_push(rank *rank, uint32_t slot, const sent *sent) {
    ask(rank, slot,
        &(part){.kind = PART_PUSH, .name = sent->name, .prev = sent->prev, .payload = bale_bytes(sent->bale)});
}

static void ask_pull(rank *rank, uint32_t slot) {
    const lane *lane = &rank->lanes[slot];
    ask(rank, slot,
        &(part){.kind = PART_PULL,
                .name = lane->pulls - 1,
                .prev = lane->acknowledged,
                .lsn = lane->seen,
                .commit = lane->newer ? lane->seen + 1 : 0});
}

static void ask_again(rank *rank, uint32_t slot) {
    const lane *lane = &rank->lanes[slot];
    if (!lane->known) ask(rank, slot, &(part){.kind = PART_HELLO});
    for (size_t i = 0; lane->known && i < lane->count; i++) ask_push(rank, slot, &lane->window[i]);
    if (lane->known && lane->pulls != 0) ask_pull(rank, slot);
}

static void ask_all_again(rank *rank) {
    for (uint32_t i = 0; i < rank->touch_count; i++) ask_again(rank, rank->touched[i]);
}

mr_status rank_push(rank *rank, uint32_t slot, uint64_t name, span payload) {
    MR_ASSERT(rank->ready && slot < rank->slot_count);
    lane *lane = &rank->lanes[slot];
    if (lane->count == RANK_WINDOW) return MR_BUSY;
    sent *sent = &lane->window[lane->count++];
    *sent = (struct sent){.name = name, .prev = lane->last, .bale = bale_copy(payload)};
    if (name > lane->last) lane->last = name;
    ask_push(rank, slot, sent);
    return MR_OK;
}

static void begin_pull(rank *rank, uint32_t slot, uint64_t step, bool newer) {
    MR_ASSERT(rank->ready && slot < rank->slot_count);
    lane *lane = &rank->lanes[slot];
    lane->pulls = step + 1;
    lane->newer = newer && lane->has;
    ask_pull(rank, slot);
}

void rank_pull(rank *rank, uint32_t slot, uint64_t step) { begin_pull(rank, slot, step, false); }
void rank_pull_newer(rank *rank, uint32_t slot, uint64_t step) { begin_pull(rank, slot, step, true); }

void rank_tell(rank *rank, const char *address, span bytes) {
    post_add(rank->post, address, &(part){.kind = PART_TOLD, .payload = bytes});
}

void rank_flush(rank *rank) { post_flush(rank->post); }

/* ---- Hearing. */

static void take_clock(rank *rank, lane *lane, const part *part) {
    if (part->status != PART_OK || lane->known) return;
    lane->known = true;
    lane->clock = lane->last = lane->acknowledged = part->name;
    lane->version = part->lsn;
    if (++rank->known < rank->touch_count) return;
    rank->ready = true;
    rank->options.on_ready(rank->options.context);
}

static void take_pushed(rank *rank, lane *lane, const part *part) {
    if (part->status != PART_OK) return; /* a chart or a tick sends it again */
    size_t at = 0;
    while (at < lane->count && lane->window[at].name != part->name) at++;
    if (at == lane->count) return;
    bale_unref(lane->window[at].bale);
    memmove(&lane->window[at], &lane->window[at + 1], (lane->count - at - 1) * sizeof *lane->window);
    lane->count--;
    if (part->name > lane->acknowledged) lane->acknowledged = part->name;
    if (part->name > lane->clock) lane->clock = part->name;
    rank->options.on_pushed(rank->options.context, part->slot, part->name);
}

static void take_pulled(rank *rank, lane *lane, const part *part) {
    bool same = part->status == PART_SAME && lane->newer && part->lsn == lane->seen;
    if ((part->status != PART_OK && !same) || lane->pulls == 0) return;
    if (part->prev != lane->pulls - 1) return; /* the answer to an earlier question */
    lane->pulls = 0;
    if (same) {
        rank->options.on_same(rank->options.context, part->slot, part->lsn);
        return;
    }
    lane->seen = part->lsn;
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

static void on_chart(void *context, const chart *chart) {
    rank *rank = context;
    if (rank->lanes == NULL) open_lanes(rank, chart->slot_count);
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
    post_host host = {.send = send_bytes, .on_chart = on_chart, .on_part = on_part, .context = rank};
    rank->post = post_create(&host, PART_RANK | options->rank, options->address);
    rank->next_tick_us = CLOCK_NEVER_US;
    return rank;
}

void rank_destroy(rank *rank) {
    for (uint32_t i = 0; i < rank->touch_count; i++) {
        lane *lane = &rank->lanes[rank->touched[i]];
        for (size_t k = 0; k < lane->count; k++) bale_unref(lane->window[k].bale);
    }
    free(rank->lanes);
    free(rank->touched);
    post_destroy(rank->post);
    free(rank);
}

void rank_begin(rank *rank, uint64_t incarnation, int64_t now_us) {
    rank->begun = true;
    post_set_incarnation(rank->post, incarnation);
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
