/* replica_serve.c — see replica.h: service of a head for ranks, and application of committed entries to the state. */
#include "ps/replica_internal.h"

#include "base/mutation.h"

/* ---- Entries. */

void replica_append(replica *replica, const replica_log_entry *entry) {
    /* invariant 2 of replica.h */
    MR_ASSERT(replica->phase == REPLICA_SERVING && replica->level == replica_log_last(&replica->log));
    replica_append_log(replica, entry);
    replica->level = replica_log_last(&replica->log);
    replica_advance(replica);
}

static void apply_push(replica *replica, const replica_log_entry *entry) {
    if (entry->rank >= replica->rank_count) return;
    if (entry->payload.size != 0) replica->ops->apply(replica->values, entry->payload, seq_step(entry->name));
    replica->names[entry->rank] = entry->name;
    if (replica_is_head(replica)) replica_acknowledge(replica, entry->rank, SLOT_MESSAGE_OK, entry->name, 0);
}

void replica_apply(replica *replica, const replica_log_entry *entry) {
    switch (entry->kind) {
    case REPLICA_LOG_PUSH: apply_push(replica, entry); break;
    case REPLICA_LOG_ROUND: replica_end_round(replica, entry); break;
    case REPLICA_LOG_FREEZE: replica_freeze(replica, entry); break;
    case REPLICA_LOG_MARK: replica_apply_mark(replica, entry); break;
    case REPLICA_LOG_NORMS: replica_apply_norms(replica, entry); break;
    case REPLICA_LOG_FRESH:
        if (replica_is_head(replica)) replica_show(replica, entry->rank, entry->name, entry->payload);
        break;
    default: replica_apply_order(replica, entry); break;
    }
    replica->news = replica->moved = true;
    if (replica->host->on_applied != NULL) replica->host->on_applied(replica->host->watcher, replica, entry);
}

/* True: the next entry is applied before the next message is taken, because the chain has one member and no joiner. */
static bool applies_at_once(const replica *replica) {
    return replica->chain.count == 1 && !replica->join.wanted &&
           replica->log.applied == replica_log_last(&replica->log);
}

/* Makes references in the payload part of the payload, if the bytes still exist. The caller releases *own. False: the
 * bytes are gone. */
static bool fetch(const replica *replica, replica_log_entry *entry, shared_bytes **own) {
    if (replica->ops->settle == NULL) return false;
    if (!replica->ops->settle(replica->host->values_context, entry->payload, false, own)) return false;
    if (*own == NULL) return true;
    entry->payload = shared_bytes_bytes(*own);
    entry->bytes = *own;
    return true;
}

static bool admits(const replica *replica, const replica_log_entry *entry) {
    return credit_admits(replica->host->credit, entry->rank, entry->payload.size) || MUTATED("no-credit");
}

static void log_push(replica *replica, const slot_message *message, shared_bytes *bytes) {
    struct shared_bytes *own = NULL;
    replica_log_entry entry = {REPLICA_LOG_PUSH, message->rank, message->name, message->payload, bytes, CREDIT_RANK, 0};
    bool afar = (message->entry & SLOT_MESSAGE_PUSH_AFAR) != 0, now = applies_at_once(replica);
    bool taken = (!afar || now || fetch(replica, &entry, &own)) && admits(replica, &entry);
    if (taken && afar && now)
        taken = replica->ops->settle != NULL &&
                replica->ops->settle(replica->host->values_context, entry.payload, true, &own);
    if (taken)
        replica_append(replica, &entry);
    else
        replica_acknowledge(replica, message->rank, SLOT_MESSAGE_LATER, message->name, 0);
    shared_bytes_unref(own);
}

void replica_take_push(replica *replica, const slot_message *message, shared_bytes *bytes) {
    MR_ASSERT(replica->phase == REPLICA_SERVING && message->rank < replica->rank_count);
    uint32_t rank = message->rank;
    bool asks = (message->entry & SLOT_MESSAGE_PUSH_ASK) != 0, names = !MUTATED("no-clock");
    if (replica->consistency.kind == CONSISTENCY_BSP) {
        if (asks)
            replica_ask_contribution(replica, message);
        else
            replica_take_contribution(replica, message, bytes);
    } else if (message->name <= replica->names[rank] && names) {
        replica_acknowledge(replica, rank, SLOT_MESSAGE_OK, message->name, 0);
    } else if (message->name <= replica->logged[rank] && names) {
        if (MUTATED("log-ack")) replica_acknowledge(replica, rank, SLOT_MESSAGE_OK, message->name, 0);
    } else if (!asks && (message->prev == replica->logged[rank] || MUTATED("no-prev") || !names)) {
        log_push(replica, message, bytes);
    } else {
        replica_acknowledge(replica, rank, SLOT_MESSAGE_RESEND, message->name, replica->logged[rank]);
    }
}

/* For a rank that has left: the last step that all others have ended, behind which it returns. */
static uint64_t front_of(const replica *replica, uint32_t rank) {
    bool rounds = replica->consistency.kind == CONSISTENCY_BSP;
    if (rounds || rank >= replica->rank_count || !seq_is_left(replica->names[rank])) return replica->version;
    uint64_t slowest = consistency_slowest(replica->names, replica->rank_count);
    return slowest == UINT64_MAX ? 0 : slowest;
}

/* LATER while the log has an entry of an earlier term, which the requester would take for its own. A reader has pushed
 * nothing. */
void replica_take_hello(replica *replica, const slot_message *message) {
    MR_ASSERT(replica->phase == REPLICA_SERVING && message->rank < replica->client_count);
    bool pushes = message->rank < replica->rank_count;
    uint64_t name = pushes ? replica->names[message->rank] : 0;
    bool rests = !pushes || replica->logged[message->rank] == name || MUTATED("early-clock");
    replica_reply(replica, message->rank, SLOT_MESSAGE_CLOCK, rests ? SLOT_MESSAGE_OK : SLOT_MESSAGE_LATER,
                  &(struct slot_message){.name = name,
                                         .lsn = front_of(replica, message->rank),
                                         .commit = message->commit,
                                         .prev = credit_grant(replica->host->credit)});
}
