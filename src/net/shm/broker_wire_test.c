/* broker_wire_test.c — every message decodes as encoded, and a message with an invalid field is refused. */
#include "net/shm/broker_wire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"

static const broker_wire_kind kinds[] = {BROKER_WIRE_HELLO,   BROKER_WIRE_CONNECT, BROKER_WIRE_RESIZE,
                                         BROKER_WIRE_RELEASE, BROKER_WIRE_CLOSE,   BROKER_WIRE_BYE,
                                         BROKER_WIRE_WELCOME, BROKER_WIRE_LINK,    BROKER_WIRE_RESIZED,
                                         BROKER_WIRE_REFUSED, BROKER_WIRE_GONE,    BROKER_WIRE_END};
enum { KINDS = sizeof kinds / sizeof *kinds };

static bool from_broker(broker_wire_kind kind) { return kind >= BROKER_WIRE_WELCOME; }

/* A valid message of each kind. */
static broker_wire good(broker_wire_kind kind) {
    broker_wire message;
    cause why;
    message =
        broker_wire_of(kind, kind == BROKER_WIRE_HELLO || kind == BROKER_WIRE_BYE || kind == BROKER_WIRE_END ? 0 : 7);
    switch (kind) {
    case BROKER_WIRE_HELLO:
        message.hello.magic = BROKER_WIRE_MAGIC;
        strcpy(message.hello.name, "gr\xc3\xbc\xc3\x9f");
        break;
    case BROKER_WIRE_CONNECT: message.connect.process = 99; break;
    case BROKER_WIRE_RESIZE: message.resize.bytes = 1; break;
    case BROKER_WIRE_CLOSE: message.close.no_descriptor = 1; break;
    case BROKER_WIRE_RELEASE:
    case BROKER_WIRE_RESIZED: message.ring.ring = (extent){ARENA_EXTENTS_OFFSET, 4096}; break;
    case BROKER_WIRE_WELCOME:
        message.welcome.magic = BROKER_WIRE_MAGIC;
        message.welcome.process = 1;
        break;
    case BROKER_WIRE_LINK:
        message.link.process = 1;
        message.link.pid = 2;
        message.link.send = (extent){ARENA_EXTENTS_OFFSET, 8192};
        message.link.receive = (extent){ARENA_EXTENTS_OFFSET + 8192, 4096};
        break;
    case BROKER_WIRE_REFUSED:
    case BROKER_WIRE_GONE:
    case BROKER_WIRE_END:
        cause_set(&why, MR_PEER_DIED, "it was killed");
        why.pid = 4711;
        why.signal = 9;
        message = broker_wire_of_cause(kind, message.head.subject, &why);
        break;
    default: break;
    }
    return message;
}

static mr_status decode(const broker_wire *message) {
    broker_wire out;
    return broker_wire_decode(from_broker(message->head.kind), message, message->head.size, &out);
}

static void messages_are_decoded_as_encoded(void **state) {
    for (int i = 0; i < KINDS; i++) {
        broker_wire message = good(kinds[i]), out;
        size_t size = message.head.size;
        assert_int_equal(broker_wire_decode(from_broker(kinds[i]), &message, size, &out), MR_OK);
        assert_memory_equal(&message, &out, sizeof out);
        /* The wrong direction. */
        assert_int_equal(broker_wire_decode(!from_broker(kinds[i]), &message, size, &out), MR_CORRUPT);
        assert_int_equal(broker_wire_decode(from_broker(kinds[i]), &message, size - 1, &out), MR_CORRUPT);
        if (size < sizeof message)
            assert_int_equal(broker_wire_decode(from_broker(kinds[i]), &message, size + 1, &out), MR_CORRUPT);
        message.head.version++;
        assert_int_equal(decode(&message), MR_CORRUPT);
        message.head.version--;
        message.head.subject = message.head.subject == 0 ? 1 : kinds[i] == BROKER_WIRE_WELCOME ? PROCESS_BLOCKS_MAX : 0;
        assert_int_equal(decode(&message), MR_CORRUPT);
    }
    broker_wire out;
    assert_int_equal(broker_wire_decode(true, "", 0, &out), MR_CORRUPT);
    uint8_t noise[sizeof(broker_wire) + 1] = {0};
    assert_int_equal(broker_wire_decode(true, noise, sizeof noise, &out), MR_CORRUPT);
}

/* Sets one field of a valid message to an invalid value. */
#define wrong(kind, field, value)                        \
    do {                                                 \
        broker_wire message_ = good(kind);               \
        assert_int_equal(decode(&message_), MR_OK);      \
        message_.field = (value);                        \
        assert_int_equal(decode(&message_), MR_CORRUPT); \
    } while (0)

static void wrong_fields_are_refused(void **state) {
    wrong(BROKER_WIRE_HELLO, hello.magic, 1);
    wrong(BROKER_WIRE_HELLO, hello.name[2], '\n');
    wrong(BROKER_WIRE_HELLO, hello.name[2], 0x7f);
    wrong(BROKER_WIRE_CONNECT, connect.process, 0);   /* and no name */
    wrong(BROKER_WIRE_CONNECT, connect.name[0], 'x'); /* and a process */
    wrong(BROKER_WIRE_RESIZE, resize.bytes, 0);
    wrong(BROKER_WIRE_RELEASE, ring.ring.size, 0);
    wrong(BROKER_WIRE_RELEASE, ring.ring.size, 4095);
    wrong(BROKER_WIRE_RELEASE, ring.ring.offset, 0);
    wrong(BROKER_WIRE_RELEASE, ring.ring.offset, ARENA_EXTENTS_OFFSET + 1);
    wrong(BROKER_WIRE_RELEASE, ring.ring.size, UINT64_MAX - 4095);
    wrong(BROKER_WIRE_RESIZED, ring.ring.offset, 4096);
    wrong(BROKER_WIRE_WELCOME, welcome.magic, 0);
    wrong(BROKER_WIRE_WELCOME, welcome.process, 0);
    wrong(BROKER_WIRE_LINK, link.process_block, PROCESS_BLOCKS_MAX);
    wrong(BROKER_WIRE_LINK, link.process, 0);
    wrong(BROKER_WIRE_LINK, link.pid, UINT32_MAX);
    wrong(BROKER_WIRE_LINK, link.zero, 1);
    wrong(BROKER_WIRE_LINK, link.send.size, 0);
    wrong(BROKER_WIRE_LINK, link.receive.size, 1);
    wrong(BROKER_WIRE_LINK, link.receive.offset, ARENA_EXTENTS_OFFSET + 4096); /* both rings at one place */
    wrong(BROKER_WIRE_CLOSE, close.no_descriptor, 2);
    wrong(BROKER_WIRE_CLOSE, close.zero, 1);
    wrong(BROKER_WIRE_GONE, cause.status, MR_OK);
    wrong(BROKER_WIRE_GONE, cause.status, 9999);
    wrong(BROKER_WIRE_GONE, cause.pid, UINT32_MAX);
    wrong(BROKER_WIRE_GONE, cause.signal, 200);
    wrong(BROKER_WIRE_GONE, cause.exit_code, -2);
    wrong(BROKER_WIRE_GONE, cause.exit_code, 256);
    broker_wire message = good(BROKER_WIRE_END);
    memset(message.cause.text, 'x', sizeof message.cause.text);
    assert_int_equal(decode(&message), MR_CORRUPT);
    message = good(BROKER_WIRE_LINK);
    memset(message.link.name, 'x', sizeof message.link.name);
    assert_int_equal(decode(&message), MR_CORRUPT);
    message = good(BROKER_WIRE_RESIZED);
    message.ring.ring = (extent){0}; /* unavailable */
    assert_int_equal(decode(&message), MR_OK);
}

static void causes_keep_everything(void **state) {
    cause before, after;
    cause_set(&before, MR_PEER_DIED, "%0600d", 7); /* longer than fits */
    before.pid = 4711;
    before.exit_code = 255;
    broker_wire message;
    message = broker_wire_of_cause(BROKER_WIRE_REFUSED, 3, &before);
    assert_int_equal(decode(&message), MR_OK);
    broker_wire_get_cause(&message, &after);
    assert_memory_equal(&before, &after, sizeof after);
}

static void names_are_checked(void **state) {
    char longest[PEER_NAME_MAX + 1] = {0};
    memset(longest, 'n', PEER_NAME_MAX - 1);
    assert_int_equal(broker_wire_check_name(""), MR_OK);
    assert_int_equal(broker_wire_check_name(longest), MR_OK);
    longest[PEER_NAME_MAX - 1] = 'n';
    assert_int_equal(broker_wire_check_name(longest), MR_INVALID);
    assert_int_equal(broker_wire_check_name("a\tb"), MR_INVALID);
}

/* Every damaged message is refused, or decodes to a message that encodes to the same bytes. */
static void damaged_messages_do_no_harm(void **state) {
    rng rng;
    rng_init(&rng, 1);
    for (int round = 0; round < 100000; round++) {
        broker_wire message = good(kinds[rng_below(&rng, KINDS)]), out;
        size_t size = message.head.size;
        for (uint64_t flips = 1 + rng_below(&rng, 3); flips > 0; flips--)
            ((uint8_t *)&message)[rng_below(&rng, size)] ^= (uint8_t)(1u << rng_below(&rng, 8));
        if (broker_wire_decode(rng_chance(&rng, 0.5), &message, size, &out) == MR_OK)
            assert_memory_equal(&message, &out, size);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_are_decoded_as_encoded), cmocka_unit_test(wrong_fields_are_refused),
        cmocka_unit_test(causes_keep_everything),          cmocka_unit_test(names_are_checked),
        cmocka_unit_test(damaged_messages_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
