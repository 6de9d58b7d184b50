/* replica_chain.c — see replica.h: entries down the chain, levels up, what is committed is applied.
 * Tested by src/ps/replica_test.c. */
#include "base/mutation.h"
#include "ps/replica_core.h"

/* Orders and pushes have numbers of their own for each rank; a slot knows only one of the two. */
void replica_count_logged(replica *replica, const tape_entry *entry) {
    bool numbered = entry->kind == TAPE_PUSH || (entry->kind >= TAPE_JOIN && entry->kind <= TAPE_DROP);
    if (entry->kind == TAPE_ROUND) replica->closing = true;
    MR_ASSERT(replica->logged != NULL || replica->rank_count == 0);
    if (numbered && entry->rank < replica->rank_count) replica->logged[entry->rank] = entry->name;
}

void replica_log(replica *replica, const tape_entry *entry) {
    tape_add(&replica->tape, entry);
    replica_count_logged(replica, entry);
}

/* Grows with every tick, up to a bound: however fast entries come and however long they take to a joiner, it is near
 * one day. */
static uint64_t slack(const replica_join *join, uint64_t least) {
    return least << (join->ticks < REPLICA_SLACK_DOUBLES ? join->ticks : REPLICA_SLACK_DOUBLES);
}

static bool lacks_too_much(const replica *replica, uint64_t level) {
    const credit *credit = replica->host->credit;
    uint64_t most = credit == NULL ? 0 : REPLICA_KEPT_LINKS * credit->link_bytes, applied = replica->tape.applied;
    return level + slack(&replica->join, REPLICA_KEPT_MAX) < applied ||
           (most != 0 && tape_bytes(&replica->tape, level, applied) > most);
}

/* A joiner that has begun is sent what it lacks, so that is kept; one that lacks too much is filled anew. */
static void trim(replica *replica) {
    replica_join *join = &replica->join;
    uint64_t applied = replica->tape.applied;
    if (join->filled && !join->gated && lacks_too_much(replica, join->successor.level))
        join->filled = join->begun = false;
    bool keeps = join->filled && join->successor.level < applied;
    tape_trim(&replica->tape, keeps ? join->successor.level : applied);
}

void replica_commit(replica *replica, uint64_t lsn) {
    MR_ASSERT(replica->values != NULL);
    if (lsn > tape_last(&replica->tape)) lsn = tape_last(&replica->tape);
    while (replica->tape.applied < lsn) {
        const tape_entry *entry = tape_at(&replica->tape, replica->tape.applied + 1);
        tape_apply(&replica->tape);
        replica_apply(replica, entry);
    }
    if (replica->level < replica->tape.applied) replica->level = replica->tape.applied;
    trim(replica);
    MR_ASSERT(replica->tape.applied <= replica->level && replica->level <= tape_last(&replica->tape));
}

/* ---- Down. */

/* As far as the other one has room; the next entry always, if it has applied all it has. */
static void send_entries(replica *replica, uint32_t server, replica_successor *successor) {
    const tape *tape = &replica->tape;
    MR_ASSERT(replica->level <= tape_last(tape));
    uint64_t level = successor->level > tape->base ? successor->level : tape->base;
    bool empty = !successor->heard || successor->applied >= successor->level;
    if (successor->sent < level) successor->sent = level;
    for (uint64_t lsn = successor->sent + 1; lsn <= replica->level; lsn++) {
        bool room = (lsn == level + 1 && empty) || tape_bytes(tape, level, lsn) <= successor->room;
        if (!room && !MUTATED("no-room")) break;
        replica_tell(replica, server, PART_ENTRY, tape_at(tape, lsn), lsn);
        successor->sent = lsn;
    }
}

static bool has_successor(const replica *replica) {
    return replica->place >= 0 && replica->place + 1 < replica->chain.count;
}

static uint32_t successor_of(const replica *replica) { return replica->chain.chain[replica->place + 1].server; }

static void pass_on(replica *replica) {
    if (has_successor(replica)) send_entries(replica, successor_of(replica), &replica->successor);
    if (replica->join.begun) send_entries(replica, replica->join.server, &replica->join.successor);
}

/* Whoever has not confirmed everything, or may not know what is committed, is asked how far it is. */
static void ask_level(replica *replica, uint32_t server, replica_successor *successor) {
    if (successor->level >= replica->level && successor->applied >= replica->level) return;
    successor->asked = 1 + successor->level;
    replica_tell(replica, server, PART_ENTRY, NULL, 0);
}

void replica_ask_levels(replica *replica) {
    if (has_successor(replica)) ask_level(replica, successor_of(replica), &replica->successor);
    if (replica->join.begun) ask_level(replica, replica->join.server, &replica->join.successor);
}

/* One that was asked and has not moved has lost what it was sent since; or it says that it had no room for that. */
static void hear_level(replica_successor *successor, const part *part) {
    if (part->commit > successor->applied) successor->applied = part->commit;
    if (part->lsn < successor->level) return;
    bool again = successor->asked == 1 + part->lsn || part->status == PART_LATER;
    successor->heard = true;
    successor->room = part->prev;
    successor->level = part->lsn;
    if (again) successor->sent = part->lsn;
    if (successor->asked <= 1 + part->lsn) successor->asked = 0;
}

/* Something that is not applied yet may fill the room of all; but a slot that has nothing takes the next entry. */
static bool has_room(const replica *replica, const part *part) {
    bool empty = replica->tape.applied == tape_last(&replica->tape) && !MUTATED("no-spare");
    return empty || credit_follows(replica->host->credit, part->payload.size) || MUTATED("no-room");
}

/* A joiner that is asked for its level and has nothing. */
static void tell_nothing(replica *replica, uint32_t from) {
    bool asked = replica->place < 0 && replica->phase == REPLICA_OUT && replica->chain.count != 0;
    part part = {.kind = PART_LEVEL, .status = PART_GONE, .slot = replica->slot, .epoch = replica->epoch};
    if (asked && replica->chain.chain[replica->chain.count - 1].server == from)
        replica->host->to_server(replica->host->context, from, &part);
}

void replica_take_entry(replica *replica, uint32_t from, const part *part, bale *bale) {
    if (replica->values == NULL && part->lsn == 0) tell_nothing(replica, from);
    if (replica->values == NULL || (replica->phase != REPLICA_MEMBER && replica->phase != REPLICA_JOINING)) return;
    int before = replica->phase == REPLICA_MEMBER ? replica->place - 1 : replica->chain.count - 1;
    if (before < 0 || replica->chain.chain[before].server != from) return;
    replica_commit(replica, part->commit);
    bool next = part->lsn == tape_last(&replica->tape) + 1 && replica->level == tape_last(&replica->tape);
    part_status status = next && !has_room(replica, part) ? PART_LATER : PART_OK;
    if (next && status == PART_OK) {
        replica_log(replica, &(tape_entry){part->entry, part->rank, part->name, part->payload, bale, CREDIT_LINK, 0});
        replica->level = part->lsn;
    } else if (part->lsn == replica->level + 1 && part->lsn <= tape_last(&replica->tape)) {
        replica->level = part->lsn; /* inherited, and confirmed by this epoch */
    }
    if (MUTATED("apply-early")) replica_commit(replica, replica->level);
    replica_advance(replica);
    replica_tell_level(replica, from, status);
}

/* ---- Up. */

void replica_tell_level(replica *replica, uint32_t server, part_status status) {
    part part = {.kind = PART_LEVEL,
                 .status = (uint8_t)status,
                 .slot = replica->slot,
                 .epoch = replica->epoch,
                 .lsn = replica->level,
                 .commit = replica->tape.applied,
                 .prev = credit_room(replica->host->credit)};
    if (replica->values != NULL) replica->host->to_server(replica->host->context, server, &part);
}

static uint64_t committed_here(const replica *replica) {
    uint64_t lsn = MUTATED("no-level") ? tape_last(&replica->tape) : replica->level;
    if (replica->join.gated && replica->join.successor.level < lsn) lsn = replica->join.successor.level;
    return lsn;
}

void replica_advance(replica *replica) {
    uint64_t before = replica->tape.applied;
    bool leads = replica->phase == REPLICA_INHERITING || replica->phase == REPLICA_SERVING;
    if (replica_is_tail(replica) && (leads || replica->phase == REPLICA_MEMBER))
        replica_commit(replica, committed_here(replica));
    if (leads && MUTATED("early-ack")) replica_commit(replica, replica->level);
    pass_on(replica);
    if (replica->place > 0 && replica->tape.applied > before)
        replica_tell_level(replica, replica->chain.chain[replica->place - 1].server, PART_OK);
}

static void take_joiner_level(replica *replica, const part *part) {
    replica_join *join = &replica->join;
    if (part->status == PART_GONE) {
        if (!join->begun) join->filled = false; /* the state was lost: the next tick fills it */
        return;
    }
    if (!join->filled || (!join->gated && part->lsn < replica->tape.base)) {
        join->filled = join->begun = false; /* what it lacks is gone: the next tick fills it */
        return;
    }
    if (!join->begun) join->successor = (replica_successor){.level = part->lsn, .sent = part->lsn};
    join->begun = true;
    hear_level(&join->successor, part);
    bool near = join->successor.level + slack(join, REPLICA_GATE_SLACK) >= replica->level;
    if (near && MUTATED("no-gate")) {
        join->ready = true;
        replica_tell_gate(replica);
    } else if (near) {
        join->gated = true;
    }
    bool whole = join->successor.level >= replica->inherited && join->successor.level >= replica->tape.applied;
    if (join->gated) join->ready = whole;
    replica_advance(replica);
}

void replica_take_level(replica *replica, uint32_t from, const part *part) {
    if (replica->values == NULL || replica->phase == REPLICA_ENTERING) return;
    if (has_successor(replica) && successor_of(replica) == from) {
        if (part->status == PART_GONE) return; /* it was out of the chain when it said so */
        hear_level(&replica->successor, part);
        replica_commit(replica, part->commit);
        pass_on(replica);
        if (replica->place > 0) replica_tell_level(replica, replica->chain.chain[replica->place - 1].server, PART_OK);
    } else if (replica_is_tail(replica) && replica->join.wanted && replica->join.server == from) {
        take_joiner_level(replica, part);
    }
}
