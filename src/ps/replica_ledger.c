/* replica_ledger.c — see replica.h and ledger.h: what the head of the ledger does besides keeping it. */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/mutation.h"
#include "ps/replica_core.h"

const ledger *replica_ledger(const replica *replica) { return replica->values; }

static void to_all_heads(replica *replica, const part *part) {
    for (uint32_t i = 0; i < replica->round_slots; i++) replica->host->to_head(replica->host->context, i, part);
}

/* ---- Orders. */

static void answer_order(replica *replica, uint32_t rank, tape_kind kind, uint64_t name) {
    MR_ASSERT(replica_is_ledger(replica) && rank < replica->rank_count && kind >= TAPE_JOIN && kind <= TAPE_DROP);
    const ledger *ledger = replica->values;
    bool holds = crowd_has(&ledger->next, rank) == (kind == TAPE_JOIN);
    part part = {.kind = PART_ORDERED,
                 .status = holds ? PART_OK : PART_GONE,
                 .entry = (uint8_t)kind,
                 .slot = replica->slot,
                 .rank = rank,
                 .epoch = replica->epoch,
                 .lsn = ledger->round + 1,
                 .name = name};
    if (kind == TAPE_DROP)
        replica->host->to_director(replica->host->context, &part);
    else
        replica->host->to_rank(replica->host->context, rank, &part);
}

/* An order that comes late or twice has a number that is not above the last one. */
void replica_take_order(replica *replica, const part *part) {
    if (!replica_is_ledger(replica) || replica->phase != REPLICA_SERVING || part->rank >= replica->rank_count) return;
    if (part->entry < TAPE_JOIN || part->entry > TAPE_DROP) return;
    if (part->name <= replica->names[part->rank])
        answer_order(replica, part->rank, part->entry, part->name);
    else if (part->name > replica->logged[part->rank])
        replica_append(replica, &(tape_entry){.kind = part->entry, .rank = part->rank, .name = part->name});
}

void replica_apply_order(replica *replica, const tape_entry *entry) {
    ledger_apply(replica->values, entry);
    if (entry->kind > TAPE_DROP || entry->rank >= replica->rank_count) return;
    replica->names[entry->rank] = entry->name;
    if (replica_is_head(replica)) answer_order(replica, entry->rank, entry->kind, entry->name);
}

/* ---- A rank that is given up. */

static void decide(replica *replica, tape_kind kind, uint32_t rank) {
    MR_ASSERT(replica->phase == REPLICA_SERVING && (kind == TAPE_VOID || kind == TAPE_REDO));
    const ledger *ledger = replica->values;
    bool decided = tape_holds(&replica->tape, TAPE_VOID, rank, ledger->round) ||
                   tape_holds(&replica->tape, TAPE_REDO, rank, ledger->round);
    if (!decided && !replica->closing)
        replica_append(replica, &(tape_entry){.kind = (uint8_t)kind, .rank = rank, .name = ledger->round});
}

/* What was decided upon it may be lost with an epoch: then it is asked and decided once more. */
void replica_forget_inquiry(replica *replica) {
    free(replica->inquiry.frozen);
    replica->inquiry = (replica_inquiry){0};
}

static void inquire(replica *replica, uint32_t rank) {
    const ledger *ledger = replica->values;
    replica_inquiry *inquiry = &replica->inquiry;
    if (inquiry->frozen == NULL || inquiry->rank != rank || inquiry->round != ledger->round) {
        replica_forget_inquiry(replica);
        *inquiry = (replica_inquiry){.rank = rank, .round = ledger->round};
        inquiry->frozen = xcalloc(replica->slot_count, sizeof *inquiry->frozen);
    }
    part part = {.kind = PART_FREEZE, .rank = rank, .name = ledger->round};
    for (uint32_t i = 0; i < replica->round_slots; i++)
        if (!inquiry->frozen[i]) replica->host->to_head(replica->host->context, i, &part);
}

void replica_take_frozen(replica *replica, const part *part) {
    replica_inquiry *inquiry = &replica->inquiry;
    if (!replica_is_ledger(replica) || replica->phase != REPLICA_SERVING || inquiry->frozen == NULL) return;
    const ledger *ledger = replica->values;
    if (part->rank != ledger_undecided(ledger) || part->name != ledger->round) return;
    if (part->rank != inquiry->rank || part->name != inquiry->round || part->prev >= replica->round_slots) return;
    if (part->status != PART_OK) {
        decide(replica, TAPE_REDO, part->rank);
        return;
    }
    inquiry->count += !inquiry->frozen[part->prev];
    inquiry->frozen[part->prev] = true;
    MR_ASSERT(inquiry->count <= replica->round_slots);
    if (inquiry->count == replica->round_slots) decide(replica, TAPE_VOID, part->rank);
}

/* ---- What the heads must know. */

static void tell_set(replica *replica, const ledger_terms *terms) {
    uint8_t bytes[LEDGER_TERMS_MAX];
    size_t size = ledger_write_terms(terms, replica->rank_count, bytes);
    to_all_heads(replica, &(part){.kind = PART_TERMS, .name = terms->round, .terms = span_of(bytes, size)});
}

void replica_tell_terms(replica *replica) {
    MR_ASSERT(replica_is_ledger(replica) && replica->phase == REPLICA_SERVING);
    const ledger *ledger = replica->values;
    uint32_t rank = ledger_undecided(ledger);
    ledger_terms terms;
    if (rank != CROWD_MAX && MUTATED("no-freeze"))
        decide(replica, TAPE_VOID, rank);
    else if (rank != CROWD_MAX)
        inquire(replica, rank);
    if (ledger_decided(ledger, &terms)) tell_set(replica, &terms);
    if (ledger_decided_before(ledger, &terms)) tell_set(replica, &terms);
}
