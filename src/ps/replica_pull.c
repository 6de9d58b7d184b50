/* replica_pull.c — see replica.h: pulls are answered, or wait here until they may be.
 *
 * A pull of a state that does not exist yet waits at the replica, and is answered after the entry that makes that
 * state: in the order of priorities, and among equals first come, first served. All pulls that may be answered are
 * answered at once, so none starves. A rank has one pull at a time, and repeats it periodically; so waiting pulls may
 * be dropped at any time, and are, when the replica enters another epoch.
 *
 * The query is in the packet that brought it, which is held meanwhile; a small query is copied, so that it does not
 * hold a large packet.
 *
 * A large answer is in flight for long, and its rank repeats the pull meanwhile. Answers to all repetitions would
 * overload the server; so a pull whose answer is presumably in flight is ignored: for a microsecond for each
 * SHOWN_BYTES_PER_US, twice as long each time that it has to be answered again.
 *
 * Bounds      one pull for each rank and reader. It is on no credit: a pull may wait for the next push of its own rank,
 *             and that push must not wait for the pull. */
#include <string.h>

#include "base/alloc.h"
#include "base/mutation.h"
#include "ps/replica_internal.h"

enum { SHOWN_LARGE = 256 * 1024, SHOWN_BYTES_PER_US = 4, SHOWN_TIMES_MAX = 5 };

static void note_shown(replica *replica, uint32_t rank, uint64_t request, size_t size) {
    replica_shown *shown = &replica->shown[rank];
    if (size < SHOWN_LARGE) return;
    shown->times = shown->request == request && shown->times < SHOWN_TIMES_MAX ? shown->times + 1 : 0;
    shown->request = request;
    shown->until_us = replica->now_us + ((int64_t)(size / SHOWN_BYTES_PER_US) << shown->times);
}

static bool is_under_way(const replica *replica, const slot_message *message) {
    const replica_shown *shown = &replica->shown[message->rank];
    return shown->request == message->commit && replica->now_us < shown->until_us;
}

/* Completes `answer`, which has the request, lsn and version, and sends it. `kept`: from the version before. */
static void show(replica *replica, uint32_t rank, span query, bool kept, slot_message *answer) {
    MR_ASSERT(replica->values != NULL && rank < replica->client_count);
    shared_bytes *bytes = replica->ops->show(replica->values, query, kept && !MUTATED("no-kept"));
    answer->payload = shared_bytes_bytes(bytes);
    answer->bytes = bytes;
    replica_reply(replica, rank, SLOT_MESSAGE_PULLED, SLOT_MESSAGE_OK, answer);
    note_shown(replica, rank, answer->commit, answer->payload.size);
    shared_bytes_unref(bytes);
}

void replica_show(replica *replica, uint32_t rank, uint64_t request, span query) {
    slot_message answer = {.lsn = replica->log.applied, .commit = request, .name = replica->version};
    show(replica, rank, query, false, &answer);
}

static consistency_state state_of(const replica *replica) {
    return (consistency_state){.names = replica->names,
                               .rank_count = replica->rank_count,
                               .lsn = replica->log.applied,
                               .version = replica->version};
}

static consistency_verdict judge(const replica *replica, consistency_state *state, const slot_message *message) {
    consistency_pull pull = {.rank = message->rank, .step = message->name, .name = message->prev, .lsn = message->lsn};
    bool rounds = replica->consistency.kind == CONSISTENCY_BSP;
    if (MUTATED("no-bound") && !rounds) pull.step = 0;
    if (MUTATED("no-known")) pull.name = pull.lsn = 0;
    consistency_verdict verdict = consistency_judge(rounds, state, &pull);
    if (MUTATED("any-version") && verdict == CONSISTENCY_KEPT) verdict = CONSISTENCY_NOW;
    /* a version before the checkpoint was not restored */
    if (verdict == CONSISTENCY_KEPT && replica->turned == 0) verdict = CONSISTENCY_NEVER;
    return verdict;
}

bool replica_may_show(const replica *replica) {
    return replica->phase == REPLICA_SERVING ||
           (replica->phase == REPLICA_MEMBER && replica->log.applied >= replica->inherited);
}

/* ---- Answers. */

static void ask_chain(replica *replica, const slot_message *message, shared_bytes *bytes) {
    replica_log_entry entry = {
        REPLICA_LOG_FRESH, message->rank, message->commit, message->payload, bytes, CREDIT_NONE, 0};
    if (!replica_log_holds(&replica->log, REPLICA_LOG_FRESH, message->rank, message->commit))
        replica_append(replica, &entry);
}

static void answer_now(replica *replica, const slot_message *message, shared_bytes *bytes) {
    bool rounds = replica->consistency.kind == CONSISTENCY_BSP; /* versions are exact: a fresh pull is like any other */
    if ((message->entry & SLOT_MESSAGE_PULL_FRESH) != 0 && !rounds && !MUTATED("fresh-local"))
        ask_chain(replica, message, bytes);
    else
        replica_show(replica, message->rank, message->commit, message->payload);
}

static void answer(replica *replica, consistency_verdict verdict, const slot_message *message, shared_bytes *bytes) {
    if (verdict == CONSISTENCY_NEVER)
        replica_reply(replica, message->rank, SLOT_MESSAGE_PULLED, SLOT_MESSAGE_GONE,
                      &(struct slot_message){.commit = message->commit, .name = replica->version});
    else if (verdict == CONSISTENCY_KEPT)
        show(replica, message->rank, message->payload, true,
             &(struct slot_message){
                 .lsn = replica->changed - 1, .commit = message->commit, .name = replica->version - 1});
    else
        answer_now(replica, message, bytes);
}

/* ---- Waiting pulls. */

/* Removes a waiting pull; the caller owns its reference to the buffer. */
static slot_message take_out(replica *replica, size_t at) {
    MR_ASSERT(at < replica->waiter_count);
    slot_message pull = replica->waiters[at];
    replica->waiter_count--;
    memmove(&replica->waiters[at], &replica->waiters[at + 1], (replica->waiter_count - at) * sizeof *replica->waiters);
    return pull;
}

static void forget_rank(replica *replica, uint32_t rank) {
    size_t at = 0;
    while (at < replica->waiter_count && replica->waiters[at].rank != rank) at++;
    if (at < replica->waiter_count) shared_bytes_unref(take_out(replica, at).bytes);
}

/* Inserts the pull after those of the same priority. */
static void keep(replica *replica, const slot_message *message, shared_bytes *bytes) {
    span query = message->payload;
    xgrow(&replica->waiters, &replica->waiter_room, replica->waiter_count + 1, sizeof *replica->waiters);
    size_t at = replica->waiter_count++;
    for (; at > 0 && replica->waiters[at - 1].priority < message->priority; at--)
        replica->waiters[at] = replica->waiters[at - 1];
    struct slot_message *waiter = &replica->waiters[at];
    *waiter = *message;
    waiter->terms = (span){0};
    waiter->bytes = query.size == 0                     ? NULL
                    : query.size < SLOT_MESSAGE_POINTED ? shared_bytes_copy(query)
                                                        : shared_bytes_ref(bytes);
    if (query.size != 0 && query.size < SLOT_MESSAGE_POINTED) waiter->payload = shared_bytes_bytes(waiter->bytes);
}

void replica_forget_waiters(replica *replica) {
    if (replica->shown != NULL) memset(replica->shown, 0, replica->client_count * sizeof *replica->shown);
    while (replica->waiter_count != 0) shared_bytes_unref(replica->waiters[--replica->waiter_count].bytes);
}

/* An answer may append an entry that commits at once and allows further answers. */
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
            slot_message pull = take_out(replica, i);
            if (MUTATED("any-query") && replica->waiter_count != 0) pull.payload = replica->waiters[0].payload;
            answer(replica, verdict, &pull, pull.bytes);
            shared_bytes_unref(pull.bytes);
        }
    }
    replica->moved = false;
}

void replica_take_pull(replica *replica, const slot_message *message, shared_bytes *bytes) {
    MR_ASSERT(message->kind == SLOT_MESSAGE_PULL && message->rank < replica->client_count && replica->values != NULL);
    if (is_under_way(replica, message)) return;
    consistency_state state = state_of(replica);
    consistency_verdict verdict = judge(replica, &state, message);
    forget_rank(replica, message->rank); /* a repetition, or another pull */
    if (verdict == CONSISTENCY_WAIT)
        keep(replica, message, bytes);
    else
        answer(replica, verdict, message, bytes);
}
