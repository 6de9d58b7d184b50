/* broker_client_test.c — a broker and its clients in one process and one thread: every request, every answer, every
 * refusal, and no records left afterwards. */
#include "net/shm/broker_client.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/rng.h"
#include "net/shm/broker.h"
#include "net/shm/doorbell.h"
#include "net/shm/fd_packet.h"
#include "net/shm/ring.h"
#include "tests/support/broker_fixture.h"

#define MB (UINT64_C(1) << 20)

static broker_fixture house_;
static broker_fixture *const home = &house_;

static int set_up(void **state) { return broker_fixture_build(home); }
static int tear_down(void **state) { return broker_fixture_raze(home); }

static void open_broker(const broker_options *options) { assert_int_equal(broker_fixture_open(home, options), MR_OK); }

#define until(visitors, count, condition) assert_true(broker_fixture_until(home, visitors, count, condition))

static void assert_empty(void) { until(NULL, 0, broker_fixture_is_empty(home)); }

/* ---- Joining and leaving. */

static void a_client_connects_and_disconnects(void **state) {
    open_broker(NULL);
    size_t fds = broker_fixture_fds();
    visitor one;
    assert_int_equal(broker_fixture_join(home, &one, "one"), MR_OK);
    assert_int_equal(broker_stats_now(home->broker).peers, 1);
    process_block *block =
        arena_process_block(broker_client_arena(one.client), broker_client_process_block(one.client));
    assert_int_equal(block->state, PROCESS_BLOCK_ALIVE);
    assert_int_equal(block->pid, getpid());
    assert_int_equal(block->process, broker_client_process(one.client));
    assert_int_equal(block->cpu, PROCESS_BLOCK_CPU_NONE);
    assert_int_not_equal(broker_client_process(one.client), 0);
    uint64_t process = broker_client_process(one.client);
    visitor_leave(&one);
    assert_empty();
    /* The name and the process block are free again; the id is not reused. */
    assert_int_equal(broker_fixture_join(home, &one, "one"), MR_OK);
    assert_int_not_equal(broker_client_process(one.client), process);
    assert_int_equal(broker_client_process_block(one.client), 0);
    visitor_leave(&one);
    assert_empty();
    until(NULL, 0, broker_fixture_fds() == fds);
}

static void joining_fails_with_a_reason(void **state) {
    visitor one, two;
    one.event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    assert_int_equal(broker_client_join(home->path, "x", one.event_fd, 1000, &one.client), MR_NOT_FOUND);
    open_broker(NULL);
    char long_name[PEER_NAME_MAX + 1];
    memset(long_name, 'x', sizeof long_name);
    long_name[PEER_NAME_MAX] = '\0';
    assert_int_equal(broker_client_join(home->path, long_name, one.event_fd, 1000, &one.client), MR_INVALID);
    assert_int_equal(broker_client_join(home->path, "a\nb", one.event_fd, 1000, &one.client), MR_INVALID);
    assert_int_equal(broker_client_join(home->path, "x", one.event_fd, 20000, &one.client),
                     MR_TIMEOUT); /* the loop does not run */
    fcntl(one.event_fd, F_SETFL, 0);
    assert_int_equal(broker_client_join(home->path, "x", one.event_fd, 1000, &one.client), MR_INVALID);
    close(one.event_fd);
    assert_int_equal(broker_fixture_join(home, &one, "same"), MR_OK);
    assert_int_equal(broker_fixture_join(home, &two, "same"), MR_EXISTS);
    assert_non_null(strstr(two.join_text, "already named 'same'"));
    visitor_leave(&one);
    assert_empty();
}

static void each_of_many_clients_has_a_process_block(void **state) {
    enum { MANY = 100 }; /* limited by descriptors: eight for each, as both sides are one process */
    open_broker(NULL);
    visitor *many = calloc(MANY, sizeof *many);
    size_t count = 0;
    for (; count < MANY; count++) {
        assert_int_equal(broker_fixture_join(home, &many[count], NULL), MR_OK);
        assert_int_equal(broker_client_process_block(many[count].client), count);
    }
    assert_int_equal(broker_stats_now(home->broker).peers, count);
    while (count > 0) visitor_leave(&many[--count]);
    assert_empty();
    free(many);
}

/* ---- Links. */

static void link_two(visitor *visitors, uint32_t tag) {
    uint32_t before = visitors[1].link_count;
    assert_int_equal(broker_client_connect(visitors[0].client, broker_client_process(visitors[1].client), tag), MR_OK);
    until(visitors, 2, visitors[1].link_count == before + 1 && visitors[0].link_count == before + 1);
}

static void a_link_has_two_rings(void **state) {
    open_broker(&(broker_options){.ring_bytes = 32768});
    visitor visitors[2];
    assert_int_equal(broker_fixture_join(home, &visitors[0], "asks"), MR_OK);
    assert_int_equal(broker_fixture_join(home, &visitors[1], "answers"), MR_OK);
    link_two(visitors, 77);
    broker_client_link *a = &visitors[0].links[0], *b = &visitors[1].links[0];
    assert_int_equal(a->link, b->link);
    assert_int_equal(a->tag, 77);
    assert_int_equal(b->tag, 0);
    assert_memory_equal(&a->send, &b->receive, sizeof(extent));
    assert_memory_equal(&a->receive, &b->send, sizeof(extent));
    assert_int_equal(a->send.size, 32768);
    assert_int_equal(a->peer.process, broker_client_process(visitors[1].client));
    assert_int_equal(a->peer_process_block, broker_client_process_block(visitors[1].client));
    assert_int_equal(a->peer.pid, getpid());
    assert_string_equal(a->peer.name, "answers");
    assert_string_equal(b->peer.name, "asks");
    broker_stats stats = broker_stats_now(home->broker);
    assert_int_equal(stats.links, 1);
    assert_int_equal(stats.rings, 2);
    assert_int_equal(stats.used, 2 * 32768);
    memcpy(arena_at(broker_client_arena(visitors[0].client), a->send.offset), "through", 8);
    assert_string_equal(arena_at(broker_client_arena(visitors[1].client), b->receive.offset), "through");

    assert_int_equal(broker_client_close(visitors[0].client, a->link), MR_OK);
    until(visitors, 2, visitors[1].gone_count == 1);
    assert_int_equal(visitors[1].why.status, MR_CLOSED);
    assert_int_equal(broker_stats_now(home->broker).rings, 2); /* the other side may still be reading */
    assert_int_equal(broker_client_close(visitors[1].client, b->link), MR_OK);
    until(visitors, 2, broker_stats_now(home->broker).rings == 0);
    assert_int_equal(visitors[0].gone_count, 0);

    link_two(visitors, 78); /* in the same memory: headers are zeroed again */
    for (size_t i = 0; i < RING_HEADER; i++)
        assert_int_equal(
            ((uint8_t *)arena_at(broker_client_arena(visitors[0].client), visitors[0].links[1].send.offset))[i], 0);
    visitor_leave(&visitors[0]);
    until(&visitors[1], 1, visitors[1].gone_count == 2);
    assert_int_equal(visitors[1].why.status, MR_CLOSED);
    assert_int_equal(visitors[1].why.pid, getpid());
    visitor_leave(&visitors[1]);
    assert_empty();
}

static void connecting_fails_with_a_reason(void **state) {
    open_broker(&(broker_options){.links_per_peer_max = 2});
    visitor visitors[3];
    assert_int_equal(broker_fixture_join(home, &visitors[0], "a"), MR_OK);
    assert_int_equal(broker_fixture_join(home, &visitors[1], "b"), MR_OK);
    assert_int_equal(broker_fixture_join(home, &visitors[2], "c"), MR_OK);
    broker_client *a = visitors[0].client;
    assert_int_equal(broker_client_connect(a, 12345, 1), MR_OK);
    until(visitors, 1, visitors[0].refused_count == 1);
    assert_int_equal(visitors[0].why.status, MR_NOT_FOUND);
    assert_int_equal(broker_client_connect_name(a, "nobody", 2), MR_OK);
    until(visitors, 1, visitors[0].refused_count == 2);
    assert_int_equal(visitors[0].why.status, MR_NOT_FOUND);
    assert_int_equal(broker_client_connect_name(a, "a", 3), MR_OK);
    until(visitors, 1, visitors[0].refused_count == 3);
    assert_int_equal(visitors[0].refused_tag, 3);
    assert_int_equal(visitors[0].why.status, MR_INVALID);
    assert_int_equal(broker_client_connect(a, 0, 4), MR_INVALID);
    assert_int_equal(broker_client_connect_name(a, "", 4), MR_INVALID);
    for (uint32_t tag = 5; tag < 8; tag++) assert_int_equal(broker_client_connect_name(a, "b", tag), MR_OK);
    until(visitors, 3, visitors[0].link_count == 2 && visitors[0].refused_count == 4);
    assert_int_equal(visitors[0].refused_tag, 7);
    assert_int_equal(visitors[0].why.status, MR_BUSY);
    assert_int_equal(broker_client_connect_name(visitors[2].client, "b", 8), MR_OK); /* too many links there */
    until(visitors, 3, visitors[2].refused_count == 1);
    assert_int_equal(visitors[2].why.status, MR_BUSY);
    for (int i = 0; i < 3; i++) visitor_leave(&visitors[i]);
    assert_empty();
}

static void a_full_arena_refuses_links(void **state) {
    open_broker(&(broker_options){.arena_bytes = ARENA_SIZE_MIN, .ring_bytes = 300 * 1024});
    visitor visitors[2];
    assert_int_equal(broker_fixture_join(home, &visitors[0], "a"), MR_OK);
    assert_int_equal(broker_fixture_join(home, &visitors[1], "b"), MR_OK);
    link_two(visitors, 1);
    /* One ring fits, the second does not. */
    assert_int_equal(broker_client_connect_name(visitors[0].client, "b", 2), MR_OK);
    until(visitors, 2, visitors[0].refused_count == 1);
    assert_int_equal(visitors[0].why.status, MR_NOMEM);
    assert_int_equal(broker_stats_now(home->broker).rings, 2);
    assert_int_equal(broker_client_resize(visitors[0].client, visitors[0].links[0].link, 500 * 1024), MR_OK);
    until(visitors, 2, visitors[0].resized_count == 1);
    assert_int_equal(visitors[0].resized.size, 0);
    visitor_leave(&visitors[0]);
    visitor_leave(&visitors[1]);
    assert_empty();
}

static void rings_change_their_size(void **state) {
    open_broker(NULL);
    visitor visitors[2];
    assert_int_equal(broker_fixture_join(home, &visitors[0], "a"), MR_OK);
    assert_int_equal(broker_fixture_join(home, &visitors[1], "b"), MR_OK);
    link_two(visitors, 1);
    broker_client *sender = visitors[0].client, *receiver = visitors[1].client;
    uint32_t link = visitors[0].links[0].link;
    extent first = visitors[0].links[0].send;
    assert_int_equal(broker_client_resize(sender, link, 128 * 1024), MR_OK);
    until(visitors, 2, visitors[0].resized_count == 1);
    extent second = visitors[0].resized;
    assert_int_equal(second.size, 128 * 1024);
    assert_int_equal(visitors[0].resized_link, link);
    assert_int_equal(broker_stats_now(home->broker).rings, 3);
    assert_int_equal(visitors[1].resized_count, 0);
    /* A smaller ring again, before the first was released. */
    assert_int_equal(broker_client_resize(sender, link, 4096), MR_OK);
    until(visitors, 2, visitors[0].resized_count == 2);
    assert_int_equal(broker_stats_now(home->broker).rings, 4);
    assert_int_equal(broker_client_release(receiver, link, first), MR_OK);
    assert_int_equal(broker_client_release(receiver, link, second), MR_OK);
    until(visitors, 2, broker_stats_now(home->broker).rings == 2);
    assert_int_equal(broker_stats_now(home->broker).used, 4096 + RING_BYTES_DEFAULT);
    assert_int_equal(broker_client_resize(sender, link, UINT64_C(1) << 40), MR_OK);
    until(visitors, 2, visitors[0].resized_count == 3);
    assert_int_equal(visitors[0].resized.size, 0);
    for (int i = 0; i < 10; i++) assert_int_equal(broker_client_resize(sender, link, 8192), MR_OK);
    until(visitors, 2, visitors[0].resized_count == 13);
    assert_int_equal(visitors[0].resized.size, 0); /* the other side has too many unreleased rings */
    visitor_leave(&visitors[1]);
    until(visitors, 1, visitors[0].gone_count == 1);
    assert_int_equal(broker_client_resize(sender, link, 8192), MR_OK);
    until(visitors, 1, visitors[0].resized_count == 14);
    assert_int_equal(visitors[0].resized.size, 0); /* the receiver has left */
    visitor_leave(&visitors[0]);
    assert_empty();
}

static void a_misbehaving_client_is_dropped(void **state) {
    open_broker(NULL);
    for (int kind = 0; kind < 4; kind++) {
        visitor visitors[2];
        assert_int_equal(broker_fixture_join(home, &visitors[0], "wrong"), MR_OK);
        assert_int_equal(broker_fixture_join(home, &visitors[1], "right"), MR_OK);
        link_two(visitors, 1);
        broker_client *wrong = visitors[0].client;
        broker_client_link *link = &visitors[0].links[0];
        if (kind == 0) assert_int_equal(broker_client_close(wrong, link->link + 1), MR_OK);
        /* The ring is still in use. */
        if (kind == 1) assert_int_equal(broker_client_release(wrong, link->link, link->receive), MR_OK);
        if (kind == 2) assert_int_equal(broker_client_release(wrong, link->link, (extent){MB * 4, 4096}), MR_OK);
        if (kind == 3) assert_int_equal(broker_client_resize(wrong, 99999, 4096), MR_OK);
        until(visitors, 2, visitors[0].broker_gone_count == 1 && visitors[1].gone_count == 1);
        assert_int_equal(visitors[0].why.status, MR_CORRUPT);
        assert_int_equal(visitors[1].why.status, MR_CORRUPT);
        assert_int_equal(broker_client_close(wrong, link->link), MR_CLOSED);
        broker_stats stats = broker_stats_now(home->broker);
        assert_int_equal(stats.peers, 1);
        assert_int_equal(broker_client_close(visitors[1].client, visitors[1].links[0].link), MR_OK);
        for (int i = 0; i < 20; i++) broker_fixture_pump(home, visitors, 2);
        assert_int_equal(broker_stats_now(home->broker).rings, 2); /* the dropped client has them mapped */
        visitor_leave(&visitors[0]);
        until(&visitors[1], 1, broker_stats_now(home->broker).rings == 0);
        visitor_leave(&visitors[1]);
        assert_empty();
    }
}

/* A client that does not read: others are not delayed, the broker's queue is bounded, and the client loses no
 * message. */
static void a_sleeping_client_does_not_delay_others(void **state) {
    open_broker(&(broker_options){.arena_bytes = 64 * MB});
    visitor visitors[2];
    assert_int_equal(broker_fixture_join(home, &visitors[0], "awake"), MR_OK);
    assert_int_equal(broker_fixture_join(home, &visitors[1], "asleep"), MR_OK);
    uint32_t asked = 0;
    while (visitors[0].refused_count == 0) {
        assert_int_equal(broker_client_connect_name(visitors[0].client, "asleep", ++asked), MR_OK);
        until(visitors, 1, visitors[0].link_count + visitors[0].refused_count == asked);
        assert_true(asked < VISITOR_LINKS_MAX);
    }
    assert_int_equal(visitors[0].why.status, MR_BUSY);
    assert_true(asked > 64);
    for (uint32_t i = 0; i < visitors[0].link_count; i++) /* the ends of links are always queued */
        assert_int_equal(broker_client_close(visitors[0].client, visitors[0].links[i].link), MR_OK);
    for (int i = 0; i < 100; i++) broker_fixture_pump(home, visitors, 1);
    assert_int_equal(broker_stats_now(home->broker).links, visitors[0].link_count);
    until(visitors, 2, visitors[1].gone_count == visitors[0].link_count); /* the client reads again */
    assert_int_equal(visitors[1].link_count, visitors[0].link_count);
    assert_int_equal(broker_client_connect_name(visitors[0].client, "asleep", ++asked), MR_OK);
    until(visitors, 2, visitors[1].link_count == asked - 1);
    visitor_leave(&visitors[1]);
    visitor_leave(&visitors[0]);
    assert_empty();
}

/* A client that sends requests without reading the answers: the broker stops reading its requests until the client
 * reads. */
static void a_client_that_only_asks_is_answered_later(void **state) {
    enum { ASKED = 3000 };
    open_broker(NULL);
    visitor visitors[2];
    assert_int_equal(broker_fixture_join(home, &visitors[0], "asks"), MR_OK);
    assert_int_equal(broker_fixture_join(home, &visitors[1], "other"), MR_OK);
    for (uint32_t tag = 1; tag <= ASKED; tag++) {
        assert_int_equal(broker_client_connect_name(visitors[0].client, "nobody", tag), MR_OK);
        if (tag % 16 == 0) event_loop_run_once(home->loop, 0);
    }
    assert_int_equal(broker_client_connect_name(visitors[1].client, "asks", 1), MR_OK);
    until(&visitors[1], 1, visitors[1].refused_count == 1);
    assert_int_equal(visitors[1].why.status, MR_BUSY);
    until(visitors, 2, visitors[0].refused_count == ASKED);
    assert_int_equal(visitors[0].refused_tag, ASKED);
    mr_status status = MR_OK;
    uint32_t many = 0;
    while (status == MR_OK && many < 100000) status = broker_client_connect_name(visitors[0].client, "nobody", ++many);
    assert_int_equal(status, MR_BUSY); /* the broker does not run */
    until(visitors, 2, visitors[0].refused_count == ASKED + many - 1);
    visitor_leave(&visitors[0]);
    visitor_leave(&visitors[1]);
    assert_empty();
}

/* ---- Doorbells: every message of the broker wakes a sleeping client. */

static void the_broker_rings_before_anybody_waits_in_vain(void **state) {
    open_broker(NULL);
    visitor visitors[2];
    assert_int_equal(broker_fixture_join(home, &visitors[0], "a"), MR_OK);
    assert_int_equal(broker_fixture_join(home, &visitors[1], "b"), MR_OK);
    process_block *sleeper =
        arena_process_block(broker_client_arena(visitors[1].client), broker_client_process_block(visitors[1].client));
    doorbell_arm(sleeper, DOORBELL_LOOP);
    link_two(visitors, 1);
    uint64_t rung = 0;
    assert_int_equal(sleeper->sleep, DOORBELL_RUNG);
    assert_int_equal(read(visitors[1].event_fd, &rung, sizeof rung), sizeof rung);
    assert_int_equal(rung, 1);
    doorbell_arm(sleeper, DOORBELL_FUTEX);
    visitor_leave(&visitors[0]);
    until(&visitors[1], 1, visitors[1].gone_count == 1);
    assert_int_equal(sleeper->sleep, DOORBELL_RUNG);
    visitor_leave(&visitors[1]);
    assert_empty();
}

/* Spinning processes read the rung state (spin_wait.h). */
static void a_client_that_left_is_not_rung(void **state) {
    open_broker(NULL);
    visitor visitors[2];
    assert_int_equal(broker_fixture_join(home, &visitors[0], "a"), MR_OK);
    assert_int_equal(broker_fixture_join(home, &visitors[1], "b"), MR_OK);
    process_block *sleeper =
        arena_process_block(broker_client_arena(visitors[0].client), broker_client_process_block(visitors[1].client));
    doorbell_arm(sleeper, DOORBELL_FUTEX);
    link_two(visitors, 1);
    assert_true(doorbell_is_rung(sleeper));
    visitor_leave(&visitors[1]);
    until(visitors, 1, !doorbell_is_rung(sleeper));
    visitor_leave(&visitors[0]);
    assert_empty();
}

/* ---- The end of the broker, and its socket. */

static void broker_clients_are_told_when_the_broker_closes(void **state) {
    size_t fds = broker_fixture_fds();
    open_broker(NULL);
    visitor visitors[2];
    assert_int_equal(broker_fixture_join(home, &visitors[0], "a"), MR_OK);
    assert_int_equal(broker_fixture_join(home, &visitors[1], "b"), MR_OK);
    link_two(visitors, 1);
    struct stat stat_;
    assert_int_equal(stat(home->path, &stat_), 0);
    broker_close(home->broker);
    home->broker = NULL;
    assert_int_equal(stat(home->path, &stat_), -1);
    for (int i = 0; i < 2; i++) {
        struct pollfd wait = {.fd = broker_client_fd(visitors[i].client), .events = POLLIN};
        assert_int_equal(poll(&wait, 1, 10000), 1);
        visitor_poll(&visitors[i]);
        assert_int_equal(visitors[i].broker_gone_count, 1);
        assert_int_equal(visitors[i].why.status, MR_CLOSED);
        assert_int_equal(visitors[i].why.pid, getpid());
        visitor_poll(&visitors[i]);
        assert_int_equal(visitors[i].broker_gone_count, 1);
        assert_int_equal(broker_client_connect(visitors[i].client, 1, 1), MR_CLOSED);
        visitor_leave(&visitors[i]);
    }
    event_loop_run_once(home->loop, 0);
    until(NULL, 0, broker_fixture_fds() == fds);
}

static void one_path_one_broker(void **state) {
    mode_t before = umask(0); /* the file's mode is independent of the umask */
    open_broker(NULL);
    umask(before);
    struct stat stat_;
    assert_int_equal(stat(home->path, &stat_), 0);
    assert_int_equal(stat_.st_mode & 07777, 0600);
    broker *second;
    broker_options options = {.path = home->path, .arena_bytes = 4 * MB};
    assert_int_equal(broker_open(home->loop, &options, &second), MR_EXISTS);
    broker_close(home->broker);

    int dead = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0); /* the socket file of a killed broker */
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strcpy(address.sun_path, home->path);
    assert_int_equal(bind(dead, (void *)&address, sizeof address), 0);
    close(dead);
    open_broker(NULL);
    broker_close(home->broker);

    int file = open(home->path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    close(file);
    assert_int_equal(broker_open(home->loop, &options, &second), MR_EXISTS);
    assert_int_equal(unlink(home->path), 0); /* the file was not touched */

    options.path = "/nonexistent/folder/hub";
    assert_int_not_equal(broker_open(home->loop, &options, &second), MR_OK);
    char long_path[200];
    memset(long_path, 'x', sizeof long_path - 1);
    long_path[sizeof long_path - 1] = '\0';
    options.path = long_path;
    assert_int_equal(broker_open(home->loop, &options, &second), MR_INVALID);
    home->broker = NULL;
}

/* ---- Callers before HELLO. */

static int call(void) {
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strcpy(address.sun_path, home->path);
    assert_int_equal(connect(fd, (void *)&address, sizeof address), 0);
    return fd;
}

/* The broker's answer before it closes the connection. */
static mr_status answer(int fd) {
    fd_packet packet;
    fd_packet_result result;
    int64_t deadline = clock_ns() / 1000 + BROKER_FIXTURE_PATIENCE_US;
    while ((result = fd_packet_receive(fd, &packet)) == FD_PACKET_NONE && clock_ns() / 1000 < deadline)
        broker_fixture_pump(home, NULL, 0);
    assert_int_not_equal(result, FD_PACKET_NONE);
    if (result == FD_PACKET_END) return MR_CLOSED;
    broker_wire message;
    assert_int_equal(broker_wire_decode(true, packet.data, packet.size, &message), MR_OK);
    fd_packet_drop(&packet);
    return message.head.kind == BROKER_WIRE_END ? (mr_status)message.cause.status : MR_OK;
}

static void strangers_get_nowhere(void **state) {
    open_broker(NULL);
    size_t fds = broker_fixture_fds();
    int event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), blocking = eventfd(0, EFD_CLOEXEC), caller;
    broker_wire hello, bye;
    hello = broker_wire_of(BROKER_WIRE_HELLO, 0);
    hello.hello.magic = BROKER_WIRE_MAGIC;
    bye = broker_wire_of(BROKER_WIRE_BYE, 0);

    caller = call(); /* no descriptor */
    assert_int_equal(fd_packet_send(caller, &hello, -1), 0);
    assert_int_equal(answer(caller), MR_CORRUPT);
    close(caller);
    caller = call(); /* not an eventfd */
    assert_int_equal(fd_packet_send(caller, &hello, caller), 0);
    assert_int_equal(answer(caller), MR_INVALID);
    close(caller);
    caller = call(); /* a descriptor that would block the broker */
    assert_int_equal(fd_packet_send(caller, &hello, blocking), 0);
    assert_int_equal(answer(caller), MR_INVALID);
    close(caller);
    caller = call(); /* no handshake */
    assert_int_equal(fd_packet_send(caller, &bye, -1), 0);
    assert_int_equal(answer(caller), MR_CORRUPT);
    close(caller);
    caller = call(); /* an unexpected descriptor */
    assert_int_equal(fd_packet_send(caller, &bye, event), 0);
    assert_int_equal(answer(caller), MR_CORRUPT);
    close(caller);
    caller = call(); /* too long */
    char noise[4096] = {0};
    assert_int_equal(send(caller, noise, sizeof noise, 0), sizeof noise);
    assert_int_equal(answer(caller), MR_CORRUPT);
    close(caller);
    caller = call(); /* twice */
    assert_int_equal(fd_packet_send(caller, &hello, event), 0);
    assert_int_equal(answer(caller), MR_OK);
    assert_int_equal(fd_packet_send(caller, &hello, event), 0);
    assert_int_equal(answer(caller), MR_CORRUPT);
    close(caller);
    caller = call(); /* sends nothing */
    assert_int_equal(answer(caller), MR_TIMEOUT);
    close(caller);
    close(event);
    close(blocking);
    assert_empty();
    until(NULL, 0, broker_fixture_fds() == fds);
}

/* Many silent callers delay a joining process only until they time out. */
static void waiting_clients_are_bounded(void **state) {
    enum { CROWD = 100 };
    open_broker(NULL);
    size_t fds = broker_fixture_fds();
    int crowd[CROWD];
    for (int i = 0; i < CROWD; i++) crowd[i] = call();
    for (int i = 0; i < 50; i++) event_loop_run_once(home->loop, 0);
    assert_true(broker_fixture_fds() <= fds + CROWD + 64);
    visitor one;
    assert_int_equal(broker_fixture_join(home, &one, "one"), MR_OK);
    visitor_leave(&one);
    for (int i = 0; i < CROWD; i++) close(crowd[i]);
    assert_empty();
    until(NULL, 0, broker_fixture_fds() == fds);
}

/* Random bytes and descriptors sent to a running broker, before and after the handshake. */
static void noise_does_no_harm(void **state) {
    open_broker(NULL);
    size_t fds = broker_fixture_fds();
    rng rng;
    rng_init(&rng, 11);
    int event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    for (int round = 0; round < 2000; round++) {
        int caller = call();
        broker_wire message;
        if (rng_chance(&rng, 0.8)) {
            message = broker_wire_of(BROKER_WIRE_HELLO, 0);
            message.hello.magic = BROKER_WIRE_MAGIC;
            (void)fd_packet_send(caller, &message, event);
        }
        for (uint64_t count = rng_below(&rng, 5); count > 0; count--) {
            message = broker_wire_of((broker_wire_kind)(1 + rng_below(&rng, 6)), (uint32_t)rng_below(&rng, 4));
            size_t size = message.head.size;
            for (uint64_t flips = rng_below(&rng, 4); flips > 0; flips--)
                ((uint8_t *)&message)[rng_below(&rng, size)] = (uint8_t)rng_next(&rng);
            if (message.head.size > sizeof message) message.head.size = sizeof message;
            (void)fd_packet_send(caller, &message, rng_chance(&rng, 0.2) ? event : -1);
        }
        event_loop_run_once(home->loop, 0);
        close(caller);
        event_loop_run_once(home->loop, 0);
    }
    close(event);
    assert_empty();
    until(NULL, 0, broker_fixture_fds() == fds);
}

/* ---- Descriptors run out on either side at each step of joining and linking: clean refusals, no leaks. */

enum { FILLERS_MAX = 1024 };

static void limit_fds(const struct rlimit *before, rlim_t limit) {
    struct rlimit now = {.rlim_cur = limit, .rlim_max = before->rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &now), 0);
}

/* Opens all free descriptor numbers below the highest one in use, because a limit above them would have no effect.
 * Returns the number above the highest. The broker's helper thread opens files now and then, so their count varies. */
static int fill_gaps(int fillers[static FILLERS_MAX], int *count) {
    int top = 0, fd;
    for (int i = 0; i < FILLERS_MAX; i++)
        if (fcntl(i, F_GETFD) >= 0) top = i + 1;
    for (*count = 0; (fd = dup(0)) < top; fillers[(*count)++] = fd) assert_true(fd >= 0 && *count < FILLERS_MAX);
    close(fd);
    return fd;
}

static void without_descriptors_everything_is_refused_cleanly(void **state) {
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    open_broker(NULL);
    visitor visitors[3];
    assert_int_equal(broker_fixture_join(home, &visitors[0], "a"), MR_OK);
    assert_int_equal(broker_fixture_join(home, &visitors[1], "b"), MR_OK);
    int joined = 0, linked = 0, fillers[FILLERS_MAX], filler_count, first = fill_gaps(fillers, &filler_count);
    size_t fds = broker_fixture_fds();
    for (int room = 0; room < 16; room++) {
        visitors[0].refused_count = visitors[0].link_count = visitors[1].link_count = 0;
        limit_fds(&before, (rlim_t)(first + room));
        mr_status status = broker_fixture_join(home, &visitors[2], "c");
        bool there = status == MR_OK;
        assert_true(there || status == MR_IO || status == MR_BUSY || status == MR_CLOSED);
        assert_int_equal(broker_client_connect_name(visitors[0].client, "b", 1), MR_OK);
        until(visitors, 2, visitors[0].refused_count + visitors[0].link_count + visitors[0].gone_count > 0);
        limit_fds(&before, before.rlim_cur);
        if (visitors[0].link_count == 0 || visitors[0].gone_count > 0)
            assert_non_null(strstr(visitors[0].why.text, "ulimit"));
        joined += there;
        linked += visitors[0].link_count == 1 && visitors[1].link_count == 1;
        for (int i = 0; i < 2; i++) {
            assert_int_equal(visitors[i].broker_gone_count, 0);
            if (visitors[i].link_count == 1)
                assert_int_equal(broker_client_close(visitors[i].client, visitors[i].links[0].link), MR_OK);
            visitors[i].gone_count = 0;
        }
        if (there) visitor_leave(&visitors[2]);
        until(visitors, 2, broker_stats_now(home->broker).rings == 0 && broker_stats_now(home->broker).peers == 2);
        for (int i = 0; i < 2; i++) visitors[i].gone_count = 0;
        until(visitors, 2, broker_fixture_fds() == fds);
        broker_check(home->broker);
    }
    print_message("%d of 16 could join, %d could link\n", joined, linked);
    assert_true(joined > 0 && joined < 16 && linked > 0 && linked < 16);
    while (filler_count > 0) close(fillers[--filler_count]);
    visitor_leave(&visitors[0]);
    visitor_leave(&visitors[1]);
    assert_empty();
}

/* ---- Random operations: no records are left afterwards. */

static void a_busy_life_leaves_nothing(void **state) {
    enum { VISITORS = 8 };
    open_broker(&(broker_options){.arena_bytes = 8 * MB});
    size_t fds = broker_fixture_fds();
    rng rng;
    rng_init(&rng, 3);
    visitor visitors[VISITORS] = {0};
    uint32_t tag = 1;
    for (int step = 0; step < 3000; step++) {
        visitor *one = &visitors[rng_below(&rng, VISITORS)], *two = &visitors[rng_below(&rng, VISITORS)];
        if (one->client == NULL) {
            assert_int_equal(broker_fixture_join(home, one, NULL), MR_OK);
            continue;
        }
        uint64_t what = rng_below(&rng, 100);
        if (what == 0) {
            visitor_leave(one);
        } else if (what < 50 && two->client != NULL) {
            assert_int_equal(broker_client_connect(one->client, broker_client_process(two->client), tag++), MR_OK);
        } else if (one->link_count > 0 && one->link_count < VISITOR_LINKS_MAX) {
            broker_client_link *link = &one->links[rng_below(&rng, one->link_count)];
            if (link->link == 0) continue;
            if (what < 75) {
                assert_int_equal(broker_client_resize(one->client, link->link, 4096 << rng_below(&rng, 6)), MR_OK);
            } else {
                assert_int_equal(broker_client_close(one->client, link->link), MR_OK);
                link->link = 0; /* closed */
            }
        }
        broker_fixture_pump(home, visitors, VISITORS);
        if (step % 50 == 0) broker_check(home->broker);
    }
    for (int i = 0; i < VISITORS; i++) {
        assert_int_equal(visitors[i].broker_gone_count, 0);
        if (visitors[i].client != NULL) visitor_leave(&visitors[i]);
    }
    assert_empty();
    until(NULL, 0, broker_fixture_fds() == fds);
}

int main(void) {
    signal(SIGPIPE, SIG_DFL); /* no test may raise SIGPIPE */
    log_set_level(LOG_ERROR); /* clients are dropped intentionally */
#define BROKER_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        BROKER_TEST(a_client_connects_and_disconnects),
        BROKER_TEST(joining_fails_with_a_reason),
        BROKER_TEST(each_of_many_clients_has_a_process_block),
        BROKER_TEST(a_link_has_two_rings),
        BROKER_TEST(connecting_fails_with_a_reason),
        BROKER_TEST(a_full_arena_refuses_links),
        BROKER_TEST(rings_change_their_size),
        BROKER_TEST(a_misbehaving_client_is_dropped),
        BROKER_TEST(a_sleeping_client_does_not_delay_others),
        BROKER_TEST(a_client_that_only_asks_is_answered_later),
        BROKER_TEST(the_broker_rings_before_anybody_waits_in_vain),
        BROKER_TEST(a_client_that_left_is_not_rung),

        BROKER_TEST(broker_clients_are_told_when_the_broker_closes),
        BROKER_TEST(one_path_one_broker),
        BROKER_TEST(strangers_get_nowhere),
        BROKER_TEST(waiting_clients_are_bounded),
        BROKER_TEST(noise_does_no_harm),
        BROKER_TEST(without_descriptors_everything_is_refused_cleanly),
        BROKER_TEST(a_busy_life_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
