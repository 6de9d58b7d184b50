/* batch_claims.c — see batch_claims.h. */
#include "cluster/batch_claims.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/binary_search.h"
#include "base/error.h"
#include "base/invariants.h"
#include "base/varint.h"

void batch_claims_fini(batch_claims *claims) {
    free(claims->ranks);
    free(claims->list);
    free(claims->back);
    *claims = (struct batch_claims){0};
}

void batch_claims_copy(batch_claims *to, const batch_claims *from) {
    batch_claims_fini(to);
    *to = *from;
    to->ranks = xcopy(from->ranks, from->rank_count * sizeof *to->ranks);
    to->list = xcopy(from->list, from->count * sizeof *to->list);
    to->back = xcopy(from->back, from->back_count * sizeof *to->back);
}

/* ---- Lookup. */

static size_t seek_rank(const batch_claims *claims, uint32_t rank) {
    return binary_search_first(&rank, claims->ranks, claims->rank_count, sizeof *claims->ranks, binary_search_u32);
}

static batch_claims_rank *find_rank(const batch_claims *claims, uint32_t rank) {
    return binary_search_find(&rank, claims->ranks, claims->rank_count, sizeof *claims->ranks, binary_search_u32);
}

static int by_step(const void *key, const void *item) {
    const batch_claim *a = key, *b = item;
    if (a->rank != b->rank) return a->rank < b->rank ? -1 : 1;
    return (a->step > b->step) - (a->step < b->step);
}

/* Index of the rank's first claim that begins at this step or later. */
static size_t seek(const batch_claims *claims, uint32_t rank, uint64_t step) {
    batch_claim key = {.rank = rank, .step = step};
    return binary_search_first(&key, claims->list, claims->count, sizeof *claims->list, by_step);
}

/* Index after the last claim of the rank: no claim begins at so high a step. */
static size_t seek_end(const batch_claims *claims, uint32_t rank) { return seek(claims, rank, UINT64_MAX); }

static uint64_t end_of(const batch_claim *claim) { return claim->step + claim->count; }

uint64_t batch_claims_over(const batch_claims *claims, uint32_t rank) {
    const batch_claims_rank *there = find_rank(claims, rank);
    return there == NULL ? 0 : there->over;
}

uint64_t batch_claims_granted(const batch_claims *claims, uint32_t rank) {
    const batch_claims_rank *there = find_rank(claims, rank);
    return there == NULL ? 0 : there->granted;
}

const batch_claim *batch_claims_find(const batch_claims *claims, uint32_t rank, uint64_t step) {
    size_t at = seek(claims, rank, step);
    bool begins = at < claims->count && claims->list[at].rank == rank && claims->list[at].step == step;
    if (!begins && at-- == 0) return NULL;
    const batch_claim *claim = &claims->list[at];
    return claim->rank == rank && step < end_of(claim) && step >= batch_claims_over(claims, rank) ? claim : NULL;
}

bool batch_claims_any(const batch_claims *claims, uint32_t rank, uint64_t from, uint64_t to) {
    if (from >= to) return false;
    size_t at = seek(claims, rank, from);
    return batch_claims_find(claims, rank, from) != NULL ||
           (at < claims->count && claims->list[at].rank == rank && claims->list[at].step < to);
}

batch_claims_piece batch_claims_piece_of(const batch_claim *claim, uint64_t step) {
    MR_ASSERT(step >= claim->step && step < end_of(claim));
    batch_claims_piece piece = claim->piece;
    piece.from += (step - claim->step) * claim->batch;
    if (piece.to - piece.from > claim->batch) piece.to = piece.from + claim->batch;
    return piece;
}

/* ---- Adding claims. */

/* Every step has a batch, and only the last one may be shorter than `batch` items. */
static bool is_sound(const batch_claim *claim) {
    const batch_claims_piece *piece = &claim->piece;
    if (claim->count == 0 || claim->count > BATCH_CLAIMS_STEPS_MAX || claim->batch == 0 ||
        claim->batch > BATCH_CLAIMS_BATCH_MAX)
        return false;
    uint64_t whole = claim->count * claim->batch, size = piece->to - piece->from;
    return piece->from < piece->to && size <= whole && size > whole - claim->batch &&
           claim->step <= UINT64_MAX - claim->count;
}

static bool goes_on(const batch_claim *last, const batch_claim *next) {
    uint64_t size = last->piece.to - last->piece.from;
    return last->rank == next->rank && end_of(last) == next->step && last->piece.part == next->piece.part &&
           last->piece.epoch == next->piece.epoch && last->piece.to == next->piece.from && last->batch == next->batch &&
           size == last->count * last->batch && last->count + next->count <= BATCH_CLAIMS_STEPS_MAX;
}

static void make_rank(batch_claims *claims, uint32_t rank) { /* the caller ensures that there is room */
    size_t at = seek_rank(claims, rank);
    if (find_rank(claims, rank) != NULL) return;
    claims->ranks = xrealloc(claims->ranks, (claims->rank_count + 1) * sizeof *claims->ranks);
    memmove(&claims->ranks[at + 1], &claims->ranks[at], (claims->rank_count - at) * sizeof *claims->ranks);
    claims->ranks[at] = (batch_claims_rank){.rank = rank};
    claims->rank_count++;
    MR_ASSERT(claims->rank_count <= BATCH_CLAIMS_RANKS_MAX);
}

static void insert(batch_claims *claims, size_t at, const batch_claim *claim) {
    MR_ASSERT(at <= claims->count && claims->count < BATCH_CLAIMS_MAX);
    claims->list = xrealloc(claims->list, (claims->count + 1) * sizeof *claims->list);
    memmove(&claims->list[at + 1], &claims->list[at], (claims->count - at) * sizeof *claims->list);
    claims->list[at] = *claim;
    claims->count++;
}

uint32_t batch_claims_free(const batch_claims *claims, uint32_t rank, uint64_t step, uint32_t most) {
    if (step < batch_claims_over(claims, rank) || batch_claims_find(claims, rank, step) != NULL) return 0;
    size_t at = seek(claims, rank, step);
    if (at == claims->count || claims->list[at].rank != rank) return most;
    uint64_t room = claims->list[at].step - step;
    return room < most ? (uint32_t)room : most;
}

bool batch_claims_has_room(const batch_claims *claims, uint32_t rank) {
    return claims->count < BATCH_CLAIMS_MAX &&
           (claims->rank_count < BATCH_CLAIMS_RANKS_MAX || find_rank(claims, rank) != NULL);
}

mr_status batch_claims_add(batch_claims *claims, const batch_claim *claim) {
    if (!is_sound(claim)) return error_set(MR_INVALID, "invalid batch claim of rank %u", claim->rank);
    if (batch_claims_free(claims, claim->rank, claim->step, claim->count) != claim->count) return MR_STALE;
    size_t at = seek(claims, claim->rank, claim->step);
    if (at > 0 && goes_on(&claims->list[at - 1], claim)) {
        claims->list[at - 1].count += claim->count;
        claims->list[at - 1].piece.to = claim->piece.to;
    } else if (batch_claims_has_room(claims, claim->rank)) {
        make_rank(claims, claim->rank);
        insert(claims, at, claim);
    } else {
        return error_set(MR_TOO_LARGE, "the limit is %d batch claims of %d ranks", BATCH_CLAIMS_MAX,
                         BATCH_CLAIMS_RANKS_MAX);
    }
    claims->ranks[seek_rank(claims, claim->rank)].granted++;
    CHECK_INVARIANTS(claims->count, batch_claims_check(claims));
    return MR_OK;
}

/* ---- Steps that are over, and items handed back. */

static void hand_back(batch_claims *claims, const batch_claims_piece *piece) {
    batch_claims_piece *last = claims->back_count == 0 ? NULL : &claims->back[claims->back_count - 1];
    if (last != NULL && last->part == piece->part && last->epoch == piece->epoch && last->to == piece->from) {
        last->to = piece->to;
        return;
    }
    claims->back = xrealloc(claims->back, (claims->back_count + 1) * sizeof *claims->back);
    claims->back[claims->back_count++] = *piece;
    MR_ASSERT(piece->from < piece->to && claims->back_count <= BATCH_CLAIMS_BACK_MAX);
}

/* Removes the claims from index `first` to `end` - 1. */
static void take_out(batch_claims *claims, size_t first, size_t end) {
    memmove(&claims->list[first], &claims->list[end], (claims->count - end) * sizeof *claims->list);
    claims->count -= end - first;
}

static uint64_t later(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* Hands back the batches of one claim for steps from `over` to past->over - 1 that were not used, as far as `past`
 * reports them. */
static void hand_back_unspent(batch_claims *claims, const batch_claim *claim, uint64_t over,
                              const batch_claims_past *past) {
    uint64_t known = later(past->since, past->over > 64 ? past->over - 64 : 0);
    for (uint64_t step = later(later(claim->step, over), known); step < end_of(claim) && step < past->over; step++) {
        batch_claims_piece piece = batch_claims_piece_of(claim, step);
        if ((past->spent >> (past->over - 1 - step) & 1) == 0) hand_back(claims, &piece);
    }
}

bool batch_claims_forget(batch_claims *claims, uint32_t rank, const batch_claims_past *past) {
    size_t first = seek(claims, rank, 0), end = first;
    batch_claims_rank *there = find_rank(claims, rank);
    if (there == NULL || there->over >= past->over) return true;
    if (claims->back_count + 64 > BATCH_CLAIMS_BACK_MAX) return false;
    for (size_t i = first; i < claims->count && claims->list[i].rank == rank; i++)
        hand_back_unspent(claims, &claims->list[i], there->over, past);
    there->over = past->over;
    while (end < claims->count && claims->list[end].rank == rank && end_of(&claims->list[end]) <= past->over) end++;
    take_out(claims, first, end);
    CHECK_INVARIANTS(claims->count, batch_claims_check(claims));
    return true;
}

bool batch_claims_return(batch_claims *claims, uint32_t rank, uint64_t step, uint64_t granted) {
    uint64_t over = batch_claims_over(claims, rank);
    step = later(step, over);
    if (granted != batch_claims_granted(claims, rank) || !batch_claims_any(claims, rank, step, UINT64_MAX))
        return false;
    size_t first = seek(claims, rank, step), end = seek_end(claims, rank);
    batch_claim *open = first == 0 ? NULL : &claims->list[first - 1];
    /* the claim before does not contain this step */
    if (open != NULL && (open->rank != rank || end_of(open) <= step)) open = NULL;
    /* the member repeats its message */
    if (claims->back_count + (end - first) + 1 > BATCH_CLAIMS_BACK_MAX) return false;
    if (open != NULL) {
        batch_claims_piece piece = {open->piece.part, open->piece.epoch, batch_claims_piece_of(open, step).from,
                                    open->piece.to};
        hand_back(claims, &piece);
        open->count = (uint32_t)(step - open->step);
        open->piece.to = piece.from;
    }
    for (size_t i = first; i < end; i++) hand_back(claims, &claims->list[i].piece);
    if (open != NULL && end_of(open) <= over) first--; /* the shortened claim is over as a whole */
    take_out(claims, first, end);
    CHECK_INVARIANTS(claims->count, batch_claims_check(claims));
    return true;
}

bool batch_claims_take_back(batch_claims *claims, uint64_t items, batch_claims_piece *out) {
    if (claims->back_count == 0) return false;
    MR_ASSERT(items != 0);
    batch_claims_piece *first = &claims->back[0];
    *out = *first;
    if (out->to - out->from > items) out->to = out->from + items;
    first->from = out->to;
    if (first->from == first->to) memmove(first, first + 1, --claims->back_count * sizeof *first);
    return true;
}

/* ---- Encoding. */

static void write_claim(writer *writer, const batch_claim *claim, uint64_t before, uint64_t epoch) {
    const batch_claims_piece *piece = &claim->piece;
    writer_varint(writer, varint_fold(claim->step, before));
    writer_varint(writer, claim->count);
    writer_varint(writer, piece->part);
    writer_varint(writer, varint_fold(piece->epoch, epoch));
    writer_varint(writer, piece->from);
    writer_varint(writer, claim->batch);
    writer_varint(writer, claim->count * claim->batch - (piece->to - piece->from));
}

static void write_back(const batch_claims *claims, uint64_t epoch, writer *writer) {
    writer_varint(writer, claims->back_count);
    for (size_t i = 0; i < claims->back_count; i++) {
        writer_varint(writer, claims->back[i].part);
        writer_varint(writer, varint_fold(claims->back[i].epoch, epoch));
        writer_varint(writer, claims->back[i].from);
        writer_varint(writer, claims->back[i].to - claims->back[i].from);
    }
}

void batch_claims_encode(const batch_claims *claims, uint64_t epoch, writer *writer) {
    size_t at = 0;
    uint32_t next = 0;
    writer_varint(writer, claims->rank_count);
    for (size_t i = 0; i < claims->rank_count; i++) {
        const batch_claims_rank *rank = &claims->ranks[i];
        size_t end = seek_end(claims, rank->rank);
        uint64_t before = rank->over;
        writer_varint(writer, rank->rank - next);
        writer_varint(writer, rank->over);
        writer_varint(writer, rank->granted);
        writer_varint(writer, end - at);
        for (; at < end; before = end_of(&claims->list[at++])) write_claim(writer, &claims->list[at], before, epoch);
        next = rank->rank + 1;
    }
    write_back(claims, epoch, writer);
}

/* Reads a claim and checks that the claims of a rank are in order, disjoint, and not over. */
static bool read_claim(reader *reader, const batch_claims_rank *rank, uint64_t before, bool first, uint64_t epoch,
                       batch_claim *claim) {
    *claim = (struct batch_claim){.rank = rank->rank, .step = varint_unfold(reader_varint(reader), before)};
    uint64_t count = reader_varint(reader), part = reader_varint(reader);
    claim->piece.epoch = varint_unfold(reader_varint(reader), epoch);
    claim->piece.from = reader_varint(reader);
    claim->batch = reader_varint(reader);
    uint64_t less = reader_varint(reader);
    if (reader->failed || count > BATCH_CLAIMS_STEPS_MAX || part > UINT32_MAX || claim->batch > BATCH_CLAIMS_BATCH_MAX)
        return false;
    claim->count = (uint32_t)count;
    claim->piece.part = (uint32_t)part;
    uint64_t whole = count * claim->batch;
    if (less > whole || claim->piece.from > UINT64_MAX - whole) return false;
    claim->piece.to = claim->piece.from + (whole - less);
    return is_sound(claim) && (first ? end_of(claim) > rank->over : claim->step >= before);
}

static bool read_rank(reader *reader, uint64_t epoch, uint64_t next, batch_claims *out) {
    uint64_t number = next + reader_varint(reader);
    batch_claims_rank rank = {.over = reader_varint(reader)};
    rank.granted = reader_varint(reader);
    uint64_t count = reader_varint(reader), before = rank.over;
    if (reader->failed || number < next || number >= UINT32_MAX || count > BATCH_CLAIMS_MAX - out->count) return false;
    rank.rank = (uint32_t)number;
    for (uint64_t i = 0; i < count; i++) {
        batch_claim claim;
        if (!read_claim(reader, &rank, before, i == 0, epoch, &claim)) return false;
        insert(out, out->count, &claim);
        before = end_of(&claim);
    }
    out->ranks[out->rank_count++] = rank;
    return true;
}

static bool read_back(reader *reader, uint64_t epoch, batch_claims *out) {
    uint64_t count = reader_varint(reader);
    if (reader->failed || count > BATCH_CLAIMS_BACK_MAX) return false;
    out->back = xcalloc((size_t)count + 1, sizeof *out->back);
    for (; out->back_count < count; out->back_count++) {
        uint64_t part = reader_varint(reader);
        batch_claims_piece *piece = &out->back[out->back_count];
        piece->epoch = varint_unfold(reader_varint(reader), epoch);
        piece->from = reader_varint(reader);
        uint64_t items = reader_varint(reader);
        if (reader->failed || part > UINT32_MAX || items == 0 || items > UINT64_MAX - piece->from) return false;
        piece->part = (uint32_t)part;
        piece->to = piece->from + items;
    }
    return true;
}

bool batch_claims_decode(reader *reader, uint64_t epoch, batch_claims *out) {
    uint64_t ranks = reader_varint(reader), next = 0;
    if (reader->failed || ranks > BATCH_CLAIMS_RANKS_MAX) return false;
    out->ranks = xcalloc((size_t)ranks + 1, sizeof *out->ranks);
    for (uint64_t i = 0; i < ranks; i++) {
        if (!read_rank(reader, epoch, next, out)) return false;
        next = (uint64_t)out->ranks[i].rank + 1;
    }
    return read_back(reader, epoch, out);
}

/* ---- Invariants. */

void batch_claims_check(const batch_claims *claims) {
    MR_ASSERT(claims->rank_count <= BATCH_CLAIMS_RANKS_MAX && claims->count <= BATCH_CLAIMS_MAX); /* 1, 2 */
    for (size_t i = 1; i < claims->rank_count; i++)
        MR_ASSERT(claims->ranks[i - 1].rank < claims->ranks[i].rank); /* 1 */
    for (size_t i = 0; i < claims->count; i++) {
        const batch_claim *claim = &claims->list[i];
        MR_ASSERT(is_sound(claim) && find_rank(claims, claim->rank) != NULL); /* 2 */
        MR_ASSERT(end_of(claim) > batch_claims_over(claims, claim->rank));    /* 3 */
        if (i == 0) continue;
        MR_ASSERT(claim[-1].rank < claim->rank ||
                  (claim[-1].rank == claim->rank && end_of(&claim[-1]) <= claim->step)); /* 2 */
    }
    MR_ASSERT(claims->back_count <= BATCH_CLAIMS_BACK_MAX);                                               /* 4 */
    for (size_t i = 0; i < claims->back_count; i++) MR_ASSERT(claims->back[i].from < claims->back[i].to); /* 4 */
}
