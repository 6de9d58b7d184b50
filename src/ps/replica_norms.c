/* replica_norms.c — see replica.h and norms.h: norms of a round, at the head of a slot and at that of the ledger.
 *
 *     head of a slot: its sum is whole ── needs norms ── MEASURED(set, part) ──► head of the ledger
 *                                                                                 │ its round is over, with that set;
 *     head of a slot: … needs none, closes    ◄── MEASURE: have you any? ─────────┤ when all have reported:
 *                                                                                 │ NORMS, an entry
 *     head of a slot: closes with these       ◄── NORMS(set, all phases) ─────────┘ committed
 *
 * The ledger waits for its own round: then the set is final, whoever is given up later. Norms are told when they are
 * committed; so two slots never close a round with different ones, whatever is lost and reported again. */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/mutation.h"
#include "ps/replica_core.h"

/* ---- At a slot. */

void replica_drop_norms(replica *replica) {
    replica_norms *norms = &replica->norms;
    bale_unref(norms->sum);
    bale_unref(norms->part);
    bale_unref(norms->bale);
    *norms = (replica_norms){.asked = norms->asked, .spoke = norms->spoke};
}

static void report(replica *replica, uint64_t round, uint32_t phase, const crowd *set, span part) {
    uint8_t terms[LEDGER_TERMS_MAX];
    size_t size = ledger_write_terms(&(ledger_terms){.members = *set}, replica->rank_count, terms);
    replica->host->to_head(replica->host->context, replica->ledger,
                           &(struct part){.kind = PART_MEASURED,
                                          .rank = phase,
                                          .name = round,
                                          .prev = replica->slot,
                                          .terms = span_of(terms, size),
                                          .payload = part});
}

static span known(const replica_norms *norms) { return norms->bale == NULL ? (span){0} : bale_bytes(norms->bale); }

/* The sum as it will be logged, with room for what stands in front of it. */
static void write_sum(replica *replica) {
    size_t head = ledger_round_head(replica->rank_count);
    bale *bale = bale_new(head + replica->ops->sum_size(replica->sum));
    replica->ops->sum_write(replica->sum, bale_room(bale) + head);
    replica->norms.sum = bale;
}

static void measure(replica *replica, const crowd *set) {
    replica_norms *norms = &replica->norms;
    size_t head = ledger_round_head(replica->rank_count);
    span whole = bale_bytes(norms->sum), sum = span_of(whole.data + head, whole.size - head);
    norms->measured = true;
    norms->set = *set;
    if (replica->ops->measure == NULL || norms->phases >= VALUES_PHASES_MAX) return;
    norms->part = replica->ops->measure(replica->values, sum, known(norms), replica->version + 1);
    if (norms->part != NULL) report(replica, replica->version, norms->phases, set, bale_bytes(norms->part));
}

bool replica_measure(replica *replica, const ledger_terms *terms) {
    replica_norms *norms = &replica->norms;
    MR_ASSERT(replica->phase == REPLICA_SERVING && replica->adds && !replica->closing);
    if (norms->sum == NULL) write_sum(replica);
    if (!norms->measured) measure(replica, &terms->members);
    if (norms->part != NULL) return false;
    if (norms->asked > norms->phases)
        report(replica, replica->version, norms->asked - 1, &terms->members, (span){0});
    else if (norms->spoke > norms->phases) /* so nobody asks */
        report(replica, replica->version, norms->phases, &terms->members, (span){0});
    norms->spoke = norms->phases;
    return true;
}

/* Whose sum is in the log. */
static crowd closing_set(const replica *replica) {
    ledger_round round = {0};
    for (uint64_t lsn = replica->tape.applied + 1; lsn <= tape_last(&replica->tape); lsn++) {
        const tape_entry *entry = tape_at(&replica->tape, lsn);
        if (entry->kind != TAPE_ROUND) continue;
        bool good = ledger_read_round(entry->payload, replica->rank_count, &round);
        MR_ASSERT(good);
    }
    return round.terms.members;
}

bale *replica_take_sum(replica *replica, const ledger_terms *terms) {
    replica_norms *norms = &replica->norms;
    span more = known(norms);
    bale *bale = norms->sum;
    MR_ASSERT(bale != NULL && norms->measured && norms->part == NULL);
    size_t size = bale_bytes(bale).size;
    ledger_terms said = *terms;
    said.normed = norms->phases != 0;
    norms->sum = NULL;
    if (said.normed) {
        mr_status status = bale_resize(&bale, size + more.size + sizeof(uint32_t));
        MR_ASSERT(status == MR_OK);
        writer writer = writer_of(bale_room(bale) + size, more.size + sizeof(uint32_t));
        writer_bytes(&writer, more.data, more.size);
        writer_u32(&writer, (uint32_t)more.size);
    }
    ledger_write_round(&said, replica->rank_count, bale_room(bale));
    return bale;
}

/* What may be lost is said again. */
void replica_tick_norms(replica *replica) {
    const replica_norms *norms = &replica->norms;
    if (replica->phase != REPLICA_SERVING || replica->closing || norms->part == NULL) return;
    report(replica, replica->version, norms->phases, &norms->set, bale_bytes(norms->part));
}

/* A round that is over, or about to be, needed no more. */
void replica_take_measure(replica *replica, const part *part) {
    if (replica->phase != REPLICA_SERVING || replica_is_ledger(replica) || part->rank >= VALUES_PHASES_MAX) return;
    if (part->name + 1 == replica->version) report(replica, part->name, part->rank, &replica->past, (span){0});
    if (part->name != replica->version) return;
    if (replica->closing) {
        crowd set = closing_set(replica);
        report(replica, part->name, part->rank, &set, (span){0});
        return;
    }
    if (replica->norms.asked <= part->rank) replica->norms.asked = part->rank + 1;
    if (replica->norms.part != NULL)
        replica_tick_norms(replica);
    else
        replica_try_close(replica);
}

/* With them comes the set: whatever this slot has heard of that, it is the last word. */
void replica_take_norms(replica *replica, const part *part) {
    replica_norms *norms = &replica->norms;
    ledger_terms terms;
    bool stale = MUTATED("norms-stale") && part->name + 1 == replica->version;
    if (replica->phase != REPLICA_SERVING || replica_is_ledger(replica) || replica->closing) return;
    if ((part->name != replica->version && !stale) || part->rank > VALUES_PHASES_MAX || part->rank <= norms->phases)
        return;
    if (!ledger_read_terms(part->terms, replica->rank_count, &terms)) return;
    if (!stale) {
        replica->round.decided = replica->round.known = true;
        replica->round.terms = terms;
    }
    bale_unref(norms->part);
    bale_unref(norms->bale);
    norms->part = NULL;
    norms->measured = false;
    norms->bale = bale_copy(part->payload);
    norms->phases = part->rank;
    replica_try_close(replica);
}

/* ---- At the ledger. */

static void tell(replica *replica, uint32_t slot, const ledger_norms *norms) {
    const ledger *ledger = replica->values;
    ledger_terms terms = ledger_terms_before(ledger);
    uint8_t bytes[LEDGER_TERMS_MAX];
    size_t size = ledger_write_terms(&terms, replica->rank_count, bytes);
    replica->host->to_head(replica->host->context, slot,
                           &(part){.kind = PART_NORMS,
                                   .rank = norms->phases,
                                   .name = norms->round,
                                   .terms = span_of(bytes, size),
                                   .payload = bale_bytes(norms->bale),
                                   .bale = norms->bale});
}

static void tell_all(replica *replica, const ledger_norms *norms) {
    for (uint32_t i = 0; i < replica->round_slots; i++) tell(replica, i, norms);
}

void replica_apply_norms(replica *replica, const tape_entry *entry) {
    ledger_pages *pages = replica->values;
    ledger_measure(pages, entry);
    if (replica_is_head(replica) && pages->norms.round + 1 == pages->now.round) tell_all(replica, &pages->norms);
}

static bool is_whole(const replica *replica, const crowd *set) {
    const norms *gathered = &replica->gathered;
    for (uint32_t i = 0; MUTATED("norms-some") && i < gathered->slot_count; i++)
        if (norms_part(gathered, i).size != 0) return true;
    return norms_are_whole(gathered, MUTATED("norms-set") ? NULL : set);
}

static bale *combine(const replica *replica) {
    const norms *gathered = &replica->gathered;
    span *parts = xcalloc(gathered->slot_count, sizeof *parts);
    for (uint32_t i = 0; i < gathered->slot_count; i++) {
        uint32_t at = MUTATED("norms-order") ? gathered->reports[i].order : i;
        parts[at] = norms_part(gathered, i);
    }
    bale *bale = replica->host->values->combine(replica->host->values_context, parts, gathered->slot_count);
    free(parts);
    return bale;
}

/* The set of a round is final when that is over in the ledger. */
void replica_try_norms(replica *replica) {
    MR_ASSERT(replica_is_ledger(replica) && replica->phase == REPLICA_SERVING);
    const norms *gathered = &replica->gathered;
    const ledger_pages *pages = replica->values;
    uint64_t round = gathered->round;
    if (!gathered->open || round + 1 != pages->now.round || !is_whole(replica, &pages->now.past_set)) return;
    if (gathered->phase != ledger_phases(pages, round)) return;
    if (tape_holds(&replica->tape, TAPE_NORMS, gathered->phase, round)) return;
    bale *bale = combine(replica);
    tape_entry entry = {TAPE_NORMS, gathered->phase, round, bale_bytes(bale), bale, CREDIT_NONE, 0};
    if (MUTATED("norms-early") && gathered->phase == 0)
        tell_all(replica, &(ledger_norms){round, gathered->phase + 1, bale});
    replica_append(replica, &entry);
    bale_unref(bale);
}

/* Whoever has not reported: at once those that do not do so by themselves. */
static void ask(replica *replica, bool all) {
    norms *gathered = &replica->gathered;
    part part = {.kind = PART_MEASURE, .rank = gathered->phase, .name = gathered->round};
    for (uint32_t i = 0; i < replica->round_slots; i++)
        if (norms_ask(gathered, i, all)) replica->host->to_head(replica->host->context, i, &part);
}

void replica_take_measured(replica *replica, const part *part) {
    const ledger_pages *pages = replica->values;
    ledger_terms terms;
    if (!replica_is_ledger(replica) || replica->phase != REPLICA_SERVING) return;
    if (part->prev >= replica->round_slots || part->payload.size > VALUES_NORMS_MAX) return;
    if (replica->host->values->combine == NULL || !ledger_read_terms(part->terms, replica->rank_count, &terms)) return;
    uint64_t now = pages->now.round;
    uint32_t phases = ledger_phases(pages, part->name);
    if (part->name != now && part->name + 1 != now) return;
    if (part->rank < phases && part->name + 1 == now) {
        if (part->payload.size != 0) tell(replica, (uint32_t)part->prev, &pages->norms);
        return;
    }
    if (part->rank != phases || part->rank >= VALUES_PHASES_MAX) return;
    bool first = norms_take(&replica->gathered, replica->round_slots, part->name, part->rank, (uint32_t)part->prev,
                            &terms.members, part->payload);
    if (first) ask(replica, false);
    replica_try_norms(replica);
}

void replica_tick_gathered(replica *replica) {
    const norms *gathered = &replica->gathered;
    const ledger_pages *pages = replica->values;
    bool waits = gathered->open && gathered->phase == ledger_phases(pages, gathered->round);
    if (waits && (gathered->round == pages->now.round || gathered->round + 1 == pages->now.round)) ask(replica, true);
}
