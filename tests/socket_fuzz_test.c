/* socket_fuzz_test.c — random and mutated frames on a live tcp port, with and without the token.
 *
 * A child serves; each test sends it MINIRAY_FUZZ_FRAMES frames (200,000; the soak sends 10,000,000), from the seed
 * MINIRAY_FUZZ_SEED.
 *
 * With the token, a connection carries frames that are odd but valid (random sizes, heads and bodies, checksums over
 * changed bytes) until an invalid one: flipped bits, wrong fields with right checksums, random bytes, half a frame.
 * Some connections never send HELLO, some stay open in the middle of a frame. The server must not crash, must refuse
 * invalid frames, must deliver valid ones, must not grow, and must serve a good client afterwards.
 *
 * Without the token, a connection carries HELLO, valid or mutated, and forged proofs: random bytes, the proof of
 * another token, a right proof with one wrong bit or for another address, HELLO and PROOF of an earlier valid link; and
 * then frames of every kind. No link may open, and no message may be delivered. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "net/frame.h"
#include "net/socket/handshake.h"
#include "net/socket/socket_transport.h"
#include "tests/support/socket_end.h"
#include "tests/support/test_child.h"

enum {
    BATCH = 128 * 1024,          /* bytes written at once */
    BODY_TAKEN_MAX = 256 * 1024, /* larger bodies are refused */
    LINGERING = 64,              /* connections that stay open in the middle of a frame */
    STRANGERS_MAX = 100,
    GROWTH_MAX_KB = 100 * 1024, /* maximal growth of the server's memory */
};

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { MEMORY_FACTOR = 8 }; /* a sanitizer delays frees, and needs shadow memory */
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
enum { MEMORY_FACTOR = 8 };
#else
enum { MEMORY_FACTOR = 1 };
#endif
#else
enum { MEMORY_FACTOR = 1 };
#endif

/* ---- The server. */

typedef struct shared { /* shared memory of both processes */
    char address[ADDRESS_TEXT_MAX];
    _Atomic bool listening, quit;
    _Atomic uint64_t messages, opened, closed, corrupt, refused;
    _Atomic uint32_t strangers_peak, links_peak;
} shared;

static void *take_body(socket_end *end, link_id link, span head, uint64_t size) {
    if (size > BODY_TAKEN_MAX) return NULL;
    return size % 7 == 0 ? BODY_DISCARD : end->body;
}

static void echo(socket_end *end, link_id link, const message *message) {
    if (message->head.size >= 4 && memcmp(message->head.data, "echo", 4) == 0)
        (void)socket_end_send(end, link, message->head.data, message->head.size);
}

static void note_end(socket_end *end, link_id link, const cause *why) {
    shared *shared = end->user;
    if (why->status == MR_CORRUPT || why->status == MR_TOO_LARGE || why->status == MR_DENIED) shared->corrupt++;
}

static int serve(void *argument) {
    shared *shared = argument;
    event_loop *loop;
    socket_end server;
    socket_transport_options options = {.strangers_max = STRANGERS_MAX};
    TEST_CHILD_CHECK(event_loop_create(&loop) == MR_OK && socket_end_open(&server, loop, &options));
    TEST_CHILD_CHECK(socket_end_listen(&server, "tcp:127.0.0.1:0"));
    server.user = shared;
    server.body = xmalloc(BODY_TAKEN_MAX);
    server.on_body = take_body;
    server.on_message = echo;
    server.on_closed = note_end;
    memcpy(shared->address, server.address, sizeof shared->address);
    shared->listening = true;
    while (!shared->quit) {
        event_loop_run_once(loop, 50000);
        socket_transport_stats stats = socket_transport_stats_now(server.transport);
        if (stats.strangers > shared->strangers_peak) shared->strangers_peak = stats.strangers;
        if (stats.links > shared->links_peak) shared->links_peak = stats.links;
        shared->messages = server.messages;
        shared->opened = server.opened;
        shared->closed = server.closed;
        shared->refused = stats.refused;
    }
    TEST_CHILD_CHECK(server.closed <= server.opened);
    socket_end_close(&server);
    TEST_CHILD_CHECK(server.closed == server.opened);
    event_loop_destroy(loop);
    return 0;
}

static size_t memory_kb(pid_t pid, const char *field) {
    char path[64], line[256];
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "re");
    size_t kb = 0;
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, field, strlen(field)) == 0) kb = strtoul(line + strlen(field), NULL, 10);
    if (file != NULL) fclose(file);
    return kb;
}

/* ---- Valid and invalid frames. */

typedef struct thrower {
    rng rng;
    uint8_t *batch;
    size_t size;
    uint8_t noise[4096];
    uint64_t frames, bad, connections;
    int lingering[LINGERING];
} thrower;

static size_t below(thrower *t, uint64_t bound) { return (size_t)rng_below(&t->rng, bound); }

static void put(thrower *t, const void *data, size_t size) {
    if (size > 0) memcpy(t->batch + t->size, data, size);
    t->size += size;
}

/* Adds noise of any size, a few bytes that repeat. */
static void put_noise(thrower *t, size_t size) {
    while (size > 0) {
        size_t from = below(t, sizeof t->noise), part = sizeof t->noise - from;
        if (part > size) part = size;
        put(t, t->noise + from, part);
        size -= part;
    }
}

static void put_header(thrower *t, frame_header *header, span head) {
    header->checksum = frame_checksum(header, head);
    put(t, header, sizeof *header);
    put(t, head.data, head.size);
}

static span random_head(thrower *t) {
    static const uint64_t bounds[] = {1, 9, 65, 300, 4096};
    size_t size = below(t, bounds[below(t, 5)]);
    return span_of(t->noise + below(t, sizeof t->noise - size), size);
}

/* Adds a valid frame, after which the link stays. */
static void put_good(thrower *t) {
    frame_header header = {.magic = FRAME_MAGIC, .version = FRAME_VERSION};
    static const uint8_t kinds[] = {FRAME_MESSAGE, FRAME_MESSAGE, FRAME_MESSAGE, FRAME_PING, FRAME_PONG};
    header.kind = kinds[below(t, 5)];
    span head = random_head(t);
    header.head_size = (uint32_t)head.size;
    if (header.kind == FRAME_MESSAGE && rng_chance(&t->rng, 0.2)) {
        header.body_size = below(t, rng_chance(&t->rng, 0.05) ? 60000 : 300);
        put_header(t, &header, head);
        put_noise(t, (size_t)header.body_size);
    } else {
        put_header(t, &header, head);
    }
}

/* Adds a frame with one wrong field or wrong bits. A valid checksum lets the later checks run. */
static void put_bad(thrower *t) {
    frame_header header = {.magic = FRAME_MAGIC, .version = FRAME_VERSION, .kind = FRAME_MESSAGE};
    span head = random_head(t);
    header.head_size = (uint32_t)head.size;
    switch (below(t, 9)) {
    case 0: header.kind = (uint8_t)rng_next(&t->rng); break;
    case 1: header.flags = (uint16_t)rng_next(&t->rng); break;
    case 2: header.head_size = (uint32_t)rng_next(&t->rng); break;
    case 3: header.body_size = rng_next(&t->rng) >> below(t, 60); break;
    case 4: header.body_checksum = rng_next(&t->rng); break;
    case 5: header.version = (uint8_t)rng_next(&t->rng); break;
    case 6: header.magic ^= 1u << below(t, 32); break;
    case 7: header.kind = FRAME_HELLO; break;
    default: put_noise(t, 1 + below(t, 200)); return;
    }
    put_header(t, &header, head);
    if (rng_chance(&t->rng, 0.5)) { /* flipped bits anywhere in the frame */
        size_t start = t->size - sizeof header - head.size;
        for (size_t n = 1 + below(t, 3); n > 0; n--)
            t->batch[start + below(t, sizeof header + head.size)] ^= (uint8_t)(1u << below(t, 8));
    }
}

static int connect_to(thrower *t, const char *address) {
    int fd = raw_connect(address);
    if (fd < 0) return -1;
    t->connections++;
    return fd;
}

/* Runs one connection: its frames, valid ones first. */
static bool throw_connection(thrower *t, const char *address) {
    int fd = connect_to(t, address);
    if (fd < 0) return false;
    bool greets = rng_chance(&t->rng, 0.9);
    if (greets && !raw_handshake(fd, address)) return close(fd), false;
    t->size = 0;
    for (size_t good = greets ? below(t, 100) : 0; good > 0 && t->size < BATCH - 70000; good--, t->frames++)
        put_good(t);
    for (size_t bad = 1 + below(t, 3); bad > 0; bad--, t->frames++, t->bad++) put_bad(t);
    bool half = rng_chance(&t->rng, 0.1);
    if (half) t->size -= below(t, t->size);
    (void)raw_send(fd, t->batch, t->size); /* the server may close the connection during the send */
    if (half) {
        size_t place = below(t, LINGERING);
        if (t->lingering[place] >= 0) close(t->lingering[place]);
        t->lingering[place] = fd;
    } else {
        close(fd);
    }
    return true;
}

/* Sends half a head of the largest size on many links at once, which makes the server hold its maximum. */
static bool hold_heads(thrower *t, const char *address) {
    for (int i = 0; i < LINGERING; i++) {
        if (t->lingering[i] >= 0) close(t->lingering[i]);
        t->lingering[i] = connect_to(t, address);
        frame_header header = {.magic = FRAME_MAGIC, .version = FRAME_VERSION, .kind = FRAME_MESSAGE};
        header.head_size = MESSAGE_HEAD_MAX;
        t->size = 0;
        put(t, &header, sizeof header);
        put_noise(t, BATCH - sizeof header);
        if (t->lingering[i] < 0 || !raw_handshake(t->lingering[i], address)) return false;
        if (!raw_send(t->lingering[i], t->batch, t->size)) return false;
    }
    return true;
}

static uint64_t from_environment(const char *name, uint64_t otherwise) {
    const char *text = getenv(name);
    return text == NULL || *text == '\0' ? otherwise : strtoull(text, NULL, 10);
}

/* ---- The test. */

static void keep_echo(socket_end *end, link_id link, const message *message) {
    end->user = message->head.size == 10 && memcmp(message->head.data, "echo 12345", 10) == 0 ? end : NULL;
}

static void expect_good_service(const char *address) {
    event_loop *loop;
    socket_end client;
    assert_int_equal(event_loop_create(&loop), MR_OK);
    assert_true(socket_end_open(&client, loop, NULL));
    client.on_message = keep_echo;
    link_id link = socket_end_connect(&client, address);
    WAIT_FOR(loop, client.opened == 1);
    assert_int_equal(socket_end_send(&client, link, "echo 12345", 10), MR_OK);
    WAIT_FOR(loop, client.messages == 1);
    assert_ptr_equal(client.user, &client);
    socket_end_close(&client);
    event_loop_destroy(loop);
}

static void frames_of_every_kind_on_a_live_socket(void **state) {
    uint64_t count = from_environment("MINIRAY_FUZZ_FRAMES", 200000), seed = from_environment("MINIRAY_FUZZ_SEED", 1);
    shared *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(shared, MAP_FAILED);
    pid_t pid = test_child_start(serve, shared);
    for (int i = 0; i < 6000 && !shared->listening; i++) usleep(10000);
    assert_true(shared->listening);
    expect_good_service(shared->address);
    size_t before_kb = memory_kb(pid, "VmRSS:");

    thrower *t = xcalloc(1, sizeof *t);
    rng_init(&t->rng, seed);
    rng_fill(&t->rng, t->noise, sizeof t->noise);
    t->batch = xmalloc(BATCH + 70000);
    for (int i = 0; i < LINGERING; i++) t->lingering[i] = -1;
    bool alive = true;
    while (alive && t->frames < count) alive = throw_connection(t, shared->address);
    alive = alive && hold_heads(t, shared->address);
    if (alive) expect_good_service(shared->address);
    size_t peak_kb = memory_kb(pid, "VmHWM:");
    for (int i = 0; i < LINGERING; i++)
        if (t->lingering[i] >= 0) close(t->lingering[i]);
    shared->quit = true;
    int code = test_child_wait(pid, 60000);
    print_message(
        "seed %llu: %llu frames (%llu bad) on %llu connections; server: %llu messages, %llu links, %llu ended "
        "for what was sent, %llu strangers refused; memory %zu KB, at most %zu KB\n",
        (unsigned long long)seed, (unsigned long long)t->frames, (unsigned long long)t->bad,
        (unsigned long long)t->connections, (unsigned long long)shared->messages, (unsigned long long)shared->opened,
        (unsigned long long)shared->corrupt, (unsigned long long)shared->refused, before_kb, peak_kb);
    assert_int_equal(code, 0);
    assert_true(alive);
    assert_true(t->frames >= count);
    assert_true(shared->messages > count / 10); /* valid frames are accepted */
    assert_true(shared->corrupt > t->connections / 4);
    assert_true(shared->refused > t->connections / 50); /* connections that never sent HELLO */
    assert_true(shared->strangers_peak <= STRANGERS_MAX);
    assert_true(peak_kb > 0 && peak_kb <= before_kb + MEMORY_FACTOR * GROWTH_MAX_KB);
    free(t->batch);
    free(t);
    munmap(shared, sizeof *shared);
}

/* ---- Without the token. */

typedef struct forger {
    thrower thrower;
    hmac *hmac;
    address address;
    uint8_t seen[2][HANDSHAKE_HELLO_MAX]; /* HELLO and PROOF that a client with the token has sent */
    size_t seen_sizes[2];
    uint64_t proofs; /* forged for the nonce of the server */
} forger;

static void put_frame(thrower *t, frame_kind kind, span head) {
    frame_header header = {.magic = FRAME_MAGIC, .version = FRAME_VERSION, .kind = (uint8_t)kind};
    header.head_size = (uint32_t)head.size;
    put_header(t, &header, head);
    t->frames++;
}

static handshake_hello random_hello(thrower *t) {
    handshake_hello hello = {.peer = {.process = rng_next(&t->rng) | 1, .pid = 7, .name = "forger"}};
    rng_fill(&t->rng, hello.nonce, sizeof hello.nonce);
    return hello;
}

/* The handshake of a client up to its PROOF, which is changed; false: the server does not answer. */
static bool forge_proof(forger *forger, int fd) {
    thrower *t = &forger->thrower;
    handshake_hello own = random_hello(t);
    address address = forger->address;
    token token = socket_end_token;
    handshake handshake;
    handshake_answer answer;
    frame_header header;
    uint8_t head[HANDSHAKE_HELLO_MAX];
    size_t way = below(t, 3);
    if (way == 0) token.bytes[below(t, TOKEN_SIZE)] ^= (uint8_t)(1 + below(t, 255));
    if (way == 1) address.v4.sin_port ^= (in_port_t)(1 + below(t, 65535));
    handshake_init(&handshake, HANDSHAKE_INITIATOR, &own, forger->hmac, &token, &address);
    t->frames++;
    if (!raw_frame(fd, FRAME_HELLO, handshake_own_hello(&handshake), 0)) return false;
    if (recv(fd, &header, sizeof header, MSG_WAITALL) != (ssize_t)sizeof header || header.kind != FRAME_HELLO ||
        header.head_size > sizeof head || recv(fd, head, header.head_size, MSG_WAITALL) != (ssize_t)header.head_size)
        return false;
    if (handshake_take(&handshake, FRAME_HELLO, span_of(head, header.head_size), &answer) != MR_OK) return false;
    if (way == 2) answer.bytes[below(t, HMAC_SIZE)] ^= (uint8_t)(1 << below(t, 8));
    put_frame(t, FRAME_PROOF, span_of(answer.bytes, sizeof answer.bytes));
    forger->proofs++;
    return true;
}

static void put_random_hello(thrower *t) {
    handshake_hello own = random_hello(t);
    uint8_t head[HANDSHAKE_HELLO_MAX];
    size_t size = handshake_hello_encode(head, &own);
    if (rng_chance(&t->rng, 0.3)) head[below(t, size)] ^= (uint8_t)(1 << below(t, 8));
    put_frame(t, FRAME_HELLO, span_of(head, size));
}

/* Runs one connection without the token. Each begins with something that is no valid handshake. */
static bool forge_connection(forger *forger) {
    thrower *t = &forger->thrower;
    char address[ADDRESS_TEXT_MAX];
    address_format(&forger->address, address);
    int fd = connect_to(t, address);
    if (fd < 0) return false;
    t->size = 0;
    bool alive = true;
    switch (below(t, 5)) {
    case 0: alive = forge_proof(forger, fd); break;
    case 1:
        for (int i = 0; i < 2; i++)
            put_frame(t, i == 0 ? FRAME_HELLO : FRAME_PROOF, span_of(forger->seen[i], forger->seen_sizes[i]));
        break;
    case 2:
        put_random_hello(t);
        put_frame(t, FRAME_PROOF, span_of(t->noise + below(t, 1000), HMAC_SIZE));
        break;
    case 3: put_random_hello(t); break;
    default: break;
    }
    for (size_t rest = 1 + below(t, 100); rest > 0 && t->size < BATCH - 70000; rest--, t->frames++) {
        if (rng_chance(&t->rng, 0.1))
            put_bad(t);
        else
            put_good(t);
    }
    put_frame(t, FRAME_BYE, span_of(NULL, 0)); /* without it a mutated HELLO might wait for its deadline */
    (void)raw_send(fd, t->batch, t->size);
    close(fd);
    return alive;
}

/* Keeps HELLO and PROOF of a client with the token, for repetition. */
static void see_a_valid_link(forger *forger) {
    char text[ADDRESS_TEXT_MAX];
    handshake_hello own = random_hello(&forger->thrower);
    handshake handshake;
    handshake_answer answer;
    frame_header header;
    uint8_t head[HANDSHAKE_HELLO_MAX];
    address_format(&forger->address, text);
    int fd = raw_connect(text);
    assert_true(fd >= 0);
    handshake_init(&handshake, HANDSHAKE_INITIATOR, &own, forger->hmac, &socket_end_token, &forger->address);
    span hello = handshake_own_hello(&handshake);
    assert_true(raw_frame(fd, FRAME_HELLO, hello, 0));
    memcpy(forger->seen[0], hello.data, forger->seen_sizes[0] = hello.size);
    while (handshake.state != HANDSHAKE_OPEN) {
        assert_int_equal(recv(fd, &header, sizeof header, MSG_WAITALL), sizeof header);
        assert_true(header.head_size <= sizeof head);
        assert_int_equal(recv(fd, head, header.head_size, MSG_WAITALL), header.head_size);
        frame_kind kind = (frame_kind)header.kind;
        assert_int_equal(handshake_take(&handshake, kind, span_of(head, header.head_size), &answer), MR_OK);
        if (!answer.proof) continue;
        assert_true(raw_frame(fd, FRAME_PROOF, span_of(answer.bytes, HMAC_SIZE), 0));
        memcpy(forger->seen[1], answer.bytes, forger->seen_sizes[1] = HMAC_SIZE);
    }
    close(fd);
}

static void no_frame_is_accepted_without_the_token(void **state) {
    uint64_t count = from_environment("MINIRAY_FUZZ_FRAMES", 200000), seed = from_environment("MINIRAY_FUZZ_SEED", 1);
    shared *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(shared, MAP_FAILED);
    pid_t pid = test_child_start(serve, shared);
    for (int i = 0; i < 6000 && !shared->listening; i++) usleep(10000);
    assert_true(shared->listening);
    forger *forger = xcalloc(1, sizeof *forger);
    thrower *t = &forger->thrower;
    rng_init(&t->rng, seed);
    rng_fill(&t->rng, t->noise, sizeof t->noise);
    t->batch = xmalloc(BATCH + 70000);
    assert_int_equal(hmac_open(&forger->hmac), MR_OK);
    assert_int_equal(address_parse(shared->address, &forger->address), MR_OK);
    see_a_valid_link(forger); /* opens a link, without a message */
    expect_good_service(shared->address);
    bool alive = true;
    while (alive && t->frames < count) alive = forge_connection(forger);
    if (alive) expect_good_service(shared->address);
    shared->quit = true;
    int code = test_child_wait(pid, 60000);
    print_message("seed %llu: %llu frames on %llu connections without the token, %llu forged proofs; server: %llu "
                  "messages, %llu links, %llu strangers refused\n",
                  (unsigned long long)seed, (unsigned long long)t->frames, (unsigned long long)t->connections,
                  (unsigned long long)forger->proofs, (unsigned long long)shared->messages,
                  (unsigned long long)shared->opened, (unsigned long long)shared->refused);
    assert_int_equal(code, 0);
    assert_true(alive);
    assert_true(t->frames >= count && forger->proofs > t->connections / 10);
    assert_int_equal(shared->opened, 3);                /* the valid link, and two good clients */
    assert_int_equal(shared->messages, 2);              /* one of each good client */
    assert_true(shared->refused >= t->connections - 1); /* the last one may still be unread */
    hmac_close(forger->hmac);
    free(t->batch);
    free(forger);
    munmap(shared, sizeof *shared);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(frames_of_every_kind_on_a_live_socket),
                                       cmocka_unit_test(no_frame_is_accepted_without_the_token)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
