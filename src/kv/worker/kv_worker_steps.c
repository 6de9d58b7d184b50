/* kv_worker_steps.c — when a worker's steps begin, and how its rounds go on; see customer.h, and kv_session.h for the
 * states.
 *
 * The rank's events (rank.h) change the session; customer_go_on then does the next thing that the session calls for.
 * Tested by sim/kv/school_test.c and tests/ps_mixed_test.c. */
#include "base/assert.h"
#include "kv/worker/customer_core.h"

/* A loss is reported once per generation. */
static void note_loss(customer *customer, const chart *chart) {
    if (chart->lost && chart->generation != customer->session.told) customer->session.lost = true;
}

void customer_interrupt(customer *customer, const chart *chart, kv_session_state to) {
    if (to != KV_SESSION_REPLACED) note_loss(customer, chart);
    customer_fail_all(customer, MR_STALE);
    kv_session_interrupt(&customer->session, to);
}

/* A round of a step that was outside the rounds gets an empty contribution. */
static void add_nothing(customer *customer) {
    for (uint32_t i = 0; i < customer->slot_count; i++) {
        chute *chute = &customer->chutes[i];
        if (!chute->holds) continue;
        chute_close(chute, customer->session.round + 1);
        customer_wakes(customer, chute);
    }
}

void customer_skip_to(customer *customer, uint64_t step) {
    kv_session *session = &customer->session;
    if (step <= session->step) return;
    bool used = kv_session_is_open(session) && customer_stage(customer)->mixed; /* tables without rounds have it */
    feed_miss(customer->feed, session->step + used, step);
    session->step = step;
    memoir_end(customer->coder.memoir, step);
}

static void ask_ledger(customer *customer) {
    kv_session_ask(&customer->session);
    rank_pull(customer->rank, chart_ledger(customer_stage(customer)), customer->session.round, (span){0}, NULL);
    customer->dirty = true;
}

void customer_go_on(customer *customer) {
    kv_session *session = &customer->session;
    if (!kv_session_is_ready(session) || session->order == KV_SESSION_ORDER_JOINING) return;
    bool rounds = chart_has_rounds(customer_stage(customer)), joins = rounds && session->joins;
    bool held = !rounds && player_rests(customer->player, session->step); /* for a checkpoint */
    if (session->wanted && !joins && !held) kv_session_open_step(session, KV_SESSION_OPEN);
    if (!rounds || session->query != KV_SESSION_QUERY_NONE) return;
    if (session->wanted) customer_skip_to(customer, session->round);
    bool owes = session->round < session->step;
    bool rests = session->wanted ? customer_under_way(customer) == 0 : owes && customer_rounds_rest(customer);
    if (rests && (owes || session->wanted)) ask_ledger(customer);
}

/* ---- Events of the rank. */

void customer_on_ready(void *context) {
    customer *customer = context;
    const chart *chart = customer_stage(customer);
    uint64_t lowest = UINT64_MAX, highest = 0, round = UINT64_MAX;
    customer_open_chutes(customer, chart->slot_count);
    for (uint32_t i = 0; i < chart->slot_count; i++) {
        bool rounds = customer->chutes[i].holds;
        uint64_t here = rounds ? rank_version(customer->rank, i) : name_ended(rank_clock(customer->rank, i));
        if (here < lowest) lowest = here;
        if (here > highest) highest = here;
        if (rounds && here < round) round = here;
    }
    kv_session_synced(&customer->session, lowest, highest, round);
    if (!chart->mixed) customer->session.joins = true; /* every table has rounds, or none has */
    if (chart->players[customer_rank(customer)].since == chart->first_stint) note_loss(customer, chart);
    feed_resume(customer->feed, chart, lowest, customer->session.begun_before);
    customer_recall(customer);
}

void customer_on_over(void *context) {
    customer *customer = context;
    customer_interrupt(customer, customer_stage(customer), KV_SESSION_SYNCING);
    office_restart(postoffice_office(customer->postoffice));
}

/* The round of the wanted step is without the rank. */
static void join(customer *customer) {
    kv_session_set_order(&customer->session, KV_SESSION_ORDER_JOINING);
    rank_order(customer->rank, TAPE_JOIN);
}

/* The rank has left: the rounds up to that one are without it. */
static void pass_by(customer *customer) {
    kv_session *session = &customer->session;
    session->wanted = false;
    if (session->round < session->order_round) session->round = session->order_round;
    customer_skip_to(customer, session->round);
}

void customer_on_round(void *context, const ledger_terms *terms) {
    customer *customer = context;
    kv_session *session = &customer->session;
    kv_session_query query = session->query;
    if (query == KV_SESSION_QUERY_NONE || terms->round != session->round) return;
    bool member = crowd_has(&terms->members, customer_rank(customer));
    session->query = KV_SESSION_QUERY_NONE;
    if (query == KV_SESSION_QUERY_OWED) {
        if (member) add_nothing(customer);
        session->round++;
    } else if (member) {
        kv_session_open_step(session, KV_SESSION_ROUND);
    } else if (session->order == KV_SESSION_ORDER_LEFT) {
        pass_by(customer);
    } else {
        join(customer);
    }
}

/* A round went on without the rank. */
void customer_on_gone(void *context, uint32_t slot, uint64_t version) {
    customer *customer = context;
    kv_session *session = &customer->session;
    session->query = KV_SESSION_QUERY_NONE;
    session->jumped = true;
    if (version > session->round) session->round = version;
    if (!session->joins) return;
    customer_fail_all(customer, MR_STALE);
    customer_skip_to(customer, version);
    kv_session_close_step(session);
}

/* An order that was refused is given again when a round turns out to be without the rank. */
void customer_on_ordered(void *context, tape_kind kind, bool done, uint64_t round) {
    kv_session *session = &((customer *)context)->session;
    if (session->order == KV_SESSION_ORDER_JOINING && kind == TAPE_JOIN) {
        kv_session_set_order(session, KV_SESSION_ORDER_NONE);
        if (done && round > session->round) session->round = round;
    } else if (session->order == KV_SESSION_ORDER_LEAVING && kind == TAPE_LEAVE) {
        kv_session_set_order(session, done ? KV_SESSION_ORDER_LEFT : KV_SESSION_ORDER_KEPT);
        session->order_round = round;
    }
}

/* ---- Invariants. */

void customer_check(const customer *customer) {
    const kv_session *session = &customer->session;
    kv_session_check(session);
    MR_ASSERT((customer->player != NULL) == (session->state != KV_SESSION_REGISTERING)); /* 8 */
    MR_ASSERT((customer->rank != NULL) == (session->state >= KV_SESSION_SYNCING));       /* 9 */
    if (!kv_session_is_ready(session)) {
        MR_ASSERT(customer_under_way(customer) == 0); /* 10 */
        return;
    }
    MR_ASSERT(customer->slot_count == customer_stage(customer)->slot_count); /* 11 */
    for (uint32_t i = 0; i < customer->slot_count; i++) {
        const chute *chute = &customer->chutes[i];
        MR_ASSERT(chute->slot == i && chute->holds == chart_in_rounds(customer_stage(customer), i)); /* 11 */
        MR_ASSERT(list_empty(&chute->link) || customer->dirty);                                      /* 12 */
    }
}
