/* broker_sweep_test.c — the broker and its clients are killed at every failpoint of their files: all other processes
 * end by themselves, and the broker has no clients, links or memory left.
 *
 *   broker   runs until the test stops it, checks that its tables are empty, closes
 *   partner  accepts every link, releases old rings, closes links whose peer has ended; ends with the broker
 *   asks     opens links, resizes, closes, links again, leaves; then joins once more and dies without a message */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/failpoint.h"
#include "base/log.h"
#include "net/shm/ring.h"
#include "tests/support/broker_fixture.h"
#include "tests/support/test_child.h"

enum { END_MS = 30000, SITES_MAX = 128 };

/* Exit codes besides 0. */
enum { CUT_SHORT = 3, BROKER_ENDED = 4, BOOKS_NOT_EMPTY = 5 };

typedef struct stage { /* shared memory of all processes of a run */
    _Atomic bool broker_up, partner_in, stop;
} stage;

typedef struct role {
    broker_fixture *fixture;
    stage *stage;
    const char *arm; /* failpoint that kills the process; NULL: none */
} role;

static void take_role(const role *role) {
    if (role->arm != NULL && failpoint_arm(role->arm) != MR_OK) _exit(99);
}

/* ---- The broker. */

static bool stopped(const role *role, broker_fixture *fixture) {
    broker_stats stats = broker_stats_now(fixture->broker);
    return atomic_load(&role->stage->stop) && stats.peers <= 1;
}

static int play_broker(void *argument) {
    const role *role = argument;
    take_role(role);
    broker_fixture fixture = *role->fixture;
    TEST_CHILD_CHECK(event_loop_create(&fixture.loop) == MR_OK);
    TEST_CHILD_CHECK(broker_fixture_open(&fixture, NULL) == MR_OK);
    atomic_store(&role->stage->broker_up, true);
    while (!stopped(role, &fixture)) event_loop_run_once(fixture.loop, 1000);
    bool empty = broker_fixture_until(&fixture, NULL, 0,
                                      broker_stats_now(fixture.broker).links == 0 &&
                                          broker_stats_now(fixture.broker).rings == 0 &&
                                          broker_stats_now(fixture.broker).used == 0);
    broker_close(fixture.broker);
    event_loop_destroy(fixture.loop);
    return empty ? 0 : BOOKS_NOT_EMPTY;
}

/* ---- The partner. */

static uint8_t *flag_in(const visitor *self, extent ring) {
    return arena_at(broker_client_arena(self->client), ring.offset + RING_HEADER);
}

/* Releases old rings that their senders have left; a sender reports that by a flag in the old ring. */
static void release_old(visitor *self) {
    for (uint32_t i = 0; i < self->link_count; i++) {
        broker_client_link *link = &self->links[i];
        if (link->receive.size == 0 || __atomic_load_n(flag_in(self, link->receive), __ATOMIC_ACQUIRE) != 'R') continue;
        (void)!broker_client_release(self->client, link->link, link->receive);
        link->receive.size = 0; /* the test does not read the new ring */
    }
}

static void close_gone(visitor *self) {
    for (uint32_t i = 0; i < self->link_count; i++) {
        broker_client_link *link = &self->links[i];
        if (link->tag != VISITOR_GONE) continue;
        (void)!broker_client_close(self->client, link->link);
        link->tag = 0;
        link->receive.size = 0;
    }
}

static int play_partner(void *argument) {
    const role *role = argument;
    take_role(role);
    visitor *self = calloc(1, sizeof *self);
    mr_status status = visitor_join(self, role->fixture->path, "partner");
    if (status != MR_OK) return CUT_SHORT;
    atomic_store(&role->stage->partner_in, true);
    while (self->broker_gone_count == 0) {
        visitor_wait(self, 1000);
        release_old(self);
        close_gone(self);
    }
    visitor_leave(self);
    return BROKER_ENDED;
}

/* ---- The process that opens links. */

/* Waits until the condition holds; an event that ends the process ends the wait. */
#define wait_or_end(self, condition)                                                           \
    do {                                                                                       \
        while (!(condition) && (self)->broker_gone_count == 0 && (self)->refused_count == 0 && \
               (self)->gone_count == 0)                                                        \
            visitor_wait(self, 100000);                                                        \
        if (!(condition)) return CUT_SHORT;                                                    \
    } while (0)

static int first_life(const role *role, visitor *self) {
    if (visitor_join(self, role->fixture->path, "asks") != MR_OK) return CUT_SHORT;
    if (broker_client_connect_name(self->client, "partner", 1) != MR_OK) return CUT_SHORT;
    wait_or_end(self, self->link_count == 1);
    const broker_client_link *link = &self->links[0];
    if (broker_client_resize(self->client, link->link, 65536) != MR_OK) return CUT_SHORT;
    wait_or_end(self, self->resized_count == 1);
    if (self->resized.size == 0) return CUT_SHORT; /* the partner has ended */
    __atomic_store_n(flag_in(self, link->send), 'R', __ATOMIC_RELEASE);
    if (broker_client_connect(self->client, link->peer.process, 2) != MR_OK) return CUT_SHORT;
    wait_or_end(self, self->link_count == 2);
    if (broker_client_close(self->client, link->link) != MR_OK) return CUT_SHORT;
    visitor_leave(self);
    return 0;
}

static int play_asks(void *argument) {
    const role *role = argument;
    take_role(role);
    visitor *self = calloc(1, sizeof *self);
    int code = first_life(role, self);
    if (code != 0) return code;
    if (visitor_join(self, role->fixture->path, "asks again") != MR_OK) return CUT_SHORT;
    if (broker_client_connect_name(self->client, "partner", 1) != MR_OK) return CUT_SHORT;
    wait_or_end(self, self->link_count == 1);
    return 0;
}

/* ---- One run. */

typedef enum who { NOBODY, BROKER, PARTNER, ASKS } who;

static bool plausible(int code) { return code == 0 || code == CUT_SHORT || code == BROKER_ENDED; }

static void wait_flag(const _Atomic bool *flag, pid_t pid) {
    while (!atomic_load(flag) && kill(pid, 0) == 0) {
        siginfo_t info = {0};
        if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0) return;
        usleep(200);
    }
}

/* Runs all processes. True: the armed process died at its failpoint. In any case the others end by themselves. */
static bool evening(broker_fixture *fixture, stage *stage, who armed, const char *arm) {
    *stage = (struct stage){0};
    role broker = {fixture, stage, armed == BROKER ? arm : NULL},
         partner = {fixture, stage, armed == PARTNER ? arm : NULL}, asks = {fixture, stage, armed == ASKS ? arm : NULL};
    pid_t broker_pid = test_child_start(play_broker, &broker);
    wait_flag(&stage->broker_up, broker_pid);
    pid_t partner_pid = test_child_start(play_partner, &partner);
    wait_flag(&stage->partner_in, partner_pid);
    pid_t asks_pid = test_child_start(play_asks, &asks);
    int asks_code = test_child_wait(asks_pid, END_MS);
    atomic_store(&stage->stop, true);
    int broker_code = test_child_wait(broker_pid, END_MS), partner_code = test_child_wait(partner_pid, END_MS);
    unlink(fixture->path); /* a killed broker leaves its socket; the next broker would replace it */
    int codes[] = {[BROKER] = broker_code, [PARTNER] = partner_code, [ASKS] = asks_code};
    bool died = armed != NOBODY && codes[armed] == -SIGKILL;
    if (died) codes[armed] = 0;
    if (!plausible(codes[BROKER]) || !plausible(codes[PARTNER]) || !plausible(codes[ASKS]))
        fail_msg("%s: hub %d, partner %d, asks %d", arm == NULL ? "nobody dies" : arm, broker_code, partner_code,
                 asks_code);
    if (armed == NOBODY) assert_true(broker_code == 0 && partner_code == BROKER_ENDED && asks_code == 0);
    return died;
}

static bool swept(const char *name) { return strncmp(name, "hub.", 4) == 0 || strncmp(name, "guest.", 6) == 0; }

static void others_survive_every_death(void **state) {
    broker_fixture fixture;
    assert_int_equal(broker_fixture_build(&fixture), 0);
    stage *stage = mmap(NULL, sizeof *stage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(stage, MAP_FAILED);
    evening(&fixture, stage, NOBODY, NULL);
    size_t sites = 0;
    for (size_t i = 0; i < failpoint_count(); i++) {
        const char *name = failpoint_at(i)->name;
        if (!swept(name)) continue;
        sites++;
        char arm[128];
        snprintf(arm, sizeof arm, "%s=kill", name);
        bool died = evening(&fixture, stage, name[0] == 'h' ? BROKER : ASKS, arm);
        if (name[0] == 'g' && evening(&fixture, stage, PARTNER, arm)) died = true;
        if (!died) fail_msg("nobody came past %s", name);
    }
    print_message("%zu places to die, each reached\n", sites);
    if (failpoint_count() > 0) assert_true(sites >= 20);
    munmap(stage, sizeof *stage);
    assert_int_equal(broker_fixture_raze(&fixture), 0);
}

int main(void) {
    log_set_level(LOG_ERROR); /* no warnings about clients that the test kills */
    const struct CMUnitTest tests[] = {cmocka_unit_test(others_survive_every_death)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
