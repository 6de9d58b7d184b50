/* replica_chain.c — see replica.h: entries go down the chain, levels go up, committed entries are applied.
 * Tested by src/ps/replica_test.c. */
#include "base/mutation.h"
#include "ps/replica_internal.h"

/* Pushes and orders are numbered per rank; a slot has only one of the two kinds. */
void replica_count_logged(replica *replica, const replica_log_entry *entry) {
    bool numbered =
        entry->kind == REPLICA_LOG_PUSH || (entry->kind >= REPLICA_LOG_JOIN && entry->kind <= REPLICA_LOG_DROP);
    if (entry->kind == REPLICA_LOG_ROUND) replica->closing = true;
    MR_ASSERT(replica->logged != NULL || replica->rank_count == 0);
    if (numbered && entry->rank < replica->rank_count) replica->logged[entry->rank] = entry->name;
}

void replica_append_log(replica *replica, const replica_log_entry *entry) {
    replica_log_add(&replica->log, entry);
    replica_count_logged(replica, entry);
}

/* Distance that counts as near. Doubles with every tick up to a bound, so that a joiner that never catches up
 * completely is gated in the end. */
static uint64_t slack(const replica_join *join, uint64_t least) {
    return least << (join->ticks < REPLICA_SLACK_DOUBLES ? join->ticks : REPLICA_SLACK_DOUBLES);
}

static bool lacks_too_much(const replica *replica, uint64_t level) {
    const credit *credit = replica->host->credit;
    uint64_t most = credit == NULL ? 0 : REPLICA_KEPT_LINKS * credit->link_bytes, applied = replica->log.applied;
    return level + slack(&replica->join, REPLICA_KEPT_MAX) < applied ||
           (most != 0 && replica_log_bytes(&replica->log, level, applied) > most);
}

/* A state takes as long as it is large. While it is on its way to the joiner many more entries are kept, and then the
 * gate is closed: if the joiner were filled again from the start, a slot whose state takes longer than these entries
 * would never get its replica. */
static bool keeps_too_much(const replica *replica) {
    return replica->join.successor.level + REPLICA_KEPT_STATE < replica->log.applied;
}

/* Keeps the applied entries that a joiner still lacks; a joiner that has its state and lacks too much is filled again
 * from the start. */
static void trim(replica *replica) {
    replica_join *join = &replica->join;
    uint64_t applied = replica->log.applied;
    if (join->filled && !join->begun && keeps_too_much(replica)) join->gated = true;
    if (join->begun && !join->gated && lacks_too_much(replica, join->successor.level))
        join->filled = join->begun = false;
    bool keeps = join->filled && join->successor.level < applied;
    replica_log_trim(&replica->log, keeps ? join->successor.level : applied);
}

void replica_commit(replica *replica, uint64_t lsn) {
    MR_ASSERT(replica->values != NULL);
    if (lsn > replica_log_last(&replica->log)) lsn = replica_log_last(&replica->log);
    while (replica->log.applied < lsn) {
        const replica_log_entry *entry = replica_log_at(&replica->log, replica->log.applied + 1);
        replica_log_apply(&replica->log);
        replica_apply(replica, entry);
    }
    if (replica->level < replica->log.applied) replica->level = replica->log.applied;
    trim(replica);
    MR_ASSERT(replica->log.applied <= replica->level && replica->level <= replica_log_last(&replica->log));
}

/* ---- Down the chain. */

/* Sends as many entries as the receiver has room for; the next entry always if the receiver has applied all its
 * entries. */
static void send_entries(replica *replica, uint32_t server, replica_successor *successor) {
    const replica_log *log = &replica->log;
    MR_ASSERT(replica->level <= replica_log_last(log));
    uint64_t level = successor->level > log->base ? successor->level : log->base;
    bool empty = !successor->heard || successor->applied >= successor->level;
    if (successor->sent < level) successor->sent = level;
    for (uint64_t lsn = successor->sent + 1; lsn <= replica->level; lsn++) {
        bool room = (lsn == level + 1 && empty) || replica_log_bytes(log, level, lsn) <= successor->room;
        if (!room && !MUTATED("no-room")) break;
        replica_tell(replica, server, SLOT_MESSAGE_ENTRY, replica_log_at(log, lsn), lsn);
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

/* Asks a successor for its level if it has not confirmed everything, or may not know the committed lsn. */
static void ask_level(replica *replica, uint32_t server, replica_successor *successor) {
    if (successor->level >= replica->level && successor->applied >= replica->level) return;
    successor->asked = 1 + successor->level;
    replica_tell(replica, server, SLOT_MESSAGE_ENTRY, NULL, 0);
}

void replica_ask_levels(replica *replica) {
    if (has_successor(replica)) ask_level(replica, successor_of(replica), &replica->successor);
    if (replica->join.begun) ask_level(replica, replica->join.server, &replica->join.successor);
}

/* Updates a successor. If it was asked and its level is unchanged, or if it had no room, entries after its level are
 * sent again. */
static void hear_level(replica_successor *successor, const slot_message *message) {
    if (message->commit > successor->applied) successor->applied = message->commit;
    if (message->lsn < successor->level) return;
    bool again = successor->asked == 1 + message->lsn || message->status == SLOT_MESSAGE_LATER;
    successor->heard = true;
    successor->room = message->prev;
    successor->level = message->lsn;
    if (again) successor->sent = message->lsn;
    if (successor->asked <= 1 + message->lsn) successor->asked = 0;
}

/* A replica without unapplied entries always has room for the next one, also when entries of other slots use up the
 * credit. */
static bool has_room(const replica *replica, const slot_message *message) {
    bool empty = replica->log.applied == replica_log_last(&replica->log) && !MUTATED("no-spare");
    return empty || credit_follows(replica->host->credit, message->payload.size) || MUTATED("no-room");
}

/* Answers a tail that asks for the level of a joiner without a state. */
static void tell_nothing(replica *replica, uint32_t from) {
    bool asked = replica->place < 0 && replica->phase == REPLICA_OUT && replica->chain.count != 0;
    slot_message message = {
        .kind = SLOT_MESSAGE_LEVEL, .status = SLOT_MESSAGE_GONE, .slot = replica->slot, .epoch = replica->epoch};
    if (asked && replica->chain.chain[replica->chain.count - 1].server == from)
        replica->host->to_server(replica->host->context, from, &message);
}

void replica_take_entry(replica *replica, uint32_t from, const slot_message *message, shared_bytes *bytes) {
    if (replica->values == NULL && message->lsn == 0) tell_nothing(replica, from);
    if (replica->values == NULL || (replica->phase != REPLICA_MEMBER && replica->phase != REPLICA_JOINING)) return;
    int before = replica->phase == REPLICA_MEMBER ? replica->place - 1 : replica->chain.count - 1;
    if (before < 0 || replica->chain.chain[before].server != from) return;
    replica_commit(replica, message->commit);
    bool next =
        message->lsn == replica_log_last(&replica->log) + 1 && replica->level == replica_log_last(&replica->log);
    slot_message_status status = next && !has_room(replica, message) ? SLOT_MESSAGE_LATER : SLOT_MESSAGE_OK;
    if (next && status == SLOT_MESSAGE_OK) {
        replica_append_log(replica, &(replica_log_entry){message->entry, message->rank, message->name, message->payload,
                                                         bytes, CREDIT_LINK, 0});
        replica->level = message->lsn;
    } else if (message->lsn == replica->level + 1 && message->lsn <= replica_log_last(&replica->log)) {
        replica->level = message->lsn; /* an inherited entry, confirmed in this epoch */
    }
    if (MUTATED("apply-early")) replica_commit(replica, replica->level);
    replica_advance(replica);
    replica_tell_level(replica, from, status);
}

/* ---- Up the chain. */

void replica_tell_level(replica *replica, uint32_t server, slot_message_status status) {
    slot_message message = {.kind = SLOT_MESSAGE_LEVEL,
                            .status = (uint8_t)status,
                            .slot = replica->slot,
                            .epoch = replica->epoch,
                            .lsn = replica->level,
                            .commit = replica->log.applied,
                            .prev = credit_room(replica->host->credit)};
    if (replica->values != NULL) replica->host->to_server(replica->host->context, server, &message);
}

static uint64_t committed_here(const replica *replica) {
    uint64_t lsn = MUTATED("no-level") ? replica_log_last(&replica->log) : replica->level;
    if (replica->join.gated && replica->join.successor.level < lsn) lsn = replica->join.successor.level;
    return lsn;
}

void replica_advance(replica *replica) {
    uint64_t before = replica->log.applied;
    bool leads = replica->phase == REPLICA_INHERITING || replica->phase == REPLICA_SERVING;
    if (replica_is_tail(replica) && (leads || replica->phase == REPLICA_MEMBER))
        replica_commit(replica, committed_here(replica));
    if (leads && MUTATED("early-ack")) replica_commit(replica, replica->level);
    pass_on(replica);
    if (replica->place > 0 && replica->log.applied > before)
        replica_tell_level(replica, replica->chain.chain[replica->place - 1].server, SLOT_MESSAGE_OK);
}

static void take_joiner_level(replica *replica, const slot_message *message) {
    replica_join *join = &replica->join;
    if (message->status == SLOT_MESSAGE_GONE) {
        if (!join->begun) join->filled = false; /* the state was lost: the next tick sends it again */
        return;
    }
    if (!join->filled || (!join->gated && message->lsn < replica->log.base)) {
        join->filled = join->begun = false; /* entries that the joiner lacks are gone: the next tick sends the state */
        return;
    }
    if (!join->begun) join->successor = (replica_successor){.level = message->lsn, .sent = message->lsn};
    join->begun = true;
    hear_level(&join->successor, message);
    bool near = join->successor.level + slack(join, REPLICA_GATE_SLACK) >= replica->level;
    if (near && MUTATED("no-gate")) {
        join->ready = true;
        replica_tell_gate(replica);
    } else if (near) {
        join->gated = true;
    }
    bool whole = join->successor.level >= replica->inherited && join->successor.level >= replica->log.applied;
    if (join->gated) join->ready = whole;
    replica_advance(replica);
}

void replica_take_level(replica *replica, uint32_t from, const slot_message *message) {
    if (replica->values == NULL || replica->phase == REPLICA_ENTERING) return;
    if (has_successor(replica) && successor_of(replica) == from) {
        if (message->status == SLOT_MESSAGE_GONE) return; /* sent while the server was not in the chain */
        hear_level(&replica->successor, message);
        replica_commit(replica, message->commit);
        pass_on(replica);
        if (replica->place > 0)
            replica_tell_level(replica, replica->chain.chain[replica->place - 1].server, SLOT_MESSAGE_OK);
    } else if (replica_is_tail(replica) && replica->join.wanted && replica->join.server == from) {
        take_joiner_level(replica, message);
    }
}
