/* stream_link_test.c — two streams in one loop: messages, bodies, back-pressure, and every way a link ends. */
#include <limits.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "net/frame.h"
#include "net/stream/inbox.h"
#include "net/stream/stream.h"
#include "tests/support/endpoint.h"

enum { MB = 1 << 20 };

typedef struct fixture {
    char folder[32], path[64];
    const char *addresses[3]; /* one of each kind */
    loop *loop;
    endpoint server, client;
    link_id link; /* the client's */
    size_t fds;
} fixture;

static int setup(void **state) {
    fixture *f = xcalloc(1, sizeof *f);
    loop *first; /* libuv keeps a pipe for signals from the first loop on */
    assert_int_equal(loop_create(&first), MR_OK);
    loop_destroy(first);
    f->fds = open_fd_count();
    strcpy(f->folder, "/tmp/stream-test-XXXXXX");
    assert_non_null(mkdtemp(f->folder));
    snprintf(f->path, sizeof f->path, "unix:%s/socket", f->folder);
    f->addresses[0] = "tcp:127.0.0.1:0";
    f->addresses[1] = "tcp:[::1]:0";
    f->addresses[2] = f->path;
    assert_int_equal(loop_create(&f->loop), MR_OK);
    *state = f;
    return 0;
}

/* Whatever a test did, no descriptor and no file is left. */
static int teardown(void **state) {
    fixture *f = *state;
    if (f->client.stream != NULL) endpoint_close(&f->client);
    if (f->server.stream != NULL) endpoint_close(&f->server);
    loop_destroy(f->loop);
    assert_int_equal(rmdir(f->folder), 0);
    assert_int_equal(open_fd_count(), f->fds);
    free(f);
    return 0;
}

static void start(fixture *f, const char *address, const stream_options *server, const stream_options *client) {
    assert_true(endpoint_open(&f->server, f->loop, server));
    assert_true(endpoint_listen(&f->server, address));
    assert_true(endpoint_open(&f->client, f->loop, client));
}

static void link_up(fixture *f, const char *address, const stream_options *server, const stream_options *client) {
    start(f, address, server, client);
    f->link = endpoint_connect(&f->client, f->server.address);
    assert_int_not_equal(f->link.v, 0);
    WAIT_FOR(f->loop, f->client.opened == 1 && f->server.opened == 1);
    assert_int_equal(f->client.link.v, f->link.v);
}

static void both_down(fixture *f) {
    endpoint_close(&f->client);
    endpoint_close(&f->server);
}

/* ---- Beginnings. */

static void both_sides_learn_who_the_other_is(void **state) {
    fixture *f = *state;
    for (int i = 0; i < 3; i++) {
        stream_options server = {.process = 1001, .name = "the server"}, client = {.name = "the client"};
        link_up(f, f->addresses[i], &server, &client);
        assert_string_equal(f->client.peer.name, "the server");
        assert_true(f->client.peer.process == 1001);
        assert_int_equal(f->client.peer.pid, getpid());
        assert_string_equal(f->server.peer.name, "the client");
        assert_true(f->server.peer.process == stream_process(f->client.stream));
        assert_int_equal(f->server.peer.pid, getpid());
        both_down(f);
    }
}

static void nothing_is_sent_before_it_is_open(void **state) {
    fixture *f = *state;
    start(f, f->addresses[0], NULL, NULL);
    f->link = endpoint_connect(&f->client, f->server.address);
    assert_int_equal(endpoint_send(&f->client, f->link, "x", 1), MR_CLOSED);
    WAIT_FOR(f->loop, f->client.opened == 1);
    assert_int_equal(endpoint_send(&f->client, f->link, "x", 1), MR_OK);
    WAIT_FOR(f->loop, f->server.messages == 1);
}

static void nobody_listens(void **state) {
    fixture *f = *state;
    char gone[ADDRESS_TEXT_MAX];
    start(f, f->addresses[0], NULL, NULL);
    strcpy(gone, f->server.address);
    endpoint_close(&f->server);
    link_id link = endpoint_connect(&f->client, gone);
    assert_int_equal(f->client.closed, 0); /* not before open() has returned */
    WAIT_FOR(f->loop, f->client.closed == 1);
    assert_int_equal(f->client.why.status, MR_NOT_FOUND);
    assert_non_null(strstr(f->client.why.text, "refused"));
    assert_int_equal(endpoint_send(&f->client, link, "x", 1), MR_CLOSED);
    endpoint_connect(&f->client, f->path);
    WAIT_FOR(f->loop, f->client.closed == 2);
    assert_int_equal(f->client.why.status, MR_NOT_FOUND);
    assert_int_equal(f->client.opened, 0);
    assert_int_equal(endpoint_connect(&f->client, "tcp:8.8.8.8:53").v, 0); /* another machine */
    assert_int_equal(endpoint_connect(&f->client, "nonsense").v, 0);
    assert_int_equal(stream_stats_now(f->client.stream).links, 0);
}

static void a_link_may_be_closed_while_it_opens(void **state) {
    fixture *f = *state;
    for (int i = 0; i < 3; i++) {
        start(f, f->addresses[i], NULL, NULL);
        f->link = endpoint_connect(&f->client, f->server.address);
        f->client.wire.ops->close(f->client.wire.self, f->link);
        assert_int_equal(f->client.closed, 0);
        WAIT_FOR(f->loop, f->client.closed == 1);
        assert_int_equal(f->client.why.status, MR_CLOSED);
        assert_int_equal(f->client.opened, 0);
        both_down(f);
    }
}

/* ---- Messages. */

static void expect_counting(endpoint *endpoint, link_id link, const message *message) {
    unsigned number;
    assert_int_equal(message->head.size, sizeof number);
    memcpy(&number, message->head.data, sizeof number);
    assert_int_equal(number, endpoint->messages - 1);
}

static void messages_come_in_order_and_leave_together(void **state) {
    fixture *f = *state;
    for (int i = 0; i < 3; i++) {
        link_up(f, f->addresses[i], NULL, NULL);
        f->server.on_message = f->client.on_message = expect_counting;
        uint64_t writes = stream_stats_now(f->client.stream).writes;
        for (unsigned n = 0; n < 1000; n++) assert_int_equal(endpoint_send(&f->client, f->link, &n, sizeof n), MR_OK);
        for (unsigned n = 0; n < 500; n++)
            assert_int_equal(endpoint_send(&f->server, f->server.link, &n, sizeof n), MR_OK);
        WAIT_FOR(f->loop, f->server.messages == 1000 && f->client.messages == 500);
        assert_true(stream_stats_now(f->client.stream).writes - writes <= 3);
        both_down(f);
    }
}

static void flush_sends_without_the_loop(void **state) {
    fixture *f = *state;
    link_up(f, f->addresses[0], NULL, NULL);
    uint64_t writes = stream_stats_now(f->client.stream).writes;
    assert_int_equal(endpoint_send(&f->client, f->link, "x", 1), MR_OK);
    assert_int_equal(stream_stats_now(f->client.stream).writes, writes);
    f->client.wire.ops->flush(f->client.wire.self);
    assert_int_equal(stream_stats_now(f->client.stream).writes, writes + 1);
    WAIT_FOR(f->loop, f->server.messages == 1);
    uint8_t head[10000] = {0}; /* much at once leaves at once */
    for (int i = 0; i < 10; i++) assert_int_equal(endpoint_send(&f->client, f->link, head, sizeof head), MR_OK);
    assert_true(stream_stats_now(f->client.stream).writes > writes + 1);
    WAIT_FOR(f->loop, f->server.messages == 11);
}

static void keep_head(endpoint *endpoint, link_id link, const message *message) {
    endpoint->body = xrealloc(endpoint->body, message->head.size + 1);
    endpoint->body_size = message->head.size;
    memcpy(endpoint->body, message->head.data, message->head.size);
}

static void heads_of_every_size_arrive(void **state) {
    fixture *f = *state;
    static const size_t sizes[] = {0, 1, 63, 4064, 65535, 65536, MESSAGE_HEAD_MAX - 1, MESSAGE_HEAD_MAX};
    uint8_t *head = xmalloc(MESSAGE_HEAD_MAX), *place;
    rng rng;
    rng_init(&rng, 5);
    rng_fill(&rng, head, MESSAGE_HEAD_MAX);
    for (int i = 0; i < 3; i++) {
        link_up(f, f->addresses[i], NULL, NULL);
        f->server.on_message = keep_head;
        for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
            assert_int_equal(endpoint_send(&f->client, f->link, head, sizes[s]), MR_OK);
            WAIT_FOR(f->loop, f->server.messages == s + 1);
            assert_int_equal(f->server.body_size, sizes[s]);
            assert_memory_equal(f->server.body, head, sizes[s]);
        }
        transport wire = f->client.wire;
        assert_int_equal(wire.ops->reserve(wire.self, f->link, MESSAGE_HEAD_MAX + 1, &place), MR_TOO_LARGE);
        assert_int_equal(wire.ops->reserve(wire.self, f->link, 100, &place), MR_OK); /* commit less than reserved */
        memcpy(place, head, 100);
        wire.ops->commit(wire.self, f->link, 40);
        WAIT_FOR(f->loop, f->server.body_size == 40);
        assert_memory_equal(f->server.body, head, 40);
        both_down(f);
    }
    free(head);
}

/* ---- Bodies. */

typedef struct body_check {
    span body;
    bool seen, equal;
} body_check;

static void compare_body(endpoint *endpoint, link_id link, const message *message) {
    body_check *check = endpoint->user;
    check->seen = true;
    check->equal = message->body.size == check->body.size &&
                   (check->body.size == 0 || (message->body.data == endpoint->body &&
                                              memcmp(message->body.data, check->body.data, check->body.size) == 0)) &&
                   message->head.size == 4 && memcmp(message->head.data, "head", 4) == 0;
}

static void bodies_of_every_size(fixture *f, const char *address, const stream_options *options) {
    static const size_t sizes[] = {0,     1,     4095,      4096,     4097,       16 * 1024,
                                   65535, 65536, 65536 + 1, MB - 159, 3 * MB + 7, 100 * MB};
    uint8_t *body = xmalloc(100 * MB);
    for (size_t i = 0; i < 100 * MB; i += 8) memcpy(body + i, &(uint64_t){i * UINT64_C(0x9e3779b97f4a7c15)}, 8);
    link_up(f, address, options, options);
    body_check check = {0};
    f->server.on_message = compare_body;
    f->server.user = &check;
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        check = (body_check){.body = span_of(body, sizes[s])};
        uint64_t copied = stream_stats_now(f->server.stream).body_copied;
        assert_int_equal(endpoint_send_body(&f->client, f->link, span_of("head", 4), check.body), MR_OK);
        WAIT_FOR(f->loop, check.seen && f->client.sent == s + 1);
        assert_true(check.equal);
        assert_int_equal(f->client.sent_status, MR_OK);
        copied = stream_stats_now(f->server.stream).body_copied - copied;
        if (sizes[s] >= 65536) assert_true(copied <= INBOX_READ_MIN);
    }
    assert_int_equal(f->client.sent, sizeof sizes / sizeof sizes[0]);
    both_down(f);
    free(body);
}

static void bodies_arrive_where_they_shall(void **state) {
    fixture *f = *state;
    for (int i = 0; i < 3; i++) bodies_of_every_size(f, f->addresses[i], NULL);
}

static void checked_bodies_arrive_too(void **state) {
    stream_options options = {.check_bodies = true};
    bodies_of_every_size(*state, ((fixture *)*state)->addresses[2], &options);
}

/* Small bodies are copied; where there is no memory for that they are lent like large ones. */
static void without_memory_a_small_body_is_lent(void **state) {
    fixture *f = *state;
    uint8_t body[4096], *place;
    memset(body, 'b', sizeof body);
    link_up(f, f->addresses[0], NULL, NULL);
    body_check check = {.body = span_of(body, sizeof body)};
    f->server.on_message = compare_body;
    f->server.user = &check;
    transport wire = f->client.wire;
    assert_int_equal(wire.ops->reserve(wire.self, f->link, 4, &place), MR_OK);
    memcpy(place, "head", 4);
    alloc_fail_at(1);
    wire.ops->commit_body(wire.self, f->link, 4, check.body, endpoint_sent, &f->client);
    alloc_fail_at(0);
    assert_int_equal(f->client.sent, 0);
    WAIT_FOR(f->loop, check.seen && f->client.sent == 1);
    assert_true(check.equal);
    assert_int_equal(f->client.sent_status, MR_OK);
}

static void many_bodies_and_messages_keep_their_order(void **state) {
    fixture *f = *state;
    link_up(f, f->addresses[0], NULL, NULL);
    f->server.on_message = expect_counting;
    uint8_t *body = xcalloc(1, 200000);
    unsigned bodies = 0;
    for (unsigned n = 0; n < 3000;) {
        mr_status status;
        if (n % 3 == 0) {
            size_t size = n % 2 == 0 ? n * 60 : n;
            status = endpoint_send_body(&f->client, f->link, span_of(&n, sizeof n), span_of(body, size));
            bodies += status == MR_OK;
        } else {
            status = endpoint_send(&f->client, f->link, &n, sizeof n);
        }
        if (status == MR_OK) n++;
        if (status == MR_BUSY) WAIT_FOR(f->loop, f->client.rooms > 0);
        f->client.rooms = 0;
    }
    WAIT_FOR(f->loop, f->server.messages == 3000 && f->client.sent == bodies);
    assert_int_equal(f->client.sent_failed, 0);
    free(body);
}

static void *refuse(endpoint *endpoint, link_id link, span head, uint64_t size) { return NULL; }

static void a_refused_body_ends_the_link(void **state) {
    fixture *f = *state;
    uint8_t *body = xcalloc(1, 64 * MB);
    for (int i = 0; i < 3; i++) {
        for (size_t size = 1; size <= 64 * MB; size *= 64) {
            link_up(f, f->addresses[i], NULL, NULL);
            f->server.on_body = refuse;
            assert_int_equal(endpoint_send_body(&f->client, f->link, span_of("h", 1), span_of(body, size)), MR_OK);
            WAIT_FOR(f->loop, f->server.closed == 1 && f->client.closed == 1);
            assert_int_equal(f->server.why.status, MR_TOO_LARGE);
            assert_int_equal(f->client.why.status, MR_TOO_LARGE);
            assert_non_null(strstr(f->client.why.text, "refused"));
            assert_int_equal(f->client.sent, 1);
            assert_int_equal(f->server.messages, 0);
            both_down(f);
        }
    }
    free(body);
}

static void a_body_over_the_limit_is_not_even_asked_for(void **state) {
    fixture *f = *state;
    stream_options options = {.body_max = 9999};
    uint8_t body[10000] = {0};
    link_up(f, f->addresses[0], &options, NULL);
    assert_int_equal(endpoint_send_body(&f->client, f->link, span_of("h", 1), span_of(body, 9999)), MR_OK);
    WAIT_FOR(f->loop, f->server.messages == 1);
    assert_int_equal(endpoint_send_body(&f->client, f->link, span_of("h", 1), span_of(body, 10000)), MR_OK);
    WAIT_FOR(f->loop, f->server.closed == 1 && f->client.closed == 1);
    assert_int_equal(f->server.why.status, MR_TOO_LARGE);
    assert_int_equal(f->server.bodies, 1);
}

static void *unwanted(endpoint *endpoint, link_id link, span head, uint64_t size) { return BODY_DISCARD; }

static void expect_no_body(endpoint *endpoint, link_id link, const message *message) {
    assert_null(message->body.data);
    assert_int_equal(message->body.size, *(size_t *)endpoint->user);
}

static void an_unwanted_body_is_thrown_away(void **state) {
    fixture *f = *state;
    uint8_t *body = xcalloc(1, 5 * MB);
    size_t sizes[] = {1, 5000, 5 * MB}, size;
    link_up(f, f->addresses[0], NULL, NULL);
    for (unsigned i = 0; i < 3; i++) {
        size = sizes[i];
        f->server.on_body = unwanted;
        f->server.on_message = expect_no_body;
        f->server.user = &size;
        assert_int_equal(endpoint_send_body(&f->client, f->link, span_of("h", 1), span_of(body, size)), MR_OK);
        WAIT_FOR(f->loop, f->server.messages == i + 1);
    }
    f->server.on_message = NULL;
    assert_int_equal(endpoint_send(&f->client, f->link, "after", 5), MR_OK);
    WAIT_FOR(f->loop, f->server.messages == 4);
    free(body);
}

/* The memory is given back while the body is on its way; ASan sees who writes to it afterwards. */
static void a_body_may_be_given_up_on_its_way(void **state) {
    fixture *f = *state;
    size_t size = 32 * MB;
    uint8_t *body = xcalloc(1, size);
    link_up(f, f->addresses[0], NULL, NULL);
    f->server.on_message = expect_no_body;
    f->server.user = &size;
    f->server.wire.ops->discard(f->server.wire.self, f->server.link); /* nothing is arriving: no-op */
    f->server.wire.ops->discard(f->server.wire.self, (link_id){12345});
    assert_int_equal(endpoint_send_body(&f->client, f->link, span_of("h", 1), span_of(body, size)), MR_OK);
    WAIT_FOR(f->loop, f->server.bodies == 1);
    assert_int_equal(f->server.messages, 0);
    f->server.wire.ops->discard(f->server.wire.self, f->server.link);
    free(f->server.body);
    f->server.body = NULL;
    f->server.body_size = 0;
    WAIT_FOR(f->loop, f->server.messages == 1);
    free(body);
}

/* ---- Back-pressure: the server's loop does not run, so it does not read. */

typedef struct two_loops {
    loop *other;
    link_id link;
} two_loops;

static void link_two_loops(fixture *f, two_loops *two, const stream_options *server, const stream_options *client) {
    assert_int_equal(loop_create(&two->other), MR_OK);
    assert_true(endpoint_open(&f->server, two->other, server));
    assert_true(endpoint_listen(&f->server, f->addresses[0]));
    assert_true(endpoint_open(&f->client, f->loop, client));
    two->link = endpoint_connect(&f->client, f->server.address);
    while (f->client.opened == 0 || f->server.opened == 0) {
        loop_run_once(f->loop, 1000);
        loop_run_once(two->other, 1000);
    }
}

static void unlink_two_loops(fixture *f, two_loops *two) {
    both_down(f);
    loop_destroy(two->other);
}

typedef struct supply {
    unsigned left, fewest; /* messages: to be sent; sent after one on_room, at least */
} supply;

static void send_until_busy(endpoint *endpoint, link_id link) {
    uint8_t head[500] = {0};
    supply *supply = endpoint->user;
    unsigned sent = 0;
    while (supply->left > 0 && endpoint_send(endpoint, link, head, sizeof head) == MR_OK) supply->left--, sent++;
    if (sent < supply->fewest && supply->left > 0) supply->fewest = sent;
}

static void a_peer_that_does_not_read_makes_the_link_busy(void **state) {
    fixture *f = *state;
    two_loops two;
    stream_options options = {.send_high = 300000, .send_low = 100000, .heartbeat_us = -1};
    link_two_loops(f, &two, &options, &options);
    uint8_t head[1000] = {0};
    unsigned sent = 0;
    for (int quiet = 0; quiet < 20; quiet++) { /* until the kernel's buffers are full as well */
        while (endpoint_send(&f->client, two.link, head, sizeof head) == MR_OK) {
            sent++;
            quiet = 0;
        }
        loop_run_once(f->loop, 1000);
    }
    unsigned rooms = f->client.rooms;
    uint8_t *place;
    assert_int_equal(f->client.wire.ops->reserve(f->client.wire.self, two.link, 1, &place), MR_BUSY);
    for (int i = 0; i < 50; i++) loop_run_once(f->loop, 1000);
    assert_int_equal(f->client.rooms, rooms);
    assert_true(sent < 100000); /* about 100 MB: somewhere it has an end */

    supply supply = {.left = 10000, .fewest = UINT_MAX};
    f->client.on_room = send_until_busy;
    f->client.user = &supply;
    int64_t give_up_us = clock_now_us(clock_real()) + ENDPOINT_PATIENCE_US;
    while (f->server.messages < sent + 10000 && clock_now_us(clock_real()) < give_up_us) {
        unsigned before = f->client.rooms;
        loop_run_once(two.other, 1000);
        loop_run_once(f->loop, 0);
        assert_true(f->client.rooms <= before + 2); /* once for however many MR_BUSY */
    }
    assert_int_equal(f->server.messages, sent + 10000);
    assert_true(f->client.rooms > rooms);
    assert_true(supply.fewest >= (300000 - 100000) / (500 + FRAME_HEADER_SIZE)); /* on_room means room for many */
    assert_int_equal(f->client.wire.ops->reserve(f->client.wire.self, two.link, 1, &place), MR_OK);
    unlink_two_loops(f, &two);
}

static void one_who_always_has_more_starves_nobody(void **state) {
    fixture *f = *state;
    stream_options options = {.send_high = 20000, .heartbeat_us = -1};
    supply supply = {.left = 100000, .fewest = UINT_MAX};
    link_up(f, f->addresses[2], &options, &options);
    f->client.on_room = send_until_busy;
    f->client.user = &supply;
    send_until_busy(&f->client, f->link);
    WAIT_FOR(f->loop, f->server.messages == 100000);
    assert_true(f->client.rooms > 100);
}

static void send_one_more(void *argument, mr_status status) {
    endpoint *endpoint = argument;
    endpoint->sent++;
    assert_int_equal(endpoint_send(endpoint, endpoint->link, "more", 4), MR_OK);
}

/* What is said when a body has left goes out too, before the loop waits. */
static void the_loop_does_not_wait_with_words_unsent(void **state) {
    fixture *f = *state;
    two_loops two;
    stream_options options = {.heartbeat_us = -1};
    uint8_t body[10000] = {0}, *place;
    link_two_loops(f, &two, &options, &options);
    transport wire = f->client.wire;
    assert_int_equal(wire.ops->reserve(wire.self, two.link, 1, &place), MR_OK);
    wire.ops->commit_body(wire.self, two.link, 1, span_of(body, sizeof body), send_one_more, &f->client);
    int64_t start_us = clock_now_us(clock_real());
    loop_run_once(f->loop, ENDPOINT_PATIENCE_US);
    assert_true(clock_now_us(clock_real()) - start_us < ENDPOINT_PATIENCE_US / 2);
    assert_int_equal(f->client.sent, 1);
    WAIT_FOR(two.other, f->server.messages == 2);
    unlink_two_loops(f, &two);
}

/* ---- Silence. */

static void a_silent_peer_is_noticed(void **state) {
    fixture *f = *state;
    two_loops two;
    stream_options silent = {.heartbeat_us = -1, .name = "mute"},
                   client = {.heartbeat_us = 10000, .heartbeat_misses = 4};
    link_two_loops(f, &two, &silent, &client);
    int64_t start_us = clock_now_us(clock_real());
    WAIT_FOR(f->loop, f->client.closed == 1);
    int64_t took_us = clock_now_us(clock_real()) - start_us;
    assert_true(took_us >= 30000);
    assert_int_equal(f->client.why.status, MR_TIMEOUT);
    assert_non_null(strstr(f->client.why.text, "'mute' is silent: no heartbeat for"));
    unlink_two_loops(f, &two);
}

static void idle_peers_stay_together(void **state) {
    fixture *f = *state;
    stream_options often = {.heartbeat_us = 2000, .heartbeat_misses = 100}, never = {.heartbeat_us = -1};
    link_up(f, f->addresses[0], &often, &never); /* one pings, the other only answers */
    int64_t end_us = clock_now_us(clock_real()) + 300000;
    WAIT_FOR(f->loop, clock_now_us(clock_real()) > end_us);
    assert_int_equal(f->client.closed + f->server.closed, 0);
    assert_int_equal(endpoint_send(&f->client, f->link, "x", 1), MR_OK);
    WAIT_FOR(f->loop, f->server.messages == 1);
}

/* What is reserved stays where it is, however long its owner takes and whatever else is said meanwhile. */
static void heartbeats_do_not_disturb_a_reservation(void **state) {
    fixture *f = *state;
    stream_options often = {.heartbeat_us = 2000, .heartbeat_misses = 1000};
    link_up(f, f->addresses[0], &often, &often);
    uint8_t *place;
    transport wire = f->client.wire;
    f->server.on_message = keep_head;
    assert_int_equal(wire.ops->reserve(wire.self, f->link, 100, &place), MR_OK);
    memset(place, 'r', 100);
    uint64_t out = stream_stats_now(f->client.stream).bytes_out;
    WAIT_FOR(f->loop, stream_stats_now(f->client.stream).bytes_out > out + 10 * FRAME_HEADER_SIZE);
    wire.ops->commit(wire.self, f->link, 100);
    WAIT_FOR(f->loop, f->server.messages == 1);
    assert_int_equal(f->server.body_size, 100);
    for (int i = 0; i < 100; i++) assert_int_equal(f->server.body[i], 'r');
    assert_int_equal(f->client.closed + f->server.closed, 0);
}

/* This process stands still for long while its peer waits with an answer in the socket. */
static void who_was_stopped_itself_blames_nobody(void **state) {
    fixture *f = *state;
    two_loops two;
    stream_options client = {.heartbeat_us = 10000, .heartbeat_misses = 2}, server = {.heartbeat_us = -1};
    link_two_loops(f, &two, &server, &client);
    for (int i = 0; i < 20; i++) {
        poll(NULL, 0, 50); /* five intervals */
        loop_run_once(two.other, 0);
        loop_run_once(two.other, 0);
        loop_run_once(f->loop, 0);
        loop_run_once(f->loop, 0);
    }
    assert_int_equal(f->client.closed, 0);
    unlink_two_loops(f, &two);
}

/* Every tick finds that nothing was read since the last one, because the answer lies in the socket still. */
static void an_answer_that_is_not_read_yet_counts(void **state) {
    fixture *f = *state;
    two_loops two;
    stream_options client = {.heartbeat_us = 10000, .heartbeat_misses = 1}, server = {.heartbeat_us = -1};
    link_two_loops(f, &two, &server, &client);
    for (int i = 0; i < 30; i++) {
        poll(NULL, 0, 15); /* past the tick, but not late */
        loop_run_once(two.other, 0);
        loop_run_once(two.other, 0);
        loop_run_once(f->loop, 0);
    }
    assert_int_equal(f->client.closed, 0);
    unlink_two_loops(f, &two);
}

/* A body takes longer than the silence that is allowed; that it moves is a sign of life. */
static void a_slow_body_is_no_silence(void **state) {
    fixture *f = *state;
    two_loops two;
    stream_options options = {.heartbeat_us = 5000, .heartbeat_misses = 10};
    link_two_loops(f, &two, &options, &options);
    uint8_t *body = xcalloc(1, 60 * MB);
    assert_int_equal(endpoint_send_body(&f->client, two.link, span_of("h", 1), span_of(body, 60 * MB)), MR_OK);
    int64_t start_us = clock_now_us(clock_real()), now_us = start_us, read_us = start_us;
    while (f->server.messages == 0 && f->client.closed == 0 && now_us - start_us < ENDPOINT_PATIENCE_US) {
        if (now_us >= read_us) { /* the server reads a little every 10 ms, and has nothing to say meanwhile */
            loop_run_once(two.other, 0);
            read_us = now_us + 10000;
        }
        loop_run_once(f->loop, 1000);
        now_us = clock_now_us(clock_real());
    }
    assert_int_equal(f->client.closed, 0);
    assert_int_equal(f->server.messages, 1);
    assert_true(now_us - start_us > 11 * 5000); /* or it proves nothing */
    unlink_two_loops(f, &two);
    free(body);
}

/* ---- Ends. */

static void close_sends_what_was_committed(void **state) {
    fixture *f = *state;
    uint8_t *body = xcalloc(1, 20 * MB);
    for (int i = 0; i < 3; i++) {
        link_up(f, f->addresses[i], NULL, NULL);
        for (unsigned n = 0; n < 100; n++) assert_int_equal(endpoint_send(&f->client, f->link, &n, sizeof n), MR_OK);
        assert_int_equal(endpoint_send_body(&f->client, f->link, span_of("h", 1), span_of(body, 20 * MB)), MR_OK);
        f->client.wire.ops->close(f->client.wire.self, f->link);
        f->client.wire.ops->close(f->client.wire.self, f->link); /* once is enough */
        assert_int_equal(endpoint_send(&f->client, f->link, "x", 1), MR_CLOSED);
        WAIT_FOR(f->loop, f->server.closed == 1 && f->client.closed == 1);
        assert_int_equal(f->server.messages, 101);
        assert_int_equal(f->server.why.status, MR_CLOSED);
        assert_int_equal(f->client.why.status, MR_CLOSED);
        assert_int_equal(f->client.sent, 1);
        assert_int_equal(f->client.sent_status, MR_OK);
        both_down(f);
        assert_int_equal(f->server.closed, 1);
        assert_int_equal(f->client.closed, 1);
    }
    free(body);
}

static void close_at_once(endpoint *endpoint, link_id link) { endpoint->wire.ops->close(endpoint->wire.self, link); }
static void close_on_message(endpoint *endpoint, link_id link, const message *message) {
    close_at_once(endpoint, link);
}
static void *close_on_body(endpoint *endpoint, link_id link, span head, uint64_t size) {
    close_at_once(endpoint, link);
    return NULL;
}

static void a_link_may_be_closed_inside_its_events(void **state) {
    fixture *f = *state;
    uint8_t *body = xcalloc(1, 5 * MB);
    for (int i = 0; i < 4; i++) {
        start(f, f->addresses[i % 3], NULL, NULL);
        if (i == 0) f->server.on_open = close_at_once;
        if (i == 1) f->client.on_open = close_at_once;
        if (i == 2) f->server.on_message = close_on_message;
        if (i == 3) f->server.on_body = close_on_body;
        f->link = endpoint_connect(&f->client, f->server.address);
        WAIT_FOR(f->loop, f->client.opened == 1);
        if (i == 2)
            for (int n = 0; n < 10; n++) assert_int_equal(endpoint_send(&f->client, f->link, "x", 1), MR_OK);
        if (i == 3)
            assert_int_equal(endpoint_send_body(&f->client, f->link, span_of("h", 1), span_of(body, 5 * MB)), MR_OK);
        WAIT_FOR(f->loop, f->client.closed == 1 && f->server.closed == 1);
        assert_int_equal(f->client.why.status, MR_CLOSED);
        assert_int_equal(f->server.why.status, MR_CLOSED);
        assert_int_equal(f->server.messages, i == 2 ? 1 : 0); /* nothing comes after close() */
        assert_int_equal(f->client.sent, i == 3 ? 1 : 0);
        both_down(f);
    }
    free(body);
}

static void both_may_close_at_once(void **state) {
    fixture *f = *state;
    for (int i = 0; i < 3; i++) {
        link_up(f, f->addresses[i], NULL, NULL);
        close_at_once(&f->client, f->link);
        close_at_once(&f->server, f->server.link);
        WAIT_FOR(f->loop, f->client.closed == 1 && f->server.closed == 1);
        assert_int_equal(f->client.why.status, MR_CLOSED);
        assert_int_equal(f->server.why.status, MR_CLOSED);
        both_down(f);
    }
}

static void lingering_has_an_end(void **state) {
    fixture *f = *state;
    two_loops two;
    stream_options options = {.heartbeat_us = -1, .linger_us = 20000};
    link_two_loops(f, &two, &options, &options);
    uint8_t *body = xcalloc(1, 64 * MB);
    assert_int_equal(endpoint_send_body(&f->client, two.link, span_of("h", 1), span_of(body, 64 * MB)), MR_OK);
    int64_t start_us = clock_now_us(clock_real());
    close_at_once(&f->client, two.link);
    WAIT_FOR(f->loop, f->client.closed == 1);
    int64_t took_us = clock_now_us(clock_real()) - start_us;
    assert_true(took_us >= 20000 && took_us < 2000000);
    assert_int_equal(f->client.why.status, MR_CLOSED);
    assert_non_null(strstr(f->client.why.text, "could not be sent in time"));
    assert_int_equal(f->client.sent, 1);
    assert_int_equal(f->client.sent_status, MR_CLOSED);
    WAIT_FOR(two.other, f->server.closed == 1);
    assert_int_equal(f->server.why.status, MR_PEER_DIED);
    unlink_two_loops(f, &two);
    free(body);
}

static void closing_the_stream_ends_every_link(void **state) {
    fixture *f = *state;
    start(f, f->addresses[0], NULL, NULL);
    for (int i = 0; i < 10; i++) endpoint_connect(&f->client, f->server.address);
    WAIT_FOR(f->loop, f->server.opened == 10 && f->client.opened == 10);
    uint8_t *body = xcalloc(1, 64 * MB);
    assert_int_equal(endpoint_send_body(&f->client, f->client.link, span_of("h", 1), span_of(body, 64 * MB)), MR_OK);
    assert_int_equal(endpoint_send(&f->server, f->server.link, "last words", 10), MR_OK);
    endpoint_close(&f->server);
    assert_int_equal(f->server.closed, 10);
    assert_int_equal(f->server.why.status, MR_CLOSED);
    WAIT_FOR(f->loop, f->client.closed == 10);
    assert_int_equal(f->client.why.status, MR_CLOSED);
    assert_int_equal(f->client.messages, 1);
    assert_int_equal(f->client.sent, 1);
    free(body);
}

/* The server has not read what the client sent. Its last words arrive all the same. */
static void last_words_are_not_lost_in_a_reset(void **state) {
    fixture *f = *state;
    two_loops two;
    stream_options options = {.send_high = 8 * MB};
    link_two_loops(f, &two, &options, NULL);
    uint8_t head[10000] = {0};
    for (int i = 0; i < 15; i++) assert_int_equal(endpoint_send(&f->client, two.link, head, sizeof head), MR_OK);
    f->client.wire.ops->flush(f->client.wire.self);
    for (int i = 0; i < 100; i++) assert_int_equal(endpoint_send(&f->server, f->server.link, head, sizeof head), MR_OK);
    endpoint_close(&f->server);
    WAIT_FOR(f->loop, f->client.closed == 1);
    assert_int_equal(f->client.why.status, MR_CLOSED);
    assert_int_equal(f->client.messages, 100);
    unlink_two_loops(f, &two);
}

static void reconnect(endpoint *endpoint, link_id link, const cause *why) {
    endpoint_connect(endpoint, endpoint->user);
}

static void closing_the_stream_ends_although_its_owner_opens_links(void **state) {
    fixture *f = *state;
    start(f, f->addresses[0], NULL, NULL);
    f->client.on_closed = reconnect;
    f->client.user = f->server.address;
    f->link = endpoint_connect(&f->client, f->server.address);
    WAIT_FOR(f->loop, f->client.opened == 1);
    endpoint_close(&f->client);
    assert_int_equal(f->client.closed, 1);
}

static void an_old_id_is_recognised(void **state) {
    fixture *f = *state;
    uint8_t *place;
    link_up(f, f->addresses[0], NULL, NULL);
    link_id old = f->link;
    close_at_once(&f->client, old);
    WAIT_FOR(f->loop, f->client.closed == 1);
    f->link = endpoint_connect(&f->client, f->server.address);
    WAIT_FOR(f->loop, f->client.opened == 2 && f->server.opened == 2);
    assert_int_not_equal(f->link.v, old.v);
    transport wire = f->client.wire;
    assert_int_equal(wire.ops->reserve(wire.self, old, 1, &place), MR_CLOSED);
    wire.ops->commit(wire.self, old, 1);
    wire.ops->commit_body(wire.self, old, 1, span_of("x", 1), endpoint_sent, &f->client);
    assert_int_equal(f->client.sent_status, MR_CLOSED);
    wire.ops->close(wire.self, old);
    wire.ops->discard(wire.self, old);
    wire.ops->close(wire.self, (link_id){0});
    assert_int_equal(endpoint_send(&f->client, f->link, "x", 1), MR_OK);
    WAIT_FOR(f->loop, f->server.messages == 1);
    assert_int_equal(f->client.closed, 1);
}

/* A body is told exactly once, however its link ends. */
static void every_body_is_told_once(void **state) {
    fixture *f = *state;
    enum { BODIES = 20 };
    uint8_t *body = xcalloc(1, MB);
    for (int way = 0; way < 5; way++) {
        two_loops two;
        stream_options options = {.heartbeat_us = -1, .linger_us = 10000, .send_high = 1000 * MB};
        if (way == 3) options.heartbeat_us = 10000, options.heartbeat_misses = 2;
        link_two_loops(f, &two, &options, &options);
        for (int i = 0; i < BODIES; i++)
            assert_int_equal(endpoint_send_body(&f->client, two.link, span_of("h", 1), span_of(body, MB)), MR_OK);
        for (int i = 0; i < 10; i++) loop_run_once(f->loop, 0);
        assert_true(f->client.sent < BODIES);
        if (way == 0) close_at_once(&f->client, two.link);
        if (way == 1) endpoint_close(&f->server);
        if (way == 2) close_at_once(&f->server, f->server.link);
        if (way == 4) endpoint_close(&f->client);
        int64_t give_up_us = clock_now_us(clock_real()) + ENDPOINT_PATIENCE_US;
        while (f->client.closed == 0 && clock_now_us(clock_real()) < give_up_us) {
            loop_run_once(f->loop, 1000);
            if (way == 2) loop_run_once(two.other, 0);
        }
        assert_int_equal(f->client.closed, 1);
        assert_int_equal(f->client.sent, BODIES);
        if (way != 2) assert_true(f->client.sent_failed > 0);
        for (int i = 0; i < 10; i++) loop_run_once(f->loop, 0);
        assert_int_equal(f->client.sent, BODIES);
        unlink_two_loops(f, &two);
        assert_int_equal(f->client.sent, BODIES);
    }
    free(body);
}

static void thousands_of_links_leave_nothing(void **state) {
    fixture *f = *state;
    enum { ROUNDS = 20, LINKS = 150 };
    for (int i = 0; i < 3; i++) {
        start(f, f->addresses[i], NULL, NULL);
        size_t fds = open_fd_count();
        static link_id links[LINKS];
        for (int round = 1; round <= ROUNDS; round++) {
            for (int n = 0; n < LINKS; n++) links[n] = endpoint_connect(&f->client, f->server.address);
            WAIT_FOR(f->loop, f->client.opened == (unsigned)(round * LINKS) && f->server.opened == f->client.opened);
            for (int n = 0; n < LINKS; n++) {
                assert_int_equal(endpoint_send(&f->client, links[n], "hi", 2), MR_OK);
                if (n % 2 == 0) close_at_once(&f->client, links[n]);
            }
            WAIT_FOR(f->loop, f->server.messages == (unsigned)(round * LINKS));
            for (int n = 1; n < LINKS; n += 2) close_at_once(&f->client, links[n]);
            WAIT_FOR(f->loop, f->client.closed == f->client.opened && f->server.closed == f->server.opened);
        }
        assert_int_equal(open_fd_count(), fds);
        assert_int_equal(stream_stats_now(f->server.stream).links, 0);
        assert_int_equal(stream_stats_now(f->server.stream).strangers, 0);
        both_down(f);
    }
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(both_sides_learn_who_the_other_is),
        TEST(nothing_is_sent_before_it_is_open),
        TEST(nobody_listens),
        TEST(a_link_may_be_closed_while_it_opens),
        TEST(messages_come_in_order_and_leave_together),
        TEST(flush_sends_without_the_loop),
        TEST(heads_of_every_size_arrive),
        TEST(bodies_arrive_where_they_shall),
        TEST(checked_bodies_arrive_too),
        TEST(without_memory_a_small_body_is_lent),
        TEST(many_bodies_and_messages_keep_their_order),
        TEST(a_refused_body_ends_the_link),
        TEST(a_body_over_the_limit_is_not_even_asked_for),
        TEST(an_unwanted_body_is_thrown_away),
        TEST(a_body_may_be_given_up_on_its_way),
        TEST(a_peer_that_does_not_read_makes_the_link_busy),
        TEST(one_who_always_has_more_starves_nobody),
        TEST(the_loop_does_not_wait_with_words_unsent),
        TEST(a_silent_peer_is_noticed),
        TEST(idle_peers_stay_together),
        TEST(heartbeats_do_not_disturb_a_reservation),
        TEST(who_was_stopped_itself_blames_nobody),
        TEST(an_answer_that_is_not_read_yet_counts),
        TEST(a_slow_body_is_no_silence),
        TEST(close_sends_what_was_committed),
        TEST(a_link_may_be_closed_inside_its_events),
        TEST(both_may_close_at_once),
        TEST(lingering_has_an_end),
        TEST(closing_the_stream_ends_every_link),
        TEST(last_words_are_not_lost_in_a_reset),
        TEST(closing_the_stream_ends_although_its_owner_opens_links),
        TEST(an_old_id_is_recognised),
        TEST(every_body_is_told_once),
        TEST(thousands_of_links_leave_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
