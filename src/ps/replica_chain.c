/* replica_chain.c — see replica.h: entries down the chain, levels up, what is committed is applied. */
#include "base/assert.h"
#include "ps/replica_core.h"

/* Orders and pushes have numbers of their own for each rank; a slot knows only one of the two. */
void replica_count_logged(replica *replica, const tape_entry *entry) {
    bool numbered = entry->kind == TAPE_PUSH || (entry->kind >= TAPE_JOIN && entry->kind <= TAPE_DROP);
    if (entry->kind == TAPE_ROUND) replica->closing = true;
    if (numbered && entry->rank < replica->rank_count) replica->logged[entry->rank] = entry->name;
}

void replica_log(replica *replica, const tape_entry *entry) {
    tape_add(&replica->tape, entry);
    replica_count_logged(replica, entry);
}

/* A joiner that has begun is sent what it lacks, so that is kept; one that lacks too much is filled anew. */
static void trim(replica *replica) {
    replica_join *join = &replica->join;
    uint64_t applied = replica->tape.applied;
    if (join->filled && !join->gated && join->successor.level + REPLICA_KEPT_MAX < applied)
        join->filled = join->begun = false;
    bool keeps = join->filled && join->successor.level < applied;
    tape_trim(&replica->tape, keeps ? join->successor.level : applied);
}

void replica_commit(replica *replica, uint64_t lsn) {
    if (lsn > tape_last(&replica->tape)) lsn = tape_last(&replica->tape);
    while (replica->tape.applied < lsn) {
        const tape_entry *entry = tape_at(&replica->tape, replica->tape.applied + 1);
        tape_apply(&replica->tape);
        replica_apply(replica, entry);
    }
    if (replica->level < replica->tape.applied) replica->level = replica->tape.applied;
    trim(replica);
}

/* ---- Down. */

static void send_entries(replica *replica, uint32_t server, replica_successor *successor, uint64_t from) {
    uint64_t first = from > replica->tape.base ? from : replica->tape.base;
    uint64_t last = replica->level < first + REPLICA_RESEND_MAX ? replica->level : first + REPLICA_RESEND_MAX;
    for (uint64_t lsn = first + 1; lsn <= last; lsn++)
        replica_tell(replica, server, PART_ENTRY, tape_at(&replica->tape, lsn), lsn);
    if (last > successor->sent) successor->sent = last;
}

static bool has_successor(const replica *replica) {
    return replica->place >= 0 && replica->place + 1 < replica->chain.count;
}

static uint32_t successor_of(const replica *replica) { return replica->chain.chain[replica->place + 1].server; }

static void pass_on(replica *replica) {
    if (has_successor(replica) && replica->successor.sent < replica->level)
        send_entries(replica, successor_of(replica), &replica->successor, replica->successor.sent);
    replica_join *join = &replica->join;
    if (join->begun && join->successor.sent < replica->level)
        send_entries(replica, join->server, &join->successor, join->successor.sent);
}

/* What may be lost is said again: entries that were not confirmed, or, if all were, what is committed. */
static void resend_to(replica *replica, uint32_t server, replica_successor *successor) {
    if (successor->level < replica->level)
        send_entries(replica, server, successor, successor->level);
    else if (successor->applied < replica->level)
        replica_tell(replica, server, PART_ENTRY, NULL, 0);
}

void replica_resend(replica *replica) {
    if (has_successor(replica)) resend_to(replica, successor_of(replica), &replica->successor);
    if (replica->join.begun) resend_to(replica, replica->join.server, &replica->join.successor);
}

void replica_take_entry(replica *replica, uint32_t from, const part *part, bale *bale) {
    if (replica->values == NULL || (replica->phase != REPLICA_MEMBER && replica->phase != REPLICA_JOINING)) return;
    int before = replica->phase == REPLICA_MEMBER ? replica->place - 1 : replica->chain.count - 1;
    if (before < 0 || replica->chain.chain[before].server != from) return;
    replica_commit(replica, part->commit);
    if (part->lsn == tape_last(&replica->tape) + 1 && replica->level == tape_last(&replica->tape)) {
        replica_log(replica, &(tape_entry){part->entry, part->rank, part->name, part->payload, bale});
        replica->level = part->lsn;
    } else if (part->lsn == replica->level + 1 && part->lsn <= tape_last(&replica->tape)) {
        replica->level = part->lsn; /* inherited, and confirmed by this epoch */
    }
    if (replica->mutations.apply_early) replica_commit(replica, replica->level);
    replica_advance(replica);
    replica_tell_level(replica, from);
}

/* ---- Up. */

void replica_tell_level(replica *replica, uint32_t server) {
    if (replica->values != NULL) replica_tell(replica, server, PART_LEVEL, NULL, replica->level);
}

static uint64_t committed_here(const replica *replica) {
    uint64_t lsn = replica->mutations.no_level ? tape_last(&replica->tape) : replica->level;
    if (replica->join.gated && replica->join.successor.level < lsn) lsn = replica->join.successor.level;
    return lsn;
}

void replica_advance(replica *replica) {
    uint64_t before = replica->tape.applied;
    bool leads = replica->phase == REPLICA_INHERITING || replica->phase == REPLICA_SERVING;
    if (replica_is_tail(replica) && (leads || replica->phase == REPLICA_MEMBER))
        replica_commit(replica, committed_here(replica));
    if (leads && replica->mutations.early_ack) replica_commit(replica, replica->level);
    pass_on(replica);
    if (replica->place > 0 && replica->tape.applied > before)
        replica_tell_level(replica, replica->chain.chain[replica->place - 1].server);
}

static void take_joiner_level(replica *replica, const part *part) {
    replica_join *join = &replica->join;
    if (!join->filled || (!join->gated && part->lsn < replica->tape.base)) {
        join->filled = join->begun = false; /* what it lacks is gone: the next tick fills it */
        return;
    }
    if (!join->begun) join->successor = (replica_successor){.level = part->lsn, .sent = part->lsn};
    join->begun = true;
    if (part->lsn > join->successor.level) join->successor.level = part->lsn;
    if (part->commit > join->successor.applied) join->successor.applied = part->commit;
    bool near = join->successor.level + REPLICA_GATE_SLACK >= replica->level;
    if (near && replica->mutations.no_gate) {
        join->ready = true;
        part_status status = PART_OK;
        struct part gate = {.kind = PART_GATE,
                            .status = (uint8_t)status,
                            .slot = replica->slot,
                            .epoch = replica->epoch,
                            .name = join->server,
                            .prev = join->incarnation};
        replica->host->to_director(replica->host->context, &gate);
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
        if (part->lsn > replica->successor.level) replica->successor.level = part->lsn;
        if (part->commit > replica->successor.applied) replica->successor.applied = part->commit;
        replica_commit(replica, part->commit);
        pass_on(replica);
        if (replica->place > 0) replica_tell_level(replica, replica->chain.chain[replica->place - 1].server);
    } else if (replica_is_tail(replica) && replica->join.wanted && replica->join.server == from) {
        take_joiner_level(replica, part);
    }
}
