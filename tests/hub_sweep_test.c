/* hub_sweep_test.c — the hub, and guests, are killed at every failpoint that their files have: everybody else comes to
 * an end by himself, and the hub's books are empty afterwards.
 *
 *   hub      runs until it is told to stop, checks its books, closes
 *   partner  takes every link, releases old rings, closes what is gone; ends with the hub
 *   asks     links, resizes, closes, links again, leaves; then joins once more and dies without a word */
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
#include "tests/support/child.h"
#include "tests/support/house.h"

enum { END_MS = 30000, SITES_MAX = 128 };

/* Exit codes: 0 all done, or one of these. */
enum { CUT_SHORT = 3, HUB_ENDED = 4, BOOKS_NOT_EMPTY = 5 };

typedef struct stage { /* in memory that all of them share */
    _Atomic bool hub_up, partner_in, stop;
} stage;

typedef struct role {
    house *house;
    stage *stage;
    const char *arm; /* NULL: lives */
} role;

static void take_role(const role *role) {
    if (role->arm != NULL && failpoint_arm(role->arm) != MR_OK) _exit(99);
}

/* ---- The hub. */

static bool stopped(const role *role, house *house) {
    hub_stats stats = hub_stats_now(house->hub);
    return atomic_load(&role->stage->stop) && stats.guests <= 1;
}

static int play_hub(void *argument) {
    const role *role = argument;
    take_role(role);
    house house = *role->house;
    CHILD_CHECK(loop_create(&house.loop) == MR_OK);
    CHILD_CHECK(house_open(&house, NULL) == MR_OK);
    atomic_store(&role->stage->hub_up, true);
    while (!stopped(role, &house)) loop_run_once(house.loop, 1000);
    bool empty = house_until(&house, NULL, 0,
                             hub_stats_now(house.hub).links == 0 && hub_stats_now(house.hub).rings == 0 &&
                                 hub_stats_now(house.hub).used == 0);
    hub_close(house.hub);
    loop_destroy(house.loop);
    return empty ? 0 : BOOKS_NOT_EMPTY;
}

/* ---- The partner. */

static uint8_t *flag_in(const visitor *self, extent ring) {
    return arena_at(guest_arena(self->guest), ring.offset + RING_HEADER);
}

/* The sender says in the old ring that it has left it. */
static void release_old(visitor *self) {
    for (uint32_t i = 0; i < self->link_count; i++) {
        guest_link *link = &self->links[i];
        if (link->receive.size == 0 || __atomic_load_n(flag_in(self, link->receive), __ATOMIC_ACQUIRE) != 'R') continue;
        (void)!guest_release(self->guest, link->link, link->receive);
        link->receive.size = 0; /* the new one is not looked at */
    }
}

static void close_gone(visitor *self) {
    for (uint32_t i = 0; i < self->link_count; i++) {
        guest_link *link = &self->links[i];
        if (link->tag != VISITOR_GONE) continue;
        (void)!guest_close(self->guest, link->link);
        link->tag = 0;
        link->receive.size = 0;
    }
}

static int play_partner(void *argument) {
    const role *role = argument;
    take_role(role);
    visitor *self = calloc(1, sizeof *self);
    mr_status status = visitor_join(self, role->house->path, "partner");
    if (status != MR_OK) return CUT_SHORT;
    atomic_store(&role->stage->partner_in, true);
    while (self->hub_gone_count == 0) {
        visitor_wait(self, 1000);
        release_old(self);
        close_gone(self);
    }
    visitor_leave(self);
    return HUB_ENDED;
}

/* ---- The one who asks. */

/* Waits until it happened, or something else that ends it. */
#define wait_or_end(self, condition)                                                                                 \
    do {                                                                                                             \
        while (!(condition) && (self)->hub_gone_count == 0 && (self)->refused_count == 0 && (self)->gone_count == 0) \
            visitor_wait(self, 100000);                                                                              \
        if (!(condition)) return CUT_SHORT;                                                                          \
    } while (0)

static int first_life(const role *role, visitor *self) {
    if (visitor_join(self, role->house->path, "asks") != MR_OK) return CUT_SHORT;
    if (guest_connect_name(self->guest, "partner", 1) != MR_OK) return CUT_SHORT;
    wait_or_end(self, self->link_count == 1);
    const guest_link *link = &self->links[0];
    if (guest_resize(self->guest, link->link, 65536) != MR_OK) return CUT_SHORT;
    wait_or_end(self, self->resized_count == 1);
    if (self->resized.size == 0) return CUT_SHORT; /* the partner is gone */
    __atomic_store_n(flag_in(self, link->send), 'R', __ATOMIC_RELEASE);
    if (guest_connect(self->guest, link->peer.process, 2) != MR_OK) return CUT_SHORT;
    wait_or_end(self, self->link_count == 2);
    if (guest_close(self->guest, link->link) != MR_OK) return CUT_SHORT;
    visitor_leave(self);
    return 0;
}

static int play_asks(void *argument) {
    const role *role = argument;
    take_role(role);
    visitor *self = calloc(1, sizeof *self);
    int code = first_life(role, self);
    if (code != 0) return code;
    if (visitor_join(self, role->house->path, "asks again") != MR_OK) return CUT_SHORT;
    if (guest_connect_name(self->guest, "partner", 1) != MR_OK) return CUT_SHORT;
    wait_or_end(self, self->link_count == 1);
    return 0;
}

/* ---- One evening. */

typedef enum who { NOBODY, HUB, PARTNER, ASKS } who;

static bool plausible(int code) { return code == 0 || code == CUT_SHORT || code == HUB_ENDED; }

static void wait_flag(const _Atomic bool *flag, pid_t pid) {
    while (!atomic_load(flag) && kill(pid, 0) == 0) {
        siginfo_t info = {0};
        if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0) return;
        usleep(200);
    }
}

/* True: the one who was armed died there. Whatever happens, all others end by themselves. */
static bool evening(house *house, stage *stage, who armed, const char *arm) {
    *stage = (struct stage){0};
    role hub = {house, stage, armed == HUB ? arm : NULL}, partner = {house, stage, armed == PARTNER ? arm : NULL},
         asks = {house, stage, armed == ASKS ? arm : NULL};
    pid_t hub_pid = child_start(play_hub, &hub);
    wait_flag(&stage->hub_up, hub_pid);
    pid_t partner_pid = child_start(play_partner, &partner);
    wait_flag(&stage->partner_in, partner_pid);
    pid_t asks_pid = child_start(play_asks, &asks);
    int asks_code = child_wait(asks_pid, END_MS);
    atomic_store(&stage->stop, true);
    int hub_code = child_wait(hub_pid, END_MS), partner_code = child_wait(partner_pid, END_MS);
    unlink(house->path); /* what a killed hub leaves; the next one would replace it */
    int codes[] = {[HUB] = hub_code, [PARTNER] = partner_code, [ASKS] = asks_code};
    bool died = armed != NOBODY && codes[armed] == -SIGKILL;
    if (died) codes[armed] = 0;
    if (!plausible(codes[HUB]) || !plausible(codes[PARTNER]) || !plausible(codes[ASKS]))
        fail_msg("%s: hub %d, partner %d, asks %d", arm == NULL ? "nobody dies" : arm, hub_code, partner_code,
                 asks_code);
    if (armed == NOBODY) assert_true(hub_code == 0 && partner_code == HUB_ENDED && asks_code == 0);
    return died;
}

static bool swept(const char *name) { return strncmp(name, "hub.", 4) == 0 || strncmp(name, "guest.", 6) == 0; }

static void everybody_else_lives_through_every_death(void **state) {
    house house;
    assert_int_equal(house_build(&house), 0);
    stage *stage = mmap(NULL, sizeof *stage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(stage, MAP_FAILED);
    evening(&house, stage, NOBODY, NULL);
    size_t sites = 0;
    for (size_t i = 0; i < failpoint_count(); i++) {
        const char *name = failpoint_at(i)->name;
        if (!swept(name)) continue;
        sites++;
        char arm[128];
        snprintf(arm, sizeof arm, "%s=kill", name);
        bool died = evening(&house, stage, name[0] == 'h' ? HUB : ASKS, arm);
        if (name[0] == 'g' && evening(&house, stage, PARTNER, arm)) died = true;
        if (!died) fail_msg("nobody came past %s", name);
    }
    print_message("%zu places to die, each reached\n", sites);
    if (failpoint_count() > 0) assert_true(sites >= 20);
    munmap(stage, sizeof *stage);
    assert_int_equal(house_raze(&house), 0);
}

int main(void) {
    log_set_level(LOG_ERROR); /* guests are dropped on purpose */
    const struct CMUnitTest tests[] = {cmocka_unit_test(everybody_else_lives_through_every_death)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
