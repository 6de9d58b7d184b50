/* socket_fuzz_test.c — random and mutated frames on a live socket.
 *
 * A child serves; this process sends it MINIRAY_FUZZ_FRAMES frames (200,000; the soak sends 10,000,000), from the seed
 * MINIRAY_FUZZ_SEED. A connection carries frames that are odd but valid (random sizes, heads and bodies, checksums over
 * changed bytes) until an invalid one: flipped bits, wrong fields with right checksums, random bytes, half a frame.
 * Some connections never send HELLO, some stay open in the middle of a frame. The server must not crash, must refuse
 * invalid frames, must deliver valid ones, must not grow, and must serve a good client afterwards. */
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
    memcpy(t->batch + t->size, data, size);
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
    if (greets && !raw_hello(fd)) return close(fd), false;
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
        if (t->lingering[i] < 0 || !raw_hello(t->lingering[i])) return false;
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

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(frames_of_every_kind_on_a_live_socket)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
