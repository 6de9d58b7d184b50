/* attendee.c — see attendee.h. */
#include "cluster/attendee.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/error.h"
#include "cluster/marshal.h"

/* What follows the stamp:
 *
 *   1, 1 + n       role, address
 *   1 + n 1 1 4 8  the barrier: name (none: it waits at none), group, strict, least; the round
 *   1 4 8 8 8      1: it reports, 2: it claims, 0: neither; part, epoch, from, to
 *   4 8 4 8 8      of a claim: rank, step, count, batch, over */
enum { WORD_MAX = 1 + ROSTER_ADDRESS_MAX + 1 + ROSTER_NAME_MAX + 14 + 29 + 32, REPORTS = 1, CLAIMS = 2 };

struct attendee {
    attendee_options options;
    uint64_t incarnation; /* 0: none */
    int64_t next_us;
    roster roster;
    bool was_in;
    bool comes, reports, claims;
    roster_barrier terms;
    uint64_t round, over;
    claim claim;
};

attendee *attendee_create(const attendee_options *options) {
    MR_ASSERT(strlen(options->address) < ROSTER_ADDRESS_MAX);
    attendee *attendee = xcalloc(1, sizeof *attendee);
    attendee->options = *options;
    attendee->next_us = CLOCK_NEVER_US;
    return attendee;
}

void attendee_destroy(attendee *attendee) {
    roster_fini(&attendee->roster);
    free(attendee);
}

void attendee_begin(attendee *attendee, uint64_t incarnation, int64_t now_us) {
    attendee->incarnation = incarnation;
    attendee->was_in = attendee->comes = attendee->reports = attendee->claims = false;
    attendee->next_us = now_us;
}

bool attendee_is_out(const attendee *attendee) {
    const roster_member *member = roster_find(&attendee->roster, attendee->options.id);
    bool is_in = member != NULL && member->incarnation == attendee->incarnation;
    return attendee->was_in && !is_in;
}

const roster *attendee_roster(const attendee *attendee) { return &attendee->roster; }
int64_t attendee_next_us(const attendee *attendee) { return attendee->next_us; }

/* ---- Saying. */

static void say(attendee *attendee) {
    uint8_t bytes[WORD_MAX];
    writer writer = writer_of(bytes, sizeof bytes);
    writer_u8(&writer, attendee->options.role);
    writer_text8(&writer, attendee->options.address);
    writer_text8(&writer, attendee->comes ? attendee->terms.name : "");
    writer_u8(&writer, attendee->terms.group);
    writer_u8(&writer, attendee->terms.strict);
    writer_u32(&writer, attendee->terms.least);
    writer_u64(&writer, attendee->round);
    const claim *claim = &attendee->claim;
    writer_u8(&writer, attendee->reports ? REPORTS : attendee->claims ? CLAIMS : 0);
    writer_u32(&writer, claim->piece.part);
    writer_u64(&writer, claim->piece.epoch);
    writer_u64(&writer, claim->piece.from);
    writer_u64(&writer, claim->piece.to);
    writer_u32(&writer, claim->rank);
    writer_u64(&writer, claim->step);
    writer_u32(&writer, claim->count);
    writer_u64(&writer, claim->batch);
    writer_u64(&writer, attendee->over);
    MR_ASSERT(!writer.failed);
    letter letter = {.kind = LETTER_ATTEND,
                     .stamp = {attendee->roster.number, attendee->options.id, attendee->incarnation},
                     .value = span_of(bytes, writer_size(&writer))};
    attendee->options.send(attendee->options.context, attendee->options.marshal, &letter);
}

void attendee_tick(attendee *attendee, int64_t now_us) {
    attendee->next_us = now_us + ATTENDEE_BEAT_US;
    say(attendee);
}

mr_status attendee_read(const letter *letter, attendee_word *word) {
    reader reader = reader_of(letter->value.data, letter->value.size);
    *word = (attendee_word){.member = {.id = (uint32_t)letter->stamp.id, .incarnation = letter->stamp.incarnation}};
    word->member.role = reader_u8(&reader);
    uint8_t role = word->member.role;
    bool good = (role == ROSTER_SCHEDULER || role == ROSTER_SERVER || role == ROSTER_WORKER) &&
                letter->stamp.id < ROSTER_NOBODY && letter->stamp.incarnation != 0 &&
                reader_text8(&reader, word->member.address, sizeof word->member.address) &&
                reader_text8(&reader, word->terms.name, sizeof word->terms.name);
    word->comes = word->terms.name[0] != '\0';
    word->terms.group = reader_u8(&reader) & ROSTER_ALL;
    word->terms.strict = reader_u8(&reader) != 0;
    word->terms.least = reader_u32(&reader);
    word->round = reader_u64(&reader);
    uint8_t wants = reader_u8(&reader);
    word->reports = wants == REPORTS;
    word->claims = wants == CLAIMS;
    word->claim.piece.part = reader_u32(&reader);
    word->claim.piece.epoch = reader_u64(&reader);
    word->claim.piece.from = reader_u64(&reader);
    word->claim.piece.to = reader_u64(&reader);
    word->claim.rank = reader_u32(&reader);
    word->claim.step = reader_u64(&reader);
    word->claim.count = reader_u32(&reader);
    word->claim.batch = reader_u64(&reader);
    word->over = reader_u64(&reader);
    if (!good || reader.failed || reader_left(&reader) != 0)
        return error_set(MR_CORRUPT, "these %zu bytes are not an attendee's", letter->value.size);
    return MR_OK;
}

/* ---- Hearing. */

/* What became of the piece: the part has moved on from where it began, or is not its to do; or, of a claim, one of
 * its steps has one. */
static bool is_settled(const attendee *attendee) {
    const roster *roster = &attendee->roster;
    const claim *claim = &attendee->claim;
    const roster_piece *piece = &claim->piece;
    const roster_part *part = &roster->parts[piece->part];
    if (roster->epoch != piece->epoch || part->position != piece->from) return true;
    if (attendee->claims)
        return roster_source(roster, attendee->options.id, attendee->incarnation) != piece->part ||
               !claims_is_free(&roster->claims, claim);
    return part->holder != attendee->options.id || part->incarnation != attendee->incarnation;
}

bool attendee_take(attendee *attendee, const letter *letter) {
    if (letter->kind != LETTER_ROSTER) return false;
    roster fresh = {0};
    if (roster_decode(letter->value, &fresh) != MR_OK) return true;
    if (fresh.number > attendee->roster.number) {
        roster_copy(&attendee->roster, &fresh);
        const roster_member *member = roster_find(&attendee->roster, attendee->options.id);
        if (member != NULL && member->incarnation == attendee->incarnation) attendee->was_in = true;
        if (attendee_reports(attendee) && is_settled(attendee)) attendee->reports = attendee->claims = false;
        attendee->options.on_roster(attendee->options.context, &attendee->roster);
    }
    roster_fini(&fresh);
    return true;
}

/* ---- Wanting. */

void attendee_come(attendee *attendee, const roster_barrier *terms) {
    const roster_barrier *there = roster_barrier_of(&attendee->roster, terms->name);
    attendee->comes = true;
    attendee->terms = *terms;
    attendee->round = there == NULL ? 1 : there->round + 1;
}

mr_status attendee_passed(const attendee *attendee) {
    const roster_barrier *there = roster_barrier_of(&attendee->roster, attendee->terms.name);
    if (there == NULL || there->round < attendee->round) return MR_BUSY;
    return there->broken == attendee->round ? MR_PEER_DIED : MR_OK;
}

void attendee_report(attendee *attendee, const roster_piece *piece) {
    MR_ASSERT(!attendee_reports(attendee) && piece->part < attendee->roster.part_count);
    attendee->reports = true;
    attendee->claim = (claim){.piece = *piece};
}

void attendee_claim(attendee *attendee, const claim *claim, uint64_t over) {
    MR_ASSERT(!attendee_reports(attendee) && claim->piece.part < attendee->roster.part_count);
    attendee->claims = true;
    attendee->claim = *claim;
    attendee->over = over;
    if (is_settled(attendee)) attendee->claims = false; /* no roster will come to say so */
}

bool attendee_reports(const attendee *attendee) { return attendee->reports || attendee->claims; }
