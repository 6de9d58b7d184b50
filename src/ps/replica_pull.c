/* replica_pull.c — see replica.h: pulls are answered, or wait here until they may be.
 *
 * Whoever asks for what is not there yet waits at the copy that it asked, and is answered by the entry that makes it
 * true: in the order of priorities, and among equals first come, first served. All that may be answered are answered
 * at once, so nobody is starved. A rank has one question at a time, and asks it again now and then; what waits here may
 * be forgotten whenever that is convenient, and is, when the copy enters another epoch.
 *
 * What is asked for lies in the batch that brought it, which is held meanwhile; a small question is copied, so that it
 * does not hold a large batch.
 *
 * A large answer takes its time, and whoever waits for it asks again meanwhile. To answer each of these questions would
 * keep the server from ever being done; so a question whose answer is under way, for all that is known, is not heard: a
 * microsecond for each SHOWN_BYTES_PER_US, twice as long each time that it has to be answered again.
 *
 * Bounds      one question for each rank. It is on nobody's credit: it may wait for what its own rank pushes next, and
 *             that must not wait for it. */
#include <string.h>

#include "base/alloc.h"
#include "base/mutation.h"
#include "ps/replica_core.h"

enum { SHOWN_LARGE = 256 * 1024, SHOWN_BYTES_PER_US = 4, SHOWN_TIMES_MAX = 5 };

static void note_shown(replica *replica, uint32_t rank, uint64_t request, size_t size) {
    replica_shown *shown = &replica->shown[rank];
    if (size < SHOWN_LARGE) return;
    shown->times = shown->request == request && shown->times < SHOWN_TIMES_MAX ? shown->times + 1 : 0;
    shown->request = request;
    shown->until_us = replica->now_us + ((int64_t)(size / SHOWN_BYTES_PER_US) << shown->times);
}

static bool is_under_way(const replica *replica, const part *part) {
    const replica_shown *shown = &replica->shown[part->rank];
    return shown->request == part->commit && replica->now_us < shown->until_us;
}

/* `answer` says for what, and as of when. */
static void show(replica *replica, uint32_t rank, span query, bool kept, part *answer) {
    MR_ASSERT(replica->values != NULL && rank < replica->rank_count);
    bale *bale = replica->ops->show(replica->values, query, kept && !MUTATED("no-kept"));
    answer->payload = bale_bytes(bale);
    answer->bale = bale;
    replica_reply(replica, rank, PART_PULLED, PART_OK, answer);
    note_shown(replica, rank, answer->commit, answer->payload.size);
    bale_unref(bale);
}

void replica_show(replica *replica, uint32_t rank, uint64_t request, span query) {
    part answer = {.lsn = replica->tape.applied, .commit = request, .name = replica->version};
    show(replica, rank, query, false, &answer);
}

static consistency_state state_of(const replica *replica) {
    return (consistency_state){.names = replica->names,
                               .rank_count = replica->rank_count,
                               .lsn = replica->tape.applied,
                               .version = replica->version};
}

static consistency_verdict judge(const replica *replica, consistency_state *state, const part *part) {
    consistency_pull pull = {.rank = part->rank, .step = part->name, .name = part->prev, .lsn = part->lsn};
    bool rounds = replica->consistency.kind == CONSISTENCY_BSP;
    if (MUTATED("no-bound") && !rounds) pull.step = 0;
    if (MUTATED("no-known")) pull.name = pull.lsn = 0;
    consistency_verdict verdict = consistency_judge(rounds, state, &pull);
    if (MUTATED("any-version") && verdict == CONSISTENCY_KEPT) verdict = CONSISTENCY_NOW;
    if (verdict == CONSISTENCY_KEPT && replica->version == replica->origin) verdict = CONSISTENCY_NEVER; /* is over */
    return verdict;
}

bool replica_may_show(const replica *replica) {
    return replica->phase == REPLICA_SERVING ||
           (replica->phase == REPLICA_MEMBER && replica->tape.applied >= replica->inherited);
}

/* ---- Answers. */

static void ask_chain(replica *replica, const part *part, bale *bale) {
    tape_entry entry = {TAPE_FRESH, part->rank, part->commit, part->payload, bale, CREDIT_NONE, 0};
    if (!tape_holds(&replica->tape, TAPE_FRESH, part->rank, part->commit)) replica_append(replica, &entry);
}

static void answer_now(replica *replica, const part *part, bale *bale) {
    bool rounds = replica->consistency.kind == CONSISTENCY_BSP; /* versions are exact: fresh is what is named */
    if ((part->entry & PART_PULL_FRESH) != 0 && !rounds && !MUTATED("fresh-local"))
        ask_chain(replica, part, bale);
    else
        replica_show(replica, part->rank, part->commit, part->payload);
}

static void answer(replica *replica, consistency_verdict verdict, const part *part, bale *bale) {
    if (verdict == CONSISTENCY_NEVER)
        replica_reply(replica, part->rank, PART_PULLED, PART_GONE,
                      &(struct part){.commit = part->commit, .name = replica->version});
    else if (verdict == CONSISTENCY_KEPT)
        show(replica, part->rank, part->payload, true,
             &(struct part){.lsn = replica->changed - 1, .commit = part->commit, .name = replica->version - 1});
    else
        answer_now(replica, part, bale);
}

/* ---- Those who wait. */

/* It does not wait any more; its bale is moved to the caller. */
static part take_out(replica *replica, size_t at) {
    MR_ASSERT(at < replica->waiter_count);
    part pull = replica->waiters[at];
    replica->waiter_count--;
    memmove(&replica->waiters[at], &replica->waiters[at + 1], (replica->waiter_count - at) * sizeof *replica->waiters);
    return pull;
}

static void forget_rank(replica *replica, uint32_t rank) {
    size_t at = 0;
    while (at < replica->waiter_count && replica->waiters[at].rank != rank) at++;
    if (at < replica->waiter_count) bale_unref(take_out(replica, at).bale);
}

/* Behind those of the same priority. */
static void keep(replica *replica, const part *part, bale *bale) {
    span query = part->payload;
    xgrow(&replica->waiters, &replica->waiter_room, replica->waiter_count + 1, sizeof *replica->waiters);
    size_t at = replica->waiter_count++;
    for (; at > 0 && replica->waiters[at - 1].priority < part->priority; at--)
        replica->waiters[at] = replica->waiters[at - 1];
    struct part *waiter = &replica->waiters[at];
    *waiter = *part;
    waiter->terms = (span){0};
    waiter->bale = query.size == 0 ? NULL : query.size < PART_POINTED ? bale_copy(query) : bale_ref(bale);
    if (query.size != 0 && query.size < PART_POINTED) waiter->payload = bale_bytes(waiter->bale);
}

void replica_forget_waiters(replica *replica) {
    if (replica->shown != NULL) memset(replica->shown, 0, replica->rank_count * sizeof *replica->shown);
    while (replica->waiter_count != 0) bale_unref(replica->waiters[--replica->waiter_count].bale);
}

/* An answer may be an entry that commits at once, and lets others be answered. */
void replica_answer_waiters(replica *replica) {
    while (replica->moved && replica->waiter_count != 0 && replica_may_show(replica)) {
        replica->moved = false;
        consistency_state state = state_of(replica);
        for (size_t i = 0; i < replica->waiter_count && !replica->moved;) {
            consistency_verdict verdict = judge(replica, &state, &replica->waiters[i]);
            if (verdict == CONSISTENCY_WAIT) {
                i++;
                continue;
            }
            part pull = take_out(replica, i);
            if (MUTATED("any-query") && replica->waiter_count != 0) pull.payload = replica->waiters[0].payload;
            answer(replica, verdict, &pull, pull.bale);
            bale_unref(pull.bale);
        }
    }
    replica->moved = false;
}

void replica_take_pull(replica *replica, const part *part, bale *bale) {
    MR_ASSERT(part->kind == PART_PULL && part->rank < replica->rank_count && replica->values != NULL);
    if (is_under_way(replica, part)) return;
    consistency_state state = state_of(replica);
    consistency_verdict verdict = judge(replica, &state, part);
    forget_rank(replica, part->rank); /* it asks again, or for something else */
    if (verdict == CONSISTENCY_WAIT)
        keep(replica, part, bale);
    else
        answer(replica, verdict, part, bale);
}
