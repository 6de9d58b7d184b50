/* kv_session.c — see kv_session.h. */
#include "kv/client/kv_session.h"

#include "base/assert.h"

#define STATE(name) (1u << KV_SESSION_##name)
#define ORDER(name) (1u << KV_SESSION_ORDER_##name)
enum { INTERRUPTS = STATE(SYNCING) | STATE(WAITING) | STATE(REPLACED) };

void kv_session_move(kv_session *session, kv_session_state to) {
    static const unsigned arrows[KV_SESSION_STATES] = {
        [KV_SESSION_REGISTERING] = STATE(WAITING),
        [KV_SESSION_WAITING] = STATE(SYNCING),
        [KV_SESSION_REPLACED] = STATE(SYNCING),
        [KV_SESSION_SYNCING] = STATE(IDLE) | INTERRUPTS,
        [KV_SESSION_IDLE] = STATE(OPEN) | STATE(ROUND) | INTERRUPTS,
        [KV_SESSION_OPEN] = STATE(IDLE) | INTERRUPTS,
        [KV_SESSION_ROUND] = STATE(IDLE) | INTERRUPTS,
    };
    MR_ASSERT(session->state < KV_SESSION_STATES && to < KV_SESSION_STATES);
    MR_ASSERT((arrows[session->state] >> to & 1) != 0);
    session->state = to;
}

void kv_session_set_order(kv_session *session, kv_session_order to) {
    static const unsigned arrows[KV_SESSION_ORDERS] = {
        [KV_SESSION_ORDER_NONE] = ORDER(LEAVING) | ORDER(JOINING),
        [KV_SESSION_ORDER_LEAVING] = ORDER(LEFT) | ORDER(KEPT) | ORDER(JOINING) | ORDER(LOST),
        [KV_SESSION_ORDER_LEFT] = ORDER(NONE) | ORDER(LEAVING),
        [KV_SESSION_ORDER_KEPT] = ORDER(NONE) | ORDER(LEAVING) | ORDER(JOINING),
        [KV_SESSION_ORDER_JOINING] = ORDER(NONE) | ORDER(LEAVING),
        [KV_SESSION_ORDER_LOST] = ORDER(NONE) | ORDER(LEAVING) | ORDER(JOINING),
    };
    MR_ASSERT(session->order < KV_SESSION_ORDERS && to < KV_SESSION_ORDERS);
    MR_ASSERT((arrows[session->order] >> to & 1) != 0);
    session->order = to;
}

void kv_session_interrupt(kv_session *session, kv_session_state to) {
    kv_session_order order = session->order;
    kv_session_move(session, to);
    session->query = KV_SESSION_QUERY_NONE;
    if (order == KV_SESSION_ORDER_LEAVING)
        kv_session_set_order(session, KV_SESSION_ORDER_LOST);
    else if (order != KV_SESSION_ORDER_NONE)
        kv_session_set_order(session, KV_SESSION_ORDER_NONE);
}

void kv_session_synced(kv_session *session, uint64_t step, uint64_t highest, uint64_t round) {
    MR_ASSERT(step <= highest);
    kv_session_move(session, KV_SESSION_IDLE);
    session->step = session->first = step;
    session->begun_before = highest + 2; /* a process in rounds may have been ordered to begin the next step already */
    session->round = round;
    session->jumped = false;
}

void kv_session_ask(kv_session *session) {
    MR_ASSERT(session->query == KV_SESSION_QUERY_NONE);
    session->query = session->round < session->step ? KV_SESSION_QUERY_OWED : KV_SESSION_QUERY_NEXT;
}

void kv_session_open_step(kv_session *session, kv_session_state to) {
    MR_ASSERT(to == KV_SESSION_OPEN || to == KV_SESSION_ROUND);
    kv_session_move(session, to);
    session->wanted = false;
    session->query = KV_SESSION_QUERY_NONE;
}

void kv_session_end_step(kv_session *session) {
    bool round = session->state == KV_SESSION_ROUND;
    kv_session_move(session, KV_SESSION_IDLE);
    session->step++;
    if (!round) return;
    session->round = session->step;
    session->jumped = false;
}

void kv_session_close_step(kv_session *session) {
    if (kv_session_is_open(session)) kv_session_move(session, KV_SESSION_IDLE);
}

void kv_session_check(const kv_session *s) {
    bool open = kv_session_is_open(s), joining = s->order == KV_SESSION_ORDER_JOINING;
    bool asks = s->query != KV_SESSION_QUERY_NONE;
    MR_ASSERT(!s->wanted || !open);                                                                              /* 1 */
    MR_ASSERT(!asks || s->state == KV_SESSION_IDLE || s->state == KV_SESSION_OPEN);                              /* 2 */
    MR_ASSERT(s->query != KV_SESSION_QUERY_OWED || s->round < s->step);                                          /* 3 */
    MR_ASSERT(s->query != KV_SESSION_QUERY_NEXT || (s->round == s->step && s->state == KV_SESSION_IDLE));        /* 3 */
    MR_ASSERT(s->state != KV_SESSION_ROUND || (s->joins && s->round == s->step));                                /* 4 */
    MR_ASSERT(!joining || (!asks && !open));                                                                     /* 5 */
    MR_ASSERT(s->order == KV_SESSION_ORDER_NONE || s->order == KV_SESSION_ORDER_LOST || kv_session_is_ready(s)); /* 6 */
    MR_ASSERT(s->first <= s->step);                                                                              /* 7 */
}
