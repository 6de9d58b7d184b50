/* replica_check.c — replica_check: asserts what one copy can see of the invariants of replica.h, by their numbers. */
#include "ps/replica_core.h"

/* 1: a copy has its tables, a server without a copy has nothing; the log is sound; applied <= level <= logged. */
static void check_copy(const replica *replica) {
    bool has = replica->values != NULL, rounds = replica->consistency.kind == CONSISTENCY_BSP;
    MR_ASSERT(has == (replica->phase != REPLICA_OUT && replica->phase != REPLICA_LOADING));
    if (replica->rank_count != 0) {
        MR_ASSERT(has == (replica->names != NULL) && has == (replica->logged != NULL));
        MR_ASSERT(has == (replica->shown != NULL) && (replica->gifts != NULL) == (has && rounds));
    }
    tape_check(&replica->tape);
    MR_ASSERT(replica->tape.applied <= replica->level && replica->level <= tape_last(&replica->tape));
    if (has) return;
    MR_ASSERT(replica->level == 0 && replica->tape.count == 0 && replica->version == 0 && replica->since == 0);
    MR_ASSERT(replica->gift_count == 0 && replica->cut.bale == NULL && !replica->join.wanted);
}

/* 3: the chain is that of the epoch, and the phase follows from the place in it. */
static void check_place(const replica *replica) {
    MR_ASSERT(replica->chain.epoch == replica->epoch && replica->chain.count <= CHART_COPIES_MAX);
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

/* 2, 4: a new head waits for the others, then has all it logged in its level, and serves when that is applied. */
static void check_head(const replica *replica) {
    bool leads = replica->phase == REPLICA_INHERITING || replica->phase == REPLICA_SERVING;
    if (leads) MR_ASSERT(replica->level == tape_last(&replica->tape) && replica->base <= replica->level);  /* 2 */
    if (leads) MR_ASSERT((replica->phase == REPLICA_SERVING) == (replica->tape.applied >= replica->base)); /* 4 */
    if (replica->phase != REPLICA_ENTERING) return;
    MR_ASSERT(replica->chain.count > 1 && (replica->answered & 1) != 0); /* 4 */
    MR_ASSERT(replica->answered < (1u << replica->chain.count) - 1);     /* 4 */
}

/* 5: a joiner is filled, then begins, then is gated, then ready; what it lacks is in the log. */
static void check_join(const replica *replica) {
    const replica_join *join = &replica->join;
    MR_ASSERT(!join->wanted || (replica_is_tail(replica) && replica->phase != REPLICA_ENTERING));
    MR_ASSERT((join->wanted || !join->filled) && (join->filled || !join->begun));
    MR_ASSERT((join->begun || !join->gated) && (join->gated || !join->ready));
    MR_ASSERT(!join->filled || join->successor.level >= replica->tape.base);
}

/* 6: logged[rank] is the name of the rank's last entry in the log, or the one that was applied last. */
static void check_names(const replica *replica) {
    MR_ASSERT(replica->name_count >= replica->rank_count);
    for (uint32_t i = 0; i < replica->rank_count; i++) {
        uint64_t last = replica->names[i];
        for (uint64_t lsn = replica->tape.applied + 1; lsn <= tape_last(&replica->tape); lsn++) {
            const tape_entry *entry = tape_at(&replica->tape, lsn);
            bool numbered = entry->kind == TAPE_PUSH || (entry->kind >= TAPE_JOIN && entry->kind <= TAPE_DROP);
            if (numbered && entry->rank == i) last = entry->name;
        }
        MR_ASSERT(replica->logged[i] == last);
    }
}

static bool has_round(const tape *tape) {
    for (uint64_t lsn = tape->applied + 1; lsn <= tape_last(tape); lsn++)
        if (tape_at(tape, lsn)->kind == TAPE_ROUND) return true;
    return false;
}

/* 7: contributions are counted, those in the sum hold no bytes; a round that closes is in the log; a set that the
 * ledger decided is known; norms belong to a sum. */
static void check_round(const replica *replica) {
    const replica_norms *norms = &replica->norms;
    uint32_t count = 0, summed = 0;
    for (uint32_t i = 0; replica->gifts != NULL && i < replica->rank_count; i++) {
        const replica_gift *gift = &replica->gifts[i];
        MR_ASSERT(gift->there || (!gift->summed && gift->bale == NULL));
        MR_ASSERT(!gift->summed || (gift->bale == NULL && gift->payload.size == 0));
        count += gift->there;
        summed += gift->summed;
    }
    MR_ASSERT(count == replica->gift_count && (summed == 0 || replica->adds));
    MR_ASSERT((count == 0 && !replica->adds) || replica->phase == REPLICA_SERVING);
    MR_ASSERT(replica->phase != REPLICA_SERVING || replica->closing == has_round(&replica->tape));
    MR_ASSERT(replica->round.known || !replica->round.decided);
    MR_ASSERT((norms->phases == 0) == (norms->bale == NULL) && norms->phases <= VALUES_PHASES_MAX);
    MR_ASSERT(norms->part == NULL || norms->measured);
    MR_ASSERT(!norms->measured || norms->sum != NULL || replica->closing);
}

/* 7: of a ledger: the slots that have frozen the rank that is given up are counted. */
static void check_inquiry(const replica *replica) {
    const replica_inquiry *inquiry = &replica->inquiry;
    uint32_t count = 0;
    MR_ASSERT(inquiry->frozen == NULL || replica_is_ledger(replica));
    for (uint32_t i = 0; inquiry->frozen != NULL && i < replica->round_slots; i++) count += inquiry->frozen[i];
    MR_ASSERT(count == inquiry->count);
    if (replica_is_ledger(replica) && replica->values != NULL) ledger_check(replica->values);
}

/* 8: one pull of each rank waits, the highest priority first, where pulls are answered. */
static void check_waiters(const replica *replica) {
    MR_ASSERT(replica->waiter_count <= replica->waiter_room);
    MR_ASSERT(replica->waiter_count == 0 || replica_may_show(replica));
    for (size_t i = 0; i < replica->waiter_count; i++) {
        const part *waiter = &replica->waiters[i];
        MR_ASSERT(waiter->rank < replica->rank_count && (waiter->bale != NULL || waiter->payload.size == 0));
        MR_ASSERT(i == 0 || waiter[-1].priority >= waiter->priority);
        for (size_t k = 0; k < i; k++) MR_ASSERT(replica->waiters[k].rank != waiter->rank);
    }
}

void replica_check(const replica *replica) {
    check_copy(replica);
    if (replica->epoch == 0) return; /* no cluster map has come yet */
    check_place(replica);
    check_head(replica);
    check_join(replica);
    if (replica->values != NULL) check_names(replica);
    check_round(replica);
    check_inquiry(replica);
    check_waiters(replica);
    MR_ASSERT(replica->cut.checkpoint == 0 || replica->cut.bale != NULL);              /* 9 */
    MR_ASSERT(replica->cut.bale == NULL || replica->cut.lsn <= replica->tape.applied); /* 9 */
}
