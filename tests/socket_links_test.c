/* socket_links_test.c — two socket transports: opening links, messages, bodies, and a peer that does not read. */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "net/frame.h"
#include "net/socket/frame_reader.h"
#include "tests/support/socket_pair.h"

enum { MB = 1 << 20 };

/* ---- Opening. */

static void both_sides_learn_who_the_other_is(void **state) {
    socket_pair *pair = *state;
    for (int i = 0; i < 3; i++) {
        socket_transport_options server = {.process = 1001, .name = "the server"}, client = {.name = "the client"};
        socket_pair_link(pair, pair->addresses[i], &server, &client);
        assert_string_equal(pair->client.peer.name, "the server");
        assert_true(pair->client.peer.process == 1001);
        assert_int_equal(pair->client.peer.pid, getpid());
        assert_string_equal(pair->server.peer.name, "the client");
        assert_true(pair->server.peer.process == socket_transport_process(pair->client.transport));
        assert_int_equal(pair->server.peer.pid, getpid());
        socket_pair_down(pair);
    }
}

static void nothing_is_sent_before_it_is_open(void **state) {
    socket_pair *pair = *state;
    socket_pair_start(pair, pair->addresses[0], NULL, NULL);
    pair->link = socket_end_connect(&pair->client, pair->server.address);
    assert_int_equal(socket_end_send(&pair->client, pair->link, "x", 1), MR_CLOSED);
    WAIT_FOR(pair->loop, pair->client.opened == 1);
    assert_int_equal(socket_end_send(&pair->client, pair->link, "x", 1), MR_OK);
    WAIT_FOR(pair->loop, pair->server.messages == 1);
}

static void connecting_without_listener_fails(void **state) {
    socket_pair *pair = *state;
    char gone[ADDRESS_TEXT_MAX];
    socket_pair_start(pair, pair->addresses[0], NULL, NULL);
    strcpy(gone, pair->server.address);
    socket_end_close(&pair->server);
    link_id link = socket_end_connect(&pair->client, gone);
    assert_int_equal(pair->client.closed, 0); /* not before open() has returned */
    WAIT_FOR(pair->loop, pair->client.closed == 1);
    assert_int_equal(pair->client.why.status, MR_NOT_FOUND);
    assert_non_null(strstr(pair->client.why.text, "refused"));
    assert_int_equal(socket_end_send(&pair->client, link, "x", 1), MR_CLOSED);
    socket_end_connect(&pair->client, pair->unix_address);
    WAIT_FOR(pair->loop, pair->client.closed == 2);
    assert_int_equal(pair->client.why.status, MR_NOT_FOUND);
    assert_int_equal(pair->client.opened, 0);
    assert_int_equal(socket_end_connect(&pair->client, "tcp:8.8.8.8:53").v, 0); /* an address of another machine */
    assert_int_equal(socket_end_connect(&pair->client, "nonsense").v, 0);
    assert_int_equal(socket_transport_stats_now(pair->client.transport).links, 0);
}

static void a_link_may_be_closed_while_it_opens(void **state) {
    socket_pair *pair = *state;
    for (int i = 0; i < 3; i++) {
        socket_pair_start(pair, pair->addresses[i], NULL, NULL);
        pair->link = socket_end_connect(&pair->client, pair->server.address);
        pair->client.wire.ops->close(pair->client.wire.self, pair->link);
        assert_int_equal(pair->client.closed, 0);
        WAIT_FOR(pair->loop, pair->client.closed == 1);
        assert_int_equal(pair->client.why.status, MR_CLOSED);
        assert_int_equal(pair->client.opened, 0);
        socket_pair_down(pair);
    }
}

/* ---- Messages. */

static void expect_counting(socket_end *end, link_id link, const message *message) {
    unsigned number;
    assert_int_equal(message->head.size, sizeof number);
    memcpy(&number, message->head.data, sizeof number);
    assert_int_equal(number, end->messages - 1);
}

static void messages_come_in_order_and_leave_together(void **state) {
    socket_pair *pair = *state;
    for (int i = 0; i < 3; i++) {
        socket_pair_link(pair, pair->addresses[i], NULL, NULL);
        pair->server.on_message = pair->client.on_message = expect_counting;
        uint64_t writes = socket_transport_stats_now(pair->client.transport).writes;
        for (unsigned n = 0; n < 1000; n++)
            assert_int_equal(socket_end_send(&pair->client, pair->link, &n, sizeof n), MR_OK);
        for (unsigned n = 0; n < 500; n++)
            assert_int_equal(socket_end_send(&pair->server, pair->server.link, &n, sizeof n), MR_OK);
        WAIT_FOR(pair->loop, pair->server.messages == 1000 && pair->client.messages == 500);
        assert_true(socket_transport_stats_now(pair->client.transport).writes - writes <= 3);
        socket_pair_down(pair);
    }
}

static void flush_sends_without_the_loop(void **state) {
    socket_pair *pair = *state;
    socket_pair_link(pair, pair->addresses[0], NULL, NULL);
    uint64_t writes = socket_transport_stats_now(pair->client.transport).writes;
    assert_int_equal(socket_end_send(&pair->client, pair->link, "x", 1), MR_OK);
    assert_int_equal(socket_transport_stats_now(pair->client.transport).writes, writes);
    pair->client.wire.ops->flush(pair->client.wire.self);
    assert_int_equal(socket_transport_stats_now(pair->client.transport).writes, writes + 1);
    WAIT_FOR(pair->loop, pair->server.messages == 1);
    uint8_t head[10000] = {0}; /* a large batch leaves at once */
    for (int i = 0; i < 10; i++) assert_int_equal(socket_end_send(&pair->client, pair->link, head, sizeof head), MR_OK);
    assert_true(socket_transport_stats_now(pair->client.transport).writes > writes + 1);
    WAIT_FOR(pair->loop, pair->server.messages == 11);
}

static void heads_of_every_size_arrive(void **state) {
    socket_pair *pair = *state;
    static const size_t sizes[] = {0, 1, 63, 4064, 65535, 65536, MESSAGE_HEAD_MAX - 1, MESSAGE_HEAD_MAX};
    uint8_t *head = xmalloc(MESSAGE_HEAD_MAX), *place;
    rng rng;
    rng_init(&rng, 5);
    rng_fill(&rng, head, MESSAGE_HEAD_MAX);
    for (int i = 0; i < 3; i++) {
        socket_pair_link(pair, pair->addresses[i], NULL, NULL);
        pair->server.on_message = socket_end_keep_head;
        for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
            assert_int_equal(socket_end_send(&pair->client, pair->link, head, sizes[s]), MR_OK);
            WAIT_FOR(pair->loop, pair->server.messages == s + 1);
            assert_int_equal(pair->server.body_size, sizes[s]);
            assert_memory_equal(pair->server.body, head, sizes[s]);
        }
        transport wire = pair->client.wire;
        assert_int_equal(wire.ops->reserve(wire.self, pair->link, MESSAGE_HEAD_MAX + 1, &place), MR_TOO_LARGE);
        assert_int_equal(wire.ops->reserve(wire.self, pair->link, 100, &place), MR_OK); /* commit less than reserved */
        memcpy(place, head, 100);
        wire.ops->commit(wire.self, pair->link, 40);
        WAIT_FOR(pair->loop, pair->server.body_size == 40);
        assert_memory_equal(pair->server.body, head, 40);
        socket_pair_down(pair);
    }
    free(head);
}

/* ---- Bodies. */

typedef struct body_check {
    span body;
    bool seen, equal;
} body_check;

static void compare_body(socket_end *end, link_id link, const message *message) {
    body_check *check = end->user;
    check->seen = true;
    check->equal = message->body.size == check->body.size &&
                   (check->body.size == 0 || (message->body.data == end->body &&
                                              memcmp(message->body.data, check->body.data, check->body.size) == 0)) &&
                   message->head.size == 4 && memcmp(message->head.data, "head", 4) == 0;
}

static void bodies_of_every_size(socket_pair *pair, const char *address, const socket_transport_options *options) {
    static const size_t sizes[] = {0,     1,     4095,      4096,     4097,       16 * 1024,
                                   65535, 65536, 65536 + 1, MB - 159, 3 * MB + 7, 100 * MB};
    uint8_t *body = xmalloc(100 * MB);
    for (size_t i = 0; i < 100 * MB; i += 8) memcpy(body + i, &(uint64_t){i * UINT64_C(0x9e3779b97f4a7c15)}, 8);
    socket_pair_link(pair, address, options, options);
    body_check check = {0};
    pair->server.on_message = compare_body;
    pair->server.user = &check;
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        check = (body_check){.body = span_of(body, sizes[s])};
        uint64_t copied = socket_transport_stats_now(pair->server.transport).body_copied;
        assert_int_equal(socket_end_send_body(&pair->client, pair->link, span_of("head", 4), check.body), MR_OK);
        WAIT_FOR(pair->loop, check.seen && pair->client.sent == s + 1);
        assert_true(check.equal);
        assert_int_equal(pair->client.sent_status, MR_OK);
        copied = socket_transport_stats_now(pair->server.transport).body_copied - copied;
        if (sizes[s] >= 65536) assert_true(copied <= FRAME_READER_READ_MIN);
    }
    assert_int_equal(pair->client.sent, sizeof sizes / sizeof sizes[0]);
    socket_pair_down(pair);
    free(body);
}

static void bodies_arrive_where_they_shall(void **state) {
    socket_pair *pair = *state;
    for (int i = 0; i < 3; i++) bodies_of_every_size(pair, pair->addresses[i], NULL);
}

static void checked_bodies_arrive_too(void **state) {
    socket_transport_options options = {.check_bodies = true};
    bodies_of_every_size(*state, ((socket_pair *)*state)->addresses[2], &options);
}

/* A body of pieces, some of them small and some empty, arrives as one body; its end is reported after the last
 * piece. */
static void pieces_of_every_size(socket_pair *pair, const char *address, const socket_transport_options *options) {
    static const size_t sizes[] = {57, 0, 65536, 4096, 4097, 3 * MB + 7, 1, 200, MB, 100};
    enum { COUNT = sizeof sizes / sizeof *sizes };
    uint8_t *body = xmalloc(8 * MB), *place;
    for (size_t i = 0; i < 8 * MB; i += 8) memcpy(body + i, &(uint64_t){i * UINT64_C(0x9e3779b97f4a7c15)}, 8);
    socket_pair_link(pair, address, options, options);
    transport wire = pair->client.wire;
    pair->server.on_message = compare_body;
    for (size_t count = 1; count <= COUNT; count++) {
        span pieces[COUNT];
        size_t at = 0;
        for (size_t i = 0; i < count; at += sizes[i++]) pieces[i] = span_of(body + at, sizes[i]);
        body_check check = {.body = span_of(body, at)};
        pair->server.user = &check;
        assert_int_equal(wire.ops->reserve(wire.self, pair->link, 4, &place), MR_OK);
        memcpy(place, "head", 4);
        wire.ops->commit_pieces(wire.self, pair->link, 4, pieces, count, socket_end_sent, &pair->client);
        WAIT_FOR(pair->loop, check.seen && pair->client.sent == count);
        assert_true(check.equal);
        assert_int_equal(pair->client.sent_status, MR_OK);
    }
    socket_pair_down(pair);
    free(body);
}

static void pieces_arrive_as_one_body(void **state) {
    socket_pair *pair = *state;
    for (int i = 0; i < 3; i++) pieces_of_every_size(pair, pair->addresses[i], NULL);
    pieces_of_every_size(pair, pair->addresses[0], &(socket_transport_options){.check_bodies = true});
}

static void without_memory_pieces_are_not_sent(void **state) {
    socket_pair *pair = *state;
    uint8_t body[20000] = {0}, *place;
    span pieces[] = {span_of(body, 5000), span_of(body, 5000), span_of(body, 5000), span_of(body, 5000),
                     span_of(body, 5000), span_of(body, 5000), span_of(body, 5000), span_of(body, 5000)};
    socket_pair_link(pair, pair->addresses[0], NULL, NULL);
    transport wire = pair->client.wire;
    assert_int_equal(wire.ops->reserve(wire.self, pair->link, 4, &place), MR_OK);
    alloc_fail_at(1);
    wire.ops->commit_pieces(wire.self, pair->link, 4, pieces, 8, socket_end_sent, &pair->client);
    alloc_fail_at(0);
    assert_true(pair->client.sent == 1 && pair->client.sent_status == MR_NOMEM);
    assert_int_equal(socket_end_send(&pair->client, pair->link, "x", 1), MR_OK); /* the link is unchanged */
    WAIT_FOR(pair->loop, pair->server.messages == 1);
    socket_pair_down(pair);
}

/* Small bodies are copied. Without memory for the copy a small body is borrowed, as a large one. */
static void without_memory_a_small_body_is_borrowed(void **state) {
    socket_pair *pair = *state;
    uint8_t body[4096], *place;
    memset(body, 'b', sizeof body);
    socket_pair_link(pair, pair->addresses[0], NULL, NULL);
    body_check check = {.body = span_of(body, sizeof body)};
    pair->server.on_message = compare_body;
    pair->server.user = &check;
    transport wire = pair->client.wire;
    assert_int_equal(wire.ops->reserve(wire.self, pair->link, 4, &place), MR_OK);
    memcpy(place, "head", 4);
    alloc_fail_at(1);
    wire.ops->commit_body(wire.self, pair->link, 4, check.body, socket_end_sent, &pair->client);
    alloc_fail_at(0);
    assert_int_equal(pair->client.sent, 0);
    WAIT_FOR(pair->loop, check.seen && pair->client.sent == 1);
    assert_true(check.equal);
    assert_int_equal(pair->client.sent_status, MR_OK);
}

static void many_bodies_and_messages_keep_their_order(void **state) {
    socket_pair *pair = *state;
    socket_pair_link(pair, pair->addresses[0], NULL, NULL);
    pair->server.on_message = expect_counting;
    uint8_t *body = xcalloc(1, 200000);
    unsigned bodies = 0;
    for (unsigned n = 0; n < 3000;) {
        mr_status status;
        if (n % 3 == 0) {
            size_t size = n % 2 == 0 ? n * 60 : n;
            status = socket_end_send_body(&pair->client, pair->link, span_of(&n, sizeof n), span_of(body, size));
            bodies += status == MR_OK;
        } else {
            status = socket_end_send(&pair->client, pair->link, &n, sizeof n);
        }
        if (status == MR_OK) n++;
        if (status == MR_BUSY) WAIT_FOR(pair->loop, pair->client.rooms > 0);
        pair->client.rooms = 0;
    }
    WAIT_FOR(pair->loop, pair->server.messages == 3000 && pair->client.sent == bodies);
    assert_int_equal(pair->client.sent_failed, 0);
    free(body);
}

static void *refuse(socket_end *end, link_id link, span head, uint64_t size) { return NULL; }

static void a_refused_body_ends_the_link(void **state) {
    socket_pair *pair = *state;
    uint8_t *body = xcalloc(1, 64 * MB);
    for (int i = 0; i < 3; i++) {
        for (size_t size = 1; size <= 64 * MB; size *= 64) {
            socket_pair_link(pair, pair->addresses[i], NULL, NULL);
            pair->server.on_body = refuse;
            assert_int_equal(socket_end_send_body(&pair->client, pair->link, span_of("h", 1), span_of(body, size)),
                             MR_OK);
            WAIT_FOR(pair->loop, pair->server.closed == 1 && pair->client.closed == 1);
            assert_int_equal(pair->server.why.status, MR_TOO_LARGE);
            assert_int_equal(pair->client.why.status, MR_TOO_LARGE);
            assert_non_null(strstr(pair->client.why.text, "refused"));
            assert_int_equal(pair->client.sent, 1);
            assert_int_equal(pair->server.messages, 0);
            socket_pair_down(pair);
        }
    }
    free(body);
}

static void a_body_over_the_limit_is_not_even_asked_for(void **state) {
    socket_pair *pair = *state;
    socket_transport_options options = {.body_max = 9999};
    uint8_t body[10000] = {0};
    socket_pair_link(pair, pair->addresses[0], &options, NULL);
    assert_int_equal(socket_end_send_body(&pair->client, pair->link, span_of("h", 1), span_of(body, 9999)), MR_OK);
    WAIT_FOR(pair->loop, pair->server.messages == 1);
    assert_int_equal(socket_end_send_body(&pair->client, pair->link, span_of("h", 1), span_of(body, 10000)), MR_OK);
    WAIT_FOR(pair->loop, pair->server.closed == 1 && pair->client.closed == 1);
    assert_int_equal(pair->server.why.status, MR_TOO_LARGE);
    assert_int_equal(pair->server.bodies, 1);
}

static void *unwanted(socket_end *end, link_id link, span head, uint64_t size) { return BODY_DISCARD; }

static void expect_no_body(socket_end *end, link_id link, const message *message) {
    assert_null(message->body.data);
    assert_int_equal(message->body.size, *(size_t *)end->user);
}

static void an_unwanted_body_is_thrown_away(void **state) {
    socket_pair *pair = *state;
    uint8_t *body = xcalloc(1, 5 * MB);
    size_t sizes[] = {1, 5000, 5 * MB}, size;
    socket_pair_link(pair, pair->addresses[0], NULL, NULL);
    for (unsigned i = 0; i < 3; i++) {
        size = sizes[i];
        pair->server.on_body = unwanted;
        pair->server.on_message = expect_no_body;
        pair->server.user = &size;
        assert_int_equal(socket_end_send_body(&pair->client, pair->link, span_of("h", 1), span_of(body, size)), MR_OK);
        WAIT_FOR(pair->loop, pair->server.messages == i + 1);
    }
    pair->server.on_message = NULL;
    assert_int_equal(socket_end_send(&pair->client, pair->link, "after", 5), MR_OK);
    WAIT_FOR(pair->loop, pair->server.messages == 4);
    free(body);
}

/* The memory is freed while the body is in flight; AddressSanitizer would detect a later access. */
static void a_body_may_be_given_up_on_its_way(void **state) {
    socket_pair *pair = *state;
    size_t size = 32 * MB;
    uint8_t *body = xcalloc(1, size);
    socket_pair_link(pair, pair->addresses[0], NULL, NULL);
    pair->server.on_message = expect_no_body;
    pair->server.user = &size;
    pair->server.wire.ops->discard(pair->server.wire.self, pair->server.link); /* no body is arriving: no-op */
    pair->server.wire.ops->discard(pair->server.wire.self, (link_id){12345});
    assert_int_equal(socket_end_send_body(&pair->client, pair->link, span_of("h", 1), span_of(body, size)), MR_OK);
    WAIT_FOR(pair->loop, pair->server.bodies == 1);
    assert_int_equal(pair->server.messages, 0);
    pair->server.wire.ops->discard(pair->server.wire.self, pair->server.link);
    free(pair->server.body);
    pair->server.body = NULL;
    pair->server.body_size = 0;
    WAIT_FOR(pair->loop, pair->server.messages == 1);
    free(body);
}

/* ---- Back-pressure: the server's loop does not run, so it does not read. */

typedef struct supply {
    unsigned left, fewest; /* messages left to send; fewest messages sent after one on_room */
} supply;

static void send_until_busy(socket_end *end, link_id link) {
    uint8_t head[500] = {0};
    supply *supply = end->user;
    unsigned sent = 0;
    while (supply->left > 0 && socket_end_send(end, link, head, sizeof head) == MR_OK) supply->left--, sent++;
    if (sent < supply->fewest && supply->left > 0) supply->fewest = sent;
}

static void a_peer_that_does_not_read_makes_the_link_busy(void **state) {
    socket_pair *pair = *state;
    socket_transport_options options = {.send_high = 300000, .send_low = 100000, .heartbeat_us = -1};
    socket_pair_link_apart(pair, &options, &options);
    uint8_t head[1000] = {0};
    unsigned sent = 0;
    for (int quiet = 0; quiet < 20; quiet++) { /* until the kernel's buffers are full, too */
        while (socket_end_send(&pair->client, pair->link, head, sizeof head) == MR_OK) {
            assert_true(++sent < 100000); /* about 100 MB: there must be a limit */
            quiet = 0;
        }
        event_loop_run_once(pair->loop, 1000);
    }
    unsigned rooms = pair->client.rooms;
    uint8_t *place;
    assert_int_equal(pair->client.wire.ops->reserve(pair->client.wire.self, pair->link, 1, &place), MR_BUSY);
    for (int i = 0; i < 50; i++) event_loop_run_once(pair->loop, 1000);
    assert_int_equal(pair->client.rooms, rooms);

    supply supply = {.left = 10000, .fewest = UINT_MAX};
    pair->client.on_room = send_until_busy;
    pair->client.user = &supply;
    int64_t give_up_us = clock_now_us(clock_real()) + SOCKET_END_PATIENCE_US;
    while (pair->server.messages < sent + 10000 && clock_now_us(clock_real()) < give_up_us) {
        unsigned before = pair->client.rooms;
        event_loop_run_once(pair->other, 1000);
        event_loop_run_once(pair->loop, 0);
        assert_true(pair->client.rooms <= before + 2); /* one on_room for any number of MR_BUSY */
    }
    assert_int_equal(pair->server.messages, sent + 10000);
    assert_true(pair->client.rooms > rooms);
    /* on_room means room for many messages. */
    assert_true(supply.fewest >= (300000 - 100000) / (500 + FRAME_HEADER_SIZE));
    assert_int_equal(pair->client.wire.ops->reserve(pair->client.wire.self, pair->link, 1, &place), MR_OK);
    socket_pair_down(pair);
}

static void a_busy_sender_does_not_starve_others(void **state) {
    socket_pair *pair = *state;
    socket_transport_options options = {.send_high = 20000, .heartbeat_us = -1};
    supply supply = {.left = 100000, .fewest = UINT_MAX};
    socket_pair_link(pair, pair->addresses[2], &options, &options);
    pair->client.on_room = send_until_busy;
    pair->client.user = &supply;
    send_until_busy(&pair->client, pair->link);
    WAIT_FOR(pair->loop, pair->server.messages == 100000);
    assert_true(pair->client.rooms > 100);
}

static void send_one_more(void *argument, mr_status status) {
    socket_end *end = argument;
    end->sent++;
    assert_int_equal(socket_end_send(end, end->link, "more", 4), MR_OK);
}

/* Messages sent in a body_sent_fn leave before the loop waits. */
static void the_loop_does_not_wait_with_words_unsent(void **state) {
    socket_pair *pair = *state;
    socket_transport_options options = {.heartbeat_us = -1};
    uint8_t body[10000] = {0}, *place;
    socket_pair_link_apart(pair, &options, &options);
    transport wire = pair->client.wire;
    assert_int_equal(wire.ops->reserve(wire.self, pair->link, 1, &place), MR_OK);
    wire.ops->commit_body(wire.self, pair->link, 1, span_of(body, sizeof body), send_one_more, &pair->client);
    int64_t start_us = clock_now_us(clock_real());
    event_loop_run_once(pair->loop, SOCKET_END_PATIENCE_US);
    assert_true(clock_now_us(clock_real()) - start_us < SOCKET_END_PATIENCE_US / 2);
    assert_int_equal(pair->client.sent, 1);
    WAIT_FOR(pair->other, pair->server.messages == 2);
    socket_pair_down(pair);
}

/* The pair whose server reads whenever the client is about to read a wakeup; NULL: none. */
static _Thread_local socket_pair *reading;

/* Replaces the C library's function in this executable. Other tests never set `reading`. */
ssize_t recv(int fd, void *buffer, size_t size, int flags) {
    socket_pair *pair = reading;
    reading = NULL;
    if (pair != NULL) event_loop_run_once(pair->other, 0);
    ssize_t got = recvfrom(fd, buffer, size, flags, NULL, NULL);
    reading = pair;
    return got;
}

static bool has_sent(socket_pair *pair, unsigned bodies) {
    reading = NULL;
    event_loop_run_once(pair->other, 0);
    reading = pair;
    return pair->client.sent == bodies;
}

/* The peer makes room, and reports it, just before this side reads the report. There are no pings, so a side that waits
 * for room, and is not woken when there is room, waits for ever. */
static void a_blocked_sender_is_woken(void **state) {
    enum { BODIES = 8, SIZE = 4 << 20 };
    socket_pair *pair = *state;
    socket_transport_options options = {.heartbeat_us = -1, .send_high = (size_t)BODIES * SIZE * 2};
    uint8_t *body = xcalloc(1, SIZE);
    socket_pair_link_apart(pair, &options, &options);
    for (unsigned n = 0; n < BODIES; n++)
        assert_int_equal(socket_end_send_body(&pair->client, pair->link, span_of(&n, sizeof n), span_of(body, SIZE)),
                         MR_OK);
    bool sent = UNTIL(pair->loop, has_sent(pair, BODIES));
    reading = NULL;
    assert_true(sent);
    WAIT_FOR(pair->other, pair->server.messages == BODIES);
    socket_pair_down(pair);
    free(body);
}

#define TESTS(TEST)                                     \
    TEST(both_sides_learn_who_the_other_is)             \
    TEST(nothing_is_sent_before_it_is_open)             \
    TEST(a_link_may_be_closed_while_it_opens)           \
    TEST(messages_come_in_order_and_leave_together)     \
    TEST(flush_sends_without_the_loop)                  \
    TEST(heads_of_every_size_arrive)                    \
    TEST(bodies_arrive_where_they_shall)                \
    TEST(checked_bodies_arrive_too)                     \
    TEST(pieces_arrive_as_one_body)                     \
    TEST(without_memory_pieces_are_not_sent)            \
    TEST(without_memory_a_small_body_is_borrowed)       \
    TEST(many_bodies_and_messages_keep_their_order)     \
    TEST(a_refused_body_ends_the_link)                  \
    TEST(a_body_over_the_limit_is_not_even_asked_for)   \
    TEST(an_unwanted_body_is_thrown_away)               \
    TEST(a_body_may_be_given_up_on_its_way)             \
    TEST(a_peer_that_does_not_read_makes_the_link_busy) \
    TEST(a_busy_sender_does_not_starve_others)          \
    TEST(the_loop_does_not_wait_with_words_unsent)

#define BY_SOCKET(name) cmocka_unit_test_setup_teardown(name, socket_pair_setup, socket_pair_teardown),
#define SHARED(name)    cmocka_unit_test_setup_teardown(name, socket_pair_setup_shared, socket_pair_teardown),

int main(void) {
    const struct CMUnitTest by_socket[] = {TESTS(BY_SOCKET) BY_SOCKET(connecting_without_listener_fails)};
    const struct CMUnitTest shared[] = {TESTS(SHARED) SHARED(a_blocked_sender_is_woken)};
    int failed = cmocka_run_group_tests_name("by socket", by_socket, NULL, NULL);
    return failed + cmocka_run_group_tests_name("through shared memory", shared, NULL, NULL);
}
