/* rank_internal.h — internals of a rank, shared by rank*.c; see rank.h.
 *
 *   a push:   WAITING ── credit ──► OUT ── acknowledged ──► gone          RESEND, another epoch: WAITING again
 *                                    └── TAKEN ── acknowledged ──► gone   (of a round: it holds no credit any more)
 *
 *   a pull:   WAITING ── one of pulls_max ──► OUT ── answered ──► gone
 *
 * Order of those that wait: first a slot that was passed over too often (RANK_PATIENCE), then by priority, then by age
 * (priority_queue.h). A slot is queued at its credit window while the last of its pushes waits. Pushes to the round
 * state may have to wait for the others first: under a policy of backup workers for those with rounds, and in a mixed
 * deployment for those that have none.
 *
 * Invariants (rank_check)
 *   1  Lanes are those of the newest cluster map; `known` counts the slots that have sent CLOCK, and a rank that is
 *      ready has heard all that it uses.
 *   2  The pushes of a slot are in the order of their seqs, and those that wait are the last ones; `untaken` counts the
 *      pushes in slots with rounds, but the round state's, that no head has taken.
 *   3  A slot is queued at its credit window if its last push waits, and nowhere else; only the round state's may wait
 *      apart.
 *   4  A pull that waits is queued; `pulls_out` counts those that are under way, but the round state's; a slot without
 *      a pull holds no query.
 *   5  `out` of a credit window is the size of all pushes that are under way to its server. */
#pragma once
#include "ps/priority_queue.h"
#include "ps/rank.h"

typedef enum sent_state { SENT_WAITING, SENT_OUT, SENT_TAKEN } sent_state;

typedef struct sent {
    uint64_t name, prev;
    span payload;
    shared_bytes *bytes;     /* shared: where that lies */
    shared_bytes_piece tail; /* where it goes on, shared */
    size_t size;             /* of both: its credit */
    shared_bytes *terms;     /* of its round, shared; NULL: none */
    sent_state state;
} sent;

typedef enum pull_state { PULL_NONE, PULL_WAITING, PULL_OUT } pull_state;

typedef struct rank_lane { /* to one slot */
    bool known;            /* CLOCK has come */
    uint64_t clock, version;
    uint64_t last; /* seq pushed last */
    uint64_t seen; /* lsn */
    uint64_t acknowledged;
    size_t count;
    sent window[RANK_WINDOW]; /* in order of seqs; those that wait are the last ones */
    uint32_t credit_window;   /* of its head; RANK_NO_WINDOW: no head */
    uint64_t epoch;           /* in which that is */
    bool again;               /* RESEND was heard since the last tick */
    bool refused;             /* its server had no memory for a push */
    uint8_t priority;
    priority_entry push_entry, pull_entry;
    pull_state pull;
    span query;                /* of the pull, while there is one */
    shared_bytes *query_bytes; /* shared: where that lies */
    uint64_t step;             /* that it pulls for */
    uint64_t behind;           /* the own push that the answer must include; 0: acknowledged pushes suffice */
    bool fresh;                /* it asks for the very last values */
    uint64_t request;          /* number of the pull */
    uint32_t tries;            /* copies of it that were passed over */
} rank_lane;

enum { RANK_NO_WINDOW = UINT32_MAX };

typedef struct credit_window { /* a server, as far as pushes go */
    uint32_t server;
    uint64_t incarnation;
    uint64_t grant;       /* bytes that may be under way; 0: not known yet, so one push */
    uint64_t out;         /* that are */
    priority_queue queue; /* slots that wait */
} credit_window;

struct rank {
    rank_options options;
    batcher *batcher;
    bool begun, ready;
    int64_t next_tick_us;
    uint64_t generation;
    uint32_t slot_count, known;
    rank_lane *lanes;  /* by slot, owned */
    uint32_t *touched; /* the slots that it uses, owned */
    uint32_t touch_count;
    credit_window *windows; /* owned: one for each head of those slots */
    uint32_t window_count;
    size_t untaken; /* pushes in slots with rounds, the round state's excepted, that no head has taken */
    /* of the slots that it uses, the first ones that do not hold up the round state's contribution */
    uint32_t free_passed;
    uint32_t pulls_out;
    priority_queue pulls; /* that wait */
    uint64_t term, requests, ages;
    round_state_terms terms;   /* that were shown last */
    shared_bytes *terms_bytes; /* as they are sent; NULL: none yet */
    replica_log_kind order;
    uint64_t order_number, orders; /* 0: nothing is ordered; how many there were */
};

static inline uint32_t rank_slot(const rank *rank, const rank_lane *lane) { return (uint32_t)(lane - rank->lanes); }
static inline bool rank_in_rounds(const rank *rank, uint32_t slot) {
    return cluster_map_in_rounds(batcher_map(rank->batcher), slot);
}
static inline bool rank_is_round_state(const rank *rank, uint32_t slot) {
    return slot == cluster_map_round_state(batcher_map(rank->batcher));
}

/* rank_send.c */
/* the cluster map has changed: requests under way went to other servers */
void rank_ask_everything(rank *rank);
void rank_ask_again(rank *rank); /* repeats requests that may be lost */
void rank_ask_order(rank *rank);
void rank_send_waiting(rank *rank, uint32_t window); /* as far as its credit goes */
void rank_send_last(rank *rank, rank_lane *lane);    /* of its window, which is new: now, or when its turn comes */
void rank_wait_again(rank *rank, rank_lane *lane, uint64_t last); /* pushes behind this seq did not arrive */
void rank_set_state(rank *rank, rank_lane *lane, sent *sent, sent_state state);
void rank_end_state(rank *rank, rank_lane *lane, const sent *gone); /* it is in the window no more */
void rank_start_pulls(rank *rank);                                  /* as many as there may be */
void rank_start_pull(rank *rank, rank_lane *lane);                  /* that is new: now, or when its turn comes */
void rank_set_pull(rank *rank, rank_lane *lane, pull_state state);
void rank_tick_round_state(rank *rank); /* its contribution goes when all others are taken */

/* rank_check.c */
void rank_check(const rank *rank); /* asserts the invariants above (base/invariants.h) */
