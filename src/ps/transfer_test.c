/* transfer_test.c — large messages go in pieces, arrive once and whole, and survive the loss of any piece. */
#include "ps/transfer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"

enum { PIECE = 16, LARGE = 1000, QUEUE = 512, SLOT = 3, ROOM = 2 * LARGE };

typedef struct queued {
    bool back; /* an answer of b to a */
    uint64_t incarnation;
    slot_message message;
    uint8_t bytes[PIECE];
} queued;

typedef struct link { /* two processes, and the messages between them, in order */
    transfers *a, *b;
    queued queue[QUEUE];
    size_t first, count, pieces, small, most;
    size_t whole;         /* large messages that b has taken */
    uint64_t last_name;   /* of the last small message that b has taken */
    uint64_t incarnation; /* of a */
    uint8_t taken[2 * LARGE];
    slot_message last;
} link;

static void send_either(link *link, bool back, const slot_message *message) {
    if (!back && transfers_take(link->a, "b", message)) return;
    assert_true(link->count < QUEUE && slot_message_payload_size(message) <= PIECE);
    queued *queued = &link->queue[link->count++];
    queued->back = back;
    queued->incarnation = link->incarnation;
    queued->message = *message;
    if (message->payload.size != 0) memcpy(queued->bytes, message->payload.data, message->payload.size);
    if (message->tail.bytes.size != 0)
        memcpy(queued->bytes + message->payload.size, message->tail.bytes.data, message->tail.bytes.size);
    queued->message.payload = span_of(queued->bytes, slot_message_payload_size(message));
    queued->message.tail = (shared_bytes_piece){0};
}

static void from_a(void *context, const char *address, const slot_message *message) {
    assert_string_equal(address, "b");
    send_either(context, false, message);
}
static void from_b(void *context, const char *address, const slot_message *message) {
    assert_string_equal(address, "a");
    send_either(context, true, message);
}

static void take(link *link, const queued *queued) {
    const slot_message_head head = {.incarnation = queued->incarnation, .who = 7, .address = "a"};
    slot_message whole;
    if (queued->back) {
        assert_true(queued->message.kind == SLOT_MESSAGE_TAKEN_PIECE && queued->message.rank == 7);
        transfers_take_taken(link->a, &queued->message);
    } else if (queued->message.kind != SLOT_MESSAGE_PIECE) {
        link->small++;
        link->last_name = queued->message.name;
    } else {
        link->pieces++;
        shared_bytes *bytes = transfers_take_piece(link->b, &head, &queued->message, &whole);
        if (bytes == NULL) return;
        link->whole++;
        link->last = whole;
        assert_true(whole.payload.size <= sizeof link->taken && (uintptr_t)whole.payload.data % 8 == 0);
        memcpy(link->taken, whole.payload.data, whole.payload.size);
        shared_bytes_unref(bytes);
    }
}

static void deliver_some(link *link, size_t count) {
    for (; count > 0; count--) {
        queued now = link->queue[link->first++];
        now.message.payload = span_of(now.bytes, now.message.payload.size);
        take(link, &now);
    }
}

/* Delivers all messages but those whose number, from 0, is in `lost`. */
static void deliver(link *link, size_t lost, size_t lost_count) {
    while (link->first < link->count) {
        if (link->count - link->first > link->most) link->most = link->count - link->first;
        queued now = link->queue[link->first++];
        now.message.payload = span_of(now.bytes, now.message.payload.size);
        if (link->first - 1 < lost || link->first - 1 >= lost + lost_count) take(link, &now);
        transfers_check(link->a);
        transfers_check(link->b);
    }
    link->first = link->count = 0;
}

static void open_link(link *link) {
    *link = (struct link){.incarnation = 1};
    link->a = transfers_create(PIECE, 0, from_a, link);
    link->b = transfers_create(PIECE, ROOM, from_b, link);
}
static void close_link(link *link) {
    transfers_destroy(link->a);
    transfers_destroy(link->b);
}

static uint8_t byte_at(size_t i, uint8_t seed) { return (uint8_t)(i * 7 + i / 251 + seed); }

/* A state of LARGE bytes, half of it in the tail. */
static slot_message state_of(uint64_t lsn, uint8_t seed, shared_bytes *halves[2]) {
    for (size_t i = 0; i < 2; i++) halves[i] = shared_bytes_new(LARGE / 2);
    for (size_t i = 0; i < LARGE; i++) shared_bytes_room(halves[i / (LARGE / 2)])[i % (LARGE / 2)] = byte_at(i, seed);
    return (slot_message){.kind = SLOT_MESSAGE_STATE,
                          .status = SLOT_MESSAGE_LATER,
                          .slot = SLOT,
                          .epoch = 5,
                          .lsn = lsn,
                          .commit = 8,
                          .terms = span_of("terms", 5),
                          .payload = shared_bytes_bytes(halves[0]),
                          .bytes = halves[0],
                          .tail = {shared_bytes_bytes(halves[1]), halves[1]}};
}

static void send_state(link *link, uint64_t lsn, uint8_t seed) {
    shared_bytes *halves[2];
    slot_message message = state_of(lsn, seed, halves);
    assert_true(transfers_take(link->a, "b", &message));
    shared_bytes_unref(halves[0]);
    shared_bytes_unref(halves[1]);
}

static void check_state(const link *link, uint64_t lsn, uint8_t seed) {
    const slot_message *last = &link->last;
    assert_true(last->kind == SLOT_MESSAGE_STATE && last->status == SLOT_MESSAGE_LATER && last->slot == SLOT);
    assert_true(last->epoch == 5 && last->lsn == lsn && last->commit == 8 && last->payload.size == LARGE);
    for (size_t i = 0; i < LARGE; i++) assert_int_equal(link->taken[i], byte_at(i, seed));
}

static void send_small(link *link, uint32_t slot, uint64_t name) {
    send_either(link, false, &(slot_message){.kind = SLOT_MESSAGE_ENTRY, .slot = slot, .epoch = 5, .name = name});
}

static void pieces_make_the_message(void **state) {
    link link;
    open_link(&link);
    slot_message small = {.kind = SLOT_MESSAGE_STATE, .slot = SLOT, .payload = span_of("1234567890123456", PIECE)};
    assert_false(transfers_take(link.a, "b", &small)); /* the caller sends it */
    send_state(&link, 9, 1);
    deliver(&link, 0, 0);
    assert_true(link.whole == 1 &&
                link.pieces == (64 + LARGE + PIECE - 1) / PIECE + 2); /* a question; pieces end with a half */
    check_state(&link, 9, 1);
    assert_true(link.most <= 2 * TRANSFER_WINDOW); /* no more are in flight, answers included */
    assert_false(transfers_ask(link.a, "b", SLOT, SLOT_MESSAGE_STATE));
    close_link(&link);
}

static void messages_of_the_slot_wait_and_others_pass(void **state) {
    link link;
    open_link(&link);
    send_state(&link, 9, 1);
    send_small(&link, SLOT, 1);
    send_small(&link, SLOT, 2);
    send_small(&link, SLOT + 1, 3);
    deliver_some(&link, 10);
    assert_true(link.whole == 0 && link.pieces > 4 && link.small == 1 && link.last_name == 3);
    deliver(&link, 0, 0);
    assert_true(link.whole == 1 && link.small == 3 && link.last_name == 2); /* in their order */
    close_link(&link);
}

/* Every run of up to eight messages is lost once: the next message about the slot asks, and the rest follows. */
static void any_piece_may_be_lost(void **state) {
    for (size_t lost = 0; lost < 150; lost++)
        for (size_t count = 1; count <= 8; count++) {
            link link;
            open_link(&link);
            send_state(&link, 9, 1);
            deliver(&link, lost, count);
            for (uint64_t i = 1; i <= 3; i++) {
                send_small(&link, SLOT, i);
                deliver(&link, 0, 0);
            }
            assert_int_equal(link.whole, 1);
            check_state(&link, 9, 1);
            assert_int_equal(link.last_name, 3);
            assert_true(link.small >= 1 && link.small <= 3);
            close_link(&link);
        }
}

static void a_receiver_that_began_anew_gets_all_pieces(void **state) {
    link link;
    open_link(&link);
    send_state(&link, 9, 1);
    deliver_some(&link, 7);
    transfers_drop(link.b);
    deliver(&link, 0, 0);
    assert_int_equal(link.whole, 0);
    for (uint64_t i = 1; i <= 2; i++) {
        assert_true(transfers_ask(link.a, "b", SLOT, SLOT_MESSAGE_STATE)); /* once after each progress */
        deliver(&link, 0, 0);
        if (link.whole != 0) break;
    }
    assert_int_equal(link.whole, 1);
    check_state(&link, 9, 1);
    close_link(&link);
}

/* The message arrived, and the sender does not know: the question says it, and nothing is sent again. */
static void a_lost_end_is_asked_for(void **state) {
    link link;
    open_link(&link);
    send_state(&link, 9, 1);
    while (link.whole == 0) deliver_some(&link, 1);
    link.first = link.count = 0;
    assert_true(transfers_out(link.a) > LARGE);
    transfers_ask_all(link.a);
    transfers_ask_all(link.a);
    deliver(&link, 0, 0);
    assert_true(link.whole == 1 && transfers_out(link.a) == 0);
    close_link(&link);
}

static void repeated_messages_are_dropped_and_newer_ones_replace(void **state) {
    link link;
    open_link(&link);
    send_state(&link, 9, 1);
    send_state(&link, 9, 1);
    deliver(&link, 0, 0);
    assert_int_equal(link.whole, 1);
    send_state(&link, 10, 1);
    send_small(&link, SLOT, 1);
    send_state(&link, 12, 2);
    for (uint64_t i = 2; i < 20; i++) send_small(&link, SLOT, 2); /* what repeats another is sent once */
    deliver(&link, 0, 0);
    assert_true(link.whole == 2 && link.small == 2 && link.last_name == 2);
    check_state(&link, 12, 2);
    close_link(&link);
}

/* Pieces of a transfer that was replaced do not continue another one. */
static void transfers_do_not_mix(void **state) {
    link link;
    open_link(&link);
    send_state(&link, 10, 1);
    deliver_some(&link, 5);
    assert_true(link.pieces > 1);
    transfers_destroy(link.a);
    link.a = transfers_create(PIECE, 0, from_a, &link); /* another process with the same numbers takes its place */
    link.incarnation = 2;
    send_state(&link, 11, 2);
    deliver(&link, 0, 0); /* also answers to the process before: the question corrects what they said */
    transfers_ask_all(link.a);
    transfers_ask_all(link.a);
    deliver(&link, 0, 0);
    assert_int_equal(link.whole, 1);
    check_state(&link, 11, 2);
    close_link(&link);
}

/* With room for one message the second waits, and is sent when the first is whole. */
static void messages_without_room_wait(void **state) {
    link link;
    open_link(&link);
    send_state(&link, 9, 1);
    deliver_some(&link, 4);
    shared_bytes *halves[2];
    slot_message other = state_of(7, 2, halves);
    other.slot = SLOT + 1;
    assert_true(transfers_take(link.a, "b", &other));
    size_t before = link.pieces;
    deliver_some(&link, link.count - link.first); /* among them the question about the second message */
    assert_true(link.whole == 0 && link.pieces > before);
    deliver(&link, 0, 0);
    check_state(&link, 9, 1);
    assert_true(link.whole == 1 && transfers_out(link.a) > LARGE); /* no piece of the second one was sent */
    for (int i = 0; i < 2; i++) {
        (void)transfers_ask(link.a, "b", SLOT + 1, SLOT_MESSAGE_STATE);
        deliver(&link, 0, 0);
    }
    assert_true(link.whole == 2 && link.last.lsn == 7 && transfers_out(link.a) == 0);
    for (size_t i = 0; i < 2; i++) shared_bytes_unref(halves[i]);
    close_link(&link);
}

/* The pieces of the first message are lost, and nothing asks for them: its room is freed. It begins again when its
 * sender asks after all. */
static void room_of_a_message_that_stalls_is_freed(void **state) {
    link link;
    shared_bytes *halves[2];
    open_link(&link);
    send_state(&link, 9, 1);
    deliver_some(&link, 3);
    link.first = link.count = 0;
    assert_false(transfers_refused(link.b));
    slot_message other = state_of(7, 2, halves);
    other.slot = SLOT + 1;
    assert_true(transfers_take(link.a, "b", &other));
    deliver(&link, 0, 0);
    assert_true(transfers_refused(link.b) && !transfers_refused(link.b));
    transfers_free_room(link.b);
    (void)transfers_ask(link.a, "b", SLOT + 1, SLOT_MESSAGE_STATE);
    (void)transfers_ask(link.a, "b", SLOT + 1, SLOT_MESSAGE_STATE);
    deliver(&link, 0, 0);
    assert_true(link.whole == 1 && link.last.lsn == 7);
    for (int i = 0; i < 2; i++) {
        (void)transfers_ask(link.a, "b", SLOT, SLOT_MESSAGE_STATE);
        deliver(&link, 0, 0);
    }
    check_state(&link, 9, 1);
    assert_true(link.whole == 2 && transfers_out(link.a) == 0);
    for (size_t i = 0; i < 2; i++) shared_bytes_unref(halves[i]);
    close_link(&link);
}

static void another_epoch_ends_a_transfer(void **state) {
    link link;
    open_link(&link);
    cluster_map_slot slots[SLOT + 1] = {0};
    cluster_map map = {.number = 1, .generation = 1, .slot_count = SLOT + 1, .slots = slots};
    slots[SLOT].epoch = 5;
    transfers_enter(link.a, &map);
    transfers_enter(link.b, &map);
    send_state(&link, 9, 1);
    slots[SLOT].epoch = 6;
    transfers_enter(link.a, &map);
    deliver(&link, 0, 0);
    assert_true(link.whole == 0 && !transfers_ask(link.a, "b", SLOT, SLOT_MESSAGE_STATE));
    slots[SLOT].epoch = 5;
    send_state(&link, 9, 1);
    map.generation = 2;
    transfers_enter(link.a, &map);
    assert_false(transfers_ask(link.a, "b", SLOT, SLOT_MESSAGE_STATE));
    close_link(&link);
}

static void moved_bytes_are_sent_from_their_new_place(void **state) {
    link link;
    open_link(&link);
    shared_bytes *halves[2];
    slot_message message = state_of(9, 1, halves);
    uint8_t *copy = xcopy(message.tail.bytes.data, message.tail.bytes.size);
    assert_true(transfers_take(link.a, "b", &message));
    memset(shared_bytes_room(halves[1]), 0, LARGE / 2);
    transfers_move(link.a, halves[1], span_of(copy, LARGE / 2));
    deliver(&link, 0, 0);
    check_state(&link, 9, 1);
    message.lsn = 10;
    assert_true(transfers_take(link.a, "b", &message));
    transfers_move(link.a, halves[1], (span){0}); /* the bytes are lost */
    assert_false(transfers_ask(link.a, "b", SLOT, SLOT_MESSAGE_STATE));
    shared_bytes_unref(halves[0]);
    shared_bytes_unref(halves[1]);
    free(copy);
    close_link(&link);
}

static void malformed_pieces_are_ignored(void **state) {
    link link;
    open_link(&link);
    const slot_message_head head = {.incarnation = 1, .who = 7, .address = "a"};
    const slot_message pieces[] = {
        {.kind = SLOT_MESSAGE_PIECE, .commit = 16, .name = 1, .payload = span_of("12345678", 8)}, /* no question */
        {.kind = SLOT_MESSAGE_PIECE, .commit = UINT64_MAX, .name = 1, .prev = 1},
        {.kind = SLOT_MESSAGE_PIECE, .commit = UINT64_C(1) << 41, .name = 1, .prev = 1},
        {.kind = SLOT_MESSAGE_PIECE, .commit = 0, .name = 1, .prev = 1},
        {.kind = SLOT_MESSAGE_PIECE, .commit = 8, .name = 2, .prev = 1},
        {.kind = SLOT_MESSAGE_PIECE, .lsn = 4, .commit = 8, .name = 2, .payload = span_of("12345678", 8)},
        {.kind = SLOT_MESSAGE_PIECE, .commit = 8, .name = 2, .payload = span_of("123456789", 9)},
        {.kind = SLOT_MESSAGE_PIECE, .lsn = UINT64_MAX - 3, .commit = 8, .name = 2, .payload = span_of("12345678", 8)},
        {.kind = SLOT_MESSAGE_PIECE, .commit = 8, .name = 2, .payload = span_of("12345678", 8)}, /* no message */
    };
    slot_message whole;
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        assert_null(transfers_take_piece(link.b, &head, &pieces[i], &whole));
        transfers_check(link.b);
    }
    transfers_take_taken(link.a, &(slot_message){.name = 99, .lsn = 5});
    close_link(&link);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_make_the_message),
        cmocka_unit_test(messages_of_the_slot_wait_and_others_pass),
        cmocka_unit_test(any_piece_may_be_lost),
        cmocka_unit_test(a_receiver_that_began_anew_gets_all_pieces),
        cmocka_unit_test(a_lost_end_is_asked_for),
        cmocka_unit_test(repeated_messages_are_dropped_and_newer_ones_replace),
        cmocka_unit_test(transfers_do_not_mix),
        cmocka_unit_test(messages_without_room_wait),
        cmocka_unit_test(room_of_a_message_that_stalls_is_freed),
        cmocka_unit_test(another_epoch_ends_a_transfer),
        cmocka_unit_test(moved_bytes_are_sent_from_their_new_place),
        cmocka_unit_test(malformed_pieces_are_ignored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
