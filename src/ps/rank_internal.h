/* rank_internal.h — internals of a rank, shared by rank*.c; see rank.h.
 *
 *   a push:   WAITING ── credit ──► OUT ── acknowledged ──► gone          RESEND, another epoch: WAITING again
 *                                    └── TAKEN ── acknowledged ──► gone   (of a round: holds no credit any more)
 *
 *   a pull:   WAITING ── one of pulls_max ──► OUT ── answered ──► gone
 *
 * Order of waiting requests: first a slot that was passed over too often (RANK_PATIENCE), then by priority, then by age
 * (priority_queue.h). A slot is queued at its credit window while the last of its pushes waits. Pushes to the round
 * state may have to wait for other slots: under a policy of backup workers for the slots with rounds, and in a mixed
 * deployment for the slots without.
 *
 * Invariants (rank_check)
 *   1  Lanes are those of the newest cluster map; `known` counts the slots that have sent CLOCK, and a rank that is
 *      ready has CLOCK of all slots that it uses.
 *   2  The pushes of a slot are in the order of their seqs, and the waiting ones are last; `untaken` counts the pushes
 *      in slots with rounds, the round state excepted, that no head has taken.
 *   3  A slot is queued at its credit window if its last push waits, and nowhere else; only a waiting push to the round
 *      state may be in no queue.
 *   4  A waiting pull is queued; `pulls_out` counts the pulls in flight, that of the round state excepted; a slot
 *      without a pull holds no query.
 *   5  `out` of a credit window is the size of all pushes in flight to its server. */
#pragma once
#include "ps/priority_queue.h"
#include "ps/rank.h"

typedef enum sent_state { SENT_WAITING, SENT_OUT, SENT_TAKEN } sent_state;

typedef struct sent {
    uint64_t name, prev;
    span payload;
    shared_bytes *bytes;     /* buffer of `payload`, shared */
    shared_bytes_piece tail; /* continuation of the payload, shared */
    size_t size;             /* size of payload and tail: the credit that the push needs */
    shared_bytes *terms;     /* terms of the push's round, shared; NULL: none */
    sent_state state;
} sent;

typedef enum pull_state { PULL_NONE, PULL_WAITING, PULL_OUT } pull_state;

typedef struct rank_lane { /* pushes and the pull of one slot */
    bool known;            /* CLOCK has arrived */
    uint64_t clock, version;
    uint64_t last; /* last pushed seq */
    uint64_t seen; /* lsn of the last answer */
    uint64_t acknowledged;
    size_t count;
    sent window[RANK_WINDOW]; /* in order of seqs; waiting pushes are last */
    uint32_t credit_window;   /* index of the head's window; RANK_NO_WINDOW: no head */
    uint64_t epoch;           /* chain_epoch for which credit_window was found */
    bool again;               /* a RESEND has arrived since the last tick */
    bool refused;             /* the server had no memory for a push */
    uint8_t priority;
    priority_entry push_entry, pull_entry;
    pull_state pull;
    span query;                /* query of the current pull */
    shared_bytes *query_bytes; /* buffer of `query`, shared */
    uint64_t step;             /* step or version of the pull */
    uint64_t behind;           /* own push that the answer must include; 0: acknowledged pushes suffice */
    bool fresh;                /* the pull asks for the newest values */
    uint64_t request;          /* number of the pull */
    uint32_t tries;            /* replicas of the slot that were passed over */
} rank_lane;

enum { RANK_NO_WINDOW = UINT32_MAX };

typedef struct credit_window { /* flow control of the pushes to one server */
    uint32_t server;
    uint64_t incarnation;
    uint64_t grant;       /* bytes that may be in flight; 0: unknown, so one push */
    uint64_t out;         /* bytes in flight */
    priority_queue queue; /* slots with a waiting push */
} credit_window;

struct rank {
    rank_options options;
    batcher *batcher;
    bool begun, ready;
    int64_t next_tick_us;
    uint64_t generation;
    uint32_t slot_count, known;
    rank_lane *lanes;  /* by slot, owned */
    uint32_t *touched; /* slots that the rank uses, owned */
    uint32_t touch_count;
    credit_window *windows; /* one for each head of those slots, owned */
    uint32_t window_count;
    size_t untaken; /* pushes in slots with rounds, the round state excepted, that no head has taken */
    /* leading entries of `touched` that are known not to block the round state's contribution */
    uint32_t free_passed;
    uint32_t pulls_out;
    priority_queue pulls; /* waiting pulls */
    uint64_t term, requests, ages;
    round_state_terms terms;   /* terms of the round in the round state's last answer */
    shared_bytes *terms_bytes; /* encoded `terms`; NULL: none yet */
    replica_log_kind order;
    uint64_t order_number, orders; /* number of the pending order, 0: none; count of orders */
};

static inline uint32_t rank_slot(const rank *rank, const rank_lane *lane) { return (uint32_t)(lane - rank->lanes); }
static inline bool rank_in_rounds(const rank *rank, uint32_t slot) {
    return cluster_map_in_rounds(batcher_map(rank->batcher), slot);
}
static inline bool rank_is_round_state(const rank *rank, uint32_t slot) {
    return slot == cluster_map_round_state(batcher_map(rank->batcher));
}

/* rank_send.c */
/* sends all requests again after a change of the cluster map */
void rank_ask_everything(rank *rank);
void rank_ask_again(rank *rank); /* repeats requests that may be lost */
void rank_ask_order(rank *rank);
void rank_send_waiting(rank *rank, uint32_t window); /* sends waiting pushes while the credit lasts */
void rank_send_last(rank *rank, rank_lane *lane);    /* sends the newest push of the lane now, or queues it */
void rank_wait_again(rank *rank, rank_lane *lane, uint64_t last); /* pushes after this seq did not arrive */
void rank_set_state(rank *rank, rank_lane *lane, sent *sent, sent_state state);
void rank_end_state(rank *rank, rank_lane *lane, const sent *gone); /* after the push was removed from the window */
void rank_start_pulls(rank *rank);                                  /* starts waiting pulls up to pulls_max */
void rank_start_pull(rank *rank, rank_lane *lane);                  /* starts a new pull, or queues it */
void rank_set_pull(rank *rank, rank_lane *lane, pull_state state);
void rank_tick_round_state(rank *rank); /* sends the contribution to the round state if no other slot blocks it */

/* rank_check.c */
void rank_check(const rank *rank); /* asserts the invariants above (base/invariants.h) */
