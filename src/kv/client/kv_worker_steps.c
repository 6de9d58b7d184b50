/* kv_worker_steps.c — begin of a worker's steps, and its rounds; see kv_worker.h, and kv_session.h for the
 * states.
 *
 * The rank's events (rank.h) change the session; kv_worker_go_on then takes the next action of the session.
 * Tested by sim/kv/kv_deployment_test.c and tests/ps_mixed_test.c. */
#include "base/assert.h"
#include "kv/client/kv_worker_internal.h"

/* Records a loss, which each process reports once per generation. */
static void note_loss(kv_worker *worker, const cluster_map *map) {
    if (map->lost && map->generation != worker->session.told) worker->session.lost = true;
}

void kv_worker_forget_step(kv_worker *worker) {
    worker->skips = false;
    worker->rate_count = 0;
    feedback_undo_clear(&worker->encoder.undo);
}

void kv_worker_interrupt(kv_worker *worker, const cluster_map *map, kv_session_state to) {
    if (to != KV_SESSION_REPLACED) note_loss(worker, map);
    kv_worker_forget_step(worker);
    kv_worker_fail_all(worker, MR_STALE);
    kv_session_interrupt(&worker->session, to);
}

/* Adds an empty contribution to the round of a step that was outside the rounds. */
static void add_nothing(kv_worker *worker) {
    for (uint32_t i = 0; i < worker->slot_count; i++) {
        slot_queue *queue = &worker->queues[i];
        if (!queue->holds) continue;
        slot_queue_close(queue, worker->session.round + 1);
        kv_worker_wakes(worker, queue);
    }
}

void kv_worker_skip_to(kv_worker *worker, uint64_t step) {
    kv_session *session = &worker->session;
    if (step <= session->step) return;
    /* tables without rounds have pushes of the step */
    bool used = kv_session_is_open(session) && kv_worker_stage(worker)->mixed;
    data_client_miss(worker->client, session->step + used, step);
    session->step = step;
    feedback_file_end(worker->encoder.file, step);
}

static void ask_round_state(kv_worker *worker) {
    kv_session_ask(&worker->session);
    rank_pull(worker->rank, cluster_map_round_state(kv_worker_stage(worker)), worker->session.round, (span){0}, NULL,
              RANK_PULL_ACKNOWLEDGED);
    worker->dirty = true;
}

/* The rank has left, and begins a step again: slots without rounds say where the others are. */
static void come_back(kv_worker *worker) {
    kv_session_interrupt(&worker->session, KV_SESSION_SYNCING);
    worker->returns = true;
    rank_sync(worker->rank);
}

/* A rank that has left only some slots, because its process died while it left or while it returned, has not left: it
 * continues where it was. In rounds the round is the step with which the rank continues. */
static void arrive(kv_worker *worker) {
    uint64_t front = 0;
    bool away = false, joins = cluster_map_has_rounds(kv_worker_stage(worker)) && worker->session.joins;
    for (uint32_t i = 0; i < worker->slot_count; i++) {
        if (worker->queues[i].holds) continue;
        away = seq_is_left(rank_clock(worker->rank, i));
        if (!away) break;
        if (rank_version(worker->rank, i) > front) front = rank_version(worker->rank, i);
    }
    worker->away = away && !worker->returns;
    if (away && worker->returns) kv_worker_skip_to(worker, kv_worker_fresh_step(worker));
    if (away && worker->returns && !joins) kv_worker_skip_to(worker, front);
    worker->returns = false;
}

void kv_worker_go_on(kv_worker *worker) {
    kv_session *session = &worker->session;
    if (!kv_session_is_ready(session) || session->order == KV_SESSION_ORDER_JOINING) return;
    if (worker->away && session->wanted && session->order != KV_SESSION_ORDER_LEFT) {
        if (kv_worker_under_way(worker) == 0 && session->query == KV_SESSION_QUERY_NONE) come_back(worker);
        return;
    }
    bool rounds = cluster_map_has_rounds(kv_worker_stage(worker)), joins = rounds && session->joins;
    bool held = !rounds && rank_agent_rests(worker->agent, session->step); /* by a checkpoint */
    if (session->wanted && !joins && !held) kv_session_open_step(session, KV_SESSION_OPEN);
    if (!rounds || session->query != KV_SESSION_QUERY_NONE) return;
    if (session->wanted) kv_worker_skip_to(worker, session->round);
    bool owes = session->round < session->step;
    bool rests = session->wanted ? kv_worker_under_way(worker) == 0 : owes && kv_worker_rounds_rest(worker);
    if (rests && (owes || session->wanted)) ask_round_state(worker);
}

/* ---- Events of the rank. */

void kv_worker_on_ready(void *context) {
    kv_worker *worker = context;
    const cluster_map *map = kv_worker_stage(worker);
    uint64_t lowest = UINT64_MAX, highest = 0, round = UINT64_MAX;
    kv_worker_open_queues(worker, map->slot_count);
    if (worker->reads) {
        kv_session_synced(&worker->session, 0, 0, 0);
        /* a loss before the reader connected is nothing to its program */
        if (!worker->session.lost) worker->session.told = map->generation;
        return;
    }
    for (uint32_t i = 0; i < map->slot_count; i++) {
        bool rounds = worker->queues[i].holds;
        uint64_t here = rounds ? rank_version(worker->rank, i) : seq_ended(rank_clock(worker->rank, i));
        if (here < lowest) lowest = here;
        if (here > highest) highest = here;
        if (rounds && here < round) round = here;
    }
    kv_session_synced(&worker->session, lowest, highest, round);
    /* in a deployment that is not mixed either all tables have rounds or none */
    if (!map->mixed) worker->session.joins = true;
    if (!map->reported) note_loss(worker, map);
    data_client_resume(worker->client, map, lowest, worker->session.begun_before);
    arrive(worker);
    kv_worker_recall(worker);
}

void kv_worker_on_over(void *context) {
    kv_worker *worker = context;
    kv_worker_interrupt(worker, kv_worker_stage(worker), KV_SESSION_SYNCING);
    control_client_restart(kv_process_control(worker->process));
}

/* The round of the wanted step does not include the rank: the rank joins. */
static void join(kv_worker *worker) {
    kv_session_set_order(&worker->session, KV_SESSION_ORDER_JOINING);
    rank_order(worker->rank, REPLICA_LOG_JOIN);
}

/* The rank has left: skips the rounds up to the one that was decided. */
static void pass_by(kv_worker *worker) {
    kv_session *session = &worker->session;
    session->wanted = false;
    if (session->round < session->order_round) session->round = session->order_round;
    kv_worker_skip_to(worker, session->round);
}

void kv_worker_on_round(void *context, const round_state_terms *terms) {
    kv_worker *worker = context;
    kv_session *session = &worker->session;
    kv_session_query query = session->query;
    if (query == KV_SESSION_QUERY_NONE || terms->round != session->round) return;
    bool member = rank_set_has(&terms->members, kv_worker_rank(worker));
    session->query = KV_SESSION_QUERY_NONE;
    if (query == KV_SESSION_QUERY_OWED) {
        if (member) add_nothing(worker);
        session->round++;
    } else if (member) {
        kv_session_open_step(session, KV_SESSION_ROUND);
    } else if (session->order == KV_SESSION_ORDER_LEFT) {
        pass_by(worker);
    } else {
        join(worker);
    }
}

/* A round ended without the rank; or the version that a reader asked for is gone. */
void kv_worker_on_gone(void *context, uint32_t slot, uint64_t version) {
    kv_worker *worker = context;
    if (worker->reads) {
        slot_queue *queue = &worker->queues[slot];
        reader_pull *pull = queue->asked == NULL ? NULL : queue->asked->pull;
        if (slot_queue_gone(queue, &worker->tickets, version)) kv_worker_wakes(worker, queue);
        if (pull != NULL) kv_worker_judge_pull(worker, pull);
        return;
    }
    kv_session *session = &worker->session;
    session->query = KV_SESSION_QUERY_NONE;
    session->jumped = true;
    if (version > session->round) session->round = version;
    if (!session->joins) return;
    kv_worker_forget_step(worker);
    kv_worker_fail_all(worker, MR_STALE);
    kv_worker_skip_to(worker, version);
    kv_session_close_step(session);
}

/* The result of an order. A refused join is repeated when a round turns out to be without the rank. */
void kv_worker_on_ordered(void *context, replica_log_kind kind, bool done, uint64_t round) {
    kv_session *session = &((kv_worker *)context)->session;
    if (session->order == KV_SESSION_ORDER_JOINING && kind == REPLICA_LOG_JOIN) {
        kv_session_set_order(session, KV_SESSION_ORDER_NONE);
        if (done && round > session->round) session->round = round;
    } else if (session->order == KV_SESSION_ORDER_LEAVING && kind == REPLICA_LOG_LEAVE) {
        kv_session_set_order(session, done ? KV_SESSION_ORDER_LEFT : KV_SESSION_ORDER_KEPT);
        session->order_round = round;
    }
}

/* ---- Invariants. */

void kv_worker_check(const kv_worker *worker) {
    const kv_session *session = &worker->session;
    kv_session_check(session);
    MR_ASSERT((worker->agent != NULL) == (session->state != KV_SESSION_REGISTERING)); /* 8 */
    MR_ASSERT((worker->rank != NULL) == (session->state >= KV_SESSION_SYNCING));      /* 9 */
    if (!kv_session_is_ready(session)) {
        MR_ASSERT(kv_worker_under_way(worker) == 0); /* 10 */
        return;
    }
    MR_ASSERT(worker->slot_count == kv_worker_stage(worker)->slot_count); /* 11 */
    for (uint32_t i = 0; i < worker->slot_count; i++) {
        const slot_queue *queue = &worker->queues[i];
        MR_ASSERT(queue->slot == i && queue->holds == cluster_map_in_rounds(kv_worker_stage(worker), i)); /* 11 */
        MR_ASSERT(list_empty(&queue->link) || worker->dirty);                                             /* 12 */
    }
}
