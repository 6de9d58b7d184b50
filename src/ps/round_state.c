/* round_state.c — see round_state.h. */
#include "ps/round_state.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"

enum { HEAD_SIZE = 21, RANKS = 6, TERMS_WAIT = 1, TERMS_CUT = 2, TERMS_NORMS = 4, NORMS_HEAD = 16 };
/* Fields in the order of their bytes; the rank sets follow. */
#define HEAD_FIELDS(X) \
    X(u64, round)      \
    X(u32, rank_count) X(u32, backup) X(u8, waits) X(u8, cuts) X(u8, cuts_next) X(u8, past_cuts) X(u8, past_decided)

void round_state_begin(round_state *state, uint32_t rank_count, uint32_t first, uint32_t backup, bool waits) {
    MR_ASSERT(first <= rank_count && rank_count <= RANK_SET_MAX);
    *state = (struct round_state){.rank_count = rank_count, .backup = backup, .waits = waits};
    state->members = state->next = rank_set_first(first);
}

/* ---- Entries. */

/* The last member stays: a table without ranks could make no progress. */
static bool take_from_next(round_state *state, uint32_t rank) {
    MR_ASSERT(rank < state->rank_count);
    if (!rank_set_has(&state->next, rank)) return true;
    if (rank_set_count(&state->next) == 1) return false;
    rank_set_take(&state->next, rank);
    return true;
}

/* A rank in a set that slots have already received must be repeated (REDO). The last rank that a round waits for is
 * not void before all slots have come to that round: otherwise the round state could be two rounds ahead of a slot. */
static void drop(round_state *state, uint32_t rank) {
    round_state_terms told;
    bool late = round_state_decided(state, &told);
    if (!take_from_next(state, rank) || !rank_set_has(&state->members, rank)) return;
    if (rank_set_has(&state->dropping, rank)) return;
    rank_set_put(&state->dropping, rank);
    rank_set others = rank_set_without(&state->members, &state->dropping);
    if (state->waits && rank_set_count(&others) != 0) rank_set_put(&state->voided, rank);
    if (late) rank_set_put(&state->redo, rank);
}

static void decide(round_state *state, const replica_log_entry *entry, rank_set *how, const rank_set *not_if) {
    if (entry->name != state->round || !rank_set_has(&state->dropping, entry->rank)) return;
    if (!rank_set_has(not_if, entry->rank)) rank_set_put(how, entry->rank);
}

static void end_round(round_state *state, const replica_log_entry *entry) {
    reader reader = reader_of(entry->payload.data, entry->payload.size);
    (void)reader_u8(&reader);
    /* A dropped rank may be frozen in a slot although the round was closed with it: slots then need the set. */
    state->past_decided = state->waits || rank_set_count(&state->dropping) != 0;
    if (!rank_set_read(&reader, state->rank_count, &state->past_set)) state->past_set = (rank_set){0};
    state->round = entry->name;
    state->members = state->next;
    state->dropping = state->voided = state->redo = (rank_set){0};
    state->past_cuts = state->cuts;
    state->cuts = state->cuts_next;
    state->cuts_next = false;
}

void round_state_apply(round_state *state, const replica_log_entry *entry) {
    if (entry->kind != REPLICA_LOG_ROUND && entry->kind != REPLICA_LOG_MARK && entry->rank >= state->rank_count) return;
    switch (entry->kind) {
    case REPLICA_LOG_JOIN: rank_set_put(&state->next, entry->rank); break;
    case REPLICA_LOG_LEAVE: (void)take_from_next(state, entry->rank); break;
    case REPLICA_LOG_DROP: drop(state, entry->rank); break;
    case REPLICA_LOG_VOID: decide(state, entry, &state->voided, &state->redo); break;
    case REPLICA_LOG_REDO: decide(state, entry, &state->redo, &state->voided); break;
    case REPLICA_LOG_MARK: state->cuts_next = true; break;
    case REPLICA_LOG_ROUND: end_round(state, entry); break;
    default: break; /* no effect on a round state */
    }
}

void round_state_turn(round_state_pages *pages, const replica_log_entry *entry) {
    MR_ASSERT(entry->kind == REPLICA_LOG_ROUND);
    pages->before = pages->now;
    round_state_apply(&pages->now, entry);
}

/* Norms of the last measured round replace those of earlier rounds, which are needed no more. */
void round_state_measure(round_state_pages *pages, const replica_log_entry *entry) {
    round_state_norms *norms = &pages->norms;
    uint32_t phases = round_state_phases(pages, entry->name);
    if (entry->rank != phases) return; /* the phase is known already */
    MR_ASSERT(phases < STATE_MACHINE_PHASES_MAX && (phases == 0 || norms->bytes != NULL));
    span before = phases == 0 ? (span){0} : shared_bytes_bytes(norms->bytes);
    shared_bytes *bytes = shared_bytes_new(before.size + entry->payload.size);
    if (before.size != 0) memcpy(shared_bytes_room(bytes), before.data, before.size);
    if (entry->payload.size != 0)
        memcpy(shared_bytes_room(bytes) + before.size, entry->payload.data, entry->payload.size);
    shared_bytes_unref(norms->bytes);
    *norms = (round_state_norms){entry->name, phases + 1, bytes};
}

/* ---- Queries. */

uint32_t round_state_phases(const round_state_pages *pages, uint64_t round) {
    return pages->norms.round == round ? pages->norms.phases : 0;
}

uint32_t round_state_undecided(const round_state *state) {
    for (uint32_t i = 0; i < state->rank_count; i++)
        if (rank_set_has(&state->dropping, i) && !rank_set_has(&state->voided, i) && !rank_set_has(&state->redo, i))
            return i;
    return RANK_SET_MAX;
}

bool round_state_needs(const round_state *state, rank_set *out) {
    *out = rank_set_without(&state->members, &state->voided);
    return !state->waits && round_state_undecided(state) == RANK_SET_MAX;
}

bool round_state_enough(const round_state *state, const rank_set *ticked, bool late, rank_set *set) {
    rank_set wanted = rank_set_without(&state->members, &state->voided);
    *set = rank_set_both(&wanted, ticked);
    uint32_t all = rank_set_count(&state->members), left = rank_set_count(&wanted), here = rank_set_count(set);
    uint32_t enough = all > state->backup ? all - state->backup : 1;
    if (enough > left) enough = left;
    return here >= enough || (late && here > 0);
}

bool round_state_decided(const round_state *state, round_state_terms *out) {
    rank_set set;
    MR_ASSERT(state->rank_count <= RANK_SET_MAX);
    bool known = round_state_needs(state, &set) && rank_set_count(&state->voided) + rank_set_count(&state->redo) != 0;
    *out = (round_state_terms){.round = state->round, .cuts = state->cuts, .members = set};
    return known;
}

round_state_terms round_state_terms_before(const round_state *state) {
    return (round_state_terms){.round = state->round - 1, .cuts = state->past_cuts, .members = state->past_set};
}

bool round_state_decided_before(const round_state *state, round_state_terms *out) {
    *out = round_state_terms_before(state);
    return state->round != 0 && state->past_decided;
}

/* ---- Terms. */

round_state_terms round_state_terms_of(const round_state *state) {
    return (round_state_terms){
        .round = state->round, .waits = state->waits, .cuts = state->cuts, .members = state->members};
}

size_t round_state_write_terms(const round_state_terms *terms, uint32_t rank_count,
                               uint8_t out[ROUND_STATE_TERMS_MAX]) {
    writer writer = writer_of(out, ROUND_STATE_TERMS_MAX);
    writer_u8(&writer, (uint8_t)((terms->waits ? TERMS_WAIT : 0) | (terms->cuts ? TERMS_CUT : 0) |
                                 (terms->normed ? TERMS_NORMS : 0)));
    rank_set_write(&terms->members, rank_count, &writer);
    MR_ASSERT(!writer.failed);
    return writer_size(&writer);
}

bool round_state_read_terms(span bytes, uint32_t rank_count, round_state_terms *out) {
    reader reader = reader_of(bytes.data, bytes.size);
    uint8_t flags = reader_u8(&reader);
    *out = (round_state_terms){
        .waits = (flags & TERMS_WAIT) != 0, .cuts = (flags & TERMS_CUT) != 0, .normed = (flags & TERMS_NORMS) != 0};
    return rank_set_read(&reader, rank_count, &out->members) && reader_left(&reader) == 0;
}

/* ---- The entry of a round. */

size_t round_state_round_head(uint32_t rank_count) { return (1 + rank_set_size(rank_count) + 7) / 8 * 8; }

void round_state_write_round(const round_state_terms *terms, uint32_t rank_count, uint8_t *out) {
    uint8_t bytes[ROUND_STATE_TERMS_MAX];
    size_t size = round_state_write_terms(terms, rank_count, bytes);
    memset(out, 0, round_state_round_head(rank_count));
    memcpy(out, bytes, size);
}

bool round_state_read_round(span bytes, uint32_t rank_count, round_state_round *out) {
    size_t head = round_state_round_head(rank_count), size = 1 + rank_set_size(rank_count), end = bytes.size;
    if (bytes.size < head || !round_state_read_terms(span_of(bytes.data, size), rank_count, &out->terms)) return false;
    out->norms = (span){0};
    if (out->terms.normed) {
        if (end < head + sizeof(uint32_t)) return false;
        end -= sizeof(uint32_t);
        reader reader = reader_of(bytes.data + end, sizeof(uint32_t));
        uint32_t norms = reader_u32(&reader);
        if (norms > end - head) return false;
        end -= norms;
        out->norms = span_of(bytes.data + end, norms);
    }
    out->sum = span_of(bytes.data + head, end - head);
    return true;
}

/* ---- Encoding. */

size_t round_state_size(uint32_t rank_count) { return HEAD_SIZE + RANKS * rank_set_size(rank_count); }

void round_state_write(const round_state *state, void *out) {
    writer writer = writer_of(out, round_state_size(state->rank_count));
#define X(type, field) writer_##type(&writer, state->field);
    HEAD_FIELDS(X)
#undef X
    const rank_set *sets[RANKS] = {&state->members, &state->next, &state->dropping,
                                   &state->voided,  &state->redo, &state->past_set};
    for (size_t i = 0; i < RANKS; i++) rank_set_write(sets[i], state->rank_count, &writer);
    MR_ASSERT(!writer.failed);
}

static bool is_within(const rank_set *some, const rank_set *all) {
    rank_set rest = rank_set_without(some, all);
    return rank_set_count(&rest) == 0;
}

/* Checks the invariants 1 and 2. */
static bool is_sound(const round_state *state) {
    rank_set all = rank_set_first(state->rank_count), both = rank_set_both(&state->voided, &state->redo);
    return is_within(&state->members, &all) && is_within(&state->next, &all) && is_within(&state->past_set, &all) &&
           is_within(&state->dropping, &state->members) && is_within(&state->voided, &state->dropping) &&
           is_within(&state->redo, &state->dropping) && rank_set_count(&both) == 0;
}

void round_state_check(const round_state_pages *pages) {
    const round_state_norms *norms = &pages->norms;
    uint32_t before = pages->before.rank_count;
    MR_ASSERT(pages->now.rank_count <= RANK_SET_MAX && is_sound(&pages->now));               /* 1, 2 */
    MR_ASSERT((before == 0 || before == pages->now.rank_count) && is_sound(&pages->before)); /* 1, 2, 3 */
    MR_ASSERT((norms->phases == 0) == (norms->bytes == NULL) && norms->phases <= STATE_MACHINE_PHASES_MAX); /* 3 */
}

bool round_state_read(span bytes, uint32_t rank_count, round_state *out) {
    reader reader = reader_of(bytes.data, bytes.size);
    round_state fresh = {0};
#define X(type, field) fresh.field = reader_##type(&reader);
    HEAD_FIELDS(X)
#undef X
    if (reader.failed || fresh.rank_count != rank_count || rank_count > RANK_SET_MAX) return false;
    rank_set *sets[RANKS] = {&fresh.members, &fresh.next, &fresh.dropping, &fresh.voided, &fresh.redo, &fresh.past_set};
    for (size_t i = 0; i < RANKS; i++)
        if (!rank_set_read(&reader, rank_count, sets[i])) return false;
    if (reader_left(&reader) != 0 || !is_sound(&fresh)) return false;
    *out = fresh;
    return true;
}

bool round_state_resume(round_state *state, span bytes, uint32_t rank_count) {
    struct round_state old;
    if (rank_count > RANK_SET_MAX || bytes.size < round_state_size(rank_count)) return false;
    if (!round_state_read(span_of(bytes.data, round_state_size(rank_count)), rank_count, &old)) return false;
    if (rank_count == state->rank_count) {
        state->members = old.members;
        state->next = old.next;
    }
    state->round = old.round;
    return true;
}

/* ---- State machine of the round state's slot. */

static void *create(void *context, uint32_t slot, bool keeps) { return xcalloc(1, sizeof(round_state_pages)); }

static void destroy(void *self) {
    round_state_pages *pages = self;
    shared_bytes_unref(pages->norms.bytes);
    free(pages);
}

static void apply(void *self, span payload, uint64_t moment) {}
static void *sum_begin(const void *self) { return NULL; } /* contributions to a round state are empty */
static void sum_add(void *sum, span payload) {}
static size_t sum_size(const void *sum) { return 0; }
static void sum_write(const void *sum, void *out) {}
static void sum_end(void *sum) {}

static shared_bytes *show(void *self, span request, bool kept) {
    const round_state_pages *pages = self;
    const round_state *page = kept ? &pages->before : &pages->now;
    shared_bytes *bytes = shared_bytes_new(round_state_size(page->rank_count));
    round_state_write(page, shared_bytes_room(bytes));
    return bytes;
}

static size_t size(const void *self) {
    const round_state_pages *pages = self;
    size_t norms = pages->norms.phases == 0 ? 0 : NORMS_HEAD + shared_bytes_bytes(pages->norms.bytes).size;
    return round_state_size(pages->now.rank_count) * (pages->before.rank_count == 0 ? 1 : 2) + norms;
}

/* Norms belong to a round that is over, so the page before is not empty. */
static void write(const void *self, void *out) {
    const round_state_pages *pages = self;
    size_t one = round_state_size(pages->now.rank_count), all = size(self);
    round_state_write(&pages->now, out);
    if (pages->before.rank_count != 0) round_state_write(&pages->before, (uint8_t *)out + one);
    if (pages->norms.phases == 0) return;
    writer writer = writer_of((uint8_t *)out + 2 * one, all - 2 * one);
    writer_u64(&writer, pages->norms.round);
    writer_u32(&writer, pages->norms.phases);
    writer_span32(&writer, shared_bytes_bytes(pages->norms.bytes));
    MR_ASSERT(!writer.failed && writer.at == writer.end);
}

/* The page before, twice, and the norms: they are of the round of that page, and are not resumed. */
static void write_kept(const void *self, void *out) {
    const round_state_pages *pages = self;
    size_t one = round_state_size(pages->now.rank_count);
    MR_ASSERT(pages->before.rank_count != 0);
    write(self, out);
    memcpy(out, (const uint8_t *)out + one, one);
}

static bool read_norms(span bytes, round_state_norms *out) {
    reader reader = reader_of(bytes.data, bytes.size);
    out->round = reader_u64(&reader);
    out->phases = reader_u32(&reader);
    span norms = reader_span32(&reader);
    if (reader.failed || reader_left(&reader) != 0) return false;
    if (out->phases == 0 || out->phases > STATE_MACHINE_PHASES_MAX ||
        norms.size > STATE_MACHINE_PHASES_MAX * STATE_MACHINE_NORMS_MAX)
        return false;
    out->bytes = shared_bytes_copy(norms);
    return true;
}

static bool read(void *self, span bytes) {
    round_state_pages *pages = self, fresh = {0};
    uint32_t ranks = pages->now.rank_count;
    size_t size = round_state_size(ranks);
    bool two = bytes.size >= 2 * size, more = bytes.size > 2 * size;
    if (bytes.size != size && !two) return false;
    if (!round_state_read(span_of(bytes.data, size), ranks, &fresh.now)) return false;
    if (two && !round_state_read(span_of(bytes.data + size, size), ranks, &fresh.before)) return false;
    if (more && !read_norms(span_of(bytes.data + 2 * size, bytes.size - 2 * size), &fresh.norms)) return false;
    shared_bytes_unref(pages->norms.bytes);
    *pages = fresh;
    return true;
}

const state_machine_ops round_state_ops = {"ledger",   create,    destroy, apply, sum_begin, sum_add,
                                           sum_size,   sum_write, sum_end, show,  size,      write,
                                           write_kept, read,      NULL,    NULL,  NULL};
