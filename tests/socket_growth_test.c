/* socket_growth_test.c — links through shared memory whose rings are full: they grow, within bounds, or continue
 * without growing; peers that pass invalid descriptors are rejected. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/failpoint.h"
#include "base/rng.h"
#include "net/frame.h"
#include "net/socket/handshake.h"
#include "net/socket/shm_pipe.h"
#include "net/socket/socket.h"
#include "net/socket/socket_internal.h"
#include "tests/support/socket_pair.h"

enum { MB = 1 << 20, LARGE = 20 * MB };
static const socket_transport_options patient = {.heartbeat_us = -1, .send_high = 64 * MB};

static uint8_t *noise(size_t size, uint64_t seed) {
    uint8_t *bytes = xmalloc(size);
    rng rng;
    rng_init(&rng, seed);
    rng_fill(&rng, bytes, size);
    return bytes;
}

static socket_transport_stats stats(const socket_end *end) { return socket_transport_stats_now(end->transport); }

/* Runs both loops in turn until the condition holds. */
#define BOTH_UNTIL(pair, condition)                                                \
    do {                                                                           \
        int64_t give_up_us_ = clock_now_us(clock_real()) + SOCKET_END_PATIENCE_US; \
        while (!(condition) && clock_now_us(clock_real()) < give_up_us_) {         \
            event_loop_run_once((pair)->loop, 100);                                \
            event_loop_run_once((pair)->other, 100);                               \
        }                                                                          \
        assert_true(condition);                                                    \
    } while (0)

static void send_large(socket_end *from, link_id link, const uint8_t *body) {
    assert_int_equal(socket_end_send_body(from, link, span_of("h", 1), span_of(body, LARGE)), MR_OK);
}

/* Both directions at once. The second time no descriptor is passed. */
static void a_large_body_makes_its_ring_grow(void **state) {
    socket_pair *pair = *state;
    uint8_t *there = noise(LARGE, 1), *back = noise(LARGE, 2);
    socket_pair_link_apart(pair, &patient, &patient);
    for (unsigned i = 1; i <= 2; i++) {
        send_large(&pair->client, pair->link, there);
        BOTH_UNTIL(pair, pair->server.messages == 2 * i - 1);
        assert_memory_equal(pair->server.body, there, LARGE);
        assert_int_equal(stats(&pair->client).large_rings, i == 1 ? 1 : 2);
        assert_int_equal(stats(&pair->server).large_rings, i == 1 ? 1 : 2);
        send_large(&pair->client, pair->link, there);
        send_large(&pair->server, pair->server.link, back);
        BOTH_UNTIL(pair, pair->server.messages == 2 * i && pair->client.messages == i);
        assert_memory_equal(pair->server.body, there, LARGE);
        assert_memory_equal(pair->client.body, back, LARGE);
        assert_true(stats(&pair->client).turns > 0 && stats(&pair->server).turns > 0);
    }
    assert_int_equal(pair->client.closed + pair->server.closed, 0);
    socket_pair_down(pair);
    free(there);
    free(back);
}

static void small_messages_do_not_make_it_grow(void **state) {
    enum { MESSAGES = 3000, SIZE = 4000 };
    socket_pair *pair = *state;
    uint8_t head[SIZE] = {0};
    socket_pair_link_apart(pair, &patient, &patient);
    for (int i = 0; i < MESSAGES; i++)
        assert_int_equal(socket_end_send(&pair->client, pair->link, head, sizeof head), MR_OK);
    BOTH_UNTIL(pair, pair->server.messages == MESSAGES);
    assert_int_equal(stats(&pair->client).large_rings + stats(&pair->server).large_rings, 0);
    socket_pair_down(pair);
}

/* Messages of both kinds arrive in their order, whichever ring carries them. */
static void expect_next(socket_end *end, link_id link, const message *message) {
    unsigned number;
    assert_int_equal(message->head.size, sizeof number);
    memcpy(&number, message->head.data, sizeof number);
    assert_int_equal(number, end->messages);
    for (size_t i = 0; i < message->body.size; i += 4096) assert_int_equal(message->body.data[i], (uint8_t)number);
}

static void small_and_large_stay_in_order(void **state) {
    enum { MESSAGES = 400 };
    socket_pair *pair = *state;
    uint8_t *bodies = xmalloc((size_t)16 * 2 * MB);
    rng rng;
    socket_pair_link_apart(pair, &patient, &patient);
    pair->server.on_message = expect_next;
    rng_init(&rng, 3);
    for (unsigned i = 1; i <= MESSAGES; i++) {
        size_t size = rng_chance(&rng, 0.9) ? 0 : 2 * MB;
        uint8_t *body = bodies + (size_t)(i % 16) * 2 * MB;
        memset(body, (int)(i & 255), size);
        mr_status status =
            size == 0 ? socket_end_send(&pair->client, pair->link, &i, sizeof i)
                      : socket_end_send_body(&pair->client, pair->link, span_of(&i, sizeof i), span_of(body, size));
        assert_int_equal(status, MR_OK);
        if (rng_chance(&rng, 0.2)) event_loop_run_once(pair->loop, 0);
        if (rng_chance(&rng, 0.2)) event_loop_run_once(pair->other, 0);
        if (i % 16 == 15) BOTH_UNTIL(pair, pair->server.messages == i); /* the next messages need this memory */
    }
    BOTH_UNTIL(pair, pair->server.messages == MESSAGES);
    assert_true(stats(&pair->client).turns > 0);
    socket_pair_down(pair);
    free(bodies);
}

/* ---- Without growth. */

static void expect_body_in_small_rings(socket_pair *pair) {
    uint8_t *body = noise(LARGE, 4);
    socket_pair_link_apart(pair, &patient, &patient);
    send_large(&pair->client, pair->link, body);
    BOTH_UNTIL(pair, pair->server.messages == 1);
    assert_memory_equal(pair->server.body, body, LARGE);
    assert_int_equal(stats(&pair->client).large_rings + stats(&pair->server).large_rings, 0);
    assert_int_equal(stats(&pair->client).turns, 0);
    socket_pair_down(pair);
    free(body);
}

static void where_there_is_no_memory_the_link_goes_on(void **state) {
    socket_pair *pair = *state;
    if (failpoint_count() == 0) skip();
    static const char *const refusals[] = {"annex.back=error", "annex.map=error", "annex.map=error@2"};
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        assert_int_equal(failpoint_arm(refusals[i]), MR_OK);
        expect_body_in_small_rings(pair);
        failpoint_disarm_all();
    }
}

/* When there are many links, the surplus ones have small rings. Closed links make room for more large rings. */
static void large_rings_are_bounded(void **state) {
    enum { LINKS = SOCKET_LARGE_RINGS_MAX + 4, SIZE = 2 * MB };
    socket_pair *pair = *state;
    link_id links[LINKS];
    uint8_t *body = xcalloc(1, SIZE);
    socket_pair_link_apart(pair, &patient, &patient);
    links[0] = pair->link;
    for (int i = 1; i < LINKS; i++) links[i] = socket_end_connect(&pair->client, pair->server.address);
    BOTH_UNTIL(pair, pair->client.opened == LINKS && pair->server.opened == LINKS);
    for (int i = 0; i < LINKS; i++)
        assert_int_equal(socket_end_send_body(&pair->client, links[i], span_of("h", 1), span_of(body, SIZE)), MR_OK);
    BOTH_UNTIL(pair, pair->server.messages == LINKS);
    assert_int_equal(stats(&pair->client).large_rings, SOCKET_LARGE_RINGS_MAX);
    assert_int_equal(stats(&pair->server).large_rings, SOCKET_LARGE_RINGS_MAX);
    for (int i = 0; i < LINKS; i++) pair->client.wire.ops->close(pair->client.wire.self, links[i]);
    BOTH_UNTIL(pair, pair->client.closed == LINKS && pair->server.closed == LINKS);
    assert_int_equal(stats(&pair->client).large_rings + stats(&pair->server).large_rings, 0);
    socket_pair_down(pair);
    free(body);
}

/* ---- Idle links. */

/* Blocks of the only large ring that this process has created; the reader of the ring keeps no descriptor. */
static int64_t large_ring_blocks(void) {
    int64_t found = -1;
    DIR *folder = opendir("/proc/self/fd");
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        char text[64];
        struct stat file;
        ssize_t size = readlinkat(dirfd(folder), entry->d_name, text, sizeof text - 1);
        if (size <= 0) continue;
        text[size] = '\0';
        if (strstr(text, "miniray-annex") == NULL || fstat(atoi(entry->d_name), &file) != 0) continue;
        assert_int_equal(found, -1);
        found = file.st_blocks;
    }
    closedir(folder);
    return found;
}

static void an_unneeded_large_ring_returns_its_memory(void **state) {
    socket_pair *pair = *state;
    socket_transport_options often = patient;
    often.heartbeat_us = 100000;
    often.heartbeat_misses = 1000;
    uint8_t *body = noise(LARGE, 5);
    socket_pair_link_apart(pair, &often, &often);
    for (unsigned i = 1; i <= 2; i++) {
        send_large(&pair->client, pair->link, body);
        BOTH_UNTIL(pair, pair->server.messages == i);
        assert_memory_equal(pair->server.body, body, LARGE);
        assert_int_equal(large_ring_blocks(), LARGE_RING_CAPACITY / 512);
        BOTH_UNTIL(pair, large_ring_blocks() == 0);
        assert_int_equal(stats(&pair->client).large_rings, 1);
    }
    socket_pair_down(pair);
    free(body);
}

/* ---- Hostile peers. */

/* A client that passes a shm pipe and sends HELLO by plain system calls. */
typedef struct liar {
    int fd;
    shm_pipe *pipe;
    uint64_t *words; /* of the shm pipe, see shm_pipe.h */
} liar;

static liar greet(socket_pair *pair) {
    uint8_t bytes[FRAME_HEADER_SIZE + HANDSHAKE_HELLO_MAX];
    const peer self = {.process = 77, .pid = 1, .name = "liar"};
    size_t size = handshake_hello_encode(bytes + FRAME_HEADER_SIZE, &(handshake_hello){.peer = self});
    frame_encode_header(bytes, &(frame){.kind = FRAME_HELLO, .head = span_of(bytes + FRAME_HEADER_SIZE, size)});
    liar liar = {.fd = raw_connect(pair->server.address)};
    struct iovec piece = {bytes, FRAME_HEADER_SIZE + size};
    unsigned opened = pair->server.opened;
    int passed;
    assert_true(liar.fd >= 0);
    assert_int_equal(shm_pipe_create(&liar.pipe, &passed), MR_OK);
    liar.words = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, passed, 0);
    assert_true(liar.words != MAP_FAILED);
    assert_int_equal(socket_pass(liar.fd, &piece, 1, &passed, 1), (ssize_t)piece.iov_len);
    close(passed);
    WAIT_FOR(pair->loop, pair->server.opened == opened + 1);
    assert_true(shm_pipe_is_joined(liar.pipe));
    return liar;
}

static void pass(const liar *liar, const int *fds, size_t count) {
    struct iovec byte = {(char[]){0}, 1};
    assert_int_equal(socket_pass(liar->fd, &byte, 1, fds, count), 1);
}

static void pass_large_ring(socket_pair *pair, liar *liar, int *fd) {
    assert_int_equal(shm_pipe_offer(liar->pipe, fd), MR_OK);
    pass(liar, fd, 1);
    WAIT_FOR(pair->loop, stats(&pair->server).large_rings == 1);
}

static void expect_end(socket_pair *pair, liar *liar, mr_status status, const char *text) {
    WAIT_FOR(pair->loop, pair->server.closed == pair->server.opened);
    assert_int_equal(pair->server.why.status, status);
    if (strstr(pair->server.why.text, text) == NULL) fail_msg("%s", pair->server.why.text);
    assert_int_equal(stats(&pair->server).large_rings, 0);
    munmap(liar->words, 4096);
    shm_pipe_close(liar->pipe);
    close(liar->fd);
}

static void serve(socket_pair *pair) {
    const socket_transport_options options = {.shares = true};
    assert_true(socket_end_open(&pair->server, pair->loop, &options));
    assert_true(socket_end_listen(&pair->server, pair->addresses[0]));
}

static void a_peer_that_passes_another_descriptor_is_rejected(void **state) {
    socket_pair *pair = *state;
    int large_ring, pipes[2];
    serve(pair);
    assert_int_equal(pipe(pipes), 0);
    liar liar = greet(pair);
    pass(&liar, pipes, 1);
    expect_end(pair, &liar, MR_CORRUPT, "which is not a large ring of a shm pipe");

    liar = greet(pair); /* two descriptors at once */
    pass(&liar, pipes, 2);
    expect_end(pair, &liar, MR_CORRUPT, "'liar' sent 2 descriptors; expected 1");

    liar = greet(pair); /* two descriptors, one after the other */
    pass_large_ring(pair, &liar, &large_ring);
    pass(&liar, &large_ring, 1);
    expect_end(pair, &liar, MR_CORRUPT, "'liar' sent a second large ring");
    close(pipes[0]);
    close(pipes[1]);
}

static void a_peer_that_switches_rings_wrongly_is_rejected(void **state) {
    enum { HEAD = 64 / 8, TURN_TO_LARGE_RING = 80 / 8 };
    socket_pair *pair = *state;
    int large_ring;
    serve(pair);
    liar liar = greet(pair); /* a switch to a large ring that was not passed */
    liar.words[TURN_TO_LARGE_RING] = 1;
    liar.words[HEAD] = 2;
    pass(&liar, NULL, 0);
    expect_end(pair, &liar, MR_CORRUPT, "malformed data from 'liar' in shared memory");

    liar = greet(pair); /* a switch at a position that is far away */
    pass_large_ring(pair, &liar, &large_ring);
    liar.words[TURN_TO_LARGE_RING] = UINT64_C(1) << 40;
    liar.words[HEAD] = 2;
    pass(&liar, NULL, 0);
    expect_end(pair, &liar, MR_CORRUPT, "malformed data from 'liar' in shared memory");

    liar = greet(pair); /* a peer that dies after the switch, before it has written */
    pass_large_ring(pair, &liar, &large_ring);
    liar.words[TURN_TO_LARGE_RING] = 1;
    assert_int_equal(shutdown(liar.fd, SHUT_RDWR), 0);
    expect_end(pair, &liar, MR_PEER_DIED, "lost 'liar'");
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, socket_pair_setup_shared, socket_pair_teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_large_body_makes_its_ring_grow),
        TEST(small_messages_do_not_make_it_grow),
        TEST(small_and_large_stay_in_order),
        TEST(where_there_is_no_memory_the_link_goes_on),
        TEST(large_rings_are_bounded),
        TEST(an_unneeded_large_ring_returns_its_memory),
        TEST(a_peer_that_passes_another_descriptor_is_rejected),
        TEST(a_peer_that_switches_rings_wrongly_is_rejected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
