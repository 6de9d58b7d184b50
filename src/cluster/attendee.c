/* attendee.c — see attendee.h. Tested by src/cluster/marshal_test.c. */
#include "cluster/attendee.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/invariants.h"
#include "cluster/marshal.h"

/* What follows the stamp:
 *
 *   1, 1 + n       role, address
 *   44             zeros: room for a barrier and a report, which nobody ever sent; other values are corrupt
 *   1              wishes; each:
 *   4 4 8 8        rank, count, step, batch
 *   8 8 8          over, since, spent
 *   8 1 8          birth, leaves, granted */
enum {
    WISH_SIZE = 65,
    ZEROS_SIZE = 44,
    WORD_MAX = 1 + ROSTER_ADDRESS_MAX + ZEROS_SIZE + 1 + ATTENDEE_WISHES_MAX * WISH_SIZE
};

static const uint8_t zeros[ZEROS_SIZE];

struct attendee {
    attendee_options options;
    uint64_t incarnation; /* 0: none */
    int64_t next_us;
    roster roster;
    bool was_in;
    uint8_t wish_count;
    roster_wish wishes[ATTENDEE_WISHES_MAX];
};

attendee *attendee_create(const attendee_options *options) {
    MR_ASSERT(strlen(options->address) < ROSTER_ADDRESS_MAX && options->send != NULL && options->on_roster != NULL);
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
    MR_ASSERT(incarnation != 0);
    attendee->incarnation = incarnation;
    attendee->was_in = false;
    attendee->wish_count = 0;
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

static void write_wish(writer *writer, const roster_wish *wish) {
    writer_u32(writer, wish->rank);
    writer_u32(writer, wish->count);
    writer_u64(writer, wish->step);
    writer_u64(writer, wish->batch);
    writer_u64(writer, wish->past.over);
    writer_u64(writer, wish->past.since);
    writer_u64(writer, wish->past.spent);
    writer_u64(writer, wish->birth);
    writer_u8(writer, wish->leaves);
    writer_u64(writer, wish->granted);
}

static void say(attendee *attendee) {
    uint8_t bytes[WORD_MAX];
    writer writer = writer_of(bytes, sizeof bytes);
    writer_u8(&writer, attendee->options.role);
    writer_text8(&writer, attendee->options.address);
    writer_bytes(&writer, zeros, sizeof zeros);
    writer_u8(&writer, attendee->wish_count);
    for (size_t i = 0; i < attendee->wish_count; i++) write_wish(&writer, &attendee->wishes[i]);
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

static bool read_zeros(reader *reader) {
    const uint8_t *bytes = reader_bytes(reader, sizeof zeros);
    return bytes != NULL && memcmp(bytes, zeros, sizeof zeros) == 0;
}

static bool read_wishes(reader *reader, attendee_word *word) {
    word->wish_count = reader_u8(reader);
    if (word->wish_count > ATTENDEE_WISHES_MAX) return false;
    for (size_t i = 0; i < word->wish_count; i++) {
        roster_wish *wish = &word->wishes[i];
        wish->rank = reader_u32(reader);
        wish->count = reader_u32(reader);
        wish->step = reader_u64(reader);
        wish->batch = reader_u64(reader);
        wish->past.over = reader_u64(reader);
        wish->past.since = reader_u64(reader);
        wish->past.spent = reader_u64(reader);
        wish->birth = reader_u64(reader);
        wish->leaves = reader_u8(reader) != 0;
        wish->granted = reader_u64(reader);
    }
    return true;
}

mr_status attendee_read(const letter *letter, attendee_word *word) {
    reader reader = reader_of(letter->value.data, letter->value.size);
    *word = (attendee_word){.member = {.id = (uint32_t)letter->stamp.id, .incarnation = letter->stamp.incarnation}};
    word->member.role = reader_u8(&reader);
    uint8_t role = word->member.role;
    bool good = (role == ROSTER_SCHEDULER || role == ROSTER_SERVER || role == ROSTER_WORKER) &&
                letter->stamp.id < ROSTER_NOBODY && letter->stamp.incarnation != 0 &&
                reader_text8(&reader, word->member.address, sizeof word->member.address) && read_zeros(&reader) &&
                read_wishes(&reader, word);
    if (!good || reader.failed || reader_left(&reader) != 0)
        return error_set(MR_CORRUPT, "malformed message of a group consumer: %zu bytes", letter->value.size);
    return MR_OK;
}

/* ---- Hearing. */

static void withdraw(attendee *attendee, size_t at) {
    MR_ASSERT(at < attendee->wish_count);
    attendee->wishes[at] = attendee->wishes[--attendee->wish_count];
}

static void settle(attendee *attendee) {
    for (size_t i = attendee->wish_count; i-- > 0;)
        if (roster_grants(&attendee->roster, &attendee->wishes[i])) withdraw(attendee, i);
}

bool attendee_take(attendee *attendee, const letter *letter) {
    if (letter->kind != LETTER_ROSTER) return false;
    roster fresh = {0};
    if (roster_decode(letter->value, &fresh) != MR_OK) return true;
    if (fresh.number > attendee->roster.number) {
        roster_copy(&attendee->roster, &fresh);
        const roster_member *member = roster_find(&attendee->roster, attendee->options.id);
        if (member != NULL && member->incarnation == attendee->incarnation) attendee->was_in = true;
        settle(attendee);
        CHECK_INVARIANTS(attendee->roster.claims.count, attendee_check(attendee));
        attendee->options.on_roster(attendee->options.context, &attendee->roster);
    }
    roster_fini(&fresh);
    return true;
}

/* ---- Wanting. */

static size_t find_wish(const attendee *attendee, uint32_t rank) {
    size_t at = 0;
    while (at < attendee->wish_count && attendee->wishes[at].rank != rank) at++;
    return at;
}

const roster_wish *attendee_wish_of(const attendee *attendee, uint32_t rank) {
    size_t at = find_wish(attendee, rank);
    return at == attendee->wish_count ? NULL : &attendee->wishes[at];
}

bool attendee_wish(attendee *attendee, const roster_wish *wish) {
    size_t at = find_wish(attendee, wish->rank);
    if (at == ATTENDEE_WISHES_MAX) return false;
    if (at == attendee->wish_count) attendee->wish_count++;
    attendee->wishes[at] = *wish;
    if (roster_grants(&attendee->roster, wish)) withdraw(attendee, at); /* no roster will come to say so */
    CHECK_INVARIANTS(attendee->roster.claims.count, attendee_check(attendee));
    return true;
}

void attendee_withdraw(attendee *attendee, uint32_t rank) {
    size_t at = find_wish(attendee, rank);
    if (at < attendee->wish_count) withdraw(attendee, at);
}

void attendee_check(const attendee *attendee) {
    MR_ASSERT(attendee->wish_count <= ATTENDEE_WISHES_MAX); /* 1 */
    for (size_t i = 0; i < attendee->wish_count; i++) {
        MR_ASSERT(find_wish(attendee, attendee->wishes[i].rank) == i);      /* 1 */
        MR_ASSERT(!roster_grants(&attendee->roster, &attendee->wishes[i])); /* 2 */
    }
    roster_check(&attendee->roster);
}
