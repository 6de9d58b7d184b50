/* guest_test.c — a hub and its guests in one process and one thread: every request, every answer, every refusal, and
 * books that are empty again afterwards. */
#include "net/shm/guest.h"

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
#include "net/shm/bell.h"
#include "net/shm/hub.h"
#include "net/shm/hub_packet.h"
#include "net/shm/ring.h"
#include "tests/support/house.h"

#define MB (UINT64_C(1) << 20)

static house house_;
static house *const home = &house_;

static int set_up(void **state) { return house_build(home); }
static int tear_down(void **state) { return house_raze(home); }

static void open_hub(const hub_options *options) { assert_int_equal(house_open(home, options), MR_OK); }

#define until(visitors, count, condition) assert_true(house_until(home, visitors, count, condition))

static void assert_empty(void) { until(NULL, 0, house_is_empty(home)); }

/* ---- Coming and going. */

static void a_guest_comes_and_goes(void **state) {
    open_hub(NULL);
    size_t fds = house_fds();
    visitor one;
    assert_int_equal(house_join(home, &one, "one"), MR_OK);
    assert_int_equal(hub_stats_now(home->hub).guests, 1);
    station *station = arena_station(guest_arena(one.guest), guest_station(one.guest));
    assert_int_equal(station->state, STATION_ALIVE);
    assert_int_equal(station->pid, getpid());
    assert_int_equal(station->process, guest_process(one.guest));
    assert_int_equal(station->cpu, STATION_CPU_NONE);
    assert_int_not_equal(guest_process(one.guest), 0);
    uint64_t process = guest_process(one.guest);
    visitor_leave(&one);
    assert_empty();
    assert_int_equal(house_join(home, &one, "one"), MR_OK); /* the name and the station are free again, the id is not */
    assert_int_not_equal(guest_process(one.guest), process);
    assert_int_equal(guest_station(one.guest), 0);
    visitor_leave(&one);
    assert_empty();
    until(NULL, 0, house_fds() == fds);
}

static void joining_fails_with_a_reason(void **state) {
    visitor one, two;
    one.event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    assert_int_equal(guest_join(home->path, "x", one.event_fd, 1000, &one.guest), MR_NOT_FOUND);
    open_hub(NULL);
    char long_name[PEER_NAME_MAX + 1];
    memset(long_name, 'x', sizeof long_name);
    long_name[PEER_NAME_MAX] = '\0';
    assert_int_equal(guest_join(home->path, long_name, one.event_fd, 1000, &one.guest), MR_INVALID);
    assert_int_equal(guest_join(home->path, "a\nb", one.event_fd, 1000, &one.guest), MR_INVALID);
    assert_int_equal(guest_join(home->path, "x", one.event_fd, 20000, &one.guest),
                     MR_TIMEOUT); /* nobody runs the loop */
    fcntl(one.event_fd, F_SETFL, 0);
    assert_int_equal(guest_join(home->path, "x", one.event_fd, 1000, &one.guest), MR_INVALID);
    close(one.event_fd);
    assert_int_equal(house_join(home, &one, "same"), MR_OK);
    assert_int_equal(house_join(home, &two, "same"), MR_EXISTS);
    assert_non_null(strstr(two.join_text, "already named 'same'"));
    visitor_leave(&one);
    assert_empty();
}

static void many_guests_have_a_station_each(void **state) {
    enum { MANY = 100 }; /* descriptors are short: eight for each here, where both sides are one process */
    open_hub(NULL);
    visitor *many = calloc(MANY, sizeof *many);
    size_t count = 0;
    for (; count < MANY; count++) {
        assert_int_equal(house_join(home, &many[count], NULL), MR_OK);
        assert_int_equal(guest_station(many[count].guest), count);
    }
    assert_int_equal(hub_stats_now(home->hub).guests, count);
    while (count > 0) visitor_leave(&many[--count]);
    assert_empty();
    free(many);
}

/* ---- Links. */

static void link_two(visitor *visitors, uint32_t tag) {
    uint32_t before = visitors[1].link_count;
    assert_int_equal(guest_connect(visitors[0].guest, guest_process(visitors[1].guest), tag), MR_OK);
    until(visitors, 2, visitors[1].link_count == before + 1 && visitors[0].link_count == before + 1);
}

static void a_link_has_two_rings(void **state) {
    open_hub(&(hub_options){.ring_bytes = 32768});
    visitor visitors[2];
    assert_int_equal(house_join(home, &visitors[0], "asks"), MR_OK);
    assert_int_equal(house_join(home, &visitors[1], "answers"), MR_OK);
    link_two(visitors, 77);
    guest_link *a = &visitors[0].links[0], *b = &visitors[1].links[0];
    assert_int_equal(a->link, b->link);
    assert_int_equal(a->tag, 77);
    assert_int_equal(b->tag, 0);
    assert_memory_equal(&a->send, &b->receive, sizeof(extent));
    assert_memory_equal(&a->receive, &b->send, sizeof(extent));
    assert_int_equal(a->send.size, 32768);
    assert_int_equal(a->peer.process, guest_process(visitors[1].guest));
    assert_int_equal(a->peer_station, guest_station(visitors[1].guest));
    assert_int_equal(a->peer.pid, getpid());
    assert_string_equal(a->peer.name, "answers");
    assert_string_equal(b->peer.name, "asks");
    hub_stats stats = hub_stats_now(home->hub);
    assert_int_equal(stats.links, 1);
    assert_int_equal(stats.rings, 2);
    assert_int_equal(stats.used, 2 * 32768);
    memcpy(arena_at(guest_arena(visitors[0].guest), a->send.offset), "through", 8);
    assert_string_equal(arena_at(guest_arena(visitors[1].guest), b->receive.offset), "through");

    assert_int_equal(guest_close(visitors[0].guest, a->link), MR_OK);
    until(visitors, 2, visitors[1].gone_count == 1);
    assert_int_equal(visitors[1].why.status, MR_CLOSED);
    assert_int_equal(hub_stats_now(home->hub).rings, 2); /* the other side may still be reading */
    assert_int_equal(guest_close(visitors[1].guest, b->link), MR_OK);
    until(visitors, 2, hub_stats_now(home->hub).rings == 0);
    assert_int_equal(visitors[0].gone_count, 0);

    link_two(visitors, 78); /* on the same memory: headers are zeroed again */
    for (size_t i = 0; i < RING_HEADER; i++)
        assert_int_equal(((uint8_t *)arena_at(guest_arena(visitors[0].guest), visitors[0].links[1].send.offset))[i], 0);
    visitor_leave(&visitors[0]);
    until(&visitors[1], 1, visitors[1].gone_count == 2);
    assert_int_equal(visitors[1].why.status, MR_CLOSED);
    assert_int_equal(visitors[1].why.pid, getpid());
    visitor_leave(&visitors[1]);
    assert_empty();
}

static void connecting_fails_with_a_reason(void **state) {
    open_hub(&(hub_options){.links_per_guest_max = 2});
    visitor visitors[3];
    assert_int_equal(house_join(home, &visitors[0], "a"), MR_OK);
    assert_int_equal(house_join(home, &visitors[1], "b"), MR_OK);
    assert_int_equal(house_join(home, &visitors[2], "c"), MR_OK);
    guest *a = visitors[0].guest;
    assert_int_equal(guest_connect(a, 12345, 1), MR_OK);
    until(visitors, 1, visitors[0].refused_count == 1);
    assert_int_equal(visitors[0].why.status, MR_NOT_FOUND);
    assert_int_equal(guest_connect_name(a, "nobody", 2), MR_OK);
    until(visitors, 1, visitors[0].refused_count == 2);
    assert_int_equal(visitors[0].why.status, MR_NOT_FOUND);
    assert_int_equal(guest_connect_name(a, "a", 3), MR_OK);
    until(visitors, 1, visitors[0].refused_count == 3);
    assert_int_equal(visitors[0].refused_tag, 3);
    assert_int_equal(visitors[0].why.status, MR_INVALID);
    assert_int_equal(guest_connect(a, 0, 4), MR_INVALID);
    assert_int_equal(guest_connect_name(a, "", 4), MR_INVALID);
    for (uint32_t tag = 5; tag < 8; tag++) assert_int_equal(guest_connect_name(a, "b", tag), MR_OK);
    until(visitors, 3, visitors[0].link_count == 2 && visitors[0].refused_count == 4);
    assert_int_equal(visitors[0].refused_tag, 7);
    assert_int_equal(visitors[0].why.status, MR_BUSY);
    assert_int_equal(guest_connect_name(visitors[2].guest, "b", 8), MR_OK); /* the other side is full */
    until(visitors, 3, visitors[2].refused_count == 1);
    assert_int_equal(visitors[2].why.status, MR_BUSY);
    for (int i = 0; i < 3; i++) visitor_leave(&visitors[i]);
    assert_empty();
}

static void a_full_arena_refuses_links(void **state) {
    open_hub(&(hub_options){.arena_bytes = ARENA_SIZE_MIN, .ring_bytes = 300 * 1024});
    visitor visitors[2];
    assert_int_equal(house_join(home, &visitors[0], "a"), MR_OK);
    assert_int_equal(house_join(home, &visitors[1], "b"), MR_OK);
    link_two(visitors, 1);
    assert_int_equal(guest_connect_name(visitors[0].guest, "b", 2), MR_OK); /* one ring fits, the second does not */
    until(visitors, 2, visitors[0].refused_count == 1);
    assert_int_equal(visitors[0].why.status, MR_NOMEM);
    assert_int_equal(hub_stats_now(home->hub).rings, 2);
    assert_int_equal(guest_resize(visitors[0].guest, visitors[0].links[0].link, 500 * 1024), MR_OK);
    until(visitors, 2, visitors[0].resized_count == 1);
    assert_int_equal(visitors[0].resized.size, 0);
    visitor_leave(&visitors[0]);
    visitor_leave(&visitors[1]);
    assert_empty();
}

static void rings_change_their_size(void **state) {
    open_hub(NULL);
    visitor visitors[2];
    assert_int_equal(house_join(home, &visitors[0], "a"), MR_OK);
    assert_int_equal(house_join(home, &visitors[1], "b"), MR_OK);
    link_two(visitors, 1);
    guest *sender = visitors[0].guest, *receiver = visitors[1].guest;
    uint32_t link = visitors[0].links[0].link;
    extent first = visitors[0].links[0].send;
    assert_int_equal(guest_resize(sender, link, 128 * 1024), MR_OK);
    until(visitors, 2, visitors[0].resized_count == 1);
    extent second = visitors[0].resized;
    assert_int_equal(second.size, 128 * 1024);
    assert_int_equal(visitors[0].resized_link, link);
    assert_int_equal(hub_stats_now(home->hub).rings, 3);
    assert_int_equal(visitors[1].resized_count, 0);
    assert_int_equal(guest_resize(sender, link, 4096), MR_OK); /* smaller again, before the first was released */
    until(visitors, 2, visitors[0].resized_count == 2);
    assert_int_equal(hub_stats_now(home->hub).rings, 4);
    assert_int_equal(guest_release(receiver, link, first), MR_OK);
    assert_int_equal(guest_release(receiver, link, second), MR_OK);
    until(visitors, 2, hub_stats_now(home->hub).rings == 2);
    assert_int_equal(hub_stats_now(home->hub).used, 4096 + RING_BYTES_DEFAULT);
    assert_int_equal(guest_resize(sender, link, UINT64_C(1) << 40), MR_OK);
    until(visitors, 2, visitors[0].resized_count == 3);
    assert_int_equal(visitors[0].resized.size, 0);
    for (int i = 0; i < 10; i++) assert_int_equal(guest_resize(sender, link, 8192), MR_OK);
    until(visitors, 2, visitors[0].resized_count == 13);
    assert_int_equal(visitors[0].resized.size, 0); /* the other side takes too long */
    visitor_leave(&visitors[1]);
    until(visitors, 1, visitors[0].gone_count == 1);
    assert_int_equal(guest_resize(sender, link, 8192), MR_OK);
    until(visitors, 1, visitors[0].resized_count == 14);
    assert_int_equal(visitors[0].resized.size, 0); /* nobody would read it */
    visitor_leave(&visitors[0]);
    assert_empty();
}

static void a_guest_that_is_wrong_is_dropped(void **state) {
    open_hub(NULL);
    for (int kind = 0; kind < 4; kind++) {
        visitor visitors[2];
        assert_int_equal(house_join(home, &visitors[0], "wrong"), MR_OK);
        assert_int_equal(house_join(home, &visitors[1], "right"), MR_OK);
        link_two(visitors, 1);
        guest *wrong = visitors[0].guest;
        guest_link *link = &visitors[0].links[0];
        if (kind == 0) assert_int_equal(guest_close(wrong, link->link + 1), MR_OK);
        if (kind == 1) assert_int_equal(guest_release(wrong, link->link, link->receive), MR_OK); /* still in use */
        if (kind == 2) assert_int_equal(guest_release(wrong, link->link, (extent){MB * 4, 4096}), MR_OK);
        if (kind == 3) assert_int_equal(guest_resize(wrong, 99999, 4096), MR_OK);
        until(visitors, 2, visitors[0].hub_gone_count == 1 && visitors[1].gone_count == 1);
        assert_int_equal(visitors[0].why.status, MR_CORRUPT);
        assert_int_equal(visitors[1].why.status, MR_CORRUPT);
        assert_int_equal(guest_close(wrong, link->link), MR_CLOSED);
        hub_stats stats = hub_stats_now(home->hub);
        assert_int_equal(stats.guests, 1);
        assert_int_equal(guest_close(visitors[1].guest, visitors[1].links[0].link), MR_OK);
        for (int i = 0; i < 20; i++) house_pump(home, visitors, 2);
        assert_int_equal(hub_stats_now(home->hub).rings, 2); /* it has them mapped and might write into them */
        visitor_leave(&visitors[0]);
        until(&visitors[1], 1, hub_stats_now(home->hub).rings == 0);
        visitor_leave(&visitors[1]);
        assert_empty();
    }
}

/* A guest that does not read: others are not held up, it costs the hub little, and when it reads again all is there. */
static void a_guest_that_sleeps_holds_nobody_up(void **state) {
    open_hub(&(hub_options){.arena_bytes = 64 * MB});
    visitor visitors[2];
    assert_int_equal(house_join(home, &visitors[0], "awake"), MR_OK);
    assert_int_equal(house_join(home, &visitors[1], "asleep"), MR_OK);
    uint32_t asked = 0;
    while (visitors[0].refused_count == 0) {
        assert_int_equal(guest_connect_name(visitors[0].guest, "asleep", ++asked), MR_OK);
        until(visitors, 1, visitors[0].link_count + visitors[0].refused_count == asked);
        assert_true(asked < VISITOR_LINKS_MAX);
    }
    assert_int_equal(visitors[0].why.status, MR_BUSY);
    assert_true(asked > 64);
    for (uint32_t i = 0; i < visitors[0].link_count; i++) /* ends are told however many they are */
        assert_int_equal(guest_close(visitors[0].guest, visitors[0].links[i].link), MR_OK);
    for (int i = 0; i < 100; i++) house_pump(home, visitors, 1);
    assert_int_equal(hub_stats_now(home->hub).links, visitors[0].link_count);
    until(visitors, 2, visitors[1].gone_count == visitors[0].link_count); /* it wakes up */
    assert_int_equal(visitors[1].link_count, visitors[0].link_count);
    assert_int_equal(guest_connect_name(visitors[0].guest, "asleep", ++asked), MR_OK);
    until(visitors, 2, visitors[1].link_count == asked - 1);
    visitor_leave(&visitors[1]);
    visitor_leave(&visitors[0]);
    assert_empty();
}

/* A guest that asks and does not read the answers: the hub stops listening to it, and goes on when it reads. */
static void a_guest_that_only_asks_waits(void **state) {
    enum { ASKED = 3000 };
    open_hub(NULL);
    visitor visitors[2];
    assert_int_equal(house_join(home, &visitors[0], "asks"), MR_OK);
    assert_int_equal(house_join(home, &visitors[1], "other"), MR_OK);
    for (uint32_t tag = 1; tag <= ASKED; tag++) {
        assert_int_equal(guest_connect_name(visitors[0].guest, "nobody", tag), MR_OK);
        if (tag % 16 == 0) loop_run_once(home->loop, 0);
    }
    assert_int_equal(guest_connect_name(visitors[1].guest, "asks", 1), MR_OK);
    until(&visitors[1], 1, visitors[1].refused_count == 1);
    assert_int_equal(visitors[1].why.status, MR_BUSY);
    until(visitors, 2, visitors[0].refused_count == ASKED);
    assert_int_equal(visitors[0].refused_tag, ASKED);
    mr_status status = MR_OK;
    uint32_t many = 0;
    while (status == MR_OK && many < 100000) status = guest_connect_name(visitors[0].guest, "nobody", ++many);
    assert_int_equal(status, MR_BUSY); /* nobody runs the hub */
    until(visitors, 2, visitors[0].refused_count == ASKED + many - 1);
    visitor_leave(&visitors[0]);
    visitor_leave(&visitors[1]);
    assert_empty();
}

/* ---- Bells: a sleeper is woken by whatever the hub has to say. */

static void the_hub_rings_before_anybody_waits_in_vain(void **state) {
    open_hub(NULL);
    visitor visitors[2];
    assert_int_equal(house_join(home, &visitors[0], "a"), MR_OK);
    assert_int_equal(house_join(home, &visitors[1], "b"), MR_OK);
    station *sleeper = arena_station(guest_arena(visitors[1].guest), guest_station(visitors[1].guest));
    bell_arm(sleeper, BELL_LOOP);
    link_two(visitors, 1);
    uint64_t rung = 0;
    assert_int_equal(sleeper->sleep, BELL_RUNG);
    assert_int_equal(read(visitors[1].event_fd, &rung, sizeof rung), sizeof rung);
    assert_int_equal(rung, 1);
    bell_arm(sleeper, BELL_FUTEX);
    visitor_leave(&visitors[0]);
    until(&visitors[1], 1, visitors[1].gone_count == 1);
    assert_int_equal(sleeper->sleep, BELL_RUNG);
    visitor_leave(&visitors[1]);
    assert_empty();
}

/* Those who spin look at it (waiter.h). */
static void who_was_rung_and_leaves_is_rung_no_more(void **state) {
    open_hub(NULL);
    visitor visitors[2];
    assert_int_equal(house_join(home, &visitors[0], "a"), MR_OK);
    assert_int_equal(house_join(home, &visitors[1], "b"), MR_OK);
    station *sleeper = arena_station(guest_arena(visitors[0].guest), guest_station(visitors[1].guest));
    bell_arm(sleeper, BELL_FUTEX);
    link_two(visitors, 1);
    assert_true(bell_is_rung(sleeper));
    visitor_leave(&visitors[1]);
    until(visitors, 1, !bell_is_rung(sleeper));
    visitor_leave(&visitors[0]);
    assert_empty();
}

/* ---- The hub's own end, and its door. */

static void guests_are_told_when_the_hub_closes(void **state) {
    size_t fds = house_fds();
    open_hub(NULL);
    visitor visitors[2];
    assert_int_equal(house_join(home, &visitors[0], "a"), MR_OK);
    assert_int_equal(house_join(home, &visitors[1], "b"), MR_OK);
    link_two(visitors, 1);
    struct stat stat_;
    assert_int_equal(stat(home->path, &stat_), 0);
    hub_close(home->hub);
    home->hub = NULL;
    assert_int_equal(stat(home->path, &stat_), -1);
    for (int i = 0; i < 2; i++) {
        struct pollfd wait = {.fd = guest_fd(visitors[i].guest), .events = POLLIN};
        assert_int_equal(poll(&wait, 1, 10000), 1);
        visitor_poll(&visitors[i]);
        assert_int_equal(visitors[i].hub_gone_count, 1);
        assert_int_equal(visitors[i].why.status, MR_CLOSED);
        assert_int_equal(visitors[i].why.pid, getpid());
        visitor_poll(&visitors[i]);
        assert_int_equal(visitors[i].hub_gone_count, 1);
        assert_int_equal(guest_connect(visitors[i].guest, 1, 1), MR_CLOSED);
        visitor_leave(&visitors[i]);
    }
    loop_run_once(home->loop, 0);
    until(NULL, 0, house_fds() == fds);
}

static void one_path_one_hub(void **state) {
    mode_t before = umask(0); /* the file's mode does not depend on it */
    open_hub(NULL);
    umask(before);
    struct stat stat_;
    assert_int_equal(stat(home->path, &stat_), 0);
    assert_int_equal(stat_.st_mode & 07777, 0600);
    hub *second;
    hub_options options = {.path = home->path, .arena_bytes = 4 * MB};
    assert_int_equal(hub_open(home->loop, &options, &second), MR_EXISTS);
    hub_close(home->hub);

    int dead = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0); /* what a killed hub leaves behind */
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strcpy(address.sun_path, home->path);
    assert_int_equal(bind(dead, (void *)&address, sizeof address), 0);
    close(dead);
    open_hub(NULL);
    hub_close(home->hub);

    int file = open(home->path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    close(file);
    assert_int_equal(hub_open(home->loop, &options, &second), MR_EXISTS);
    assert_int_equal(unlink(home->path), 0); /* it was left alone */

    options.path = "/nonexistent/folder/hub";
    assert_int_not_equal(hub_open(home->loop, &options, &second), MR_OK);
    char long_path[200];
    memset(long_path, 'x', sizeof long_path - 1);
    long_path[sizeof long_path - 1] = '\0';
    options.path = long_path;
    assert_int_equal(hub_open(home->loop, &options, &second), MR_INVALID);
    home->hub = NULL;
}

/* ---- Strangers. */

static int call(void) {
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strcpy(address.sun_path, home->path);
    assert_int_equal(connect(fd, (void *)&address, sizeof address), 0);
    return fd;
}

/* What the hub answers before it hangs up. */
static mr_status answer(int fd) {
    packet packet;
    packet_result result;
    int64_t deadline = clock_ns() / 1000 + HOUSE_PATIENCE_US;
    while ((result = packet_receive(fd, &packet)) == PACKET_NONE && clock_ns() / 1000 < deadline)
        house_pump(home, NULL, 0);
    assert_int_not_equal(result, PACKET_NONE);
    if (result == PACKET_END) return MR_CLOSED;
    wire message;
    assert_int_equal(wire_decode(true, packet.data, packet.size, &message), MR_OK);
    packet_drop(&packet);
    return message.head.kind == WIRE_END ? (mr_status)message.cause.status : MR_OK;
}

static void strangers_get_nowhere(void **state) {
    open_hub(NULL);
    size_t fds = house_fds();
    int event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), blocking = eventfd(0, EFD_CLOEXEC), caller;
    wire hello, bye;
    wire_begin(&hello, WIRE_HELLO, 0);
    hello.hello.magic = HUB_WIRE_MAGIC;
    wire_begin(&bye, WIRE_BYE, 0);

    caller = call(); /* no descriptor */
    assert_int_equal(packet_send(caller, &hello, -1), 0);
    assert_int_equal(answer(caller), MR_CORRUPT);
    close(caller);
    caller = call(); /* not an eventfd */
    assert_int_equal(packet_send(caller, &hello, caller), 0);
    assert_int_equal(answer(caller), MR_INVALID);
    close(caller);
    caller = call(); /* one that would block the hub */
    assert_int_equal(packet_send(caller, &hello, blocking), 0);
    assert_int_equal(answer(caller), MR_INVALID);
    close(caller);
    caller = call(); /* no greeting */
    assert_int_equal(packet_send(caller, &bye, -1), 0);
    assert_int_equal(answer(caller), MR_CORRUPT);
    close(caller);
    caller = call(); /* a descriptor where none belongs */
    assert_int_equal(packet_send(caller, &bye, event), 0);
    assert_int_equal(answer(caller), MR_CORRUPT);
    close(caller);
    caller = call(); /* too long */
    char noise[4096] = {0};
    assert_int_equal(send(caller, noise, sizeof noise, 0), sizeof noise);
    assert_int_equal(answer(caller), MR_CORRUPT);
    close(caller);
    caller = call(); /* twice */
    assert_int_equal(packet_send(caller, &hello, event), 0);
    assert_int_equal(answer(caller), MR_OK);
    assert_int_equal(packet_send(caller, &hello, event), 0);
    assert_int_equal(answer(caller), MR_CORRUPT);
    close(caller);
    caller = call(); /* says nothing at all */
    assert_int_equal(answer(caller), MR_TIMEOUT);
    close(caller);
    close(event);
    close(blocking);
    assert_empty();
    until(NULL, 0, house_fds() == fds);
}

/* Many who say nothing do not keep out one who does, for longer than it takes to lose patience with them. */
static void a_crowd_at_the_door_is_bounded(void **state) {
    enum { CROWD = 100 };
    open_hub(NULL);
    size_t fds = house_fds();
    int crowd[CROWD];
    for (int i = 0; i < CROWD; i++) crowd[i] = call();
    for (int i = 0; i < 50; i++) loop_run_once(home->loop, 0);
    assert_true(house_fds() <= fds + CROWD + 64);
    visitor one;
    assert_int_equal(house_join(home, &one, "one"), MR_OK);
    visitor_leave(&one);
    for (int i = 0; i < CROWD; i++) close(crowd[i]);
    assert_empty();
    until(NULL, 0, house_fds() == fds);
}

/* Random bytes and random descriptors at a living hub, before and after the greeting. */
static void noise_does_no_harm(void **state) {
    open_hub(NULL);
    size_t fds = house_fds();
    rng rng;
    rng_init(&rng, 11);
    int event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    for (int round = 0; round < 2000; round++) {
        int caller = call();
        wire message;
        if (rng_chance(&rng, 0.8)) {
            wire_begin(&message, WIRE_HELLO, 0);
            message.hello.magic = HUB_WIRE_MAGIC;
            (void)packet_send(caller, &message, event);
        }
        for (uint64_t count = rng_below(&rng, 5); count > 0; count--) {
            wire_begin(&message, (wire_kind)(1 + rng_below(&rng, 6)), (uint32_t)rng_below(&rng, 4));
            size_t size = wire_size(&message);
            for (uint64_t flips = rng_below(&rng, 4); flips > 0; flips--)
                ((uint8_t *)&message)[rng_below(&rng, size)] = (uint8_t)rng_next(&rng);
            if (message.head.size > sizeof message) message.head.size = sizeof message;
            (void)packet_send(caller, &message, rng_chance(&rng, 0.2) ? event : -1);
        }
        loop_run_once(home->loop, 0);
        close(caller);
        loop_run_once(home->loop, 0);
    }
    close(event);
    assert_empty();
    until(NULL, 0, house_fds() == fds);
}

/* ---- Descriptors run out, on either side, at each step of joining and linking: clean refusals, nothing lost. */

enum { FILLERS_MAX = 1024 };

static void limit_fds(const struct rlimit *before, rlim_t limit) {
    struct rlimit now = {.rlim_cur = limit, .rlim_max = before->rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &now), 0);
}

/* Numbers that are free between others: they are taken, or a limit above them would limit nothing. Returns the number
 * above all that are in use. The hub's helper thread opens a file now and then, so there may be any number of them. */
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
    open_hub(NULL);
    visitor visitors[3];
    assert_int_equal(house_join(home, &visitors[0], "a"), MR_OK);
    assert_int_equal(house_join(home, &visitors[1], "b"), MR_OK);
    int joined = 0, linked = 0, fillers[FILLERS_MAX], filler_count, first = fill_gaps(fillers, &filler_count);
    size_t fds = house_fds();
    for (int room = 0; room < 16; room++) {
        visitors[0].refused_count = visitors[0].link_count = visitors[1].link_count = 0;
        limit_fds(&before, (rlim_t)(first + room));
        mr_status status = house_join(home, &visitors[2], "c");
        bool there = status == MR_OK;
        assert_true(there || status == MR_IO || status == MR_BUSY || status == MR_CLOSED);
        assert_int_equal(guest_connect_name(visitors[0].guest, "b", 1), MR_OK);
        until(visitors, 2, visitors[0].refused_count + visitors[0].link_count + visitors[0].gone_count > 0);
        limit_fds(&before, before.rlim_cur);
        if (visitors[0].link_count == 0 || visitors[0].gone_count > 0)
            assert_non_null(strstr(visitors[0].why.text, "ulimit"));
        joined += there;
        linked += visitors[0].link_count == 1 && visitors[1].link_count == 1;
        for (int i = 0; i < 2; i++) {
            assert_int_equal(visitors[i].hub_gone_count, 0);
            if (visitors[i].link_count == 1)
                assert_int_equal(guest_close(visitors[i].guest, visitors[i].links[0].link), MR_OK);
            visitors[i].gone_count = 0;
        }
        if (there) visitor_leave(&visitors[2]);
        until(visitors, 2, hub_stats_now(home->hub).rings == 0 && hub_stats_now(home->hub).guests == 2);
        for (int i = 0; i < 2; i++) visitors[i].gone_count = 0;
        until(visitors, 2, house_fds() == fds);
        hub_check(home->hub);
    }
    print_message("%d of 16 could join, %d could link\n", joined, linked);
    assert_true(joined > 0 && joined < 16 && linked > 0 && linked < 16);
    while (filler_count > 0) close(fillers[--filler_count]);
    visitor_leave(&visitors[0]);
    visitor_leave(&visitors[1]);
    assert_empty();
}

/* ---- All of it at random: afterwards the books are empty. */

static void a_busy_life_leaves_nothing(void **state) {
    enum { VISITORS = 8 };
    open_hub(&(hub_options){.arena_bytes = 8 * MB});
    size_t fds = house_fds();
    rng rng;
    rng_init(&rng, 3);
    visitor visitors[VISITORS] = {0};
    uint32_t tag = 1;
    for (int step = 0; step < 3000; step++) {
        visitor *one = &visitors[rng_below(&rng, VISITORS)], *two = &visitors[rng_below(&rng, VISITORS)];
        if (one->guest == NULL) {
            assert_int_equal(house_join(home, one, NULL), MR_OK);
            continue;
        }
        uint64_t what = rng_below(&rng, 100);
        if (what == 0) {
            visitor_leave(one);
        } else if (what < 50 && two->guest != NULL) {
            assert_int_equal(guest_connect(one->guest, guest_process(two->guest), tag++), MR_OK);
        } else if (one->link_count > 0 && one->link_count < VISITOR_LINKS_MAX) {
            guest_link *link = &one->links[rng_below(&rng, one->link_count)];
            if (link->link == 0) continue;
            if (what < 75) {
                assert_int_equal(guest_resize(one->guest, link->link, 4096 << rng_below(&rng, 6)), MR_OK);
            } else {
                assert_int_equal(guest_close(one->guest, link->link), MR_OK);
                link->link = 0; /* closed */
            }
        }
        house_pump(home, visitors, VISITORS);
        if (step % 50 == 0) hub_check(home->hub);
    }
    for (int i = 0; i < VISITORS; i++) {
        assert_int_equal(visitors[i].hub_gone_count, 0);
        if (visitors[i].guest != NULL) visitor_leave(&visitors[i]);
    }
    assert_empty();
    until(NULL, 0, house_fds() == fds);
}

int main(void) {
    signal(SIGPIPE, SIG_DFL); /* nothing here may raise it */
    log_set_level(LOG_ERROR); /* guests are dropped on purpose */
#define HUB_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        HUB_TEST(a_guest_comes_and_goes),
        HUB_TEST(joining_fails_with_a_reason),
        HUB_TEST(many_guests_have_a_station_each),
        HUB_TEST(a_link_has_two_rings),
        HUB_TEST(connecting_fails_with_a_reason),
        HUB_TEST(a_full_arena_refuses_links),
        HUB_TEST(rings_change_their_size),
        HUB_TEST(a_guest_that_is_wrong_is_dropped),
        HUB_TEST(a_guest_that_sleeps_holds_nobody_up),
        HUB_TEST(a_guest_that_only_asks_waits),
        HUB_TEST(the_hub_rings_before_anybody_waits_in_vain),
        HUB_TEST(who_was_rung_and_leaves_is_rung_no_more),

        HUB_TEST(guests_are_told_when_the_hub_closes),
        HUB_TEST(one_path_one_hub),
        HUB_TEST(strangers_get_nowhere),
        HUB_TEST(a_crowd_at_the_door_is_bounded),
        HUB_TEST(noise_does_no_harm),
        HUB_TEST(without_descriptors_everything_is_refused_cleanly),
        HUB_TEST(a_busy_life_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
