/* replica.c — see replica.h: entering epochs, being filled, and who is told what. */
#include "ps/replica.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/invariants.h"
#include "base/mutation.h"
#include "ps/replica_core.h"

replica *replica_create(const replica_host *host, uint32_t slot) {
    MR_ASSERT(host->values != NULL && host->to_server != NULL && host->to_rank != NULL && slot < CHART_SLOTS_MAX);
    replica *replica = xcalloc(1, sizeof *replica);
    replica->host = host;
    replica->slot = slot;
    replica->tape.credit = host->credit;
    replica->place = -1;
    return replica;
}

/* No copy any more. */
void replica_drop_copy(replica *replica) {
    replica_drop_gifts(replica);
    norms_clear(&replica->gathered);
    replica_drop_cut(replica);
    tape_reset(&replica->tape, 0);
    if (replica->values != NULL) replica->ops->destroy(replica->values);
    free(replica->names);
    free(replica->shown);
    replica->shown = NULL;
    free(replica->logged);
    free(replica->gifts);
    replica->values = NULL;
    replica->names = replica->logged = NULL;
    replica->gifts = NULL;
    replica->since = replica->version = replica->level = replica->marked = replica->changed = 0;
    replica->frozen = replica->past = (crowd){0};
    replica->phase = REPLICA_OUT;
}

void replica_destroy(replica *replica) {
    replica_drop_copy(replica);
    replica_forget_inquiry(replica);
    replica_forget_waiters(replica);
    free(replica->waiters);
    tape_fini(&replica->tape);
    free(replica);
}

void replica_make_copy(replica *replica) {
    MR_ASSERT(replica->values == NULL && replica->tape.count == 0); /* the copy before it was dropped */
    const chart_rounds *rounds = &replica->rounds;
    bool keeps = replica->consistency.kind == CONSISTENCY_BSP;
    replica->ops = replica_is_ledger(replica) ? &ledger_ops : replica->host->values;
    replica->values = replica->ops->create(replica->host->values_context, replica->slot, keeps);
    if (replica_is_ledger(replica))
        ledger_begin(replica->values, replica->rank_count,
                     rounds->first_count == 0 ? replica->rank_count : rounds->first_count, rounds->backup,
                     rounds->backup != 0 || rounds->deadline_us != 0);
    replica->name_count = replica->rank_count;
    replica->names = xcalloc(replica->name_count, sizeof *replica->names);
    replica->shown = xcalloc(replica->rank_count, sizeof *replica->shown);
    replica->logged = xcalloc(replica->rank_count, sizeof *replica->logged);
    if (keeps) replica->gifts = xcalloc(replica->rank_count, sizeof *replica->gifts);
}

void replica_reply(replica *replica, uint32_t rank, part_kind kind, part_status status, part *part) {
    part->kind = (uint8_t)kind;
    part->status = (uint8_t)status;
    part->slot = replica->slot;
    part->rank = rank;
    part->epoch = replica->epoch;
    replica->host->to_rank(replica->host->context, rank, part);
}

void replica_acknowledge(replica *replica, uint32_t rank, part_status status, uint64_t name, uint64_t last) {
    replica_reply(replica, rank, PART_PUSHED, status,
                  &(part){.commit = credit_grant(replica->host->credit), .name = name, .prev = last});
}

void replica_tell(replica *replica, uint32_t server, part_kind kind, const tape_entry *entry, uint64_t lsn) {
    part part = {.kind = (uint8_t)kind,
                 .slot = replica->slot,
                 .epoch = replica->epoch,
                 .lsn = lsn,
                 .commit = replica->tape.applied};
    if (entry != NULL) {
        part.entry = entry->kind;
        part.rank = entry->rank;
        part.name = entry->name;
        part.payload = entry->payload;
        part.bale = entry->bale;
    }
    replica->host->to_server(replica->host->context, server, &part);
}

/* ---- Entering an epoch. */

/* Is what this server has the copy that the chart speaks of? */
static bool has_copy(replica *replica, uint64_t since) {
    if (replica->values == NULL) return false;
    if (replica->phase == REPLICA_JOINING) return replica->epoch < since;
    return replica->since == since;
}

static void serve_or_wait(replica *replica) {
    replica->phase = replica->tape.applied < replica->base ? REPLICA_INHERITING : REPLICA_SERVING;
}

static void lead(replica *replica) {
    MR_ASSERT(replica_is_head(replica) && replica->values != NULL);
    replica->base = replica->level = tape_last(&replica->tape);
    replica->phase = REPLICA_INHERITING;
    replica_advance(replica);
    serve_or_wait(replica);
}

static void ask_to_enter(replica *replica) {
    for (uint8_t i = 1; i < replica->chain.count; i++)
        if ((replica->answered & 1u << i) == 0)
            replica_tell(replica, replica->chain.chain[i].server, PART_ENTER, NULL, tape_last(&replica->tape));
}

static void take_place(replica *replica) {
    MR_ASSERT(replica->place >= 0 && replica->values != NULL);
    replica->level = replica->tape.applied;
    replica->inherited = tape_last(&replica->tape);
    replica->successor = (replica_successor){.level = replica->level, .sent = replica->level};
    if (replica->place > 0) {
        replica->phase = REPLICA_MEMBER;
    } else if (replica->chain.count == 1 || MUTATED("no-longest-log")) {
        lead(replica);
    } else {
        replica->phase = REPLICA_ENTERING;
        replica->answered = 1;
        ask_to_enter(replica);
    }
}

static void recount_names(replica *replica) {
    if (replica->values == NULL) return;
    memcpy(replica->logged, replica->names, replica->rank_count * sizeof *replica->logged);
    replica->closing = false;
    for (uint64_t lsn = replica->tape.applied + 1; lsn <= tape_last(&replica->tape); lsn++)
        replica_count_logged(replica, tape_at(&replica->tape, lsn));
}

/* With the copy that the chart speaks of. */
static void begin_epoch(replica *replica) {
    MR_ASSERT(replica->place >= 0 && replica->place < replica->chain.count);
    replica->since = replica->chain.chain[replica->place].since;
    if (MUTATED("freeze-soft")) replica->frozen = (crowd){0};
    replica_drop_gifts(replica);
    norms_clear(&replica->gathered);
    replica_forget_inquiry(replica);
    recount_names(replica);
    take_place(replica);
}

void replica_enter(replica *replica, const chart *chart) {
    MR_ASSERT(replica->slot < chart->slot_count);
    const chart_slot *slot = &chart->slots[replica->slot];
    if (slot->epoch <= replica->epoch) return;
    MR_ASSERT(replica->rank_count == 0 || replica->rank_count == chart->rank_count);
    replica->rank_count = chart->rank_count;
    replica->consistency = chart_consistency(chart, replica->slot);
    replica->rounds = chart->rounds;
    replica->birth = chart->birth;
    replica->origin = chart->origin;
    replica->ledger = chart_ledger(chart);
    replica->slot_count = chart->slot_count;
    replica->round_slots = chart_round_slots(chart);
    replica->place = chart_place(slot, replica->host->server, replica->host->incarnation);
    uint64_t since = replica->place < 0 ? 0 : slot->chain[replica->place].since;
    bool keeps = replica->place >= 0 && has_copy(replica, since);
    replica->epoch = slot->epoch;
    replica->chain = *slot;
    replica->join = (replica_join){0};
    replica_forget_waiters(replica);
    tape_trim(&replica->tape, replica->tape.applied);
    if (!keeps && !(MUTATED("no-since") && replica->place < 0)) replica_drop_copy(replica);
    if (replica->place < 0) {
        replica->phase = REPLICA_OUT;
        return;
    }
    if (!keeps && since != chart->birth) return; /* it is in the chain, and has nothing: it never serves */
    if (!keeps && chart->origin != 0) {
        replica_load(replica);
        return;
    }
    if (!keeps) replica_make_copy(replica);
    begin_epoch(replica);
}

static int place_of(const replica *replica, uint32_t server) {
    for (int i = 0; i < replica->chain.count; i++)
        if (replica->chain.chain[i].server == server) return i;
    return -1;
}

static void take_enter(replica *replica, uint32_t from, const part *part) {
    if (replica->phase != REPLICA_MEMBER || place_of(replica, from) != 0) return;
    replica_commit(replica, part->commit);
    for (uint64_t lsn = part->lsn + 1; lsn <= tape_last(&replica->tape); lsn++)
        if (lsn > replica->tape.base) replica_tell(replica, from, PART_LOG, tape_at(&replica->tape, lsn), lsn);
    replica_tell(replica, from, PART_ENTERED, NULL, tape_last(&replica->tape));
}

static void take_log(replica *replica, uint32_t from, const part *part, bale *bale) {
    if (replica->phase != REPLICA_ENTERING || place_of(replica, from) < 0) return;
    if (part->lsn != tape_last(&replica->tape) + 1) return;
    replica_log(replica, &(tape_entry){part->entry, part->rank, part->name, part->payload, bale});
}

static void take_entered(replica *replica, uint32_t from, const part *part) {
    int place = place_of(replica, from);
    if (replica->phase != REPLICA_ENTERING || place <= 0 || part->lsn > tape_last(&replica->tape)) return;
    replica_commit(replica, part->commit);
    replica->answered |= 1u << place;
    if (replica->answered == (1u << replica->chain.count) - 1) lead(replica);
}

/* ---- Being filled. */

static void fill_state(replica *replica) {
    MR_ASSERT(replica->join.wanted && replica_is_tail(replica) && replica->values != NULL);
    bale *state = replica_write_state(replica);
    part part = {.kind = PART_STATE,
                 .slot = replica->slot,
                 .epoch = replica->epoch,
                 .lsn = replica->tape.applied,
                 .payload = bale_bytes(state),
                 .bale = state};
    replica->host->to_server(replica->host->context, replica->join.server, &part);
    bale_unref(state);
    replica->join.filled = true;
    replica->join.successor = (replica_successor){.level = part.lsn, .sent = part.lsn};
}

/* What has begun goes on: entries that it has confirmed must not be wiped by a state that came late. */
static void take_state(replica *replica, const part *part) {
    bool newer = part->lsn > replica->level || MUTATED("joiner-wipes");
    if (replica->place >= 0) return;
    if (replica->phase != REPLICA_OUT && !(replica->phase == REPLICA_JOINING && newer)) return;
    if (MUTATED("no-since") && replica->values != NULL) {
        replica->level = tape_last(&replica->tape);
        replica->phase = REPLICA_JOINING;
        return;
    }
    replica_drop_copy(replica);
    replica_make_copy(replica);
    if (!replica_read_state(replica, part->payload)) {
        replica_drop_copy(replica);
        return;
    }
    tape_reset(&replica->tape, part->lsn);
    replica->level = replica->changed = part->lsn;
    replica->phase = REPLICA_JOINING;
    recount_names(replica);
}

/* ---- Filling. */

static void take_join(replica *replica, const part *part) {
    if (!replica_is_tail(replica) || replica->values == NULL || replica->phase == REPLICA_ENTERING) return;
    if (replica->join.gated || place_of(replica, (uint32_t)part->name) >= 0) return;
    if (replica->join.wanted && replica->join.server == part->name && replica->join.incarnation == part->prev) return;
    replica->join = (replica_join){.wanted = true, .server = (uint32_t)part->name, .incarnation = part->prev};
    fill_state(replica);
}

void replica_tell_gate(replica *replica) {
    replica_join *join = &replica->join;
    part part = {.kind = PART_GATE,
                 .status = join->ready ? PART_OK : PART_LATER,
                 .slot = replica->slot,
                 .epoch = replica->epoch,
                 .name = join->server,
                 .prev = join->incarnation};
    replica->host->to_director(replica->host->context, &part);
}

/* ---- Parts and ticks. */

static bool is_request(const part *part) {
    return part->kind == PART_PUSH || part->kind == PART_PULL || part->kind == PART_HELLO;
}

static void refuse(replica *replica, const part *part) {
    MR_ASSERT(is_request(part) && part->rank < replica->rank_count);
    static const part_kind answers[] = {[PART_PULL] = PART_PULLED, [PART_HELLO] = PART_CLOCK};
    if (part->kind == PART_PUSH)
        replica_acknowledge(replica, part->rank, PART_WRONG, part->name, 0);
    else
        replica_reply(replica, part->rank, answers[part->kind], PART_WRONG,
                      &(struct part){.commit = part->commit, .name = part->name});
}

static void take_request(replica *replica, const part *part, bale *bale) {
    if (part->rank >= replica->rank_count) return;
    bool reads = part->kind == PART_PULL && (part->entry & PART_PULL_FRESH) == 0 && replica_may_show(replica);
    if (part->epoch != replica->epoch || (replica->phase != REPLICA_SERVING && !reads)) {
        bool same = MUTATED("no-epoch") && replica->phase == REPLICA_SERVING;
        if (!same) {
            refuse(replica, part);
            return;
        }
    }
    if (part->kind == PART_PUSH) replica_take_push(replica, part, bale);
    if (part->kind == PART_PULL) replica_take_pull(replica, part, bale);
    if (part->kind == PART_HELLO) replica_take_hello(replica, part);
}

/* Whoever leads the ledger says what follows from what was applied. */
static void lead_ledger(replica *replica) {
    if (!replica_is_ledger(replica) || replica->phase != REPLICA_SERVING) return;
    replica_try_close(replica);
    replica_try_norms(replica);
    if (replica->news) replica_tell_terms(replica);
    replica->news = false;
}

static void take_of_epoch(replica *replica, uint32_t from, const part *part, bale *bale) {
    switch (part->kind) {
    case PART_ENTRY: replica_take_entry(replica, from, part, bale); break;
    case PART_LEVEL: replica_take_level(replica, from, part); break;
    case PART_ENTER: take_enter(replica, from, part); break;
    case PART_LOG: take_log(replica, from, part, bale); break;
    case PART_ENTERED: take_entered(replica, from, part); break;
    case PART_STATE:
        take_state(replica, part);
        replica_tell_level(replica, from, PART_OK);
        break;
    case PART_JOIN: take_join(replica, part); break;
    case PART_ORDER:
        if (part->entry == TAPE_MARK)
            replica_take_mark(replica, part);
        else
            replica_take_order(replica, part);
        break;
    case PART_FREEZE: replica_take_freeze(replica, part); break;
    case PART_TERMS: replica_take_terms(replica, part); break;
    case PART_FROZEN: replica_take_frozen(replica, part); break;
    case PART_MEASURE: replica_take_measure(replica, part); break;
    case PART_MEASURED: replica_take_measured(replica, part); break;
    case PART_NORMS: replica_take_norms(replica, part); break;
    default: break; /* not for a replica */
    }
    if (replica->phase == REPLICA_INHERITING) serve_or_wait(replica);
}

/* An entry that this slot can have. One without an lsn says only what is committed. */
static bool fits(const replica *replica, const part *part) {
    bool rounds = replica->consistency.kind == CONSISTENCY_BSP;
    if (part->lsn == 0) return true;
    switch (part->entry) {
    case TAPE_PUSH:
    case TAPE_FRESH: return !rounds && part->rank < replica->rank_count;
    case TAPE_ROUND: return rounds && ledger_read_round(part->payload, replica->rank_count, &(ledger_round){0});
    case TAPE_NORMS:
        return replica_is_ledger(replica) && part->rank < VALUES_PHASES_MAX && part->payload.size <= VALUES_NORMS_MAX;
    case TAPE_FREEZE: return rounds && part->rank < replica->rank_count;
    case TAPE_MARK: return !rounds || replica_is_ledger(replica);
    default: return part->entry < TAPE_KIND_COUNT && replica_is_ledger(replica) && part->rank < replica->rank_count;
    }
}

void replica_take(replica *replica, uint32_t from, const part *part, bale *bale) {
    bool logs = part->kind == PART_ENTRY || part->kind == PART_LOG;
    if (logs && !fits(replica, part)) return;
    if (is_request(part))
        take_request(replica, part, bale);
    else if (part->kind == PART_SAVED)
        replica_take_saved(replica, part);
    else if (part->kind == PART_SHARD && replica_take_shard(replica, part))
        begin_epoch(replica);
    else if (part->epoch == replica->epoch || MUTATED("no-epoch"))
        take_of_epoch(replica, from, part, bale);
    lead_ledger(replica);
    if (replica->moved) replica_answer_waiters(replica);
    CHECK_INVARIANTS(replica->rank_count, replica_check(replica));
}

/* The deadline of a round counts from the tick that finds its first contribution. */
static void tick_ledger(replica *replica) {
    replica_round *round = &replica->round;
    if (!replica_is_ledger(replica) || replica->phase != REPLICA_SERVING) return;
    if (replica->rounds.deadline_us != 0 && replica->gift_count != 0 && round->due_us == 0)
        round->due_us = replica->now_us + replica->rounds.deadline_us;
    replica->news = true;
    lead_ledger(replica);
    replica_tick_gathered(replica);
}

void replica_tick(replica *replica, int64_t now_us) {
    replica->now_us = now_us;
    replica_tick_cut(replica);
    if (replica->values == NULL) return;
    if (replica->phase == REPLICA_ENTERING) ask_to_enter(replica);
    if (replica->phase == REPLICA_ENTERING || replica->phase == REPLICA_JOINING) return;
    replica_ask_levels(replica);
    if (replica->phase == REPLICA_INHERITING) serve_or_wait(replica);
    tick_ledger(replica);
    replica_tick_norms(replica);
    replica_answer_waiters(replica);
    if (!replica->join.wanted) return;
    replica->join.ticks++;
    if (!replica->join.filled)
        fill_state(replica);
    else if (!replica->join.begun)
        replica_tell(replica, replica->join.server, PART_ENTRY, NULL, 0); /* did it come? */
    if (replica->join.gated) replica_tell_gate(replica);
    if (replica->join.gated && MUTATED("gate-timer") && replica->join.ticks > 8) {
        replica->join = (replica_join){0};
        replica_advance(replica);
    }
}

/* ---- Looking on. */

/* On this account; of a rank, in the open round, too. */
static uint64_t bytes_on(const replica *replica, credit_account account, uint32_t rank) {
    uint64_t bytes = 0;
    for (uint64_t lsn = replica->tape.applied + 1; lsn <= tape_last(&replica->tape); lsn++) {
        const tape_entry *entry = tape_at(&replica->tape, lsn);
        if (entry->account == account && (account == CREDIT_LINK || entry->rank == rank)) bytes += entry->payload.size;
    }
    return bytes;
}

uint64_t replica_held(const replica *replica, uint32_t rank) {
    const replica_gift *gift = replica->gifts == NULL || rank >= replica->rank_count ? NULL : &replica->gifts[rank];
    return bytes_on(replica, CREDIT_RANK, rank) + (gift == NULL || gift->besides ? 0 : gift->payload.size);
}

replica_look replica_look_at(const replica *replica) {
    return (replica_look){.phase = replica->phase,
                          .epoch = replica->epoch,
                          .since = replica->since,
                          .birth = replica->birth,
                          .origin = replica->origin,
                          .applied = replica->tape.applied,
                          .logged = tape_last(&replica->tape),
                          .level = replica->level,
                          .version = replica->version,
                          .open = replica->gift_count,
                          .linked = bytes_on(replica, CREDIT_LINK, 0),
                          .joins = replica->join.wanted,
                          .gated = replica->join.gated,
                          .ready = replica->join.ready,
                          .dispute = replica->dispute};
}

uint32_t replica_slot(const replica *replica) { return replica->slot; }
uint64_t replica_name(const replica *replica, uint32_t rank) { return replica->names[rank]; }

const void *replica_values(const replica *replica) {
    return replica->ops == replica->host->values ? replica->values : NULL;
}

void replica_write_values(const replica *replica, buffer *out) {
    size_t size = replica->ops->size(replica->values);
    buffer_clear(out);
    mr_status status = buffer_reserve(out, size);
    MR_ASSERT(status == MR_OK);
    replica->ops->write(replica->values, out->data);
    out->size = size;
}
