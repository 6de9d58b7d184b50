/* replica.c — see replica.h: entering epochs, filling of joiners, and dispatch of messages. */
#include "ps/replica.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/invariants.h"
#include "base/mutation.h"
#include "ps/replica_internal.h"

replica *replica_create(const replica_host *host, uint32_t slot) {
    MR_ASSERT(host->values != NULL && host->to_server != NULL && host->to_rank != NULL && slot < CLUSTER_MAP_SLOTS_MAX);
    return XNEW(replica, .host = host, .slot = slot, .log.credit = host->credit, .place = -1);
}

/* Drops the replica's state and log. */
void replica_drop_copy(replica *replica) {
    replica_drop_contributions(replica);
    norm_reports_clear(&replica->gathered);
    replica_drop_cut(replica);
    replica_log_reset(&replica->log, 0);
    if (replica->values != NULL) replica->ops->destroy(replica->values);
    free(replica->names);
    free(replica->shown);
    replica->shown = NULL;
    free(replica->logged);
    free(replica->contributions);
    replica->values = NULL;
    replica->names = replica->logged = NULL;
    replica->contributions = NULL;
    replica->since = replica->version = replica->level = replica->marked = 0;
    replica->marked_version = 0;
    replica->changed = replica->turned = 0;
    replica->frozen = replica->past = (rank_set){0};
    replica->phase = REPLICA_OUT;
}

void replica_destroy(replica *replica) {
    replica_drop_copy(replica);
    replica_forget_inquiry(replica);
    replica_forget_waiters(replica);
    free(replica->waiters);
    replica_log_fini(&replica->log);
    free(replica);
}

void replica_make_copy(replica *replica) {
    MR_ASSERT(replica->values == NULL && replica->log.count == 0); /* the former state was dropped */
    const cluster_map_rounds *rounds = &replica->rounds;
    bool keeps = replica->consistency.kind == CONSISTENCY_BSP;
    replica->ops = replica_is_round_state(replica) ? &round_state_ops : replica->host->values;
    replica->values = replica->ops->create(replica->host->values_context, replica->slot, keeps);
    if (replica_is_round_state(replica))
        round_state_begin(replica->values, replica->rank_count,
                          rounds->first_count == 0 ? replica->rank_count : rounds->first_count, rounds->backup,
                          rounds->backup != 0 || rounds->deadline_us != 0);
    replica->name_count = replica->rank_count;
    replica->names = xcalloc(replica->name_count, sizeof *replica->names);
    replica->shown = xcalloc(replica->client_count, sizeof *replica->shown);
    replica->logged = xcalloc(replica->rank_count, sizeof *replica->logged);
    if (keeps) replica->contributions = xcalloc(replica->rank_count, sizeof *replica->contributions);
}

void replica_reply(replica *replica, uint32_t rank, slot_message_kind kind, slot_message_status status,
                   slot_message *message) {
    message->kind = (uint8_t)kind;
    message->status = (uint8_t)status;
    message->slot = replica->slot;
    message->rank = rank;
    message->epoch = replica->epoch;
    replica->host->to_rank(replica->host->context, rank, message);
}

void replica_acknowledge(replica *replica, uint32_t rank, slot_message_status status, uint64_t name, uint64_t last) {
    replica_reply(replica, rank, SLOT_MESSAGE_PUSHED, status,
                  &(slot_message){.commit = credit_grant(replica->host->credit), .name = name, .prev = last});
}

void replica_tell(replica *replica, uint32_t server, slot_message_kind kind, const replica_log_entry *entry,
                  uint64_t lsn) {
    slot_message message = {.kind = (uint8_t)kind,
                            .slot = replica->slot,
                            .epoch = replica->epoch,
                            .lsn = lsn,
                            .commit = replica->log.applied};
    if (entry != NULL) {
        message.entry = entry->kind;
        message.rank = entry->rank;
        message.name = entry->name;
        message.payload = entry->payload;
        message.bytes = entry->bytes;
    }
    replica->host->to_server(replica->host->context, server, &message);
}

/* ---- Entering an epoch. */

/* Whether this server's replica is the one in the cluster map. */
static bool has_copy(replica *replica, uint64_t since) {
    if (replica->values == NULL) return false;
    if (replica->phase == REPLICA_JOINING) return replica->epoch < since;
    return replica->since == since;
}

static void serve_or_wait(replica *replica) {
    replica->phase = replica->log.applied < replica->base ? REPLICA_INHERITING : REPLICA_SERVING;
}

static void lead(replica *replica) {
    MR_ASSERT(replica_is_head(replica) && replica->values != NULL);
    replica->base = replica->level = replica_log_last(&replica->log);
    replica->phase = REPLICA_INHERITING;
    replica_advance(replica);
    serve_or_wait(replica);
}

static void ask_to_enter(replica *replica) {
    for (uint8_t i = 1; i < replica->chain.count; i++)
        if ((replica->answered & 1u << i) == 0)
            replica_tell(replica, replica->chain.chain[i].server, SLOT_MESSAGE_ENTER, NULL,
                         replica_log_last(&replica->log));
}

static void take_place(replica *replica) {
    MR_ASSERT(replica->place >= 0 && replica->values != NULL);
    replica->level = replica->log.applied;
    replica->inherited = replica_log_last(&replica->log);
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
    for (uint64_t lsn = replica->log.applied + 1; lsn <= replica_log_last(&replica->log); lsn++)
        replica_count_logged(replica, replica_log_at(&replica->log, lsn));
}

/* Begins the epoch with the replica that the cluster map names. */
static void begin_epoch(replica *replica) {
    MR_ASSERT(replica->place >= 0 && replica->place < replica->chain.count);
    replica->since = replica->chain.chain[replica->place].since;
    if (MUTATED("freeze-soft")) replica->frozen = (rank_set){0};
    replica_drop_contributions(replica);
    norm_reports_clear(&replica->gathered);
    replica_forget_inquiry(replica);
    recount_names(replica);
    take_place(replica);
}

void replica_enter(replica *replica, const cluster_map *map) {
    MR_ASSERT(replica->slot < map->slot_count);
    const cluster_map_slot *slot = &map->slots[replica->slot];
    if (slot->epoch <= replica->epoch) return;
    MR_ASSERT(replica->rank_count == 0 || replica->rank_count == map->rank_count);
    replica->rank_count = map->rank_count;
    replica->client_count = cluster_map_clients(map);
    replica->consistency = cluster_map_consistency(map, replica->slot);
    replica->rounds = map->rounds;
    replica->birth = map->birth;
    replica->origin = map->origin;
    replica->round_state = cluster_map_round_state(map);
    replica->slot_count = map->slot_count;
    replica->round_slots = cluster_map_round_slots(map);
    replica->place = cluster_map_place(slot, replica->host->server, replica->host->incarnation);
    uint64_t since = replica->place < 0 ? 0 : slot->chain[replica->place].since;
    bool keeps = replica->place >= 0 && has_copy(replica, since);
    replica->epoch = slot->epoch;
    replica->chain = *slot;
    replica->join = (replica_join){0};
    replica->stored = 0;
    replica_forget_waiters(replica);
    replica_log_trim(&replica->log, replica->log.applied);
    if (!keeps && !(MUTATED("no-since") && replica->place < 0)) replica_drop_copy(replica);
    if (replica->place < 0) {
        replica->phase = REPLICA_OUT;
        return;
    }
    /* the state was lost, although the cluster map names this replica: it never serves */
    if (!keeps && since != map->birth) return;
    if (!keeps && map->origin != 0) {
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

static void take_enter(replica *replica, uint32_t from, const slot_message *message) {
    if (replica->phase != REPLICA_MEMBER || place_of(replica, from) != 0) return;
    replica_commit(replica, message->commit);
    for (uint64_t lsn = message->lsn + 1; lsn <= replica_log_last(&replica->log); lsn++)
        if (lsn > replica->log.base)
            replica_tell(replica, from, SLOT_MESSAGE_LOG, replica_log_at(&replica->log, lsn), lsn);
    replica_tell(replica, from, SLOT_MESSAGE_ENTERED, NULL, replica_log_last(&replica->log));
}

static void take_log(replica *replica, uint32_t from, const slot_message *message, shared_bytes *bytes) {
    if (replica->phase != REPLICA_ENTERING || place_of(replica, from) < 0) return;
    if (message->lsn != replica_log_last(&replica->log) + 1) return;
    replica_append_log(replica,
                       &(replica_log_entry){message->entry, message->rank, message->name, message->payload, bytes});
}

static void take_entered(replica *replica, uint32_t from, const slot_message *message) {
    int place = place_of(replica, from);
    if (replica->phase != REPLICA_ENTERING || place <= 0 || message->lsn > replica_log_last(&replica->log)) return;
    replica_commit(replica, message->commit);
    replica->answered |= 1u << place;
    if (replica->answered == (1u << replica->chain.count) - 1) lead(replica);
}

/* ---- Filling of joiners: both sides. */

static void fill_state(replica *replica) {
    MR_ASSERT(replica->join.wanted && replica_is_tail(replica) && replica->values != NULL);
    shared_bytes *state = replica_write_state(replica);
    slot_message message = {.kind = SLOT_MESSAGE_STATE,
                            .slot = replica->slot,
                            .epoch = replica->epoch,
                            .lsn = replica->log.applied,
                            .name = replica->turned,
                            .payload = shared_bytes_bytes(state),
                            .bytes = state};
    replica->host->to_server(replica->host->context, replica->join.server, &message);
    shared_bytes_unref(state);
    replica->join.filled = true;
    replica->join.successor = (replica_successor){.level = message.lsn, .sent = message.lsn};
}

/* Takes a state if the replica has none, or an older one as a joiner. A late state must not erase confirmed entries. */
static void take_state(replica *replica, const slot_message *message) {
    bool newer = message->lsn > replica->level || MUTATED("joiner-wipes");
    if (replica->place >= 0) return;
    if (replica->phase != REPLICA_OUT && !(replica->phase == REPLICA_JOINING && newer)) return;
    if (MUTATED("no-since") && replica->values != NULL) {
        replica->level = replica_log_last(&replica->log);
        replica->phase = REPLICA_JOINING;
        return;
    }
    replica_drop_copy(replica);
    replica_make_copy(replica);
    if (!replica_read_state(replica, message->payload)) {
        replica_drop_copy(replica);
        return;
    }
    replica_log_reset(&replica->log, message->lsn);
    replica->level = replica->changed = message->lsn;
    replica->turned = message->name <= message->lsn ? message->name : 0;
    replica->phase = REPLICA_JOINING;
    recount_names(replica);
}

/* ---- Orders to fill a joiner. */

static void take_join(replica *replica, const slot_message *message) {
    if (!replica_is_tail(replica) || replica->values == NULL || replica->phase == REPLICA_ENTERING) return;
    if (replica->join.gated || place_of(replica, (uint32_t)message->name) >= 0) return;
    if (replica->join.wanted && replica->join.server == message->name && replica->join.incarnation == message->prev)
        return;
    replica->join = (replica_join){.wanted = true, .server = (uint32_t)message->name, .incarnation = message->prev};
    fill_state(replica);
}

void replica_tell_gate(replica *replica) {
    replica_join *join = &replica->join;
    slot_message message = {.kind = SLOT_MESSAGE_GATE,
                            .status = join->ready ? SLOT_MESSAGE_OK : SLOT_MESSAGE_LATER,
                            .slot = replica->slot,
                            .epoch = replica->epoch,
                            .name = join->server,
                            .prev = join->incarnation};
    replica->host->to_controller(replica->host->context, &message);
}

/* ---- Slot messages and ticks. */

static bool is_request(const slot_message *message) {
    return message->kind == SLOT_MESSAGE_PUSH || message->kind == SLOT_MESSAGE_PULL ||
           message->kind == SLOT_MESSAGE_HELLO;
}

static void refuse(replica *replica, const slot_message *message) {
    MR_ASSERT(is_request(message) && message->rank < replica->client_count);
    static const slot_message_kind answers[] = {
        [SLOT_MESSAGE_PULL] = SLOT_MESSAGE_PULLED, [SLOT_MESSAGE_HELLO] = SLOT_MESSAGE_CLOCK};
    if (message->kind == SLOT_MESSAGE_PUSH)
        replica_acknowledge(replica, message->rank, SLOT_MESSAGE_WRONG, message->name, 0);
    else
        replica_reply(replica, message->rank, answers[message->kind], SLOT_MESSAGE_WRONG,
                      &(struct slot_message){.commit = message->commit, .name = message->name});
}

static void take_request(replica *replica, const slot_message *message, shared_bytes *bytes) {
    bool is_reader = message->rank >= replica->rank_count; /* pulls, and never pushes */
    if (is_reader && (message->rank >= replica->client_count || message->kind == SLOT_MESSAGE_PUSH)) return;
    bool reads = message->kind == SLOT_MESSAGE_PULL && (message->entry & SLOT_MESSAGE_PULL_FRESH) == 0 &&
                 replica_may_show(replica);
    if (message->epoch != replica->epoch || (replica->phase != REPLICA_SERVING && !reads)) {
        bool same = MUTATED("no-epoch") && replica->phase == REPLICA_SERVING;
        if (!same) {
            refuse(replica, message);
            return;
        }
    }
    if (message->kind == SLOT_MESSAGE_PUSH) replica_take_push(replica, message, bytes);
    if (message->kind == SLOT_MESSAGE_PULL) replica_take_pull(replica, message, bytes);
    if (message->kind == SLOT_MESSAGE_HELLO) replica_take_hello(replica, message);
}

/* Sends what follows from applied entries, as the head of the round state. */
static void lead_round_state(replica *replica) {
    if (!replica_is_round_state(replica) || replica->phase != REPLICA_SERVING) return;
    replica_try_close(replica);
    replica_try_norms(replica);
    if (replica->news) replica_tell_terms(replica);
    replica->news = false;
}

static void take_of_epoch(replica *replica, uint32_t from, const slot_message *message, shared_bytes *bytes) {
    switch (message->kind) {
    case SLOT_MESSAGE_ENTRY: replica_take_entry(replica, from, message, bytes); break;
    case SLOT_MESSAGE_LEVEL: replica_take_level(replica, from, message); break;
    case SLOT_MESSAGE_ENTER: take_enter(replica, from, message); break;
    case SLOT_MESSAGE_LOG: take_log(replica, from, message, bytes); break;
    case SLOT_MESSAGE_ENTERED: take_entered(replica, from, message); break;
    case SLOT_MESSAGE_STATE:
        take_state(replica, message);
        replica_tell_level(replica, from, SLOT_MESSAGE_OK);
        break;
    case SLOT_MESSAGE_JOIN: take_join(replica, message); break;
    case SLOT_MESSAGE_ORDER:
        if (message->entry == REPLICA_LOG_MARK)
            replica_take_mark(replica, message);
        else
            replica_take_order(replica, message);
        break;
    case SLOT_MESSAGE_FREEZE: replica_take_freeze(replica, message); break;
    case SLOT_MESSAGE_TERMS: replica_take_terms(replica, message); break;
    case SLOT_MESSAGE_FROZEN: replica_take_frozen(replica, message); break;
    case SLOT_MESSAGE_MEASURE: replica_take_measure(replica, message); break;
    case SLOT_MESSAGE_MEASURED: replica_take_measured(replica, message); break;
    case SLOT_MESSAGE_NORMS: replica_take_norms(replica, message); break;
    default: break; /* not for a replica */
    }
    if (replica->phase == REPLICA_INHERITING) serve_or_wait(replica);
}

/* Whether the slot can have this entry. A message without an lsn only reports the committed lsn. */
static bool fits(const replica *replica, const slot_message *message) {
    bool rounds = replica->consistency.kind == CONSISTENCY_BSP;
    if (message->lsn == 0) return true;
    switch (message->entry) {
    case REPLICA_LOG_PUSH: return !rounds && message->rank < replica->rank_count;
    case REPLICA_LOG_FRESH: return !rounds && message->rank < replica->client_count;
    case REPLICA_LOG_ROUND:
        return rounds && round_state_read_round(message->payload, replica->rank_count, &(round_state_round){0});
    case REPLICA_LOG_NORMS:
        return replica_is_round_state(replica) && message->rank < STATE_MACHINE_PHASES_MAX &&
               message->payload.size <= STATE_MACHINE_NORMS_MAX;
    case REPLICA_LOG_FREEZE: return rounds && message->rank < replica->rank_count;
    case REPLICA_LOG_MARK: return !rounds || replica_is_round_state(replica);
    default:
        return message->entry < REPLICA_LOG_KIND_COUNT && replica_is_round_state(replica) &&
               message->rank < replica->rank_count;
    }
}

void replica_take(replica *replica, uint32_t from, const slot_message *message, shared_bytes *bytes) {
    bool logs = message->kind == SLOT_MESSAGE_ENTRY || message->kind == SLOT_MESSAGE_LOG;
    if (logs && !fits(replica, message)) return;
    if (is_request(message))
        take_request(replica, message, bytes);
    else if (message->kind == SLOT_MESSAGE_SAVED)
        replica_take_saved(replica, message);
    else if (message->kind == SLOT_MESSAGE_SHARD && replica_take_shard(replica, message))
        begin_epoch(replica);
    else if (message->epoch == replica->epoch || MUTATED("no-epoch"))
        take_of_epoch(replica, from, message, bytes);
    lead_round_state(replica);
    if (replica->moved) replica_answer_waiters(replica);
    CHECK_INVARIANTS(replica->rank_count, replica_check(replica));
}

/* The deadline of a round counts from the tick that finds its first contribution. */
static void tick_round_state(replica *replica) {
    replica_round *round = &replica->round;
    if (!replica_is_round_state(replica) || replica->phase != REPLICA_SERVING) return;
    if (replica->rounds.deadline_us != 0 && replica->contribution_count != 0 && round->due_us == 0)
        round->due_us = replica->now_us + replica->rounds.deadline_us;
    replica->news = true;
    lead_round_state(replica);
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
    tick_round_state(replica);
    replica_tick_norms(replica);
    replica_answer_waiters(replica);
    if (!replica->join.wanted) return;
    replica->join.ticks++;
    if (!replica->join.filled)
        fill_state(replica);
    else if (!replica->join.begun)
        replica_tell(replica, replica->join.server, SLOT_MESSAGE_ENTRY, NULL, 0); /* asks whether the state arrived */
    if (replica->join.gated) replica_tell_gate(replica);
    if (replica->join.gated && MUTATED("gate-timer") && replica->join.ticks > 8) {
        replica->join = (replica_join){0};
        replica_advance(replica);
    }
}

/* ---- Inspection. */

/* Bytes of unapplied entries on this account; on CREDIT_RANK only those of `rank`. */
static uint64_t bytes_on(const replica *replica, credit_account account, uint32_t rank) {
    uint64_t bytes = 0;
    for (uint64_t lsn = replica->log.applied + 1; lsn <= replica_log_last(&replica->log); lsn++) {
        const replica_log_entry *entry = replica_log_at(&replica->log, lsn);
        if (entry->account == account && (account == CREDIT_LINK || entry->rank == rank)) bytes += entry->payload.size;
    }
    return bytes;
}

uint64_t replica_held(const replica *replica, uint32_t rank) {
    const replica_contribution *contribution =
        replica->contributions == NULL || rank >= replica->rank_count ? NULL : &replica->contributions[rank];
    return bytes_on(replica, CREDIT_RANK, rank) +
           (contribution == NULL || contribution->besides ? 0 : contribution->payload.size);
}

replica_look replica_look_at(const replica *replica) {
    return (replica_look){.phase = replica->phase,
                          .epoch = replica->epoch,
                          .since = replica->since,
                          .birth = replica->birth,
                          .origin = replica->origin,
                          .applied = replica->log.applied,
                          .logged = replica_log_last(&replica->log),
                          .level = replica->level,
                          .version = replica->version,
                          .open = replica->contribution_count,
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
