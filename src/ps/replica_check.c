/* replica_check.c — replica_check: asserts the invariants of replica.h that one replica can see, by their numbers. */
#include "ps/replica_internal.h"

/* 1: a replica has its tables, a server without a replica has none; the log is sound; applied <= level <= logged. */
static void check_copy(const replica *replica) {
    bool has = replica->values != NULL, rounds = replica->consistency.kind == CONSISTENCY_BSP;
    MR_ASSERT(has == (replica->phase != REPLICA_OUT && replica->phase != REPLICA_LOADING));
    if (replica->rank_count != 0) {
        MR_ASSERT(has == (replica->names != NULL) && has == (replica->logged != NULL));
        MR_ASSERT(has == (replica->shown != NULL) && (replica->contributions != NULL) == (has && rounds));
    }
    replica_log_check(&replica->log);
    MR_ASSERT(replica->log.applied <= replica->level && replica->level <= replica_log_last(&replica->log));
    if (has) return;
    MR_ASSERT(replica->level == 0 && replica->log.count == 0 && replica->version == 0 && replica->since == 0);
    MR_ASSERT(replica->contribution_count == 0 && replica->cut.bytes == NULL && !replica->join.wanted);
}

/* 3: the chain is that of the epoch, and the phase follows from the place in the chain. */
static void check_place(const replica *replica) {
    MR_ASSERT(replica->chain.epoch == replica->epoch && replica->chain.count <= CLUSTER_MAP_COPIES_MAX);
    MR_ASSERT(replica->place >= -1 && replica->place < replica->chain.count);
    switch (replica->phase) {
    case REPLICA_OUT: break;
    case REPLICA_LOADING: MR_ASSERT(replica->place >= 0 && replica->origin != 0); break;
    case REPLICA_JOINING: MR_ASSERT(replica->place < 0); break;
    case REPLICA_MEMBER: MR_ASSERT(replica->place > 0); break;
    default: MR_ASSERT(replica_is_head(replica)); break;
    }
    if (replica->phase >= REPLICA_MEMBER) MR_ASSERT(replica->since == replica->chain.chain[replica->place].since);
}

/* 2, 4: a new head waits for all members, then has its whole log in its level, and serves once that is applied. */
static void check_head(const replica *replica) {
    bool leads = replica->phase == REPLICA_INHERITING || replica->phase == REPLICA_SERVING;
    if (leads) MR_ASSERT(replica->level == replica_log_last(&replica->log) && replica->base <= replica->level); /* 2 */
    if (leads) MR_ASSERT((replica->phase == REPLICA_SERVING) == (replica->log.applied >= replica->base));       /* 4 */
    if (replica->phase != REPLICA_ENTERING) return;
    MR_ASSERT(replica->chain.count > 1 && (replica->answered & 1) != 0); /* 4 */
    MR_ASSERT(replica->answered < (1u << replica->chain.count) - 1);     /* 4 */
}

/* 5: a joiner is filled, then begun, then ready, behind a gate; entries that it lacks are in the log. */
static void check_join(const replica *replica) {
    const replica_join *join = &replica->join;
    MR_ASSERT(!join->wanted || (replica_is_tail(replica) && replica->phase != REPLICA_ENTERING));
    MR_ASSERT((join->wanted || !join->filled) && (join->filled || !join->begun));
    MR_ASSERT((join->wanted || !join->gated) && ((join->gated && join->begun) || !join->ready));
    MR_ASSERT(!join->filled || join->successor.level >= replica->log.base);
}

/* 6: logged[rank] is the seq of the rank's last entry in the log, otherwise the last applied one. */
static void check_names(const replica *replica) {
    MR_ASSERT(replica->name_count >= replica->rank_count);
    for (uint32_t i = 0; i < replica->rank_count; i++) {
        uint64_t last = replica->names[i];
        for (uint64_t lsn = replica->log.applied + 1; lsn <= replica_log_last(&replica->log); lsn++) {
            const replica_log_entry *entry = replica_log_at(&replica->log, lsn);
            bool numbered =
                entry->kind == REPLICA_LOG_PUSH || (entry->kind >= REPLICA_LOG_JOIN && entry->kind <= REPLICA_LOG_DROP);
            if (numbered && entry->rank == i) last = entry->name;
        }
        MR_ASSERT(replica->logged[i] == last);
    }
}

static bool has_round(const replica_log *log) {
    for (uint64_t lsn = log->applied + 1; lsn <= replica_log_last(log); lsn++)
        if (replica_log_at(log, lsn)->kind == REPLICA_LOG_ROUND) return true;
    return false;
}

/* 7: contributions are counted, those in the sum hold no bytes; a round that closes is in the log; a set that the
 * round state decided is known; norms belong to a sum. */
static void check_round(const replica *replica) {
    const replica_norms *norms = &replica->norms;
    uint32_t count = 0, summed = 0;
    for (uint32_t i = 0; replica->contributions != NULL && i < replica->rank_count; i++) {
        const replica_contribution *contribution = &replica->contributions[i];
        MR_ASSERT(contribution->there || (!contribution->summed && contribution->bytes == NULL));
        MR_ASSERT(!contribution->summed || (contribution->bytes == NULL && contribution->payload.size == 0));
        count += contribution->there;
        summed += contribution->summed;
    }
    MR_ASSERT(count == replica->contribution_count && (summed == 0 || replica->adds));
    MR_ASSERT((count == 0 && !replica->adds) || replica->phase == REPLICA_SERVING);
    MR_ASSERT(replica->phase != REPLICA_SERVING || replica->closing == has_round(&replica->log));
    MR_ASSERT(replica->round.known || !replica->round.decided);
    MR_ASSERT((norms->phases == 0) == (norms->bytes == NULL) && norms->phases <= STATE_MACHINE_PHASES_MAX);
    MR_ASSERT(norms->part == NULL || norms->measured);
    MR_ASSERT(!norms->measured || norms->sum != NULL || replica->closing);
}

/* 7: at the round state, the slots that have frozen the rank that is being dropped are counted. */
static void check_inquiry(const replica *replica) {
    const replica_inquiry *inquiry = &replica->inquiry;
    uint32_t count = 0;
    MR_ASSERT(inquiry->frozen == NULL || replica_is_round_state(replica));
    for (uint32_t i = 0; inquiry->frozen != NULL && i < replica->round_slots; i++) count += inquiry->frozen[i];
    MR_ASSERT(count == inquiry->count);
    if (replica_is_round_state(replica) && replica->values != NULL) round_state_check(replica->values);
}

/* 8: at most one pull of each rank waits, by priority, and only where pulls may be answered. */
static void check_waiters(const replica *replica) {
    MR_ASSERT(replica->waiter_count <= replica->waiter_room);
    MR_ASSERT(replica->waiter_count == 0 || replica_may_show(replica));
    for (size_t i = 0; i < replica->waiter_count; i++) {
        const slot_message *waiter = &replica->waiters[i];
        MR_ASSERT(waiter->rank < replica->client_count && (waiter->bytes != NULL || waiter->payload.size == 0));
        MR_ASSERT(i == 0 || waiter[-1].priority >= waiter->priority);
        for (size_t k = 0; k < i; k++) MR_ASSERT(replica->waiters[k].rank != waiter->rank);
    }
}

void replica_check(const replica *replica) {
    check_copy(replica);
    if (replica->epoch == 0) return; /* no cluster map yet */
    check_place(replica);
    check_head(replica);
    check_join(replica);
    if (replica->values != NULL) check_names(replica);
    check_round(replica);
    check_inquiry(replica);
    check_waiters(replica);
    MR_ASSERT(replica->cut.checkpoint == 0 || replica->cut.bytes != NULL);             /* 9 */
    MR_ASSERT(replica->cut.bytes == NULL || replica->cut.lsn <= replica->log.applied); /* 9 */
}
