/* van_test.c — two vans: control messages arrive, roles of one process send to each other, ticks follow next_us. */
#include "kv/van.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "net/shm/shm_export.h"
#include "ps/slot_message.h"

enum { PATIENCE_US = 20000000, TOLD = 8192, TICKS_LONG = 10 };

typedef struct side {
    van *van;
    char got[64];
    link_id link;
    size_t messages, ticks;
    int64_t next_us;
    bool broken, in_bytes; /* whether the last control message was in a shared buffer */
    size_t size, sum;      /* of the last control message */
    struct side *hears;    /* receiver of TOLD bytes from each tick; NULL: none */
    size_t told;           /* control messages of TOLD bytes received */
} side;

static void take(void *context, link_id link, span bytes, shared_bytes *shared) {
    side *side = context;
    side->messages++;
    side->link = link;
    snprintf(side->got, sizeof side->got, "%.*s", (int)bytes.size, (const char *)bytes.data);
    side->in_bytes = shared != NULL;
    side->size = bytes.size;
    side->told += bytes.size == TOLD;
    side->sum = 0;
    for (size_t i = 0; i < bytes.size; i++) side->sum += bytes.data[i];
}

static void broken(void *context, const char *address, bool silent) { ((side *)context)->broken = true; }
static int64_t next_us(void *context) { return ((side *)context)->next_us; }

static void tick(void *context, int64_t now_us) {
    side *side = context;
    side->ticks++;
    side->next_us = side->ticks < 3 ? now_us + 1000 : CLOCK_NEVER_US;
    if (side->hears == NULL) return;
    static const uint8_t bytes[TOLD];
    van_send(side->van, van_address(side->hears->van), span_of(bytes, sizeof bytes));
    side->next_us = side->ticks < TICKS_LONG ? now_us + 30000 : CLOCK_NEVER_US;
}

static const van_host host = {.take = take, .broken = broken, .next_us = next_us, .tick = tick};

static const token ours = {{1, 2, 3}};

static side *start(const char *listen) {
    side *side = xcalloc(1, sizeof *side);
    side->next_us = CLOCK_NEVER_US;
    assert_int_equal(van_open(&(van_options){.listen = listen}, &host, side, &side->van), MR_OK);
    van_own_token(side->van, &ours);
    return side;
}

static void stop(side *side) {
    van_close(side->van);
    free(side);
}

/* Runs both loops until the condition holds. */
#define drive_until(one, other, condition)                                                \
    for (int64_t until_us = van_now_us((one)->van) + PATIENCE_US; !(condition);) {        \
        assert_true(van_now_us((one)->van) < until_us);                                   \
        event_loop_run_once(van_loop((one)->van), 1000);                                  \
        if ((other) != NULL) event_loop_run_once(van_loop(((side *)(other))->van), 1000); \
    }

static span text(const char *text) { return span_of(text, strlen(text)); }

static void messages_go_both_ways(void **state) {
    side *one = start("tcp:127.0.0.1:0"), *other = start("tcp:127.0.0.1:0");
    assert_string_not_equal(van_address(one->van), van_address(other->van));
    van_send(one->van, van_address(other->van), text("hello"));
    drive_until(one, other, other->messages == 1);
    assert_string_equal(other->got, "hello");
    van_answer(other->van, other->link, text("and you"));
    drive_until(one, other, one->messages == 1);
    assert_string_equal(one->got, "and you");
    stop(other);
    drive_until(one, NULL, one->broken);
    stop(one);
}

static void services_of_one_process_exchange_messages(void **state) {
    side *one = start("tcp:127.0.0.1:0"), *other = start("tcp:127.0.0.1:0");
    char service[SLOT_MESSAGE_ADDRESS_MAX];
    snprintf(service, sizeof service, "%s#depot", van_address(one->van));
    van_send(one->van, service, text("to myself"));
    assert_int_equal(one->messages, 0); /* delivered later, not within the call */
    drive_until(one, NULL, one->messages == 1);
    assert_string_equal(one->got, "to myself");
    van_send(other->van, service, text("to your desk"));
    drive_until(one, other, one->messages == 2);
    assert_string_equal(one->got, "to your desk");
    van_send(one->van, "", text("to nobody"));
    van_send(one->van, "not an address", text("to nobody"));
    stop(one);
    stop(other);
}

/* Pieces in shared buffers are held until they are sent, and arrive as one control message in a shared buffer. */
static void large_messages_are_not_copied(void **state) {
    enum { LARGE = 3 << 20 };
    side *one = start("tcp:127.0.0.1:0"), *other = start("tcp:127.0.0.1:0");
    shared_bytes *large = shared_bytes_new(LARGE);
    memset(shared_bytes_room(large), 1, LARGE);
    const shared_bytes_piece pieces[] = {{text("abc"), NULL}, {shared_bytes_bytes(large), large}, {text("d"), NULL}};
    const size_t sum = 'a' + 'b' + 'c' + LARGE + 'd';
    for (size_t i = 1; i <= 2; i++) {
        van_send_pieces(one->van, van_address(other->van), pieces, 3);
        assert_int_equal(large->refs, 2);
        drive_until(one, other, other->messages == i && large->refs == 1);
        assert_true(other->in_bytes && other->size == LARGE + 4 && other->sum == sum);
    }
    van_send_pieces(one->van, van_address(one->van), pieces, 3); /* to itself */
    drive_until(one, NULL, one->messages == 1);
    assert_true(one->in_bytes && one->sum == sum);
    const shared_bytes_piece small[] = {{text("ab"), NULL}, {text("c"), NULL}};
    van_send_pieces(one->van, van_address(other->van), small, 2);
    drive_until(one, other, other->messages == 3);
    assert_string_equal(other->got, "abc");
    assert_false(other->in_bytes);
    stop(other);
    van_send_pieces(one->van, "tcp:127.0.0.1:1", pieces, 3); /* queued, then lost: the buffers are released */
    van_send_pieces(one->van, "", pieces, 3);
    stop(one);
    assert_int_equal(large->refs, 1);
    shared_bytes_unref(large);
}

/* Two messages share memory and wait for a peer that does not read. One is moved and its memory is overwritten; both
 * arrive unchanged. */
static void a_message_that_waits_for_its_link_can_move(void **state) {
    enum { LARGE = 48 << 20 }; /* more than the socket buffers hold, which grow */
    side *one = start("tcp:127.0.0.1:0"), *other = start("tcp:127.0.0.1:0");
    shared_bytes *large = shared_bytes_new(LARGE), *copy = shared_bytes_new(LARGE), *holder = shared_bytes_new(0);
    memset(shared_bytes_room(large), 1, LARGE);
    memset(shared_bytes_room(copy), 1, LARGE);
    const shared_bytes_piece piece = {shared_bytes_bytes(large), holder}, second = {shared_bytes_bytes(large), large};
    for (int opens = 0; opens < 2; opens++) { /* while the link opens, and when it is open */
        size_t before = other->messages;
        van_send_pieces(one->van, van_address(other->van), &piece, 1);
        for (int i = 0; opens == 1 && i < 20; i++) event_loop_run_once(van_loop(one->van), 0);
        assert_int_equal(holder->refs, 2);
        van_move(one->van, large, shared_bytes_bytes(large), (span){0}); /* contains nothing of a message */
        van_move(one->van, holder, shared_bytes_bytes(large), shared_bytes_bytes(copy));
        memset(shared_bytes_room(large), 2, LARGE);
        drive_until(one, other, other->messages == before + 1 && holder->refs == 1);
        assert_true(other->size == LARGE && other->sum == LARGE);
        memset(shared_bytes_room(large), 1, LARGE);
    }
    van_send_pieces(one->van, van_address(other->van), &second, 1);
    van_move(one->van, large, shared_bytes_bytes(large), (span){0}); /* no new place: the link breaks */
    drive_until(one, other, large->refs == 1);
    stop(one);
    stop(other);
    shared_bytes_unref(large);
    shared_bytes_unref(copy);
    shared_bytes_unref(holder);
}

static void ticks_come_when_they_are_due(void **state) {
    side *one = start("tcp:127.0.0.1:0");
    one->next_us = INT64_MIN;
    drive_until(one, NULL, one->ticks == 3);
    event_loop_run_once(van_loop(one->van), 3000);
    assert_int_equal(one->ticks, 3);
    stop(one);
}

/* Messages that a tick sends are delivered, however much else is being sent. */
static void what_a_tick_says_leaves_however_much_is_on_its_way(void **state) {
    enum { MUCH = 256 << 10 };
    side *one = start("tcp:127.0.0.1:0"), *other = start("tcp:127.0.0.1:0");
    uint8_t *much = xcalloc(1, MUCH);
    one->hears = other;
    one->next_us = INT64_MIN;
    for (int64_t end_us = van_now_us(one->van) + PATIENCE_US; one->ticks < TICKS_LONG;) {
        size_t before = other->messages;
        assert_true(van_now_us(one->van) < end_us);
        van_send(one->van, van_address(other->van), span_of(much, MUCH));
        drive_until(one, other, other->messages > before);
    }
    drive_until(one, other, other->told == TICKS_LONG);
    free(much);
    stop(one);
    stop(other);
}

static side *start_showing(const char *listen) {
    side *side = xcalloc(1, sizeof *side);
    side->next_us = CLOCK_NEVER_US;
    van_options options = {.listen = listen, .shown = SHM_EXPORT_FRONT + (1 << 20)};
    assert_int_equal(van_open(&options, &host, side, &side->van), MR_OK);
    van_own_token(side->van, &ours);
    assert_non_null(van_export(side->van));
    return side;
}

static void say(side *from, side *to) {
    size_t before = to->messages;
    van_send(from->van, van_address(to->van), span_of("hello", 5));
    drive_until(from, to, to->messages > before);
}

/* Each van exports its memory over the link that it opens. */
static void see_each_other(const char *here, const char *there, bool seen) {
    side *one = start_showing(here), *other = start_showing(there);
    const char *other_at = van_address(other->van), *one_at = van_address(one->van);
    void *memory;
    uint64_t offset;
    assert_false(van_is_seen(one->van, other_at)); /* no link yet */
    assert_int_equal(van_sees(one->van, other_at), 0);
    say(one, other);
    say(other, one);
    assert_true(van_is_seen(one->van, other_at) == seen);
    assert_true(van_is_seen(other->van, one_at) == seen);
    assert_true(van_sees(one->van, other_at) == (seen ? van_process(other->van) : 0));
    assert_false(van_is_seen(one->van, "unix:/nobody"));
    const shm_import *import = van_map_view(one->van, van_process(other->van));
    assert_true((import != NULL) == seen);
    if (seen) {
        assert_int_equal(shm_export_take(van_export(other->van), 100, &memory), MR_OK);
        memset(memory, 5, 100);
        assert_true(shm_export_holds(van_export(other->van), memory, 100, &offset));
        assert_memory_equal(shm_import_at(import, offset, 100), memory, 100);
    }
    uint64_t process = van_process(other->van);
    stop(other);
    drive_until(one, NULL, one->broken && van_map_view(one->van, process) == NULL); /* the import ends with the links */
    stop(one);
}

static void neighbours_see_each_others_memory(void **state) {
    char folder[] = "/tmp/van.XXXXXX", here[64], there[64];
    assert_non_null(mkdtemp(folder));
    snprintf(here, sizeof here, "unix:%s/a", folder);
    snprintf(there, sizeof there, "unix:%s/b", folder);
    see_each_other(here, there, true);
    assert_int_equal(rmdir(folder), 0);
    see_each_other("tcp:127.0.0.1:0", "tcp:127.0.0.1:0", false);
}

/* van_hurry sends without the sender's loop; a receiver of continuous messages still ticks. */
static void ticks_come_among_messages_in_a_hurry(void **state) {
    char folder[] = "/tmp/van.XXXXXX", here[64], there[64];
    assert_non_null(mkdtemp(folder));
    snprintf(here, sizeof here, "unix:%s/a", folder);
    snprintf(there, sizeof there, "unix:%s/b", folder);
    side *one = start(here), *other = start(there);
    say(one, other);
    size_t sent = other->messages;
    other->next_us = INT64_MIN;
    for (int64_t until_us = van_now_us(one->van) + PATIENCE_US; other->ticks < 3;) {
        assert_true(van_now_us(one->van) < until_us);
        van_send(one->van, van_address(other->van), text("now"));
        van_hurry(one->van);
        event_loop_run_once(van_loop(other->van), 0);
        assert_int_equal(other->messages, ++sent);
        assert_true(van_looked_us(other->van) <= van_now_us(other->van));
    }
    stop(one);
    stop(other);
    assert_int_equal(rmdir(folder), 0);
}

static void addresses_are_checked(void **state) {
    van *van = NULL;
    char path[80];
    memset(path, 'x', sizeof path);
    memcpy(path, "unix:/", 6);
    path[SLOT_MESSAGE_ADDRESS_MAX - VAN_SERVICE_ROOM] = '\0';
    assert_int_equal(van_check_address(path), MR_INVALID);
    path[SLOT_MESSAGE_ADDRESS_MAX - VAN_SERVICE_ROOM - 1] = '\0';
    assert_int_equal(van_check_address(path), MR_OK);
    assert_int_equal(van_check_address("nowhere"), MR_INVALID);
    assert_int_equal(van_open(&(van_options){.listen = "nowhere"}, &host, NULL, &van), MR_INVALID);
    assert_int_equal(van_open(&(van_options){.listen = "tcp:1.2.3.4:0"}, &host, NULL, &van), MR_DENIED);
    assert_int_equal(van_open(&(van_options){.scheduler = "tcp:1.2.3.4:5"}, &host, NULL, &van), MR_DENIED);
    assert_non_null(strstr(mr_last_error(), "cannot connect to tcp:1.2.3.4:5"));
    unsetenv(TOKEN_VARIABLE); /* no token for tcp */
    van_options mixed = {.listen = "tcp:127.0.0.1:0", .scheduler = "unix:/x"};
    assert_int_equal(van_open(&mixed, &host, NULL, &van), MR_INVALID);
    assert_non_null(strstr(mr_last_error(), TOKEN_VARIABLE));
    assert_null(van);
}

/* The cause of a missing link is kept for errors: no token, another token, no listener. */
static void the_cause_of_a_missing_link_is_known(void **state) {
    side *one = start("tcp:127.0.0.1:0"), *other = start("tcp:127.0.0.1:0"), *client = xcalloc(1, sizeof *client);
    client->next_us = CLOCK_NEVER_US;
    unsetenv(TOKEN_VARIABLE);
    const char *address = van_address(one->van);
    assert_int_equal(van_open(&(van_options){.scheduler = address}, &host, client, &client->van), MR_OK);
    assert_string_equal(van_trouble(client->van, address), "");
    van_send(client->van, address, text("who are you"));
    assert_non_null(strstr(van_trouble(client->van, address), "no token for tcp:127.0.0.1:"));
    van_own_token(other->van, &(token){{9}});
    van_send(other->van, address, text("let me in"));
    drive_until(one, other, van_trouble(other->van, address)[0] != '\0');
    assert_non_null(strstr(van_trouble(other->van, address), "does not have this process's token"));
    assert_int_equal(one->messages, 0);
    stop(client);
    stop(other);
    stop(one);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_go_both_ways),
        cmocka_unit_test(the_cause_of_a_missing_link_is_known),
        cmocka_unit_test(services_of_one_process_exchange_messages),
        cmocka_unit_test(large_messages_are_not_copied),
        cmocka_unit_test(a_message_that_waits_for_its_link_can_move),
        cmocka_unit_test(ticks_come_when_they_are_due),
        cmocka_unit_test(neighbours_see_each_others_memory),
        cmocka_unit_test(addresses_are_checked),
        cmocka_unit_test(ticks_come_among_messages_in_a_hurry),
        cmocka_unit_test(what_a_tick_says_leaves_however_much_is_on_its_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
