/* rank_check.c — rank_check: asserts the invariants of rank_internal.h, by their numbers. */
#include "base/assert.h"
#include "ps/rank_internal.h"

typedef struct sums { /* totals over all lanes */
    uint32_t known, pulls_out;
    size_t untaken;
} sums;

static bool waits(const rank_lane *lane) {
    return lane->count != 0 && lane->window[lane->count - 1].state == SENT_WAITING;
}

/* 2: pushes are in the order of their seqs, and the waiting ones are last. */
static void check_window(const rank *rank, const rank_lane *lane, sums *sums) {
    uint32_t slot = rank_slot(rank, lane);
    bool taken = rank_in_rounds(rank, slot) && !rank_is_round_state(rank, slot);
    MR_ASSERT(lane->count <= RANK_WINDOW && (lane->count == 0 || lane->known));
    for (size_t i = 0; i < lane->count; i++) {
        const sent *sent = &lane->window[i];
        MR_ASSERT(sent->name != 0 && sent->name <= lane->last);
        MR_ASSERT(i == 0 || sent[-1].name < sent->name);
        MR_ASSERT(i == 0 || sent[-1].state != SENT_WAITING || sent->state == SENT_WAITING);
        sums->untaken += taken && sent->state != SENT_TAKEN;
    }
}

/* 3, 4: a waiting request is in exactly one queue; a lane without a pull has no query. */
static void check_lines(const rank *rank, const rank_lane *lane, sums *sums) {
    uint32_t slot = rank_slot(rank, lane);
    bool lined = timer_heap_holds(&lane->push_entry.preferred), has_window = lane->credit_window != RANK_NO_WINDOW;
    MR_ASSERT(!has_window || lane->credit_window < rank->window_count);                         /* 3 */
    MR_ASSERT(!lined || (has_window && waits(lane)));                                           /* 3 */
    MR_ASSERT(lined || !has_window || !waits(lane) || rank_is_round_state(rank, slot));         /* 3 */
    MR_ASSERT(lined == timer_heap_holds(&lane->push_entry.patient));                            /* 3 */
    MR_ASSERT(timer_heap_holds(&lane->pull_entry.preferred) == (lane->pull == PULL_WAITING));   /* 4 */
    MR_ASSERT(lane->pull != PULL_NONE || (lane->query_bytes == NULL && lane->query.size == 0)); /* 4 */
    MR_ASSERT(lane->pull == PULL_NONE || lane->known);                                          /* 4 */
    sums->pulls_out += lane->pull == PULL_OUT && !rank_is_round_state(rank, slot);
}

/* 5: `out` is the size of the pushes in flight to the server. */
static void check_windows(const rank *rank) {
    for (uint32_t i = 0; i < rank->window_count; i++) {
        uint64_t out = 0;
        for (uint32_t k = 0; k < rank->touch_count; k++) {
            const rank_lane *lane = &rank->lanes[rank->touched[k]];
            for (size_t at = 0; lane->credit_window == i && at < lane->count; at++)
                if (lane->window[at].state == SENT_OUT) out += lane->window[at].size;
        }
        MR_ASSERT(out == rank->windows[i].out);
        priority_queue_check(&rank->windows[i].queue);
    }
}

void rank_check(const rank *rank) {
    sums sums = {0};
    if (rank->lanes == NULL) return; /* no cluster map yet */
    MR_ASSERT(rank->slot_count == rank_map(rank)->slot_count && rank->generation == rank_map(rank)->generation); /* 1 */
    for (uint32_t i = 0; i < rank->slot_count; i++) sums.known += rank->lanes[i].known;
    for (uint32_t i = 0; i < rank->touch_count; i++) {
        const rank_lane *lane = &rank->lanes[rank->touched[i]];
        MR_ASSERT(lane->known || !rank->ready); /* 1 */
        check_window(rank, lane, &sums);
        check_lines(rank, lane, &sums);
    }
    MR_ASSERT(sums.known == rank->known && rank->begun);                                    /* 1 */
    MR_ASSERT(sums.untaken == rank->untaken);                                               /* 2 */
    MR_ASSERT(sums.pulls_out == rank->pulls_out && rank->free_passed <= rank->touch_count); /* 4 */
    priority_queue_check(&rank->pulls);
    check_windows(rank);
}
