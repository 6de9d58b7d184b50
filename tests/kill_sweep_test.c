/* kill_sweep_test.c — SIGKILL at every step of the shm transport: no other process is harmed.
 *
 * A broker, a server and a client, each in its own process, use all operations: join, connect, send, fill a ring until
 * it grows, send bodies both ways, close, leave. A dry run finds the failpoints that each of them passes. Then, for
 * each of those, the run is repeated with the process killed there: at the first visit and at the last.
 *
 * Checked afterwards: the others have ended by themselves in time, with a cause where they had a link to the dead
 * process; the broker, if it lived, has no byte, link, ring or descriptor left; no file is left. Needs a build with
 * failpoints; without them it prints that and skips. */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/failpoint.h"
#include "net/shm/shm_transport.h"
#include "tests/support/broker_process.h"
#include "tests/support/test_child.h"

enum {
    PATIENCE_US = 20 * 1000 * 1000, /* a step that takes longer counts as hanging */
    TOLD_US = 5 * 1000 * 1000,      /* fifty times the bar for the notice of a death, for busy machines */
    POINTS_MAX = 512,
    SMALL = 50,
    BURST = 1500,
    BODY_BYTES = 3 << 20,
    CODE_TOLD = 3, /* early end, since the peer has ended */
    CODE_HANGS = 4,
};

typedef enum role { BROKER, SERVER, CLIENT, ROLES } role;
static const char *const role_names[ROLES] = {"hub", "server", "client"};

typedef struct shared { /* shared memory of the processes of one run */
    _Atomic uint32_t server_ready, server_opened, server_closed;
    _Atomic int64_t server_closed_us, client_closed_us;
    _Atomic uint32_t client_cause, server_cause; /* statuses */
    uint32_t visits[ROLES][POINTS_MAX];
} shared;

static shared *shared_memory;

static void note_visits(role role) {
    for (size_t i = 0; i < failpoint_count() && i < POINTS_MAX; i++)
        shared_memory->visits[role][i] = failpoint_at(i)->visits;
}

/* ---- One end. */

typedef struct end {
    shm_transport *shm_transport;
    transport transport;
    link_id link;
    unsigned opened, closed, messages, bodies, owed, bodies_sent;
    bool server, failed;
    uint8_t *in, *out;
} end;

static void body_sent(void *argument, mr_status status) { ((end *)argument)->bodies_sent++; }

/* Sends the echoes that the server owes, as far as there is room. */
static void pay(end *end) {
    uint8_t head[64] = {0};
    while (end->owed > 0 && transport_send(end->transport, end->link, span_of(head, sizeof head)) == MR_OK) end->owed--;
}

static void on_open(void *context, link_id link, const peer *peer) {
    end *end = context;
    end->opened++;
    end->link = link;
    if (end->server) atomic_fetch_add(&shared_memory->server_opened, 1);
}

static void on_message(void *context, link_id link, const message *message) {
    end *end = context;
    end->messages++;
    if (message->body.size != 0) {
        end->bodies++;
        if (message->body.size != BODY_BYTES || memcmp(end->in, end->out, BODY_BYTES) != 0) end->failed = true;
    }
    if (!end->server) return;
    if (message->body.size == 0) {
        end->owed++;
        pay(end);
        return;
    }
    uint8_t *at; /* a body is answered by a body */
    mr_status status = end->transport.ops->reserve(end->transport.self, link, 8, &at);
    if (status == MR_CLOSED) return; /* after the broker's death received messages are read, and none is sent */
    if (status != MR_OK) {
        end->failed = true;
        return;
    }
    memset(at, 1, 8);
    end->transport.ops->commit_body(end->transport.self, link, 8, span_of(end->out, BODY_BYTES), body_sent, end);
}

static void *on_body(void *context, link_id link, span head, uint64_t size) {
    return size == BODY_BYTES ? ((end *)context)->in : NULL;
}

static void on_room(void *context, link_id link) { pay(context); }

static void on_closed(void *context, link_id link, const cause *why) {
    end *end = context;
    end->closed++;
    if (why->status == MR_OK || why->text[0] == '\0') end->failed = true; /* a notice of a death needs a cause */
    if (end->server) {
        atomic_store(&shared_memory->server_closed_us, clock_now_us(clock_real()));
        atomic_store(&shared_memory->server_cause, (uint32_t)why->status);
        atomic_fetch_add(&shared_memory->server_closed, 1);
    } else {
        atomic_store(&shared_memory->client_closed_us, clock_now_us(clock_real()));
        atomic_store(&shared_memory->client_cause, (uint32_t)why->status);
    }
}

static const transport_events events = {on_open, on_message, on_body, on_room, on_closed};

static mr_status end_open(end *end, const char *broker, const char *name) {
    memset(end, 0, sizeof *end);
    end->in = malloc(BODY_BYTES);
    end->out = malloc(BODY_BYTES);
    for (size_t i = 0; i < BODY_BYTES; i++) end->out[i] = (uint8_t)(i * 31 >> 3);
    shm_transport_options options = {.broker = broker, .name = name, .ring_idle_us = 20 * 1000};
    MR_TRY(shm_transport_open(&options, &events, end, &end->shm_transport));
    end->transport = shm_transport_transport(end->shm_transport);
    return MR_OK;
}

static void end_close(end *end) {
    shm_transport_close(end->shm_transport);
    free(end->in);
    free(end->out);
}

typedef struct part { /* arguments of a child */
    const char *broker;
    const char *failpoint; /* failpoint that is armed in the child; NULL: none */
    int stop_fd;           /* closing it ends the server */
    int not_mine_fd;       /* inherited end of the other child, to be closed */
} part;

static int server(void *argument) {
    part *part = argument;
    end end;
    close(part->not_mine_fd);
    if (part->failpoint != NULL) TEST_CHILD_CHECK(failpoint_arm(part->failpoint) == MR_OK);
    if (end_open(&end, part->broker, "server") != MR_OK) return mr_last_error()[0] != '\0' ? CODE_TOLD : 1;
    end.server = true;
    atomic_store(&shared_memory->server_ready, 1);
    struct pollfd stop = {.fd = part->stop_fd, .events = POLLIN};
    while (poll(&stop, 1, 0) == 0)
        if (shm_transport_poll(end.shm_transport) == 0) shm_transport_wait(end.shm_transport, NULL, 2000);
    end_close(&end);
    TEST_CHILD_CHECK(!end.failed && end.opened == end.closed);
    note_visits(SERVER);
    return 0;
}

/* Polls until the counter reaches the value. Returns 0; CODE_TOLD if the link has ended; CODE_HANGS at the timeout. */
static int until(end *end, const unsigned *counter, unsigned value) {
    int64_t deadline = clock_now_us(clock_real()) + PATIENCE_US;
    while (*counter < value) {
        if (end->closed > 0) return CODE_TOLD;
        if (shm_transport_poll(end->shm_transport) == 0) shm_transport_wait(end->shm_transport, NULL, 10000);
        if (clock_now_us(clock_real()) > deadline) return CODE_HANGS;
    }
    return 0;
}

#define STEP(call)                    \
    do {                              \
        int code_ = (call);           \
        if (code_ != 0) return code_; \
    } while (0)

static int say(end *end, size_t size) {
    uint8_t head[256] = {0};
    int64_t deadline = clock_now_us(clock_real()) + PATIENCE_US;
    for (;;) {
        mr_status status = transport_send(end->transport, end->link, span_of(head, size));
        if (status == MR_OK) return 0;
        if (status != MR_BUSY || end->closed > 0) return CODE_TOLD;
        if (shm_transport_poll(end->shm_transport) == 0) shm_transport_wait(end->shm_transport, NULL, 1000);
        if (clock_now_us(clock_real()) > deadline) return CODE_HANGS;
    }
}

static int say_body(end *end) {
    uint8_t *at;
    for (;;) {
        mr_status status = end->transport.ops->reserve(end->transport.self, end->link, 8, &at);
        if (status == MR_OK) break;
        if (status != MR_BUSY || end->closed > 0) return CODE_TOLD;
        if (shm_transport_poll(end->shm_transport) == 0) shm_transport_wait(end->shm_transport, NULL, 1000);
    }
    memset(at, 0, 8);
    end->transport.ops->commit_body(end->transport.self, end->link, 8, span_of(end->out, BODY_BYTES), body_sent, end);
    return until(end, &end->bodies_sent, end->bodies_sent + 1);
}

static int talk(end *end) {
    if (end->transport.ops->open(end->transport.self, "shm:server", &end->link) != MR_OK) return CODE_TOLD;
    STEP(until(end, &end->opened, 1));
    for (unsigned i = 0; i < SMALL; i++) {
        STEP(say(end, 64));
        STEP(until(end, &end->messages, i + 1));
    }
    for (unsigned i = 0; i < BURST; i++) STEP(say(end, 200));
    STEP(until(end, &end->messages, SMALL + BURST));
    STEP(say_body(end));
    STEP(until(end, &end->bodies, 1));
    int64_t quiet = clock_now_us(clock_real()) + 60 * 1000; /* until grown rings have had time to shrink */
    while (clock_now_us(clock_real()) < quiet && end->closed == 0)
        if (shm_transport_poll(end->shm_transport) == 0) shm_transport_wait(end->shm_transport, NULL, 5000);
    STEP(say(end, 64));
    STEP(until(end, &end->messages, SMALL + BURST + 2));
    end->transport.ops->close(end->transport.self, end->link);
    int64_t deadline = clock_now_us(clock_real()) + PATIENCE_US;
    while (end->closed == 0) {
        if (shm_transport_poll(end->shm_transport) == 0) shm_transport_wait(end->shm_transport, NULL, 10000);
        if (clock_now_us(clock_real()) > deadline) return CODE_HANGS;
    }
    return 0;
}

static int client(void *argument) {
    part *part = argument;
    end end;
    if (part->failpoint != NULL) TEST_CHILD_CHECK(failpoint_arm(part->failpoint) == MR_OK);
    if (end_open(&end, part->broker, "client") != MR_OK) return mr_last_error()[0] != '\0' ? CODE_TOLD : 1;
    int code = talk(&end);
    if (code == CODE_HANGS) {
        shm_transport_stats stats = shm_transport_stats_now(end.shm_transport);
        fprintf(stderr, "client hangs: %u opened, %u closed, %u messages, %u bodies, %u links\n", end.opened,
                end.closed, end.messages, end.bodies, stats.links);
    }
    end_close(&end);
    TEST_CHILD_CHECK(!end.failed);
    note_visits(CLIENT);
    return code;
}

/* ---- A run. */

typedef struct outcome {
    int codes[ROLES];
    int64_t told_us; /* time from the death to the notice in another process; -1: no notice */
} outcome;

static void wait_for(_Atomic uint32_t *counter, uint32_t value, int64_t patience_us) {
    int64_t deadline = clock_now_us(clock_real()) + patience_us;
    while (atomic_load(counter) < value && clock_now_us(clock_real()) < deadline) usleep(200);
}

static int64_t death_of(pid_t pid, int timeout_ms) {
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (fd < 0) return -1;
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    int ready = poll(&wait, 1, timeout_ms);
    close(fd);
    return ready == 1 ? clock_now_us(clock_real()) : -1;
}

/* Waits until the client has found the server, or was killed before. */
static void wait_for_server(pid_t pid) {
    int64_t deadline = clock_now_us(clock_real()) + PATIENCE_US;
    while (atomic_load(&shared_memory->server_ready) == 0 && clock_now_us(clock_real()) < deadline)
        if (death_of(pid, 1) >= 0) return;
}

static outcome play(role victim, const char *failpoint) {
    memset(shared_memory, 0, offsetof(shared, visits));
    broker_process process = {.visits = shared_memory->visits[BROKER], .visits_max = POINTS_MAX};
    broker_process_start(&process, 0, victim == BROKER ? failpoint : NULL);
    int stop[2];
    assert_int_equal(pipe(stop), 0);
    part server_part = {process.path, victim == SERVER ? failpoint : NULL, stop[0], stop[1]};
    part client_part = {process.path, victim == CLIENT ? failpoint : NULL, -1, -1};
    pid_t server_pid = test_child_start(server, &server_part);
    wait_for_server(server_pid);
    pid_t client_pid = test_child_start(client, &client_part);

    outcome outcome = {.told_us = -1};
    int64_t died = -1;
    if (victim == SERVER && failpoint != NULL) died = death_of(server_pid, 5000);
    outcome.codes[CLIENT] = test_child_wait(client_pid, 2 * PATIENCE_US / 1000);
    if (victim == CLIENT && outcome.codes[CLIENT] == -SIGKILL) {
        died = clock_now_us(clock_real());
        uint32_t opened = atomic_load(&shared_memory->server_opened);
        wait_for(&shared_memory->server_closed, opened, TOLD_US);
        if (opened > 0) outcome.told_us = atomic_load(&shared_memory->server_closed_us) - died;
        if (atomic_load(&shared_memory->server_closed) < opened) outcome.told_us = TOLD_US + 1;
    } else if (victim == SERVER && died > 0 && atomic_load(&shared_memory->client_closed_us) > 0) {
        outcome.told_us = atomic_load(&shared_memory->client_closed_us) - died;
    }
    close(stop[1]);
    outcome.codes[SERVER] = test_child_wait(server_pid, PATIENCE_US / 1000);
    close(stop[0]);
    outcome.codes[BROKER] = broker_process_stop(&process);
    return outcome;
}

/* ---- The tests. */

static int set_up(void **state) {
    shared_memory = mmap(NULL, sizeof *shared_memory, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return shared_memory == MAP_FAILED;
}

static void undisturbed_everything_ends_well(void **state) {
    outcome outcome = play(ROLES, NULL);
    for (int i = 0; i < ROLES; i++) assert_int_equal(outcome.codes[i], 0);
}

static bool fine(role victim, const outcome *outcome) {
    for (int i = 0; i < ROLES; i++) {
        int code = outcome->codes[i];
        bool may_be_told = victim != (role)i;
        if (i == (int)victim ? code != -SIGKILL : code != 0 && !(may_be_told && code == CODE_TOLD)) return false;
    }
    return outcome->told_us <= TOLD_US;
}

typedef struct totals {
    unsigned scenes, bad, points;
    int64_t told_worst_us;
} totals;

/* True: the process reached the failpoint and was killed there. The number of visits varies between runs, so a later
 * visit may not happen; that run ends normally, which is checked as well. */
static bool kill_at(role victim, const char *name, unsigned nth, totals *totals) {
    char failpoint[128];
    snprintf(failpoint, sizeof failpoint, "%s=kill@%u", name, nth);
    outcome outcome = play(victim, failpoint);
    totals->scenes++;
    if (outcome.told_us > totals->told_worst_us) totals->told_worst_us = outcome.told_us;
    bool killed = outcome.codes[victim] == -SIGKILL;
    if (fine(killed ? victim : ROLES, &outcome)) return killed;
    totals->bad++;
    print_message("%s killed at %s: hub %d, server %d, client %d, told after %lld us\n", role_names[victim], failpoint,
                  outcome.codes[BROKER], outcome.codes[SERVER], outcome.codes[CLIENT], (long long)outcome.told_us);
    return killed;
}

/* A failpoint's name may occur at several sites. Visits are counted per site; the last visit is that of the busiest
 * site. */
static void sweep(role victim, totals *totals) {
    uint32_t dry[POINTS_MAX]; /* visits of the dry run; runs that end early visit fewer points */
    memcpy(dry, shared_memory->visits[victim], sizeof dry);
    for (size_t i = 0; i < failpoint_count() && i < POINTS_MAX; i++) {
        uint32_t visits = dry[i];
        bool repeated = false;
        for (size_t j = 0; j < i; j++)
            repeated |= strcmp(failpoint_at(j)->name, failpoint_at(i)->name) == 0 && dry[j] != 0;
        if (visits == 0 || repeated) continue;
        if (kill_at(victim, failpoint_at(i)->name, 1, totals)) totals->points++;
        if (visits > 2) kill_at(victim, failpoint_at(i)->name, visits / 2 + 1, totals);
    }
}

static void sweep_role(role victim, unsigned points_min) {
    if (failpoint_count() == 0) skip();
    outcome dry = play(ROLES, NULL);
    for (int i = 0; i < ROLES; i++) assert_int_equal(dry.codes[i], 0);
    totals totals = {0};
    sweep(victim, &totals);
    print_message("%s: killed at %u points in %u scenes; the others heard of it within %lld us\n", role_names[victim],
                  totals.points, totals.scenes, (long long)totals.told_worst_us);
    assert_int_equal(totals.bad, 0);
    assert_true(totals.points >= points_min);
}

static void the_client_is_killed_at_every_step(void **state) { sweep_role(CLIENT, 30); }
static void the_server_is_killed_at_every_step(void **state) { sweep_role(SERVER, 25); }
static void the_broker_is_killed_at_every_step(void **state) { sweep_role(BROKER, 15); }

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(undisturbed_everything_ends_well),
        cmocka_unit_test(the_client_is_killed_at_every_step),
        cmocka_unit_test(the_server_is_killed_at_every_step),
        cmocka_unit_test(the_broker_is_killed_at_every_step),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
