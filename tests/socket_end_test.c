/* socket_end_test.c — two socket transports: silence, and every way a link ends. */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "net/frame.h"
#include "tests/support/socket_pair.h"

enum { MB = 1 << 20 };

/* ---- Silence. */

static void a_silent_peer_is_noticed(void **state) {
    socket_pair *pair = *state;
    socket_transport_options silent = {.heartbeat_us = -1, .name = "mute"},
                             client = {.heartbeat_us = 10000, .heartbeat_misses = 4};
    socket_pair_link_apart(pair, &silent, &client);
    int64_t start_us = clock_now_us(clock_real());
    WAIT_FOR(pair->loop, pair->client.closed == 1);
    int64_t took_us = clock_now_us(clock_real()) - start_us;
    assert_true(took_us >= 30000);
    assert_int_equal(pair->client.why.status, MR_TIMEOUT);
    assert_non_null(strstr(pair->client.why.text, "lost 'mute': no heartbeat for"));
    socket_pair_down(pair);
}

static void idle_peers_stay_together(void **state) {
    socket_pair *pair = *state;
    socket_transport_options often = {.heartbeat_us = 2000, .heartbeat_misses = 100}, never = {.heartbeat_us = -1};
    socket_pair_link(pair, pair->addresses[0], &often, &never); /* one pings, the other only answers */
    int64_t end_us = clock_now_us(clock_real()) + 300000;
    WAIT_FOR(pair->loop, clock_now_us(clock_real()) > end_us);
    assert_int_equal(pair->client.closed + pair->server.closed, 0);
    assert_int_equal(socket_end_send(&pair->client, pair->link, "x", 1), MR_OK);
    WAIT_FOR(pair->loop, pair->server.messages == 1);
}

/* Reserved memory does not move while it is reserved, whatever other frames are sent. */
static void heartbeats_do_not_disturb_a_reservation(void **state) {
    socket_pair *pair = *state;
    socket_transport_options often = {.heartbeat_us = 2000, .heartbeat_misses = 1000};
    socket_pair_link(pair, pair->addresses[0], &often, &often);
    uint8_t *place;
    transport wire = pair->client.wire;
    pair->server.on_message = socket_end_keep_head;
    assert_int_equal(wire.ops->reserve(wire.self, pair->link, 100, &place), MR_OK);
    memset(place, 'r', 100);
    uint64_t out = socket_transport_stats_now(pair->client.transport).bytes_out;
    WAIT_FOR(pair->loop, socket_transport_stats_now(pair->client.transport).bytes_out > out + 10 * FRAME_HEADER_SIZE);
    wire.ops->commit(wire.self, pair->link, 100);
    WAIT_FOR(pair->loop, pair->server.messages == 1);
    assert_int_equal(pair->server.body_size, 100);
    for (int i = 0; i < 100; i++) assert_int_equal(pair->server.body[i], 'r');
    assert_int_equal(pair->client.closed + pair->server.closed, 0);
}

/* This process is stopped for long while the peer's answer waits in the socket. */
static void a_stopped_process_does_not_blame_its_peer(void **state) {
    socket_pair *pair = *state;
    socket_transport_options client = {.heartbeat_us = 10000, .heartbeat_misses = 2}, server = {.heartbeat_us = -1};
    socket_pair_link_apart(pair, &server, &client);
    for (int i = 0; i < 20; i++) {
        poll(NULL, 0, 50); /* five intervals */
        event_loop_run_once(pair->other, 0);
        event_loop_run_once(pair->other, 0);
        event_loop_run_once(pair->loop, 0);
        event_loop_run_once(pair->loop, 0);
    }
    assert_int_equal(pair->client.closed, 0);
    socket_pair_down(pair);
}

/* At every tick nothing was read since the previous tick, because the answer is still in the socket. */
static void an_answer_that_is_not_read_yet_counts(void **state) {
    socket_pair *pair = *state;
    socket_transport_options client = {.heartbeat_us = 10000, .heartbeat_misses = 1}, server = {.heartbeat_us = -1};
    socket_pair_link_apart(pair, &server, &client);
    for (int i = 0; i < 30; i++) {
        poll(NULL, 0, 15); /* longer than a tick, but within the limit */
        event_loop_run_once(pair->other, 0);
        event_loop_run_once(pair->other, 0);
        event_loop_run_once(pair->loop, 0);
    }
    assert_int_equal(pair->client.closed, 0);
    socket_pair_down(pair);
}

/* A body takes longer than the allowed silence; the progress of the body is a sign of life. */
static void a_slow_body_is_no_silence(void **state) {
    socket_pair *pair = *state;
    socket_transport_options options = {.heartbeat_us = 5000, .heartbeat_misses = 10};
    socket_pair_link_apart(pair, &options, &options);
    uint8_t *body = xcalloc(1, 60 * MB);
    assert_int_equal(socket_end_send_body(&pair->client, pair->link, span_of("h", 1), span_of(body, 60 * MB)), MR_OK);
    int64_t start_us = clock_now_us(clock_real()), now_us = start_us, read_us = start_us;
    while (pair->server.messages == 0 && pair->client.closed == 0 && now_us - start_us < SOCKET_END_PATIENCE_US) {
        if (now_us >= read_us) { /* the server reads a few bytes every 10 ms, and sends nothing */
            event_loop_run_once(pair->other, 0);
            read_us = now_us + 10000;
        }
        event_loop_run_once(pair->loop, 1000);
        now_us = clock_now_us(clock_real());
    }
    assert_int_equal(pair->client.closed, 0);
    assert_int_equal(pair->server.messages, 1);
    assert_true(now_us - start_us > 11 * 5000); /* otherwise the silence was too short to prove anything */
    socket_pair_down(pair);
    free(body);
}

/* Through shared memory. A message takes longer than an interval, and more messages than the allowed number of silent
 * intervals arrive between two wakes of the client; the progress of the bytes is a sign of life. */
enum { SLOW_MESSAGES = 200 };

static void take_slowly(socket_end *end, link_id link, const message *message) {
    socket_pair *pair = end->user;
    if (end->messages > SLOW_MESSAGES) return; /* the last messages: no later one could show progress */
    poll(NULL, 0, 5);
    event_loop_run_once(pair->loop, 0);
}

static void a_reader_that_takes_little_at_a_time_is_no_silence(void **state) {
    enum { MESSAGES = SLOW_MESSAGES + 100, SIZE = 16000 };
    socket_pair *pair = *state;
    socket_transport_options server = {.heartbeat_us = -1};
    socket_transport_options client = {.heartbeat_us = 4000, .heartbeat_misses = 10, .send_high = 8 * MB};
    socket_pair_link_apart(pair, &server, &client);
    pair->server.on_message = take_slowly;
    pair->server.user = pair;
    uint8_t head[SIZE] = {0};
    for (int i = 0; i < MESSAGES; i++)
        assert_int_equal(socket_end_send(&pair->client, pair->link, head, sizeof head), MR_OK);
    int64_t give_up_us = clock_now_us(clock_real()) + SOCKET_END_PATIENCE_US;
    while (pair->server.messages < MESSAGES && pair->client.closed == 0 && clock_now_us(clock_real()) < give_up_us) {
        event_loop_run_once(pair->loop, 0);
        event_loop_run_once(pair->other, 1000);
    }
    assert_int_equal(pair->client.closed, 0);
    assert_int_equal(pair->server.messages, MESSAGES);
    socket_pair_down(pair);
}

/* The server dies while the client waits for room: the client is notified at once, without a heartbeat. */
static void a_blocked_sender_is_notified_of_a_death(void **state) {
    socket_pair *pair = *state;
    socket_transport_options silent = {.heartbeat_us = -1};
    socket_pair_link_apart(pair, &silent, &silent);
    uint8_t *body = xcalloc(1, 20 * MB);
    assert_int_equal(socket_end_send_body(&pair->client, pair->link, span_of("h", 1), span_of(body, 20 * MB)), MR_OK);
    for (int i = 0; i < 10; i++) event_loop_run_once(pair->loop, 0);
    assert_int_equal(pair->client.sent, 0);
    socket_end_close(&pair->server);
    WAIT_FOR(pair->loop, pair->client.closed == 1);
    assert_int_equal(pair->client.sent, 1);
    assert_int_not_equal(pair->client.sent_status, MR_OK);
    socket_pair_down(pair);
    free(body);
}

/* ---- Ends. */

static void close_sends_what_was_committed(void **state) {
    socket_pair *pair = *state;
    uint8_t *body = xcalloc(1, 20 * MB);
    const socket_transport_options patient = {.linger_us = SOCKET_END_PATIENCE_US};
    for (int i = 0; i < 3; i++) {
        socket_pair_link(pair, pair->addresses[i], NULL, &patient);
        for (unsigned n = 0; n < 100; n++)
            assert_int_equal(socket_end_send(&pair->client, pair->link, &n, sizeof n), MR_OK);
        assert_int_equal(socket_end_send_body(&pair->client, pair->link, span_of("h", 1), span_of(body, 20 * MB)),
                         MR_OK);
        pair->client.wire.ops->close(pair->client.wire.self, pair->link);
        pair->client.wire.ops->close(pair->client.wire.self, pair->link); /* one close suffices */
        assert_int_equal(socket_end_send(&pair->client, pair->link, "x", 1), MR_CLOSED);
        WAIT_FOR(pair->loop, pair->server.closed == 1 && pair->client.closed == 1);
        assert_int_equal(pair->server.messages, 101);
        assert_int_equal(pair->server.why.status, MR_CLOSED);
        assert_int_equal(pair->client.why.status, MR_CLOSED);
        assert_int_equal(pair->client.sent, 1);
        assert_int_equal(pair->client.sent_status, MR_OK);
        socket_pair_down(pair);
        assert_int_equal(pair->server.closed, 1);
        assert_int_equal(pair->client.closed, 1);
    }
    free(body);
}

static void close_at_once(socket_end *end, link_id link) { end->wire.ops->close(end->wire.self, link); }
static void close_on_message(socket_end *end, link_id link, const message *message) { close_at_once(end, link); }
static void *close_on_body(socket_end *end, link_id link, span head, uint64_t size) {
    close_at_once(end, link);
    return NULL;
}

static void a_link_may_be_closed_inside_its_events(void **state) {
    socket_pair *pair = *state;
    uint8_t *body = xcalloc(1, 5 * MB);
    for (int i = 0; i < 4; i++) {
        socket_pair_start(pair, pair->addresses[i % 3], NULL, NULL);
        if (i == 0) pair->server.on_open = close_at_once;
        if (i == 1) pair->client.on_open = close_at_once;
        if (i == 2) pair->server.on_message = close_on_message;
        if (i == 3) pair->server.on_body = close_on_body;
        pair->link = socket_end_connect(&pair->client, pair->server.address);
        WAIT_FOR(pair->loop, pair->client.opened == 1);
        if (i == 2)
            for (int n = 0; n < 10; n++) assert_int_equal(socket_end_send(&pair->client, pair->link, "x", 1), MR_OK);
        if (i == 3)
            assert_int_equal(socket_end_send_body(&pair->client, pair->link, span_of("h", 1), span_of(body, 5 * MB)),
                             MR_OK);
        WAIT_FOR(pair->loop, pair->client.closed == 1 && pair->server.closed == 1);
        assert_int_equal(pair->client.why.status, MR_CLOSED);
        assert_int_equal(pair->server.why.status, MR_CLOSED);
        assert_int_equal(pair->server.messages, i == 2 ? 1 : 0); /* nothing is delivered after close() */
        assert_int_equal(pair->client.sent, i == 3 ? 1 : 0);
        socket_pair_down(pair);
    }
    free(body);
}

/* Each side closes without the wait for a peer that does not read. */
static void both_may_close_at_once(void **state) {
    socket_pair *pair = *state;
    socket_transport_options options = {.linger_us = 600 * 1000000LL};
    for (int i = 0; i < 3; i++) {
        socket_pair_link(pair, pair->addresses[i], &options, &options);
        close_at_once(&pair->client, pair->link);
        close_at_once(&pair->server, pair->server.link);
        WAIT_FOR(pair->loop, pair->client.closed == 1 && pair->server.closed == 1);
        assert_int_equal(pair->client.why.status, MR_CLOSED);
        assert_int_equal(pair->server.why.status, MR_CLOSED);
        socket_pair_down(pair);
    }
}

static void lingering_has_an_end(void **state) {
    socket_pair *pair = *state;
    socket_transport_options options = {.heartbeat_us = -1, .linger_us = 20000};
    socket_pair_link_apart(pair, &options, &options);
    uint8_t *body = xcalloc(1, 64 * MB);
    assert_int_equal(socket_end_send_body(&pair->client, pair->link, span_of("h", 1), span_of(body, 64 * MB)), MR_OK);
    int64_t start_us = clock_now_us(clock_real());
    close_at_once(&pair->client, pair->link);
    WAIT_FOR(pair->loop, pair->client.closed == 1);
    int64_t took_us = clock_now_us(clock_real()) - start_us;
    assert_true(took_us >= 20000 && took_us < 2000000);
    assert_int_equal(pair->client.why.status, MR_CLOSED);
    assert_non_null(strstr(pair->client.why.text, "were not sent in time"));
    assert_int_equal(pair->client.sent, 1);
    assert_int_equal(pair->client.sent_status, MR_CLOSED);
    WAIT_FOR(pair->other, pair->server.closed == 1);
    assert_int_equal(pair->server.why.status, MR_PEER_DIED);
    socket_pair_down(pair);
    free(body);
}

static void closing_the_stream_ends_every_link(void **state) {
    socket_pair *pair = *state;
    socket_pair_start(pair, pair->addresses[0], NULL, NULL);
    for (int i = 0; i < 10; i++) socket_end_connect(&pair->client, pair->server.address);
    WAIT_FOR(pair->loop, pair->server.opened == 10 && pair->client.opened == 10);
    uint8_t *body = xcalloc(1, 64 * MB);
    assert_int_equal(socket_end_send_body(&pair->client, pair->client.link, span_of("h", 1), span_of(body, 64 * MB)),
                     MR_OK);
    assert_int_equal(socket_end_send(&pair->server, pair->server.link, "last words", 10), MR_OK);
    socket_end_close(&pair->server);
    assert_int_equal(pair->server.closed, 10);
    assert_int_equal(pair->server.why.status, MR_CLOSED);
    WAIT_FOR(pair->loop, pair->client.closed == 10);
    assert_int_equal(pair->client.why.status, MR_CLOSED);
    assert_int_equal(pair->client.messages, 1);
    assert_int_equal(pair->client.sent, 1);
    free(body);
}

/* The client's last messages arrive although the server has not read the earlier ones. */
static void last_words_are_not_lost_in_a_reset(void **state) {
    socket_pair *pair = *state;
    const socket_transport_options server = {.send_high = 8 * MB};
    /* without heartbeats: one that arrives after the close would reset the link */
    const socket_transport_options client = {.heartbeat_us = -1};
    socket_pair_link_apart(pair, &server, &client);
    uint8_t head[10000] = {0};
    for (int i = 0; i < 15; i++) assert_int_equal(socket_end_send(&pair->client, pair->link, head, sizeof head), MR_OK);
    pair->client.wire.ops->flush(pair->client.wire.self);
    for (int i = 0; i < 100; i++)
        assert_int_equal(socket_end_send(&pair->server, pair->server.link, head, sizeof head), MR_OK);
    socket_end_close(&pair->server);
    WAIT_FOR(pair->loop, pair->client.closed == 1);
    assert_int_equal(pair->client.why.status, MR_CLOSED);
    assert_int_equal(pair->client.messages, 100);
    socket_pair_down(pair);
}

static void reconnect(socket_end *end, link_id link, const cause *why) { socket_end_connect(end, end->user); }

static void closing_the_stream_ends_although_its_owner_opens_links(void **state) {
    socket_pair *pair = *state;
    socket_pair_start(pair, pair->addresses[0], NULL, NULL);
    pair->client.on_closed = reconnect;
    pair->client.user = pair->server.address;
    pair->link = socket_end_connect(&pair->client, pair->server.address);
    WAIT_FOR(pair->loop, pair->client.opened == 1);
    socket_end_close(&pair->client);
    assert_int_equal(pair->client.closed, 1);
}

static void an_old_id_is_recognised(void **state) {
    socket_pair *pair = *state;
    uint8_t *place;
    socket_pair_link(pair, pair->addresses[0], NULL, NULL);
    link_id old = pair->link;
    close_at_once(&pair->client, old);
    WAIT_FOR(pair->loop, pair->client.closed == 1);
    pair->link = socket_end_connect(&pair->client, pair->server.address);
    WAIT_FOR(pair->loop, pair->client.opened == 2 && pair->server.opened == 2);
    assert_int_not_equal(pair->link.v, old.v);
    transport wire = pair->client.wire;
    assert_int_equal(wire.ops->reserve(wire.self, old, 1, &place), MR_CLOSED);
    wire.ops->commit(wire.self, old, 1);
    wire.ops->commit_body(wire.self, old, 1, span_of("x", 1), socket_end_sent, &pair->client);
    assert_int_equal(pair->client.sent_status, MR_CLOSED);
    wire.ops->close(wire.self, old);
    wire.ops->discard(wire.self, old);
    wire.ops->close(wire.self, (link_id){0});
    assert_int_equal(socket_end_send(&pair->client, pair->link, "x", 1), MR_OK);
    WAIT_FOR(pair->loop, pair->server.messages == 1);
    assert_int_equal(pair->client.closed, 1);
}

/* The end of each body is reported exactly once, however its link ends. */
static void every_body_is_told_once(void **state) {
    socket_pair *pair = *state;
    enum { BODIES = 20 };
    uint8_t *body = xcalloc(1, MB);
    for (int way = 0; way < 5; way++) {
        socket_transport_options options = {.heartbeat_us = -1, .linger_us = 10000, .send_high = 1000 * MB};
        if (way == 3) options.heartbeat_us = 10000, options.heartbeat_misses = 2;
        socket_pair_link_apart(pair, &options, &options);
        for (int i = 0; i < BODIES; i++)
            assert_int_equal(socket_end_send_body(&pair->client, pair->link, span_of("h", 1), span_of(body, MB)),
                             MR_OK);
        for (int i = 0; i < 10; i++) event_loop_run_once(pair->loop, 0);
        assert_true(pair->client.sent < BODIES);
        if (way == 0) close_at_once(&pair->client, pair->link);
        if (way == 1) socket_end_close(&pair->server);
        if (way == 2) close_at_once(&pair->server, pair->server.link);
        if (way == 4) socket_end_close(&pair->client);
        int64_t give_up_us = clock_now_us(clock_real()) + SOCKET_END_PATIENCE_US;
        while (pair->client.closed == 0 && clock_now_us(clock_real()) < give_up_us) {
            event_loop_run_once(pair->loop, 1000);
            if (way == 2) event_loop_run_once(pair->other, 0);
        }
        assert_int_equal(pair->client.closed, 1);
        assert_int_equal(pair->client.sent, BODIES);
        if (way != 2) assert_true(pair->client.sent_failed > 0);
        for (int i = 0; i < 10; i++) event_loop_run_once(pair->loop, 0);
        assert_int_equal(pair->client.sent, BODIES);
        socket_pair_down(pair);
        assert_int_equal(pair->client.sent, BODIES);
    }
    free(body);
}

static void thousands_of_links_leave_nothing(void **state) {
    socket_pair *pair = *state;
    enum { ROUNDS = 20, LINKS = 150 };
    for (int i = 0; i < 3; i++) {
        socket_pair_start(pair, pair->addresses[i], NULL, NULL);
        size_t fds = open_fd_count();
        static link_id links[LINKS];
        for (int round = 1; round <= ROUNDS; round++) {
            for (int n = 0; n < LINKS; n++) links[n] = socket_end_connect(&pair->client, pair->server.address);
            WAIT_FOR(pair->loop,
                     pair->client.opened == (unsigned)(round * LINKS) && pair->server.opened == pair->client.opened);
            for (int n = 0; n < LINKS; n++) {
                assert_int_equal(socket_end_send(&pair->client, links[n], "hi", 2), MR_OK);
                if (n % 2 == 0) close_at_once(&pair->client, links[n]);
            }
            WAIT_FOR(pair->loop, pair->server.messages == (unsigned)(round * LINKS));
            for (int n = 1; n < LINKS; n += 2) close_at_once(&pair->client, links[n]);
            WAIT_FOR(pair->loop,
                     pair->client.closed == pair->client.opened && pair->server.closed == pair->server.opened);
        }
        assert_int_equal(open_fd_count(), fds);
        assert_int_equal(socket_transport_stats_now(pair->server.transport).links, 0);
        assert_int_equal(socket_transport_stats_now(pair->server.transport).strangers, 0);
        socket_pair_down(pair);
    }
}

#define TESTS(TEST)                                              \
    TEST(a_silent_peer_is_noticed)                               \
    TEST(idle_peers_stay_together)                               \
    TEST(heartbeats_do_not_disturb_a_reservation)                \
    TEST(a_stopped_process_does_not_blame_its_peer)              \
    TEST(an_answer_that_is_not_read_yet_counts)                  \
    TEST(a_slow_body_is_no_silence)                              \
    TEST(a_blocked_sender_is_notified_of_a_death)                \
    TEST(close_sends_what_was_committed)                         \
    TEST(a_link_may_be_closed_inside_its_events)                 \
    TEST(both_may_close_at_once)                                 \
    TEST(lingering_has_an_end)                                   \
    TEST(closing_the_stream_ends_every_link)                     \
    TEST(closing_the_stream_ends_although_its_owner_opens_links) \
    TEST(an_old_id_is_recognised)                                \
    TEST(every_body_is_told_once)                                \
    TEST(thousands_of_links_leave_nothing)

#define BY_SOCKET(name) cmocka_unit_test_setup_teardown(name, socket_pair_setup, socket_pair_teardown),
#define SHARED(name)    cmocka_unit_test_setup_teardown(name, socket_pair_setup_shared, socket_pair_teardown),

int main(void) {
    const struct CMUnitTest by_socket[] = {TESTS(BY_SOCKET) BY_SOCKET(last_words_are_not_lost_in_a_reset)};
    const struct CMUnitTest shared[] = {/* not BY_SOCKET's: a socket takes more at once than a shm pipe */
                                        TESTS(SHARED) SHARED(a_reader_that_takes_little_at_a_time_is_no_silence)};
    int failed = cmocka_run_group_tests_name("by socket", by_socket, NULL, NULL);
    return failed + cmocka_run_group_tests_name("through shared memory", shared, NULL, NULL);
}
