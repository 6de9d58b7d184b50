/* ledger.c — see ledger.h. */
#include "ps/ledger.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"

enum { HEAD_SIZE = 21, CROWDS = 6, TERMS_WAIT = 1, TERMS_CUT = 2, TERMS_NORMS = 4, NORMS_HEAD = 16 };
/* In the order of their bytes; the crowds follow. */
#define HEAD_FIELDS(X) \
    X(u64, round)      \
    X(u32, rank_count) X(u32, backup) X(u8, waits) X(u8, cuts) X(u8, cuts_next) X(u8, past_cuts) X(u8, past_decided)

void ledger_begin(ledger *ledger, uint32_t rank_count, uint32_t first, uint32_t backup, bool waits) {
    MR_ASSERT(first <= rank_count && rank_count <= CROWD_MAX);
    *ledger = (struct ledger){.rank_count = rank_count, .backup = backup, .waits = waits};
    ledger->members = ledger->next = crowd_first(first);
}

/* ---- Entries. */

/* The last member stays: a table without ranks could never go on. */
static bool take_from_next(ledger *ledger, uint32_t rank) {
    MR_ASSERT(rank < ledger->rank_count);
    if (!crowd_has(&ledger->next, rank)) return true;
    if (crowd_count(&ledger->next) == 1) return false;
    crowd_take(&ledger->next, rank);
    return true;
}

/* Whoever is in a set that slots have been told already must be played once more. The last one that a round waits for
 * is not void before all slots have come to that round: else the ledger could be two rounds ahead of one. */
static void drop(ledger *ledger, uint32_t rank) {
    ledger_terms told;
    bool late = ledger_decided(ledger, &told);
    if (!take_from_next(ledger, rank) || !crowd_has(&ledger->members, rank)) return;
    if (crowd_has(&ledger->dropping, rank)) return;
    crowd_put(&ledger->dropping, rank);
    crowd others = crowd_without(&ledger->members, &ledger->dropping);
    if (ledger->waits && crowd_count(&others) != 0) crowd_put(&ledger->voided, rank);
    if (late) crowd_put(&ledger->redo, rank);
}

static void decide(ledger *ledger, const tape_entry *entry, crowd *how, const crowd *not_if) {
    if (entry->name != ledger->round || !crowd_has(&ledger->dropping, entry->rank)) return;
    if (!crowd_has(not_if, entry->rank)) crowd_put(how, entry->rank);
}

static void end_round(ledger *ledger, const tape_entry *entry) {
    reader reader = reader_of(entry->payload.data, entry->payload.size);
    (void)reader_u8(&reader);
    /* Whoever is given up may be frozen somewhere, though the round was closed with it before that was decided. */
    ledger->past_decided = ledger->waits || crowd_count(&ledger->dropping) != 0;
    if (!crowd_read(&reader, ledger->rank_count, &ledger->past_set)) ledger->past_set = (crowd){0};
    ledger->round = entry->name;
    ledger->members = ledger->next;
    ledger->dropping = ledger->voided = ledger->redo = (crowd){0};
    ledger->past_cuts = ledger->cuts;
    ledger->cuts = ledger->cuts_next;
    ledger->cuts_next = false;
}

void ledger_apply(ledger *ledger, const tape_entry *entry) {
    if (entry->kind != TAPE_ROUND && entry->kind != TAPE_MARK && entry->rank >= ledger->rank_count) return;
    switch (entry->kind) {
    case TAPE_JOIN: crowd_put(&ledger->next, entry->rank); break;
    case TAPE_LEAVE: (void)take_from_next(ledger, entry->rank); break;
    case TAPE_DROP: drop(ledger, entry->rank); break;
    case TAPE_VOID: decide(ledger, entry, &ledger->voided, &ledger->redo); break;
    case TAPE_REDO: decide(ledger, entry, &ledger->redo, &ledger->voided); break;
    case TAPE_MARK: ledger->cuts_next = true; break;
    case TAPE_ROUND: end_round(ledger, entry); break;
    default: break; /* nothing that a ledger knows */
    }
}

void ledger_turn(ledger_pages *pages, const tape_entry *entry) {
    MR_ASSERT(entry->kind == TAPE_ROUND);
    pages->before = pages->now;
    ledger_apply(&pages->now, entry);
}

/* No round before the last one that was measured needs its norms any more. */
void ledger_measure(ledger_pages *pages, const tape_entry *entry) {
    ledger_norms *norms = &pages->norms;
    uint32_t phases = ledger_phases(pages, entry->name);
    if (entry->rank != phases) return; /* it is there */
    MR_ASSERT(phases < VALUES_PHASES_MAX && (phases == 0 || norms->bale != NULL));
    span before = phases == 0 ? (span){0} : bale_bytes(norms->bale);
    bale *bale = bale_new(before.size + entry->payload.size);
    if (before.size != 0) memcpy(bale_room(bale), before.data, before.size);
    if (entry->payload.size != 0) memcpy(bale_room(bale) + before.size, entry->payload.data, entry->payload.size);
    bale_unref(norms->bale);
    *norms = (ledger_norms){entry->name, phases + 1, bale};
}

/* ---- Questions. */

uint32_t ledger_phases(const ledger_pages *pages, uint64_t round) {
    return pages->norms.round == round ? pages->norms.phases : 0;
}

uint32_t ledger_undecided(const ledger *ledger) {
    for (uint32_t i = 0; i < ledger->rank_count; i++)
        if (crowd_has(&ledger->dropping, i) && !crowd_has(&ledger->voided, i) && !crowd_has(&ledger->redo, i)) return i;
    return CROWD_MAX;
}

bool ledger_needs(const ledger *ledger, crowd *out) {
    *out = crowd_without(&ledger->members, &ledger->voided);
    return !ledger->waits && ledger_undecided(ledger) == CROWD_MAX;
}

bool ledger_enough(const ledger *ledger, const crowd *ticked, bool late, crowd *set) {
    crowd wanted = crowd_without(&ledger->members, &ledger->voided);
    *set = crowd_both(&wanted, ticked);
    uint32_t all = crowd_count(&ledger->members), left = crowd_count(&wanted), here = crowd_count(set);
    uint32_t enough = all > ledger->backup ? all - ledger->backup : 1;
    if (enough > left) enough = left;
    return here >= enough || (late && here > 0);
}

bool ledger_decided(const ledger *ledger, ledger_terms *out) {
    crowd set;
    MR_ASSERT(ledger->rank_count <= CROWD_MAX);
    bool known = ledger_needs(ledger, &set) && crowd_count(&ledger->voided) + crowd_count(&ledger->redo) != 0;
    *out = (ledger_terms){.round = ledger->round, .cuts = ledger->cuts, .members = set};
    return known;
}

ledger_terms ledger_terms_before(const ledger *ledger) {
    return (ledger_terms){.round = ledger->round - 1, .cuts = ledger->past_cuts, .members = ledger->past_set};
}

bool ledger_decided_before(const ledger *ledger, ledger_terms *out) {
    *out = ledger_terms_before(ledger);
    return ledger->round != 0 && ledger->past_decided;
}

/* ---- Terms. */

ledger_terms ledger_terms_of(const ledger *ledger) {
    return (ledger_terms){
        .round = ledger->round, .waits = ledger->waits, .cuts = ledger->cuts, .members = ledger->members};
}

size_t ledger_write_terms(const ledger_terms *terms, uint32_t rank_count, uint8_t out[LEDGER_TERMS_MAX]) {
    writer writer = writer_of(out, LEDGER_TERMS_MAX);
    writer_u8(&writer, (uint8_t)((terms->waits ? TERMS_WAIT : 0) | (terms->cuts ? TERMS_CUT : 0) |
                                 (terms->normed ? TERMS_NORMS : 0)));
    crowd_write(&terms->members, rank_count, &writer);
    MR_ASSERT(!writer.failed);
    return writer_size(&writer);
}

bool ledger_read_terms(span bytes, uint32_t rank_count, ledger_terms *out) {
    reader reader = reader_of(bytes.data, bytes.size);
    uint8_t flags = reader_u8(&reader);
    *out = (ledger_terms){
        .waits = (flags & TERMS_WAIT) != 0, .cuts = (flags & TERMS_CUT) != 0, .normed = (flags & TERMS_NORMS) != 0};
    return crowd_read(&reader, rank_count, &out->members) && reader_left(&reader) == 0;
}

/* ---- The entry of a round. */

size_t ledger_round_head(uint32_t rank_count) { return (1 + crowd_size(rank_count) + 7) / 8 * 8; }

void ledger_write_round(const ledger_terms *terms, uint32_t rank_count, uint8_t *out) {
    uint8_t bytes[LEDGER_TERMS_MAX];
    size_t size = ledger_write_terms(terms, rank_count, bytes);
    memset(out, 0, ledger_round_head(rank_count));
    memcpy(out, bytes, size);
}

bool ledger_read_round(span bytes, uint32_t rank_count, ledger_round *out) {
    size_t head = ledger_round_head(rank_count), size = 1 + crowd_size(rank_count), end = bytes.size;
    if (bytes.size < head || !ledger_read_terms(span_of(bytes.data, size), rank_count, &out->terms)) return false;
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

/* ---- As bytes. */

size_t ledger_size(uint32_t rank_count) { return HEAD_SIZE + CROWDS * crowd_size(rank_count); }

void ledger_write(const ledger *ledger, void *out) {
    writer writer = writer_of(out, ledger_size(ledger->rank_count));
#define X(type, field) writer_##type(&writer, ledger->field);
    HEAD_FIELDS(X)
#undef X
    const crowd *crowds[CROWDS] = {&ledger->members, &ledger->next, &ledger->dropping,
                                   &ledger->voided,  &ledger->redo, &ledger->past_set};
    for (size_t i = 0; i < CROWDS; i++) crowd_write(crowds[i], ledger->rank_count, &writer);
    MR_ASSERT(!writer.failed);
}

static bool is_within(const crowd *some, const crowd *all) {
    crowd rest = crowd_without(some, all);
    return crowd_count(&rest) == 0;
}

/* Invariants 1 and 2. */
static bool is_sound(const ledger *ledger) {
    crowd all = crowd_first(ledger->rank_count), both = crowd_both(&ledger->voided, &ledger->redo);
    return is_within(&ledger->members, &all) && is_within(&ledger->next, &all) && is_within(&ledger->past_set, &all) &&
           is_within(&ledger->dropping, &ledger->members) && is_within(&ledger->voided, &ledger->dropping) &&
           is_within(&ledger->redo, &ledger->dropping) && crowd_count(&both) == 0;
}

void ledger_check(const ledger_pages *pages) {
    const ledger_norms *norms = &pages->norms;
    uint32_t before = pages->before.rank_count;
    MR_ASSERT(pages->now.rank_count <= CROWD_MAX && is_sound(&pages->now));                         /* 1, 2 */
    MR_ASSERT((before == 0 || before == pages->now.rank_count) && is_sound(&pages->before));        /* 1, 2, 3 */
    MR_ASSERT((norms->phases == 0) == (norms->bale == NULL) && norms->phases <= VALUES_PHASES_MAX); /* 3 */
}

bool ledger_read(span bytes, uint32_t rank_count, ledger *out) {
    reader reader = reader_of(bytes.data, bytes.size);
    ledger fresh = {0};
#define X(type, field) fresh.field = reader_##type(&reader);
    HEAD_FIELDS(X)
#undef X
    if (reader.failed || fresh.rank_count != rank_count || rank_count > CROWD_MAX) return false;
    crowd *crowds[CROWDS] = {&fresh.members, &fresh.next, &fresh.dropping, &fresh.voided, &fresh.redo, &fresh.past_set};
    for (size_t i = 0; i < CROWDS; i++)
        if (!crowd_read(&reader, rank_count, crowds[i])) return false;
    if (reader_left(&reader) != 0 || !is_sound(&fresh)) return false;
    *out = fresh;
    return true;
}

bool ledger_resume(ledger *ledger, span bytes, uint32_t rank_count) {
    struct ledger old;
    if (rank_count > CROWD_MAX || bytes.size < ledger_size(rank_count)) return false;
    if (!ledger_read(span_of(bytes.data, ledger_size(rank_count)), rank_count, &old)) return false;
    if (rank_count == ledger->rank_count) {
        ledger->members = old.members;
        ledger->next = old.next;
    }
    ledger->round = old.round;
    return true;
}

/* ---- As values of a slot. */

static void *create(void *context, uint32_t slot, bool keeps) { return xcalloc(1, sizeof(ledger_pages)); }

static void destroy(void *self) {
    ledger_pages *pages = self;
    bale_unref(pages->norms.bale);
    free(pages);
}

static void apply(void *self, span payload, uint64_t moment) {}
static void *sum_begin(void *context, uint32_t slot) { return NULL; } /* contributions to a ledger are empty */
static void sum_add(void *sum, span payload) {}
static size_t sum_size(const void *sum) { return 0; }
static void sum_write(const void *sum, void *out) {}
static void sum_end(void *sum) {}

static bale *show(void *self, span request, bool kept) {
    const ledger_pages *pages = self;
    const ledger *page = kept ? &pages->before : &pages->now;
    bale *bale = bale_new(ledger_size(page->rank_count));
    ledger_write(page, bale_room(bale));
    return bale;
}

static size_t size(const void *self) {
    const ledger_pages *pages = self;
    size_t norms = pages->norms.phases == 0 ? 0 : NORMS_HEAD + bale_bytes(pages->norms.bale).size;
    return ledger_size(pages->now.rank_count) * (pages->before.rank_count == 0 ? 1 : 2) + norms;
}

/* Norms are those of a round that is over: then there is one before. */
static void write(const void *self, void *out) {
    const ledger_pages *pages = self;
    size_t one = ledger_size(pages->now.rank_count), all = size(self);
    ledger_write(&pages->now, out);
    if (pages->before.rank_count != 0) ledger_write(&pages->before, (uint8_t *)out + one);
    if (pages->norms.phases == 0) return;
    writer writer = writer_of((uint8_t *)out + 2 * one, all - 2 * one);
    writer_u64(&writer, pages->norms.round);
    writer_u32(&writer, pages->norms.phases);
    writer_span32(&writer, bale_bytes(pages->norms.bale));
    MR_ASSERT(!writer.failed && writer.at == writer.end);
}

static bool read_norms(span bytes, ledger_norms *out) {
    reader reader = reader_of(bytes.data, bytes.size);
    out->round = reader_u64(&reader);
    out->phases = reader_u32(&reader);
    span norms = reader_span32(&reader);
    if (reader.failed || reader_left(&reader) != 0) return false;
    if (out->phases == 0 || out->phases > VALUES_PHASES_MAX || norms.size > VALUES_PHASES_MAX * VALUES_NORMS_MAX)
        return false;
    out->bale = bale_copy(norms);
    return true;
}

static bool read(void *self, span bytes) {
    ledger_pages *pages = self, fresh = {0};
    uint32_t ranks = pages->now.rank_count;
    size_t size = ledger_size(ranks);
    bool two = bytes.size >= 2 * size, more = bytes.size > 2 * size;
    if (bytes.size != size && !two) return false;
    if (!ledger_read(span_of(bytes.data, size), ranks, &fresh.now)) return false;
    if (two && !ledger_read(span_of(bytes.data + size, size), ranks, &fresh.before)) return false;
    if (more && !read_norms(span_of(bytes.data + 2 * size, bytes.size - 2 * size), &fresh.norms)) return false;
    bale_unref(pages->norms.bale);
    *pages = fresh;
    return true;
}

const values_ops ledger_ops = {"ledger", create, destroy, apply, sum_begin, sum_add, sum_size, sum_write,
                               sum_end,  show,   size,    write, read,      NULL,    NULL,     NULL};
