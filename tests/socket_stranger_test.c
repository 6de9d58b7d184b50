/* socket_stranger_test.c — peers that connect and misbehave: silence, random bytes, one byte at a time, too many of
 * them, other versions; and the files that listening leaves. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "base/rng.h"
#include "net/frame.h"
#include "net/socket/handshake.h"
#include "tests/support/socket_pair.h"

static void serve(socket_pair *pair, const socket_transport_options *options) {
    assert_true(socket_end_open(&pair->server, pair->loop, options));
    assert_true(socket_end_listen(&pair->server, "tcp:127.0.0.1:0"));
}

/* For strangers that only say HELLO: on a unix socket they need no token. */
static void serve_unix(socket_pair *pair, const socket_transport_options *options) {
    assert_true(socket_end_open(&pair->server, pair->loop, options));
    assert_true(socket_end_listen(&pair->server, pair->unix_address));
}

static int stranger(socket_pair *pair) {
    int fd = raw_connect(pair->server.address);
    assert_true(fd >= 0);
    return fd;
}

static socket_transport_stats stats(const socket_pair *pair) {
    return socket_transport_stats_now(pair->server.transport);
}

/* The BYE with which the server ends a link, decoded. */
static cause last_words(int fd) {
    uint8_t bytes[1024];
    size_t size = raw_read_all(fd, bytes, sizeof bytes), need;
    cause why;
    cause_set(&why, MR_OK, "nothing");
    for (size_t at = 0; at < size;) {
        frame frame;
        const frame_limits limits = {.head_max = MESSAGE_HEAD_MAX};
        if (frame_decode(span_of(bytes + at, size - at), &limits, &frame, &need) != MR_OK || need != 0) break;
        if (frame.kind == FRAME_BYE) assert_int_equal(handshake_bye_decode(frame.head, &why), MR_OK);
        at += FRAME_HEADER_SIZE + frame.head.size;
    }
    close(fd);
    return why;
}

/* Checks that a well-behaved client is served, whatever others do. */
static void expect_good_service(socket_pair *pair) {
    socket_end client;
    unsigned messages = pair->server.messages;
    assert_true(socket_end_open(&client, pair->loop, NULL));
    link_id link = socket_end_connect(&client, pair->server.address);
    WAIT_FOR(pair->loop, client.opened == 1);
    assert_int_equal(socket_end_send(&client, link, "hello", 5), MR_OK);
    WAIT_FOR(pair->loop, pair->server.messages == messages + 1);
    client.wire.ops->close(client.wire.self, link);
    WAIT_FOR(pair->loop, client.closed == 1);
    socket_end_close(&client);
}

static void a_stranger_that_sends_nothing_is_rejected(void **state) {
    socket_pair *pair = *state;
    socket_transport_options options = {.hello_timeout_us = 30000};
    serve(pair, &options);
    int fd = stranger(pair);
    WAIT_FOR(pair->loop, stats(pair).strangers == 1);
    assert_int_equal(stats(pair).links, 0);
    WAIT_FOR(pair->loop, stats(pair).refused == 1);
    assert_int_equal(stats(pair).strangers, 0);
    assert_int_equal(raw_read_all(fd, NULL, 0), 0);
    close(fd);
    assert_int_equal(pair->server.opened + pair->server.closed, 0); /* no event reports strangers */
}

static void a_stranger_that_sends_garbage_is_rejected(void **state) {
    socket_pair *pair = *state;
    serve(pair, NULL);
    static const char *const rubbish[] = {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "\n", "\x16\x03\x01\x02\x05\x01",
                                          "SSH-2.0-x\r\n"};
    for (unsigned i = 0; i < sizeof rubbish / sizeof rubbish[0]; i++) {
        int fd = stranger(pair);
        assert_true(raw_send(fd, rubbish[i], strlen(rubbish[i])));
        WAIT_FOR(pair->loop, stats(pair).refused == i + 1);
        assert_int_equal(last_words(fd).status, MR_CORRUPT);
    }
    expect_good_service(pair);
}

static void a_stranger_that_sends_before_hello_is_rejected(void **state) {
    socket_pair *pair = *state;
    serve(pair, NULL);
    static const int kinds[] = {FRAME_MESSAGE, FRAME_PING, FRAME_PONG};
    for (unsigned i = 0; i < 3; i++) {
        int fd = stranger(pair);
        assert_true(raw_frame(fd, kinds[i], span_of("x", 1), 0));
        WAIT_FOR(pair->loop, stats(pair).refused == i + 1);
        assert_int_equal(last_words(fd).status, MR_CORRUPT);
    }
    int fd = stranger(pair); /* a HELLO of the maximal message size: refused */
    uint8_t head[5000] = {1};
    assert_true(raw_frame(fd, FRAME_HELLO, span_of(head, sizeof head), 0));
    WAIT_FOR(pair->loop, stats(pair).refused == 4);
    assert_int_equal(last_words(fd).status, MR_TOO_LARGE);
    fd = stranger(pair); /* a HELLO with a body */
    assert_true(raw_frame(fd, FRAME_MESSAGE, span_of(head, 10), UINT64_C(1) << 40));
    WAIT_FOR(pair->loop, stats(pair).refused == 5);
    assert_int_equal(last_words(fd).status, MR_TOO_LARGE);
    assert_int_equal(pair->server.opened + pair->server.bodies, 0);
    expect_good_service(pair);
}

static void another_version_is_denied(void **state) {
    socket_pair *pair = *state;
    serve(pair, NULL);
    uint8_t header[FRAME_HEADER_SIZE], hello[HANDSHAKE_HELLO_MAX];
    frame_encode_header(header, &(frame){.kind = FRAME_PING});
    header[offsetof(frame_header, version)] = 9; /* another frame version */
    int fd = stranger(pair);
    assert_true(raw_send(fd, header, sizeof header));
    WAIT_FOR(pair->loop, stats(pair).refused == 1);
    cause why = last_words(fd);
    assert_int_equal(why.status, MR_DENIED);
    assert_non_null(
        strstr(why.text, "format 9; this version reads format 1: use the same Miniray release on both sides"));

    handshake_hello self = {.peer = {.process = 5, .name = "future"}};
    size_t size = handshake_hello_encode(hello, &self);
    hello[0] = 7; /* another protocol version */
    fd = stranger(pair);
    assert_true(raw_frame(fd, FRAME_HELLO, span_of(hello, size), 0));
    WAIT_FOR(pair->loop, stats(pair).refused == 2);
    why = last_words(fd);
    assert_int_equal(why.status, MR_DENIED);
    assert_non_null(strstr(why.text, "protocol 7, this program speaks 2: use the same Miniray release on both sides"));
}

/* The same on the connecting side: the server has another version. */
static void another_version_is_denied_by_who_connects(void **state) {
    socket_pair *pair = *state;
    address address, actual;
    socket_end client;
    assert_int_equal(address_parse("tcp:127.0.0.1:0", &address), MR_OK);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, &address.any, address.size), 0);
    assert_int_equal(listen(listener, 1), 0);
    actual = address;
    assert_int_equal(getsockname(listener, &actual.any, &actual.size), 0);
    char text[ADDRESS_TEXT_MAX];
    address_format(&actual, text);
    assert_true(socket_end_open(&client, pair->loop, NULL));
    socket_end_connect(&client, text);
    int fd = accept(listener, NULL, NULL);
    assert_true(fd >= 0);
    uint8_t header[FRAME_HEADER_SIZE];
    frame_encode_header(header, &(frame){.kind = FRAME_PING});
    header[offsetof(frame_header, version)] = 2;
    assert_true(raw_send(fd, header, sizeof header));
    WAIT_FOR(pair->loop, client.closed == 1);
    assert_int_equal(client.why.status, MR_DENIED);
    assert_int_equal(client.opened, 0);
    close(fd);

    socket_end_connect(&client, text); /* the server accepts, and sends nothing */
    fd = accept(listener, NULL, NULL);
    close(fd);
    WAIT_FOR(pair->loop, client.closed == 2);
    assert_int_equal(client.why.status, MR_PEER_DIED);
    socket_end_close(&client);
    close(listener);
}

static void one_byte_at_a_time_is_not_for_ever(void **state) {
    socket_pair *pair = *state;
    socket_transport_options options = {.hello_timeout_us = 100000};
    serve(pair, &options);
    uint8_t header[FRAME_HEADER_SIZE];
    frame_encode_header(header, &(frame){.kind = FRAME_HELLO, .head = span_of("0123456789", 10)});
    int fd = stranger(pair);
    int64_t start_us = clock_now_us(clock_real());
    for (size_t i = 0; i < sizeof header && stats(pair).refused == 0; i++) {
        assert_true(raw_send(fd, header + i, 1));
        event_loop_run_once(pair->loop, 10000);
    }
    WAIT_FOR(pair->loop, stats(pair).refused == 1); /* although the stranger continues to send */
    assert_true(clock_now_us(clock_real()) - start_us >= 100000);
    close(fd);
}

static void a_hello_in_single_bytes_is_welcome(void **state) {
    socket_pair *pair = *state;
    serve_unix(pair, NULL);
    handshake_hello self = {.peer = {.process = 5, .name = "slow"}};
    uint8_t bytes[FRAME_HEADER_SIZE + HANDSHAKE_HELLO_MAX];
    size_t size = handshake_hello_encode(bytes + FRAME_HEADER_SIZE, &self);
    frame_encode_header(bytes, &(frame){.kind = FRAME_HELLO, .head = span_of(bytes + FRAME_HEADER_SIZE, size)});
    int fd = stranger(pair);
    for (size_t i = 0; i < FRAME_HEADER_SIZE + size; i++) {
        assert_int_equal(pair->server.opened, 0);
        assert_true(raw_send(fd, bytes + i, 1));
        for (int n = 0; n < 3; n++) event_loop_run_once(pair->loop, 0);
    }
    WAIT_FOR(pair->loop, pair->server.opened == 1);
    assert_string_equal(pair->server.peer.name, "slow");
    assert_true(raw_hello_answer(fd));
    /* Sends the frame after HELLO byte by byte, too. */
    frame_encode_header(bytes, &(frame){.kind = FRAME_MESSAGE, .head = span_of(bytes + FRAME_HEADER_SIZE, 4)});
    for (size_t i = 0; i < FRAME_HEADER_SIZE + 4; i++) {
        assert_true(raw_send(fd, bytes + i, 1));
        for (int n = 0; n < 3; n++) event_loop_run_once(pair->loop, 0);
    }
    WAIT_FOR(pair->loop, pair->server.messages == 1);
    close(fd);
    WAIT_FOR(pair->loop, pair->server.closed == 1);
    assert_int_equal(pair->server.why.status, MR_PEER_DIED);
    assert_non_null(strstr(pair->server.why.text, "lost 'slow'"));
}

static void hello_twice_is_corrupt(void **state) {
    socket_pair *pair = *state;
    serve_unix(pair, NULL);
    int fd = stranger(pair);
    assert_true(raw_hello(fd) && raw_hello(fd));
    WAIT_FOR(pair->loop, pair->server.closed == 1);
    assert_int_equal(pair->server.opened, 1);
    assert_int_equal(pair->server.why.status, MR_CORRUPT);
    assert_non_null(strstr(pair->server.why.text, "a HELLO frame after the handshake"));
    assert_int_equal(last_words(fd).status, MR_CORRUPT);
}

static void a_damaged_frame_ends_the_link(void **state) {
    socket_pair *pair = *state;
    serve_unix(pair, NULL);
    int fd = stranger(pair);
    uint8_t header[FRAME_HEADER_SIZE];
    frame_encode_header(header, &(frame){.kind = FRAME_MESSAGE, .head = span_of("head", 4)});
    assert_true(raw_hello(fd) && raw_send(fd, header, sizeof header) && raw_send(fd, "hEad", 4));
    WAIT_FOR(pair->loop, pair->server.closed == 1);
    assert_int_equal(pair->server.why.status, MR_CORRUPT);
    assert_non_null(strstr(pair->server.why.text, "checksum"));
    assert_int_equal(pair->server.why.pid, getpid());
    assert_int_equal(pair->server.messages, 0);
    close(fd);
}

static void a_frame_without_a_checksum_is_not_for_sockets(void **state) {
    socket_pair *pair = *state;
    serve_unix(pair, NULL);
    int fd = stranger(pair);
    uint8_t header[FRAME_HEADER_SIZE];
    frame_encode_header(header, &(frame){.kind = FRAME_MESSAGE, .flags = FRAME_PLAIN, .head = span_of("head", 4)});
    assert_true(raw_hello(fd) && raw_send(fd, header, sizeof header) && raw_send(fd, "head", 4));
    WAIT_FOR(pair->loop, pair->server.closed == 1);
    assert_int_equal(pair->server.why.status, MR_CORRUPT);
    assert_non_null(strstr(pair->server.why.text, "unknown flags"));
    assert_int_equal(pair->server.messages, 0);
    close(fd);
}

static void a_damaged_body_is_not_delivered(void **state) {
    socket_pair *pair = *state;
    serve_unix(pair, NULL);
    int fd = stranger(pair);
    uint8_t header[FRAME_HEADER_SIZE];
    frame_encode_header(header, &(frame){.kind = FRAME_MESSAGE,
                                         .flags = FRAME_BODY_CHECKED,
                                         .body_size = 4,
                                         .body_checksum = frame_body_checksum(span_of("body", 4))});
    assert_true(raw_hello(fd) && raw_send(fd, header, sizeof header) && raw_send(fd, "bodY", 4));
    WAIT_FOR(pair->loop, pair->server.closed == 1);
    assert_int_equal(pair->server.why.status, MR_CORRUPT);
    assert_int_equal(pair->server.messages, 0);
    close(fd);
}

/* The peer closes its unix socket with unread bytes, which is an error for this side. What the peer had sent is
 * delivered before on_closed, also when it takes many reads. */
static void messages_before_a_reset_are_delivered(void **state) {
    socket_pair *pair = *state;
    enum { COUNT = 18 };
    static uint8_t body[16 * 1024];
    socket_transport_options options = {.heartbeat_us = -1};
    assert_true(socket_end_open(&pair->server, pair->loop, &options));
    assert_true(socket_end_listen(&pair->server, pair->unix_address));
    int fd = stranger(pair), large = 1 << 20;
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &large, sizeof large);
    assert_true(raw_hello(fd));
    WAIT_FOR(pair->loop, pair->server.opened == 1);
    for (int i = 0; i < COUNT; i++)
        assert_true(raw_frame(fd, FRAME_MESSAGE, span_of("h", 1), sizeof body) && raw_send(fd, body, sizeof body));
    close(fd); /* the answer to HELLO is unread */
    WAIT_FOR(pair->loop, pair->server.closed == 1);
    assert_int_equal(pair->server.why.status, MR_PEER_DIED);
    assert_non_null(strstr(pair->server.why.text, "reset"));
    assert_int_equal(pair->server.messages, COUNT);
}

/* Pings are answered, but the answers to a peer that does not read are not queued. */
static void a_flood_of_pings_is_not_queued(void **state) {
    socket_pair *pair = *state;
    socket_transport_options options = {.heartbeat_us = -1};
    serve_unix(pair, &options);
    int fd = stranger(pair);
    assert_true(raw_hello(fd));
    WAIT_FOR(pair->loop, pair->server.opened == 1);
    uint8_t *pings = xmalloc(FRAME_HEADER_SIZE * 1000);
    for (size_t i = 0; i < 1000; i++) frame_encode_header(pings + i * FRAME_HEADER_SIZE, &(frame){.kind = FRAME_PING});
    for (int i = 0; i < 2000; i++) {
        assert_true(raw_send(fd, pings, FRAME_HEADER_SIZE * 1000));
        uint64_t in = stats(pair).bytes_in;
        WAIT_FOR(pair->loop, stats(pair).bytes_in >= in + FRAME_HEADER_SIZE * 1000);
    }
    free(pings);
    assert_int_equal(pair->server.closed, 0);
    assert_true(stats(pair).bytes_out < 2000 * 1000 * FRAME_HEADER_SIZE / 10); /* one answer for many pings */
    close(fd);
    WAIT_FOR(pair->loop, pair->server.closed == 1);
}

/* ---- Without the token (tcp). */

static mr_status another_token(void *context, token *out) {
    *out = (token){{1}};
    return MR_OK;
}

static mr_status no_token(void *context, token *out) { return error_set(MR_NOT_FOUND, "no token in this test"); }

static void another_token_is_denied(void **state) {
    socket_pair *pair = *state;
    socket_transport_options options = {.find_token = another_token};
    socket_end client;
    serve(pair, NULL);
    assert_true(socket_end_open(&client, pair->loop, &options));
    assert_int_not_equal(socket_end_connect(&client, pair->server.address).v, 0);
    WAIT_FOR(pair->loop, client.closed == 1 && stats(pair).refused == 1);
    assert_int_equal(client.why.status, MR_DENIED);
    assert_non_null(strstr(client.why.text, pair->server.address));
    assert_non_null(strstr(client.why.text, TOKEN_VARIABLE));
    assert_int_equal(client.opened + pair->server.opened + pair->server.closed, 0);
    socket_end_close(&client);
    expect_good_service(pair);
}

static void a_process_without_a_token_says_so(void **state) {
    socket_pair *pair = *state;
    socket_transport_options options = {.find_token = no_token};
    socket_end client;
    serve(pair, &options); /* a server may listen before its scheduler has a token */
    assert_true(socket_end_open(&client, pair->loop, NULL));
    assert_int_not_equal(socket_end_connect(&client, pair->server.address).v, 0);
    WAIT_FOR(pair->loop, client.closed == 1);
    assert_int_equal(client.why.status, MR_DENIED);
    assert_non_null(strstr(client.why.text, "has no token"));
    socket_end_close(&client);
    assert_true(socket_end_open(&client, pair->loop, &options));
    assert_int_equal(socket_end_connect(&client, pair->server.address).v, 0);
    assert_string_equal(mr_last_error(), "no token in this test");
    socket_end_close(&client);

    socket_transport *transport; /* without find_token: unix sockets only */
    char actual[ADDRESS_TEXT_MAX];
    assert_int_equal(socket_transport_open(pair->loop, NULL, &socket_end_events, &client, &transport), MR_OK);
    assert_int_equal(socket_transport_listen(transport, "tcp:127.0.0.1:0", actual), MR_INVALID);
    assert_int_equal(socket_transport_listen(transport, pair->unix_address, actual), MR_OK);
    socket_transport_close(transport);
}

/* A stranger that says HELLO and nothing else gets HELLO, and its deadline does not move. */
static void hello_without_proof_is_not_enough(void **state) {
    socket_pair *pair = *state;
    socket_transport_options options = {.hello_timeout_us = 100000};
    uint8_t bytes[1024];
    serve(pair, &options);
    int fd = stranger(pair);
    assert_true(raw_hello(fd));
    WAIT_FOR(pair->loop, stats(pair).bytes_out != 0);
    assert_int_equal(stats(pair).strangers, 1);
    assert_int_equal(stats(pair).links, 0);
    WAIT_FOR(pair->loop, stats(pair).refused == 1);
    assert_int_equal(raw_read_all(fd, bytes, sizeof bytes), FRAME_HEADER_SIZE + 52);
    close(fd);
    static const struct {
        int kind;
        size_t size;
        mr_status status;
    } instead[] = {{FRAME_MESSAGE, 32, MR_CORRUPT}, {FRAME_PROOF, 32, MR_DENIED}, {FRAME_PROOF, 31, MR_CORRUPT},
                   {FRAME_PROOF, 0, MR_CORRUPT},    {FRAME_PING, 0, MR_CORRUPT},  {FRAME_HELLO, 32, MR_CORRUPT}};
    for (unsigned i = 0; i < sizeof instead / sizeof *instead; i++) {
        memset(bytes, 0, sizeof bytes);
        fd = stranger(pair);
        assert_true(raw_hello(fd) && raw_frame(fd, instead[i].kind, span_of(bytes, instead[i].size), 0));
        WAIT_FOR(pair->loop, stats(pair).refused == 2 + i);
        assert_int_equal(last_words(fd).status, instead[i].status);
    }
    assert_int_equal(pair->server.opened + pair->server.closed + pair->server.messages, 0);
    expect_good_service(pair);
}

static void too_many_strangers_make_room(void **state) {
    socket_pair *pair = *state;
    enum { MAX = 10, COUNT = 40 };
    socket_transport_options options = {.strangers_max = MAX};
    serve(pair, &options);
    int fds[COUNT];
    for (int i = 0; i < COUNT; i++) fds[i] = stranger(pair);
    WAIT_FOR(pair->loop, stats(pair).strangers == MAX);
    int64_t start_us = clock_now_us(clock_real());
    while (stats(pair).accepted < COUNT && clock_now_us(clock_real()) - start_us < SOCKET_END_PATIENCE_US) {
        event_loop_run_once(pair->loop, 10000);
        assert_true(stats(pair).strangers <= MAX);
    }
    /* Waiting peers were accepted, because the oldest ones were dropped. */
    assert_int_equal(stats(pair).accepted, COUNT);
    assert_int_equal(stats(pair).refused, COUNT - MAX);
    expect_good_service(pair);
    for (int i = 0; i < COUNT; i++) close(fds[i]);
    WAIT_FOR(pair->loop, stats(pair).strangers == 0);
}

static void a_burst_of_good_clients_is_served(void **state) {
    socket_pair *pair = *state;
    enum { CLIENTS = 200 };
    socket_transport_options options = {.strangers_max = 4};
    assert_true(socket_end_open(&pair->server, pair->loop, &options));
    assert_true(socket_end_listen(&pair->server, pair->unix_address));
    socket_end client;
    assert_true(socket_end_open(&client, pair->loop, NULL));
    for (int i = 0; i < CLIENTS; i++) assert_int_not_equal(socket_end_connect(&client, pair->server.address).v, 0);
    WAIT_FOR(pair->loop, client.opened == CLIENTS && pair->server.opened == CLIENTS);
    assert_int_equal(stats(pair).refused, 0);
    socket_end_close(&client);
}

/* Without a free descriptor the transport waits instead of spinning, and continues afterwards. */
static void no_descriptor_left_is_survived(void **state) {
    socket_pair *pair = *state;
    serve_unix(pair, NULL);
    log_set_level(LOG_ERROR);
    int fd = stranger(pair);
    assert_true(raw_hello(fd));
    struct rlimit before, none;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = 0; /* limits new descriptors; open ones stay */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    for (int i = 0; i < 5; i++) event_loop_run_once(pair->loop, 1000);
    unsigned opened = pair->server.opened;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(opened, 0);
    WAIT_FOR(pair->loop, pair->server.opened == 1);
    log_set_level(LOG_WARN);
    close(fd);
}

/* ---- Listening. */

static void other_machines_are_denied(void **state) {
    socket_pair *pair = *state;
    assert_true(socket_end_open(&pair->server, pair->loop, NULL));
    static const char *const open_ones[] = {"tcp:0.0.0.0:0", "tcp:[::]:0", "tcp:192.0.2.1:0"};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(socket_transport_listen(pair->server.transport, open_ones[i], NULL), MR_DENIED);
        assert_non_null(strstr(mr_last_error(), "need TLS"));
    }
    assert_int_equal(socket_end_connect(&pair->server, "tcp:192.0.2.1:7").v, 0);
    assert_non_null(strstr(mr_last_error(), "need TLS"));
    assert_int_equal(socket_transport_listen(pair->server.transport, "tcp:127.0.0.1", NULL), MR_INVALID);
}

static void an_address_is_taken_once(void **state) {
    socket_pair *pair = *state;
    serve(pair, NULL);
    assert_int_equal(socket_transport_listen(pair->server.transport, pair->server.address, NULL), MR_EXISTS);
    assert_int_equal(socket_transport_listen(pair->server.transport, pair->unix_address, NULL), MR_OK);
    assert_int_equal(socket_transport_listen(pair->server.transport, pair->unix_address, NULL), MR_EXISTS);
    struct stat file;
    assert_int_equal(lstat(pair->path, &file), 0); /* the listening transport keeps its file */
}

static void a_unix_socket_is_private_and_goes_away(void **state) {
    socket_pair *pair = *state;
    struct stat file;
    mode_t mask = umask(0);
    assert_true(socket_end_open(&pair->server, pair->loop, NULL));
    assert_true(socket_end_listen(&pair->server, pair->unix_address));
    umask(mask);
    assert_int_equal(lstat(pair->path, &file), 0);
    assert_true(S_ISSOCK(file.st_mode));
    assert_int_equal(file.st_mode & 0777, 0600);
    socket_end_close(&pair->server);
    assert_int_equal(lstat(pair->path, &file), -1);
}

static void a_dead_socket_is_replaced_and_other_files_are_not(void **state) {
    socket_pair *pair = *state;
    address address;
    assert_int_equal(address_parse(pair->unix_address, &address), MR_OK);
    int dead = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(dead, &address.any, address.size), 0);
    close(dead);
    assert_true(socket_end_open(&pair->server, pair->loop, NULL));
    assert_true(socket_end_listen(&pair->server, pair->unix_address));
    expect_good_service(pair);
    socket_end_close(&pair->server);

    int file = open(pair->path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(file >= 0);
    close(file);
    assert_true(socket_end_open(&pair->server, pair->loop, NULL));
    assert_int_equal(socket_transport_listen(pair->server.transport, pair->unix_address, NULL), MR_EXISTS);
    assert_int_equal(unlink(pair->path), 0);
    char nowhere[128];
    snprintf(nowhere, sizeof nowhere, "unix:%s/no/such/folder", pair->folder);
    assert_int_equal(socket_transport_listen(pair->server.transport, nowhere, NULL), MR_IO);
}

/* Another process may have replaced the socket file: this process must not remove that file. */
static void a_file_of_another_owner_stays(void **state) {
    socket_pair *pair = *state;
    assert_true(socket_end_open(&pair->server, pair->loop, NULL));
    assert_true(socket_end_listen(&pair->server, pair->unix_address));
    assert_int_equal(unlink(pair->path), 0);
    int file = open(pair->path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(file >= 0);
    close(file);
    socket_end_close(&pair->server);
    assert_int_equal(unlink(pair->path), 0);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, socket_pair_setup, socket_pair_teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_stranger_that_sends_nothing_is_rejected),
        TEST(a_stranger_that_sends_garbage_is_rejected),
        TEST(a_stranger_that_sends_before_hello_is_rejected),
        TEST(another_version_is_denied),
        TEST(another_version_is_denied_by_who_connects),
        TEST(one_byte_at_a_time_is_not_for_ever),
        TEST(a_hello_in_single_bytes_is_welcome),
        TEST(hello_twice_is_corrupt),
        TEST(a_damaged_frame_ends_the_link),
        TEST(a_frame_without_a_checksum_is_not_for_sockets),
        TEST(a_damaged_body_is_not_delivered),
        TEST(messages_before_a_reset_are_delivered),
        TEST(a_flood_of_pings_is_not_queued),
        TEST(another_token_is_denied),
        TEST(a_process_without_a_token_says_so),
        TEST(hello_without_proof_is_not_enough),
        TEST(too_many_strangers_make_room),
        TEST(a_burst_of_good_clients_is_served),
        TEST(no_descriptor_left_is_survived),
        TEST(other_machines_are_denied),
        TEST(an_address_is_taken_once),
        TEST(a_unix_socket_is_private_and_goes_away),
        TEST(a_dead_socket_is_replaced_and_other_files_are_not),
        TEST(a_file_of_another_owner_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
