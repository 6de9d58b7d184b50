/* replica_round_state.c — see replica.h and round_state.h: tasks of the round state's head beyond those of any head. */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/mutation.h"
#include "ps/replica_internal.h"

const round_state *replica_round_state(const replica *replica) { return replica->values; }

static void to_all_heads(replica *replica, const slot_message *message) {
    for (uint32_t i = 0; i < replica->round_slots; i++) replica->host->to_head(replica->host->context, i, message);
}

/* ---- Orders. */

static void answer_order(replica *replica, uint32_t rank, replica_log_kind kind, uint64_t name) {
    MR_ASSERT(replica_is_round_state(replica) && rank < replica->rank_count && kind >= REPLICA_LOG_JOIN &&
              kind <= REPLICA_LOG_DROP);
    const round_state *state = replica->values;
    bool holds = rank_set_has(&state->next, rank) == (kind == REPLICA_LOG_JOIN);
    slot_message message = {.kind = SLOT_MESSAGE_ORDERED,
                            .status = holds ? SLOT_MESSAGE_OK : SLOT_MESSAGE_GONE,
                            .entry = (uint8_t)kind,
                            .slot = replica->slot,
                            .rank = rank,
                            .epoch = replica->epoch,
                            .lsn = state->round + 1,
                            .name = name};
    if (kind == REPLICA_LOG_DROP)
        replica->host->to_controller(replica->host->context, &message);
    else
        replica->host->to_rank(replica->host->context, rank, &message);
}

/* An order that is late or repeated has a number not above the last one. */
void replica_take_order(replica *replica, const slot_message *message) {
    if (!replica_is_round_state(replica) || replica->phase != REPLICA_SERVING || message->rank >= replica->rank_count)
        return;
    if (message->entry < REPLICA_LOG_JOIN || message->entry > REPLICA_LOG_DROP) return;
    if (message->name <= replica->names[message->rank])
        answer_order(replica, message->rank, message->entry, message->name);
    else if (message->name > replica->logged[message->rank])
        replica_append(replica,
                       &(replica_log_entry){.kind = message->entry, .rank = message->rank, .name = message->name});
}

void replica_apply_order(replica *replica, const replica_log_entry *entry) {
    round_state_apply(replica->values, entry);
    if (entry->kind > REPLICA_LOG_DROP || entry->rank >= replica->rank_count) return;
    replica->names[entry->rank] = entry->name;
    if (replica_is_head(replica)) answer_order(replica, entry->rank, entry->kind, entry->name);
}

/* ---- A rank that is being dropped. */

static void decide(replica *replica, replica_log_kind kind, uint32_t rank) {
    MR_ASSERT(replica->phase == REPLICA_SERVING && (kind == REPLICA_LOG_VOID || kind == REPLICA_LOG_REDO));
    const round_state *state = replica->values;
    bool decided = replica_log_holds(&replica->log, REPLICA_LOG_VOID, rank, state->round) ||
                   replica_log_holds(&replica->log, REPLICA_LOG_REDO, rank, state->round);
    if (!decided && !replica->closing)
        replica_append(replica, &(replica_log_entry){.kind = (uint8_t)kind, .rank = rank, .name = state->round});
}

/* The decision may be lost with the epoch: then the new head asks and decides again. */
void replica_forget_inquiry(replica *replica) {
    free(replica->inquiry.frozen);
    replica->inquiry = (replica_inquiry){0};
}

static void inquire(replica *replica, uint32_t rank) {
    const round_state *state = replica->values;
    replica_inquiry *inquiry = &replica->inquiry;
    if (inquiry->frozen == NULL || inquiry->rank != rank || inquiry->round != state->round) {
        replica_forget_inquiry(replica);
        *inquiry = (replica_inquiry){.rank = rank, .round = state->round};
        inquiry->frozen = xcalloc(replica->slot_count, sizeof *inquiry->frozen);
    }
    slot_message message = {.kind = SLOT_MESSAGE_FREEZE, .rank = rank, .name = state->round};
    for (uint32_t i = 0; i < replica->round_slots; i++)
        if (!inquiry->frozen[i]) replica->host->to_head(replica->host->context, i, &message);
}

void replica_take_frozen(replica *replica, const slot_message *message) {
    replica_inquiry *inquiry = &replica->inquiry;
    if (!replica_is_round_state(replica) || replica->phase != REPLICA_SERVING || inquiry->frozen == NULL) return;
    const round_state *state = replica->values;
    if (message->rank != round_state_undecided(state) || message->name != state->round) return;
    if (message->rank != inquiry->rank || message->name != inquiry->round || message->prev >= replica->round_slots)
        return;
    if (message->status != SLOT_MESSAGE_OK) {
        decide(replica, REPLICA_LOG_REDO, message->rank);
        return;
    }
    inquiry->count += !inquiry->frozen[message->prev];
    inquiry->frozen[message->prev] = true;
    MR_ASSERT(inquiry->count <= replica->round_slots);
    if (inquiry->count == replica->round_slots) decide(replica, REPLICA_LOG_VOID, message->rank);
}

/* ---- Messages to the heads of slots. */

static void tell_set(replica *replica, const round_state_terms *terms) {
    uint8_t bytes[ROUND_STATE_TERMS_MAX];
    size_t size = round_state_write_terms(terms, replica->rank_count, bytes);
    to_all_heads(replica,
                 &(slot_message){.kind = SLOT_MESSAGE_TERMS, .name = terms->round, .terms = span_of(bytes, size)});
}

void replica_tell_terms(replica *replica) {
    MR_ASSERT(replica_is_round_state(replica) && replica->phase == REPLICA_SERVING);
    const round_state *state = replica->values;
    uint32_t rank = round_state_undecided(state);
    round_state_terms terms;
    if (rank != RANK_SET_MAX && MUTATED("no-freeze"))
        decide(replica, REPLICA_LOG_VOID, rank);
    else if (rank != RANK_SET_MAX)
        inquire(replica, rank);
    if (round_state_decided(state, &terms)) tell_set(replica, &terms);
    if (round_state_decided_before(state, &terms)) tell_set(replica, &terms);
}
