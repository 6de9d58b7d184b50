/* replica_serve.c — see replica.h: what a head does for ranks, and what a committed entry does to the state. */
#include "ps/replica_core.h"

#include "base/mutation.h"

/* ---- Entries. */

void replica_append(replica *replica, const tape_entry *entry) {
    MR_ASSERT(replica->phase == REPLICA_SERVING && replica->level == tape_last(&replica->tape)); /* replica.h, 2 */
    replica_log(replica, entry);
    replica->level = tape_last(&replica->tape);
    replica_advance(replica);
}

static void apply_push(replica *replica, const tape_entry *entry) {
    if (entry->rank >= replica->rank_count) return;
    if (entry->payload.size != 0) replica->ops->apply(replica->values, entry->payload, name_step(entry->name));
    replica->names[entry->rank] = entry->name;
    if (replica_is_head(replica)) replica_acknowledge(replica, entry->rank, PART_OK, entry->name, 0);
}

void replica_apply(replica *replica, const tape_entry *entry) {
    switch (entry->kind) {
    case TAPE_PUSH: apply_push(replica, entry); break;
    case TAPE_ROUND: replica_end_round(replica, entry); break;
    case TAPE_FREEZE: replica_freeze(replica, entry); break;
    case TAPE_MARK: replica_apply_mark(replica, entry); break;
    case TAPE_NORMS: replica_apply_norms(replica, entry); break;
    case TAPE_FRESH:
        if (replica_is_head(replica)) replica_show(replica, entry->rank, entry->name, entry->payload);
        break;
    default: replica_apply_order(replica, entry); break;
    }
    replica->news = replica->moved = true;
    if (replica->host->on_applied != NULL) replica->host->on_applied(replica->host->watcher, replica, entry);
}

/* Alone, with nobody to fill, a head applies what it logs before it takes anything else. */
static bool applies_at_once(const replica *replica) {
    return replica->chain.count == 1 && !replica->join.wanted && replica->tape.applied == tape_last(&replica->tape);
}

/* What it speaks of becomes a part of it, where it is kept; *own is to be released. False: it is not there. */
static bool fetch(const replica *replica, tape_entry *entry, bale **own) {
    if (replica->ops->settle == NULL) return false;
    if (!replica->ops->settle(replica->host->values_context, entry->payload, false, own)) return false;
    if (*own == NULL) return true;
    entry->payload = bale_bytes(*own);
    entry->bale = *own;
    return true;
}

static bool admits(const replica *replica, const tape_entry *entry) {
    return credit_admits(replica->host->credit, entry->rank, entry->payload.size) || MUTATED("no-credit");
}

static void log_push(replica *replica, const part *part, bale *bale) {
    struct bale *own = NULL;
    tape_entry entry = {TAPE_PUSH, part->rank, part->name, part->payload, bale, CREDIT_RANK, 0};
    bool afar = (part->entry & PART_PUSH_AFAR) != 0, now = applies_at_once(replica);
    bool taken = (!afar || now || fetch(replica, &entry, &own)) && admits(replica, &entry);
    if (taken && afar && now)
        taken = replica->ops->settle != NULL &&
                replica->ops->settle(replica->host->values_context, entry.payload, true, &own);
    if (taken)
        replica_append(replica, &entry);
    else
        replica_acknowledge(replica, part->rank, PART_LATER, part->name, 0);
    bale_unref(own);
}

void replica_take_push(replica *replica, const part *part, bale *bale) {
    MR_ASSERT(replica->phase == REPLICA_SERVING && part->rank < replica->rank_count);
    uint32_t rank = part->rank;
    bool asks = (part->entry & PART_PUSH_ASK) != 0, names = !MUTATED("no-clock");
    if (replica->consistency.kind == CONSISTENCY_BSP) {
        if (asks)
            replica_ask_gift(replica, part);
        else
            replica_take_gift(replica, part, bale);
    } else if (part->name <= replica->names[rank] && names) {
        replica_acknowledge(replica, rank, PART_OK, part->name, 0);
    } else if (part->name <= replica->logged[rank] && names) {
        if (MUTATED("log-ack")) replica_acknowledge(replica, rank, PART_OK, part->name, 0);
    } else if (!asks && (part->prev == replica->logged[rank] || MUTATED("no-prev") || !names)) {
        log_push(replica, part, bale);
    } else {
        replica_acknowledge(replica, rank, PART_RESEND, part->name, replica->logged[rank]);
    }
}

/* What an earlier stint has in the log would be taken for the asker's own. */
void replica_take_hello(replica *replica, const part *part) {
    MR_ASSERT(replica->phase == REPLICA_SERVING && part->rank < replica->rank_count);
    uint64_t name = replica->names[part->rank];
    bool rests = replica->logged[part->rank] == name || MUTATED("early-clock");
    replica_reply(replica, part->rank, PART_CLOCK, rests ? PART_OK : PART_LATER,
                  &(struct part){.name = name,
                                 .lsn = replica->version,
                                 .commit = part->commit,
                                 .prev = credit_grant(replica->host->credit)});
}
