/* replica_norms.c — see replica.h and norm_reports.h: norms of a round, at the head of a slot and at that of the round
 * state.
 *
 *     head of a slot: its sum is complete ── needs norms ── MEASURED(set, part) ──► head of the round state
 *                                                                                 │ its round is over, with that set;
 *     head of a slot: … needs none, closes    ◄── MEASURE: asks for a part ───────┤ when all have reported:
 *                                                                                 │ NORMS, an entry
 *     head of a slot: closes with these       ◄── NORMS(set, all phases) ─────────┘ committed
 *
 * The round state waits until its own round is over: then the set is final, also when a rank is dropped later. Norms
 * are sent after they are committed; so two slots never close a round with different ones, after any loss and
 * repetition. */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/mutation.h"
#include "ps/replica_internal.h"

/* ---- At a slot. */

void replica_drop_norms(replica *replica) {
    replica_norms *norms = &replica->norms;
    shared_bytes_unref(norms->sum);
    shared_bytes_unref(norms->part);
    shared_bytes_unref(norms->bytes);
    *norms = (replica_norms){.asked = norms->asked, .spoke = norms->spoke};
}

static void report(replica *replica, uint64_t round, uint32_t phase, const rank_set *set, span part) {
    uint8_t terms[ROUND_STATE_TERMS_MAX];
    size_t size = round_state_write_terms(&(round_state_terms){.members = *set}, replica->rank_count, terms);
    replica->host->to_head(replica->host->context, replica->round_state,
                           &(struct slot_message){.kind = SLOT_MESSAGE_MEASURED,
                                                  .rank = phase,
                                                  .name = round,
                                                  .prev = replica->slot,
                                                  .terms = span_of(terms, size),
                                                  .payload = part});
}

static span known(const replica_norms *norms) {
    return norms->bytes == NULL ? (span){0} : shared_bytes_bytes(norms->bytes);
}

/* Writes the sum with room for the head of its entry. */
static void write_sum(replica *replica) {
    size_t head = round_state_round_head(replica->rank_count);
    shared_bytes *bytes = shared_bytes_new(head + replica->ops->sum_size(replica->sum));
    replica->ops->sum_write(replica->sum, shared_bytes_room(bytes) + head);
    replica->norms.sum = bytes;
}

static void measure(replica *replica, const rank_set *set) {
    replica_norms *norms = &replica->norms;
    size_t head = round_state_round_head(replica->rank_count);
    span whole = shared_bytes_bytes(norms->sum), sum = span_of(whole.data + head, whole.size - head);
    norms->measured = true;
    norms->set = *set;
    if (replica->ops->measure == NULL || norms->phases >= STATE_MACHINE_PHASES_MAX) return;
    norms->part = replica->ops->measure(replica->values, sum, known(norms), replica->version + 1);
    if (norms->part != NULL) report(replica, replica->version, norms->phases, set, shared_bytes_bytes(norms->part));
}

bool replica_measure(replica *replica, const round_state_terms *terms) {
    replica_norms *norms = &replica->norms;
    MR_ASSERT(replica->phase == REPLICA_SERVING && replica->adds && !replica->closing);
    if (norms->sum == NULL) write_sum(replica);
    if (!norms->measured) measure(replica, &terms->members);
    if (norms->part != NULL) return false;
    if (norms->asked > norms->phases)
        report(replica, replica->version, norms->asked - 1, &terms->members, (span){0});
    else if (norms->spoke > norms->phases) /* reports without being asked */
        report(replica, replica->version, norms->phases, &terms->members, (span){0});
    norms->spoke = norms->phases;
    return true;
}

/* The ranks of the sum that is in the log. */
static rank_set closing_set(const replica *replica) {
    round_state_round round = {0};
    for (uint64_t lsn = replica->log.applied + 1; lsn <= replica_log_last(&replica->log); lsn++) {
        const replica_log_entry *entry = replica_log_at(&replica->log, lsn);
        if (entry->kind != REPLICA_LOG_ROUND) continue;
        bool good = round_state_read_round(entry->payload, replica->rank_count, &round);
        MR_ASSERT(good);
    }
    return round.terms.members;
}

shared_bytes *replica_take_sum(replica *replica, const round_state_terms *terms) {
    replica_norms *norms = &replica->norms;
    span more = known(norms);
    shared_bytes *bytes = norms->sum;
    MR_ASSERT(bytes != NULL && norms->measured && norms->part == NULL);
    size_t size = shared_bytes_bytes(bytes).size;
    round_state_terms said = *terms;
    said.normed = norms->phases != 0;
    norms->sum = NULL;
    if (said.normed) {
        mr_status status = shared_bytes_resize(&bytes, size + more.size + sizeof(uint32_t));
        MR_ASSERT(status == MR_OK);
        writer writer = writer_of(shared_bytes_room(bytes) + size, more.size + sizeof(uint32_t));
        writer_bytes(&writer, more.data, more.size);
        writer_u32(&writer, (uint32_t)more.size);
    }
    round_state_write_round(&said, replica->rank_count, shared_bytes_room(bytes));
    return bytes;
}

/* Repeats a report that may be lost. */
void replica_tick_norms(replica *replica) {
    const replica_norms *norms = &replica->norms;
    if (replica->phase != REPLICA_SERVING || replica->closing || norms->part == NULL) return;
    report(replica, replica->version, norms->phases, &norms->set, shared_bytes_bytes(norms->part));
}

/* For a round that is over or in the log the slot needs no further norms, and reports an empty part. */
void replica_take_measure(replica *replica, const slot_message *message) {
    if (replica->phase != REPLICA_SERVING || replica_is_round_state(replica) ||
        message->rank >= STATE_MACHINE_PHASES_MAX)
        return;
    if (message->name + 1 == replica->version) report(replica, message->name, message->rank, &replica->past, (span){0});
    if (message->name != replica->version) return;
    if (replica->closing) {
        rank_set set = closing_set(replica);
        report(replica, message->name, message->rank, &set, (span){0});
        return;
    }
    if (replica->norms.asked <= message->rank) replica->norms.asked = message->rank + 1;
    if (replica->norms.part != NULL)
        replica_tick_norms(replica);
    else
        replica_try_close(replica);
}

/* NORMS include the set of the round, which is final and replaces the terms known here. */
void replica_take_norms(replica *replica, const slot_message *message) {
    replica_norms *norms = &replica->norms;
    round_state_terms terms;
    bool stale = MUTATED("norms-stale") && message->name + 1 == replica->version;
    if (replica->phase != REPLICA_SERVING || replica_is_round_state(replica) || replica->closing) return;
    if ((message->name != replica->version && !stale) || message->rank > STATE_MACHINE_PHASES_MAX ||
        message->rank <= norms->phases)
        return;
    if (!round_state_read_terms(message->terms, replica->rank_count, &terms)) return;
    if (!stale) {
        replica->round.decided = replica->round.known = true;
        replica->round.terms = terms;
    }
    shared_bytes_unref(norms->part);
    shared_bytes_unref(norms->bytes);
    norms->part = NULL;
    norms->measured = false;
    norms->bytes = shared_bytes_copy(message->payload);
    norms->phases = message->rank;
    replica_try_close(replica);
}

/* ---- At the round state. */

static void tell(replica *replica, uint32_t slot, const round_state_norms *norms) {
    const round_state *state = replica->values;
    round_state_terms terms = round_state_terms_before(state);
    uint8_t bytes[ROUND_STATE_TERMS_MAX];
    size_t size = round_state_write_terms(&terms, replica->rank_count, bytes);
    replica->host->to_head(replica->host->context, slot,
                           &(slot_message){.kind = SLOT_MESSAGE_NORMS,
                                           .rank = norms->phases,
                                           .name = norms->round,
                                           .terms = span_of(bytes, size),
                                           .payload = shared_bytes_bytes(norms->bytes),
                                           .bytes = norms->bytes});
}

static void tell_all(replica *replica, const round_state_norms *norms) {
    for (uint32_t i = 0; i < replica->round_slots; i++) tell(replica, i, norms);
}

void replica_apply_norms(replica *replica, const replica_log_entry *entry) {
    round_state_pages *pages = replica->values;
    round_state_measure(pages, entry);
    if (replica_is_head(replica) && pages->norms.round + 1 == pages->now.round) tell_all(replica, &pages->norms);
}

static bool is_whole(const replica *replica, const rank_set *set) {
    const norm_reports *gathered = &replica->gathered;
    for (uint32_t i = 0; MUTATED("norms-some") && i < gathered->slot_count; i++)
        if (norm_reports_part(gathered, i).size != 0) return true;
    return norm_reports_are_whole(gathered, MUTATED("norms-set") ? NULL : set);
}

static shared_bytes *combine(const replica *replica) {
    const norm_reports *gathered = &replica->gathered;
    span *parts = xcalloc(gathered->slot_count, sizeof *parts);
    for (uint32_t i = 0; i < gathered->slot_count; i++) {
        uint32_t at = MUTATED("norms-order") ? gathered->reports[i].order : i;
        parts[at] = norm_reports_part(gathered, i);
    }
    shared_bytes *bytes = replica->host->values->combine(replica->host->values_context, parts, gathered->slot_count);
    free(parts);
    return bytes;
}

/* Commits the norms of a round once all slots have reported. The set is final when the round is over at the round
 * state. */
void replica_try_norms(replica *replica) {
    MR_ASSERT(replica_is_round_state(replica) && replica->phase == REPLICA_SERVING);
    const norm_reports *gathered = &replica->gathered;
    const round_state_pages *pages = replica->values;
    uint64_t round = gathered->round;
    if (!gathered->open || round + 1 != pages->now.round || !is_whole(replica, &pages->now.past_set)) return;
    if (gathered->phase != round_state_phases(pages, round)) return;
    if (replica_log_holds(&replica->log, REPLICA_LOG_NORMS, gathered->phase, round)) return;
    shared_bytes *bytes = combine(replica);
    replica_log_entry entry = {
        REPLICA_LOG_NORMS, gathered->phase, round, shared_bytes_bytes(bytes), bytes, CREDIT_NONE, 0};
    if (MUTATED("norms-early") && gathered->phase == 0)
        tell_all(replica, &(round_state_norms){round, gathered->phase + 1, bytes});
    replica_append(replica, &entry);
    shared_bytes_unref(bytes);
}

/* Asks slots that have not reported: without `all` only those that do not report without being asked. */
static void ask(replica *replica, bool all) {
    norm_reports *gathered = &replica->gathered;
    slot_message message = {.kind = SLOT_MESSAGE_MEASURE, .rank = gathered->phase, .name = gathered->round};
    for (uint32_t i = 0; i < replica->round_slots; i++)
        if (norm_reports_ask(gathered, i, all)) replica->host->to_head(replica->host->context, i, &message);
}

void replica_take_measured(replica *replica, const slot_message *message) {
    const round_state_pages *pages = replica->values;
    round_state_terms terms;
    if (!replica_is_round_state(replica) || replica->phase != REPLICA_SERVING) return;
    if (message->prev >= replica->round_slots || message->payload.size > STATE_MACHINE_NORMS_MAX) return;
    if (replica->host->values->combine == NULL || !round_state_read_terms(message->terms, replica->rank_count, &terms))
        return;
    uint64_t now = pages->now.round;
    uint32_t phases = round_state_phases(pages, message->name);
    if (message->name != now && message->name + 1 != now) return;
    if (message->rank < phases && message->name + 1 == now) {
        if (message->payload.size != 0) tell(replica, (uint32_t)message->prev, &pages->norms);
        return;
    }
    if (message->rank != phases || message->rank >= STATE_MACHINE_PHASES_MAX) return;
    bool first = norm_reports_take(&replica->gathered, replica->round_slots, message->name, message->rank,
                                   (uint32_t)message->prev, &terms.members, message->payload);
    if (first) ask(replica, false);
    replica_try_norms(replica);
}

void replica_tick_gathered(replica *replica) {
    const norm_reports *gathered = &replica->gathered;
    const round_state_pages *pages = replica->values;
    bool waits = gathered->open && gathered->phase == round_state_phases(pages, gathered->round);
    if (waits && (gathered->round == pages->now.round || gathered->round + 1 == pages->now.round)) ask(replica, true);
}
