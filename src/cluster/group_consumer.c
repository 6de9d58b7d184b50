/* group_consumer.c — see group_consumer.h. Tested by src/cluster/group_leader_test.c. */
#include "cluster/group_consumer.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/invariants.h"
#include "cluster/group_leader.h"

/* Bytes of ATTEND after the stamp:
 *
 *   1, 1 + n       role, address
 *   44             zeros: room for a barrier and a report, which were never sent; other values are corrupt
 *   1              wishes; each:
 *   4 4 8 8        rank, count, step, batch
 *   8 8 8          over, since, spent
 *   8 1 8          birth, leaves, granted */
enum {
    WISH_SIZE = 65,
    ZEROS_SIZE = 44,
    WORD_MAX = 1 + CONSUMER_GROUP_ADDRESS_MAX + ZEROS_SIZE + 1 + GROUP_CONSUMER_WISHES_MAX * WISH_SIZE
};

static const uint8_t zeros[ZEROS_SIZE];

/* The fields of a wish, in the order of their bytes. */
#define WISH_FIELDS(X) \
    X(u32, rank)       \
    X(u32, count)      \
    X(u64, step)       \
    X(u64, batch)      \
    X(u64, past.over) X(u64, past.since) X(u64, past.spent) X(u64, birth) X(u8, leaves) X(u64, granted)

struct group_consumer {
    group_consumer_options options;
    uint64_t incarnation; /* 0: none */
    int64_t next_us;
    consumer_group group;
    bool was_in;
    uint8_t wish_count;
    consumer_group_wish wishes[GROUP_CONSUMER_WISHES_MAX];
};

group_consumer *group_consumer_create(const group_consumer_options *options) {
    MR_ASSERT(strlen(options->address) < CONSUMER_GROUP_ADDRESS_MAX && options->send != NULL &&
              options->on_group != NULL);
    return XNEW(group_consumer, .options = *options, .next_us = CLOCK_NEVER_US);
}

void group_consumer_destroy(group_consumer *consumer) {
    consumer_group_fini(&consumer->group);
    free(consumer);
}

void group_consumer_begin(group_consumer *consumer, uint64_t incarnation, int64_t now_us) {
    MR_ASSERT(incarnation != 0);
    consumer->incarnation = incarnation;
    consumer->was_in = false;
    consumer->wish_count = 0;
    consumer->next_us = now_us;
}

static bool is_in(const group_consumer *consumer) {
    const consumer_group_member *member = consumer_group_find(&consumer->group, consumer->options.id);
    return member != NULL && member->incarnation == consumer->incarnation;
}

bool group_consumer_is_out(const group_consumer *consumer) { return consumer->was_in && !is_in(consumer); }

const consumer_group *group_consumer_group(const group_consumer *consumer) { return &consumer->group; }
int64_t group_consumer_next_us(const group_consumer *consumer) { return consumer->next_us; }

/* ---- Sending. */

static void write_wish(writer *writer, const consumer_group_wish *wish) {
#define X(type, field) writer_##type(writer, wish->field);
    WISH_FIELDS(X)
#undef X
}

static void say(group_consumer *consumer) {
    uint8_t bytes[WORD_MAX];
    writer writer = writer_of(bytes, sizeof bytes);
    writer_u8(&writer, consumer->options.role);
    writer_text8(&writer, consumer->options.address);
    writer_bytes(&writer, zeros, sizeof zeros);
    writer_u8(&writer, consumer->wish_count);
    for (size_t i = 0; i < consumer->wish_count; i++) write_wish(&writer, &consumer->wishes[i]);
    MR_ASSERT(!writer.failed);
    control_message message = {.kind = MESSAGE_ATTEND,
                               .stamp = {consumer->group.number, consumer->options.id, consumer->incarnation},
                               .value = span_of(bytes, writer_size(&writer))};
    consumer->options.send(consumer->options.context, consumer->options.leader, &message);
}

void group_consumer_tick(group_consumer *consumer, int64_t now_us) {
    consumer->next_us = now_us + GROUP_CONSUMER_BEAT_US;
    say(consumer);
}

static bool read_zeros(reader *reader) {
    const uint8_t *bytes = reader_bytes(reader, sizeof zeros);
    return bytes != NULL && memcmp(bytes, zeros, sizeof zeros) == 0;
}

static bool read_wishes(reader *reader, group_consumer_word *word) {
    word->wish_count = reader_u8(reader);
    if (word->wish_count > GROUP_CONSUMER_WISHES_MAX) return false;
    for (size_t i = 0; i < word->wish_count; i++) {
#define X(type, field) word->wishes[i].field = reader_##type(reader);
        WISH_FIELDS(X)
#undef X
    }
    return true;
}

mr_status group_consumer_read(const control_message *message, group_consumer_word *word) {
    reader reader = reader_of(message->value.data, message->value.size);
    *word =
        (group_consumer_word){.member = {.id = (uint32_t)message->stamp.id, .incarnation = message->stamp.incarnation}};
    word->member.role = reader_u8(&reader);
    bool good = consumer_group_is_role(word->member.role) && message->stamp.id < CONSUMER_GROUP_NOBODY &&
                message->stamp.incarnation != 0 &&
                reader_text8(&reader, word->member.address, sizeof word->member.address) && read_zeros(&reader) &&
                read_wishes(&reader, word);
    if (!good || reader.failed || reader_left(&reader) != 0)
        return error_set(MR_CORRUPT, "malformed message of a group consumer: %zu bytes", message->value.size);
    return MR_OK;
}

/* ---- Receiving. */

static void withdraw(group_consumer *consumer, size_t at) {
    MR_ASSERT(at < consumer->wish_count);
    consumer->wishes[at] = consumer->wishes[--consumer->wish_count];
}

bool group_consumer_take(group_consumer *consumer, const control_message *message) {
    if (message->kind != MESSAGE_GROUP) return false;
    consumer_group fresh = {0};
    if (consumer_group_decode(message->value, &fresh) != MR_OK) return true;
    if (fresh.number > consumer->group.number) {
        consumer_group_copy(&consumer->group, &fresh);
        consumer->was_in = consumer->was_in || is_in(consumer);
        for (size_t i = consumer->wish_count; i-- > 0;)
            if (consumer_group_grants(&consumer->group, &consumer->wishes[i])) withdraw(consumer, i);
        CHECK_INVARIANTS(consumer->group.claims.count, group_consumer_check(consumer));
        consumer->options.on_group(consumer->options.context, &consumer->group);
    }
    consumer_group_fini(&fresh);
    return true;
}

/* ---- Wishes. */

static size_t find_wish(const group_consumer *consumer, uint32_t rank) {
    size_t at = 0;
    while (at < consumer->wish_count && consumer->wishes[at].rank != rank) at++;
    return at;
}

const consumer_group_wish *group_consumer_wish_of(const group_consumer *consumer, uint32_t rank) {
    size_t at = find_wish(consumer, rank);
    return at == consumer->wish_count ? NULL : &consumer->wishes[at];
}

bool group_consumer_wish(group_consumer *consumer, const consumer_group_wish *wish) {
    size_t at = find_wish(consumer, wish->rank);
    if (at == GROUP_CONSUMER_WISHES_MAX) return false;
    if (at == consumer->wish_count) consumer->wish_count++;
    consumer->wishes[at] = *wish;
    /* already granted: no newer consumer group would withdraw it */
    if (consumer_group_grants(&consumer->group, wish)) withdraw(consumer, at);
    CHECK_INVARIANTS(consumer->group.claims.count, group_consumer_check(consumer));
    return true;
}

void group_consumer_withdraw(group_consumer *consumer, uint32_t rank) {
    size_t at = find_wish(consumer, rank);
    if (at < consumer->wish_count) withdraw(consumer, at);
}

void group_consumer_check(const group_consumer *consumer) {
    MR_ASSERT(consumer->wish_count <= GROUP_CONSUMER_WISHES_MAX); /* 1 */
    for (size_t i = 0; i < consumer->wish_count; i++) {
        MR_ASSERT(find_wish(consumer, consumer->wishes[i].rank) == i);             /* 1 */
        MR_ASSERT(!consumer_group_grants(&consumer->group, &consumer->wishes[i])); /* 2 */
    }
    consumer_group_check(&consumer->group);
}
