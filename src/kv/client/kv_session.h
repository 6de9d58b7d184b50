/* kv_session.h — state of a worker's session: its term of the rank, its steps, and its part in the rounds.
 *
 * State. kv_session_move makes every change, and asserts that the diagram has it:
 *
 *   REGISTERING ── the process has an incarnation ──► WAITING
 *
 *   WAITING, REPLACED ── the cluster map gives it the rank ──► SYNCING ── every slot has answered ──► IDLE
 *
 *   IDLE ── a step begins outside the rounds ──► OPEN  ──┐ the step ends, or its round is over without the rank
 *    ▲ └─── a step begins that is a round ─────► ROUND ──┤
 *    └────────────────────────────────────────────────────┘
 *
 *   SYNCING, IDLE, OPEN, ROUND ── another generation begins ──────────────────────► SYNCING
 *                              ── the term ends ──────────────────────────────────► WAITING
 *                              ── the term ends: another process has the rank ────► REPLACED
 *
 * Query. The members of one round, asked of the slot that has the state of the rounds (kv_session_ask):
 *
 *   NONE ── the rank owes a round to which it adds nothing ──► OWED ── answered ──► NONE, and the next round
 *   NONE ── a step is wanted, and it is a round ─────────────► NEXT ── answered ──► NONE: ROUND, or an order to join
 *   OWED, NEXT ── the round is over; a step begins outside the rounds; SYNCING, WAITING or REPLACED ──► NONE
 *
 * Order. Joining and leaving the rounds; kv_session_set_order makes every change, and asserts that it is one of these:
 *
 *   NONE, KEPT, LOST, LEAVING ── the answer to NEXT is without the rank ──► JOINING ── decided ──► NONE
 *   every one but LEAVING ── the program leaves ──► LEAVING ── decided ──► LEFT, or KEPT: it is the last rank
 *   LEFT ── a step begins behind the last round ──► NONE
 *   SYNCING, WAITING or REPLACED: LEAVING becomes LOST, every other one NONE
 *
 * In SYNCING the worker asks every slot for the rank's last step.
 *
 * Invariants (kv_session_check)
 *   1. A step is wanted only while none is open.
 *   2. A query is under way only in IDLE and OPEN.
 *   3. OWED asks about a round before the step; NEXT asks in IDLE about the round of the step.
 *   4. In ROUND the rank takes part in rounds, and the round is that of the step.
 *   5. While the rank joins, no query is under way and no step is open.
 *   6. An order other than NONE and LOST belongs to a term whose slots have answered.
 *   7. The step is never before the first one of the term.
 *
 * The booleans are independent of the state; the comment of each says when it is valid.
 *
 * Pure data: no clock, no I/O. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

typedef enum kv_session_state {
    KV_SESSION_REGISTERING,
    KV_SESSION_WAITING,
    KV_SESSION_REPLACED,
    KV_SESSION_SYNCING,
    KV_SESSION_IDLE,
    KV_SESSION_OPEN,
    KV_SESSION_ROUND,
    KV_SESSION_STATES
} kv_session_state;

typedef enum kv_session_query { KV_SESSION_QUERY_NONE, KV_SESSION_QUERY_OWED, KV_SESSION_QUERY_NEXT } kv_session_query;

typedef enum kv_session_order {
    KV_SESSION_ORDER_NONE,
    KV_SESSION_ORDER_LEAVING,
    KV_SESSION_ORDER_LEFT,
    KV_SESSION_ORDER_KEPT,
    KV_SESSION_ORDER_JOINING,
    KV_SESSION_ORDER_LOST,
    KV_SESSION_ORDERS
} kv_session_order;

typedef struct kv_session { /* zero-initialized: REGISTERING, without query and order */
    kv_session_state state;
    kv_session_query query;
    kv_session_order order;
    bool wanted;           /* the program has asked for a step; stays set across terms and generations */
    bool begun;            /* the program has begun a step, so it uses steps; never cleared */
    bool joins;            /* the program has a BSP table: from the next step on its steps are rounds; never cleared */
    bool jumped;           /* the last round ended without the rank: some slots may be one round behind; in any state */
    bool lost;             /* acknowledged pushes are lost, and this was not reported to the program; in any state */
    uint64_t told;         /* generation begun by a loss that was last reported to the program; 0: none */
    uint64_t first;        /* first step of the term in this generation */
    uint64_t begun_before; /* slots may have pushes of an earlier process of the rank to steps before this one */
    uint64_t step;  /* counted from 0: the open step, else the next one; the version that a pull in rounds shows */
    uint64_t round; /* next round in which the rank takes part; a round before the step is owed */
    uint64_t order_round; /* LEFT: the rounds from this one on are without the rank */
} kv_session;

static inline bool kv_session_is_ready(const kv_session *session) { return session->state >= KV_SESSION_IDLE; }
static inline bool kv_session_is_open(const kv_session *session) { return session->state >= KV_SESSION_OPEN; }

void kv_session_move(kv_session *session, kv_session_state to);
void kv_session_set_order(kv_session *session, kv_session_order to);

/* Enters SYNCING, WAITING or REPLACED; the known state of steps and rounds becomes void. */
void kv_session_interrupt(kv_session *session, kv_session_state to);
/* Every slot has reported the rank's progress: enters IDLE. `highest` is the last step that any slot has. */
void kv_session_synced(kv_session *session, uint64_t step, uint64_t highest, uint64_t round);
void kv_session_ask(kv_session *session);                            /* starts the query that step and round require */
void kv_session_open_step(kv_session *session, kv_session_state to); /* OPEN or ROUND */
void kv_session_end_step(kv_session *session);                       /* ends the open step and moves to the next */
void kv_session_close_step(kv_session *session); /* leaves the open step unfinished; no-op if none is open */

void kv_session_check(const kv_session *session); /* asserts every invariant */
