/* replica_round.c — see replica.h: the open round of a slot, at its head. */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/mutation.h"
#include "ps/replica_core.h"

/* Its bytes are no longer needed. */
static void release_gift(replica *replica, uint32_t rank) {
    MR_ASSERT(rank < replica->rank_count);
    replica_gift *gift = &replica->gifts[rank];
    if ((!MUTATED("leaks") || gift->summed) && !gift->besides)
        credit_return(replica->host->credit, CREDIT_RANK, rank, gift->payload.size);
    bale_unref(gift->bale);
    gift->payload = (span){0};
    gift->bale = NULL;
}

static void end_sum(replica *replica) {
    if (replica->adds) replica->ops->sum_end(replica->sum);
    replica->adds = false;
    replica->sum = NULL;
    replica_drop_norms(replica);
}

void replica_drop_gifts(replica *replica) {
    for (uint32_t i = 0; replica->gifts != NULL && i < replica->rank_count; i++) {
        release_gift(replica, i);
        replica->gifts[i] = (replica_gift){0};
    }
    end_sum(replica);
    replica->gift_count = 0;
    replica->round = (replica_round){0};
    replica->norms.asked = 0;
}

/* Nothing can be taken out of a sum: whoever is in it sends its own again. */
static void drop_sum(replica *replica) {
    end_sum(replica);
    for (uint32_t i = 0; i < replica->rank_count; i++) {
        if (!replica->gifts[i].summed) continue;
        MR_ASSERT(replica->gifts[i].there && replica->gift_count > 0);
        replica->gifts[i] = (replica_gift){0};
        replica->gift_count--;
    }
}

static void drop_gift(replica *replica, uint32_t rank) {
    if (replica->gifts[rank].summed) drop_sum(replica);
    if (!replica->gifts[rank].there) return;
    release_gift(replica, rank);
    replica->gifts[rank] = (replica_gift){0};
    replica->gift_count--;
}

static crowd present(const replica *replica) {
    crowd there = {0};
    for (uint32_t i = 0; i < replica->rank_count; i++)
        if (replica->gifts[i].there) crowd_put(&there, i);
    return there;
}

/* ---- Closing. */

/* A sum is good as long as it is that of the first ones of the set. */
static bool is_sum_of(const replica *replica, const crowd *set) {
    bool behind = false;
    for (uint32_t i = 0; i < replica->rank_count; i++) {
        bool summed = replica->gifts[i].summed, in = crowd_has(set, i);
        if (summed && (!in || (behind && !MUTATED("any-order")))) return false;
        behind = behind || (in && !summed);
    }
    return true;
}

/* What is next in the order of ranks is added, and its bytes given back. */
static void add_up(replica *replica, const crowd *set) {
    MR_ASSERT(replica->phase == REPLICA_SERVING && !replica->closing && replica->gifts != NULL);
    if (!is_sum_of(replica, set)) drop_sum(replica);
    if (!replica->adds) replica->sum = replica->ops->sum_begin(replica->host->values_context, replica->slot);
    replica->adds = true;
    for (uint32_t i = 0; i < replica->rank_count; i++) {
        replica_gift *gift = &replica->gifts[i];
        if (!crowd_has(set, i) || gift->summed) continue;
        if (!gift->there && MUTATED("any-order")) continue;
        if (!gift->there) break;
        replica->ops->sum_add(replica->sum, gift->payload);
        gift->summed = true;
        if (gift->payload.size != 0 && credit_grant(replica->host->credit) != UINT64_MAX)
            replica_acknowledge(replica, i, PART_TAKEN, replica->version + 1, 0);
        release_gift(replica, i);
    }
}

/* All contributions of the set are in the sum: it is one entry. */
static void close_round(replica *replica, const ledger_terms *terms) {
    bale *bale = replica_take_sum(replica, terms);
    replica_append(replica, &(tape_entry){TAPE_ROUND, 0, replica->version + 1, bale_bytes(bale), bale, CREDIT_NONE, 0});
    bale_unref(bale);
}

/* Frozen, once everything in the log is applied. */
static crowd frozen_by_log(const replica *replica) {
    crowd frozen = replica->frozen;
    for (uint64_t lsn = replica->tape.applied + 1; lsn <= tape_last(&replica->tape); lsn++) {
        const tape_entry *entry = tape_at(&replica->tape, lsn);
        if (entry->kind == TAPE_FREEZE) crowd_put(&frozen, entry->rank);
    }
    return frozen;
}

/* With whom the ledger's own round closes. */
static bool knows_ledger_set(const replica *replica, ledger_terms *terms) {
    const ledger *ledger = replica->values;
    *terms = ledger_terms_of(ledger);
    terms->waits = false;
    if (!ledger->waits) return ledger_needs(ledger, &terms->members);
    crowd ticked = present(replica);
    bool late = replica->round.due_us != 0 && replica->now_us >= replica->round.due_us;
    return ledger_enough(ledger, &ticked, late, &terms->members);
}

static bool knows_set(const replica *replica, ledger_terms *terms) {
    const replica_round *round = &replica->round;
    if (replica_is_ledger(replica)) return knows_ledger_set(replica, terms);
    *terms = round->terms;
    terms->waits = false;
    if (round->decided) return true;
    if (MUTATED("first-enough") && round->known && round->terms.waits) {
        terms->members = present(replica);
        return crowd_count(&terms->members) + replica->rounds.backup >= crowd_count(&round->terms.members);
    }
    if (!round->known || round->terms.waits) return false;
    crowd frozen = frozen_by_log(replica);
    frozen = crowd_both(&frozen, &terms->members);
    return crowd_count(&frozen) == 0;
}

void replica_try_close(replica *replica) {
    ledger_terms terms;
    if (replica->phase != REPLICA_SERVING || replica->closing || !knows_set(replica, &terms)) return;
    add_up(replica, &terms.members);
    crowd there = present(replica), missing = crowd_without(&terms.members, &there);
    if (crowd_count(&missing) == 0 && replica_measure(replica, &terms)) close_round(replica, &terms);
}

static part_status counted(const crowd *set, uint32_t rank) {
    return crowd_has(set, rank) || MUTATED("say-counted") ? PART_OK : PART_MISSED;
}

void replica_end_round(replica *replica, const tape_entry *entry) {
    ledger_round round;
    bool good = ledger_read_round(entry->payload, replica->rank_count, &round);
    MR_ASSERT(good && replica->gifts != NULL);
    ledger_terms terms = round.terms;
    if (replica_is_ledger(replica))
        ledger_turn(replica->values, entry);
    else if (terms.normed && replica->ops->apply_normed != NULL)
        replica->ops->apply_normed(replica->values, round.sum, round.norms, entry->name);
    else
        replica->ops->apply(replica->values, round.sum, entry->name);
    replica->version = entry->name;
    replica->changed = replica->tape.applied;
    replica->past = terms.members;
    replica->frozen = (crowd){0};
    replica->closing = false;
    if (terms.cuts && replica_is_ledger(replica)) replica->marked = entry->name;
    if (terms.cuts) replica_make_cut(replica, entry->name);
    for (uint32_t i = 0; i < replica->rank_count; i++)
        if (replica->gifts[i].there && replica_is_head(replica))
            replica_acknowledge(replica, i, counted(&terms.members, i), entry->name, 0);
    ledger_terms before = replica->round.terms;
    bool knew = replica->round.known;
    replica_drop_gifts(replica);
    if (MUTATED("own-members") && knew) replica->round = (replica_round){.known = true, .terms = before};
}

/* ---- Contributions. */

static void hear_terms(replica *replica, const part *part) {
    replica_round *round = &replica->round;
    ledger_terms terms;
    if (round->known || round->decided || replica_is_ledger(replica)) return;
    if (!ledger_read_terms(part->terms, replica->rank_count, &terms)) return;
    round->terms = terms;
    round->known = true;
}

/* Of a round that is over its rank hears how that ended; to the open one it may contribute. */
static bool is_open(replica *replica, const part *part) {
    uint32_t rank = part->rank;
    if (part->name <= replica->version) {
        part_status status = part->name < replica->version ? PART_GONE : counted(&replica->past, rank);
        replica_acknowledge(replica, rank, status, part->name, 0);
        return false;
    }
    if (part->name != replica->version + 1 || replica->closing) return false; /* it comes again */
    crowd frozen = frozen_by_log(replica);
    bool counts = replica->round.decided && crowd_has(&replica->round.terms.members, rank);
    return !crowd_has(&frozen, rank) || counts;
}

/* A round that waits for the ledger needs them all, one by one: which of them count is not known; and what is to come
 * before the ledger hears of it, in slots without rounds, needs room as if they were not there. */
static bool waits_for_ledger(const replica *replica) { return replica->round.known && replica->round.terms.waits; }

/* Else the lowest rank that is not in all sums is the next of each sum that it is not in: nothing of it is held, so
 * there is room for it. */
static bool has_room(const replica *replica, const part *part) {
    return waits_for_ledger(replica) || MUTATED("no-credit") ||
           credit_admits(replica->host->credit, part->rank, part->payload.size);
}

static void say_taken(replica *replica, const part *part) {
    if (waits_for_ledger(replica) || replica->gifts[part->rank].summed)
        replica_acknowledge(replica, part->rank, PART_TAKEN, part->name, 0);
}

/* Whoever plays a rank again computes the same: if it does not, somebody should hear of it. */
static void compare(replica *replica, const part *part, uint64_t digest) {
    if (digest == replica->gifts[part->rank].digest) return;
    replica->dispute = (replica_dispute){replica->dispute.count + 1, part->rank, part->name - 1};
}

void replica_take_gift(replica *replica, const part *part, bale *bale) {
    replica_gift *gift = &replica->gifts[part->rank];
    if (!is_open(replica, part)) return;
    uint64_t digest = XXH3_64bits(part->payload.data, part->payload.size);
    if (gift->there) compare(replica, part, digest);
    hear_terms(replica, part);
    if (!gift->there && !has_room(replica, part)) {
        replica_acknowledge(replica, part->rank, PART_LATER, part->name, 0);
        return;
    }
    if (!gift->there) {
        *gift = (replica_gift){.there = true,
                               .besides = waits_for_ledger(replica) && !MUTATED("waits-count"),
                               .digest = digest,
                               .payload = part->payload,
                               .bale = bale_ref(bale)};
        replica->gift_count++;
        MR_ASSERT(replica->gift_count <= replica->rank_count);
        if (!gift->besides) credit_take(replica->host->credit, CREDIT_RANK, part->rank, part->payload.size);
    }
    say_taken(replica, part);
    replica_try_close(replica);
}

void replica_ask_gift(replica *replica, const part *part) {
    if (!is_open(replica, part)) return;
    if (replica->gifts[part->rank].there)
        say_taken(replica, part);
    else
        replica_acknowledge(replica, part->rank, PART_RESEND, part->name, part->name - 1);
}

/* ---- What the ledger wants. */

static void answer_freeze(replica *replica, uint32_t rank, uint64_t round, part_status status) {
    part part = {.kind = PART_FROZEN, .status = (uint8_t)status, .rank = rank, .name = round, .prev = replica->slot};
    replica->host->to_head(replica->host->context, replica->ledger, &part);
}

void replica_take_freeze(replica *replica, const part *part) {
    if (replica->phase != REPLICA_SERVING || part->rank >= replica->rank_count) return;
    if (part->name < replica->version) {
        answer_freeze(replica, part->rank, part->name, PART_GONE);
        return;
    }
    if (part->name != replica->version || replica->closing) return; /* not there yet, or about to be over: ask again */
    if (MUTATED("freeze-soft")) crowd_put(&replica->frozen, part->rank);
    if (crowd_has(&replica->frozen, part->rank)) {
        drop_gift(replica, part->rank);
        answer_freeze(replica, part->rank, part->name, PART_OK);
    } else if (!tape_holds(&replica->tape, TAPE_FREEZE, part->rank, part->name)) {
        drop_gift(replica, part->rank);
        replica_append(replica, &(tape_entry){.kind = TAPE_FREEZE, .rank = part->rank, .name = part->name});
    }
}

/* A freeze is part of the state, so a new head does not count what the old one promised not to. */
void replica_freeze(replica *replica, const tape_entry *entry) {
    if (entry->name != replica->version || entry->rank >= replica->rank_count) return;
    crowd_put(&replica->frozen, entry->rank);
    if (replica_is_head(replica)) answer_freeze(replica, entry->rank, entry->name, PART_OK);
}

void replica_take_terms(replica *replica, const part *part) {
    ledger_terms terms;
    if (replica->phase != REPLICA_SERVING || part->name != replica->version || replica->closing) return;
    if (!ledger_read_terms(part->terms, replica->rank_count, &terms)) return;
    replica->round.decided = replica->round.known = true;
    replica->round.terms = terms;
    replica_try_close(replica);
}
