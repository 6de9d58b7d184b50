/* replica_round.c — see replica.h: the open round of a slot, at its head. */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/mutation.h"
#include "ps/replica_internal.h"

/* Drops the bytes of a contribution. */
static void release_contribution(replica *replica, uint32_t rank) {
    MR_ASSERT(rank < replica->rank_count);
    replica_contribution *contribution = &replica->contributions[rank];
    if ((!MUTATED("leaks") || contribution->summed) && !contribution->besides)
        credit_return(replica->host->credit, CREDIT_RANK, rank, contribution->payload.size);
    shared_bytes_unref(contribution->bytes);
    contribution->payload = (span){0};
    contribution->bytes = NULL;
}

static void end_sum(replica *replica) {
    if (replica->adds) replica->ops->sum_end(replica->sum);
    replica->adds = false;
    replica->sum = NULL;
    replica_drop_norms(replica);
}

void replica_drop_contributions(replica *replica) {
    for (uint32_t i = 0; replica->contributions != NULL && i < replica->rank_count; i++) {
        release_contribution(replica, i);
        replica->contributions[i] = (replica_contribution){0};
    }
    end_sum(replica);
    replica->contribution_count = 0;
    replica->round = (replica_round){0};
    replica->norms.asked = 0;
}

/* A contribution cannot be subtracted from a sum: the ranks in it must send theirs again. */
static void drop_sum(replica *replica) {
    end_sum(replica);
    for (uint32_t i = 0; i < replica->rank_count; i++) {
        if (!replica->contributions[i].summed) continue;
        MR_ASSERT(replica->contributions[i].there && replica->contribution_count > 0);
        replica->contributions[i] = (replica_contribution){0};
        replica->contribution_count--;
    }
}

static void drop_contribution(replica *replica, uint32_t rank) {
    if (replica->contributions[rank].summed) drop_sum(replica);
    if (!replica->contributions[rank].there) return;
    release_contribution(replica, rank);
    replica->contributions[rank] = (replica_contribution){0};
    replica->contribution_count--;
}

static rank_set present(const replica *replica) {
    rank_set there = {0};
    for (uint32_t i = 0; i < replica->rank_count; i++)
        if (replica->contributions[i].there) rank_set_put(&there, i);
    return there;
}

/* ---- Closing. */

/* A sum fits the set if it has exactly the contributions of the first ranks of the set. */
static bool is_sum_of(const replica *replica, const rank_set *set) {
    bool behind = false;
    for (uint32_t i = 0; i < replica->rank_count; i++) {
        bool summed = replica->contributions[i].summed, in = rank_set_has(set, i);
        if (summed && (!in || (behind && !MUTATED("any-order")))) return false;
        behind = behind || (in && !summed);
    }
    return true;
}

/* Adds the next contributions in the order of ranks, and releases their bytes. */
static void add_up(replica *replica, const rank_set *set) {
    MR_ASSERT(replica->phase == REPLICA_SERVING && !replica->closing && replica->contributions != NULL);
    if (!is_sum_of(replica, set)) drop_sum(replica);
    if (!replica->adds) replica->sum = replica->ops->sum_begin(replica->values);
    replica->adds = true;
    for (uint32_t i = 0; i < replica->rank_count; i++) {
        replica_contribution *contribution = &replica->contributions[i];
        if (!rank_set_has(set, i) || contribution->summed) continue;
        if (!contribution->there && MUTATED("any-order")) continue;
        if (!contribution->there) break;
        replica->ops->sum_add(replica->sum, contribution->payload);
        contribution->summed = true;
        if (contribution->payload.size != 0 && credit_grant(replica->host->credit) != UINT64_MAX)
            replica_acknowledge(replica, i, SLOT_MESSAGE_TAKEN, replica->version + 1, 0);
        release_contribution(replica, i);
    }
}

/* Appends the sum, which has all contributions of the set, as one entry. */
static void close_round(replica *replica, const round_state_terms *terms) {
    shared_bytes *bytes = replica_take_sum(replica, terms);
    replica_append(replica, &(replica_log_entry){REPLICA_LOG_ROUND, 0, replica->version + 1, shared_bytes_bytes(bytes),
                                                 bytes, CREDIT_NONE, 0});
    shared_bytes_unref(bytes);
}

/* Ranks that are frozen once all entries in the log are applied. */
static rank_set frozen_by_log(const replica *replica) {
    rank_set frozen = replica->frozen;
    for (uint64_t lsn = replica->log.applied + 1; lsn <= replica_log_last(&replica->log); lsn++) {
        const replica_log_entry *entry = replica_log_at(&replica->log, lsn);
        if (entry->kind == REPLICA_LOG_FREEZE) rank_set_put(&frozen, entry->rank);
    }
    return frozen;
}

/* The set of the round state's own round. False: not known yet. */
static bool knows_round_state_set(const replica *replica, round_state_terms *terms) {
    const round_state *state = replica->values;
    *terms = round_state_terms_of(state);
    terms->waits = false;
    if (!state->waits) return round_state_needs(state, &terms->members);
    rank_set ticked = present(replica);
    bool late = replica->round.due_us != 0 && replica->now_us >= replica->round.due_us;
    return round_state_enough(state, &ticked, late, &terms->members);
}

static bool knows_set(const replica *replica, round_state_terms *terms) {
    const replica_round *round = &replica->round;
    if (replica_is_round_state(replica)) return knows_round_state_set(replica, terms);
    *terms = round->terms;
    terms->waits = false;
    if (round->decided) return true;
    if (MUTATED("first-enough") && round->known && round->terms.waits) {
        terms->members = present(replica);
        return rank_set_count(&terms->members) + replica->rounds.backup >= rank_set_count(&round->terms.members);
    }
    if (!round->known || round->terms.waits) return false;
    rank_set frozen = frozen_by_log(replica);
    frozen = rank_set_both(&frozen, &terms->members);
    return rank_set_count(&frozen) == 0;
}

void replica_try_close(replica *replica) {
    round_state_terms terms;
    if (replica->phase != REPLICA_SERVING || replica->closing || !knows_set(replica, &terms)) return;
    add_up(replica, &terms.members);
    rank_set there = present(replica), missing = rank_set_without(&terms.members, &there);
    if (rank_set_count(&missing) == 0 && replica_measure(replica, &terms)) close_round(replica, &terms);
}

static slot_message_status counted(const rank_set *set, uint32_t rank) {
    return rank_set_has(set, rank) || MUTATED("say-counted") ? SLOT_MESSAGE_OK : SLOT_MESSAGE_MISSED;
}

void replica_end_round(replica *replica, const replica_log_entry *entry) {
    round_state_round round;
    bool good = round_state_read_round(entry->payload, replica->rank_count, &round);
    MR_ASSERT(good && replica->contributions != NULL);
    round_state_terms terms = round.terms;
    if (replica_is_round_state(replica))
        round_state_turn(replica->values, entry);
    else if (terms.normed && replica->ops->apply_normed != NULL)
        replica->ops->apply_normed(replica->values, round.sum, round.norms, entry->name);
    else
        replica->ops->apply(replica->values, round.sum, entry->name);
    replica->version = entry->name;
    replica->changed = replica->turned = replica->log.applied;
    replica->past = terms.members;
    replica->frozen = (rank_set){0};
    replica->closing = false;
    if (terms.cuts && replica_is_round_state(replica)) replica->marked = entry->name;
    if (terms.cuts) replica_make_cut(replica, entry->name, false);
    for (uint32_t i = 0; i < replica->rank_count; i++)
        if (replica->contributions[i].there && replica_is_head(replica))
            replica_acknowledge(replica, i, counted(&terms.members, i), entry->name, 0);
    round_state_terms before = replica->round.terms;
    bool knew = replica->round.known;
    replica_drop_contributions(replica);
    if (MUTATED("own-members") && knew) replica->round = (replica_round){.known = true, .terms = before};
}

/* ---- Contributions. */

static void hear_terms(replica *replica, const slot_message *message) {
    replica_round *round = &replica->round;
    round_state_terms terms;
    if (round->known || round->decided || replica_is_round_state(replica)) return;
    if (!round_state_read_terms(message->terms, replica->rank_count, &terms)) return;
    round->terms = terms;
    round->known = true;
}

/* Whether the rank may contribute to the round of the message. For a round that is over, answers how it ended. */
static bool is_open(replica *replica, const slot_message *message) {
    uint32_t rank = message->rank;
    if (message->name <= replica->version) {
        slot_message_status status =
            message->name < replica->version ? SLOT_MESSAGE_GONE : counted(&replica->past, rank);
        replica_acknowledge(replica, rank, status, message->name, 0);
        return false;
    }
    if (message->name != replica->version + 1 || replica->closing) return false; /* the rank sends it again */
    rank_set frozen = frozen_by_log(replica);
    bool counts = replica->round.decided && rank_set_has(&replica->round.terms.members, rank);
    return !rank_set_has(&frozen, rank) || counts;
}

/* Until the round state has decided the set, a slot keeps the contributions one by one, and takes them regardless of
 * credit: slots without rounds may need that credit before the rank's end-of-step reaches the round state. */
static bool waits_for_round_state(const replica *replica) { return replica->round.known && replica->round.terms.waits; }

/* Otherwise the lowest rank that is missing in some sum is next in each sum that lacks it: none of its bytes are
 * held, so credit admits its contribution. */
static bool has_room(const replica *replica, const slot_message *message) {
    return waits_for_round_state(replica) || MUTATED("no-credit") ||
           credit_admits(replica->host->credit, message->rank, message->payload.size);
}

static void say_taken(replica *replica, const slot_message *message) {
    if (waits_for_round_state(replica) || replica->contributions[message->rank].summed)
        replica_acknowledge(replica, message->rank, SLOT_MESSAGE_TAKEN, message->name, 0);
}

/* A process that repeats a rank's step must compute the same contribution: a difference is counted. */
static void compare(replica *replica, const slot_message *message, uint64_t digest) {
    if (digest == replica->contributions[message->rank].digest) return;
    replica->dispute = (replica_dispute){replica->dispute.count + 1, message->rank, message->name - 1};
}

void replica_take_contribution(replica *replica, const slot_message *message, shared_bytes *bytes) {
    replica_contribution *contribution = &replica->contributions[message->rank];
    if (!is_open(replica, message)) return;
    uint64_t digest = XXH3_64bits(message->payload.data, message->payload.size);
    if (contribution->there) compare(replica, message, digest);
    hear_terms(replica, message);
    if (!contribution->there && !has_room(replica, message)) {
        replica_acknowledge(replica, message->rank, SLOT_MESSAGE_LATER, message->name, 0);
        return;
    }
    if (!contribution->there) {
        *contribution = (replica_contribution){.there = true,
                                               .besides = waits_for_round_state(replica) && !MUTATED("waits-count"),
                                               .digest = digest,
                                               .payload = message->payload,
                                               .bytes = shared_bytes_ref(bytes)};
        replica->contribution_count++;
        MR_ASSERT(replica->contribution_count <= replica->rank_count);
        if (!contribution->besides)
            credit_take(replica->host->credit, CREDIT_RANK, message->rank, message->payload.size);
    }
    say_taken(replica, message);
    replica_try_close(replica);
}

void replica_ask_contribution(replica *replica, const slot_message *message) {
    if (!is_open(replica, message)) return;
    if (replica->contributions[message->rank].there)
        say_taken(replica, message);
    else
        replica_acknowledge(replica, message->rank, SLOT_MESSAGE_RESEND, message->name, message->name - 1);
}

/* ---- Orders of the round state. */

static void answer_freeze(replica *replica, uint32_t rank, uint64_t round, slot_message_status status) {
    slot_message message = {
        .kind = SLOT_MESSAGE_FROZEN, .status = (uint8_t)status, .rank = rank, .name = round, .prev = replica->slot};
    replica->host->to_head(replica->host->context, replica->round_state, &message);
}

void replica_take_freeze(replica *replica, const slot_message *message) {
    if (replica->phase != REPLICA_SERVING || message->rank >= replica->rank_count) return;
    if (message->name < replica->version) {
        answer_freeze(replica, message->rank, message->name, SLOT_MESSAGE_GONE);
        return;
    }
    /* not at that round yet, or closing it: the round state asks again */
    if (message->name != replica->version || replica->closing) return;
    if (MUTATED("freeze-soft")) rank_set_put(&replica->frozen, message->rank);
    if (rank_set_has(&replica->frozen, message->rank)) {
        drop_contribution(replica, message->rank);
        answer_freeze(replica, message->rank, message->name, SLOT_MESSAGE_OK);
    } else if (!replica_log_holds(&replica->log, REPLICA_LOG_FREEZE, message->rank, message->name)) {
        drop_contribution(replica, message->rank);
        replica_append(replica,
                       &(replica_log_entry){.kind = REPLICA_LOG_FREEZE, .rank = message->rank, .name = message->name});
    }
}

/* A freeze is part of the state, so a new head does not count a rank that the old head froze. */
void replica_freeze(replica *replica, const replica_log_entry *entry) {
    if (entry->name != replica->version || entry->rank >= replica->rank_count) return;
    rank_set_put(&replica->frozen, entry->rank);
    if (replica_is_head(replica)) answer_freeze(replica, entry->rank, entry->name, SLOT_MESSAGE_OK);
}

void replica_take_terms(replica *replica, const slot_message *message) {
    round_state_terms terms;
    if (replica->phase != REPLICA_SERVING || message->name != replica->version || replica->closing) return;
    if (!round_state_read_terms(message->terms, replica->rank_count, &terms)) return;
    replica->round.decided = replica->round.known = true;
    replica->round.terms = terms;
    replica_try_close(replica);
}
