/* socket_process_test.c — two processes, one of which is killed or stopped: the other gets the cause in time. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/failpoint.h"
#include "net/socket/socket_transport.h"
#include "tests/support/socket_end.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_child.h"

enum {
    BODY = 8 << 20,
    SMALL_MESSAGES = 10,
    TOLD_WITHIN_US = 1000000, /* the bar is 100 ms */
    FAILPOINTS_MAX = 256,
};

/* The conversation: the client sends small messages and a large body; the server answers each with the same; then both
 * are idle for a while, so that they ping; then the client closes.
 *
 *   client   open  small × 10  body                   (pings)  close
 *   server         small × 10        body             (pings)         close */
typedef struct process { /* one side of the conversation */
    socket_end end;
    event_loop *loop;
    link_id link;
    event_loop_timer *silence;
    uint8_t *body;
    bool is_client, refused_to_start, shares;
    int kill_at; /* message at which this side kills itself; 0: none, < 0: the body */
    int64_t closed_us;
} process;

static const socket_transport_options options = {.name = "other", .heartbeat_us = 5000, .heartbeat_misses = 2000};

static void maybe_die(const process *process, int now) {
    if (process->kill_at == now && now != 0) kill(getpid(), SIGKILL);
}

static void after_silence(void *context) {
    process *self = context;
    self->end.wire.ops->close(self->end.wire.self, self->link);
}

static void on_open(socket_end *end, link_id link) {
    process *self = end->user;
    self->link = link;
    if (!self->is_client) return;
    for (int i = 0; i < SMALL_MESSAGES; i++) (void)socket_end_send(end, link, &i, sizeof i);
    (void)socket_end_send_body(end, link, span_of("body", 4), span_of(self->body, BODY));
}

static void on_message(socket_end *end, link_id link, const message *message) {
    process *self = end->user;
    maybe_die(self, (int)end->messages);
    if (self->is_client) {
        if (message->body.size > 0) event_loop_timer_set(self->silence, 50000);
    } else if (message->body.size > 0) {
        (void)socket_end_send_body(end, link, span_of("body", 4), span_of(self->body, BODY));
    } else {
        (void)transport_send_now(end->wire, link, message->head);
    }
}

static void *on_body(socket_end *end, link_id link, span head, uint64_t size) {
    process *self = end->user;
    maybe_die(self, -1);
    return self->body;
}

static void on_closed(socket_end *end, link_id link, const cause *why) {
    process *self = end->user;
    self->closed_us = event_loop_now_us(self->loop);
}

static bool process_open(process *self, bool is_client) {
    const process given = *self;
    socket_transport_options wanted = options;
    wanted.shares = given.shares;
    *self = (process){.kill_at = given.kill_at, .shares = given.shares, .is_client = is_client};
    if (event_loop_create(&self->loop) != MR_OK || !socket_end_open(&self->end, self->loop, &wanted)) return false;
    self->body = xcalloc(1, BODY);
    self->silence = event_loop_timer_create(self->loop, after_silence, self);
    self->end.user = self;
    self->end.on_open = on_open;
    self->end.on_message = on_message;
    self->end.on_body = on_body;
    self->end.on_closed = on_closed;
    return true;
}

static void process_close(process *self) {
    event_loop_timer_destroy(self->silence);
    socket_end_close(&self->end);
    event_loop_destroy(self->loop);
    free(self->body);
}

/* ---- The child. */

typedef struct shared { /* shared memory of both processes */
    char address[ADDRESS_TEXT_MAX];
    _Atomic bool listening;
    unsigned visits[FAILPOINTS_MAX];
} shared;

typedef struct plan {
    shared *shared;
    bool child_is_client;
    const char *failpoint; /* failpoint that is armed in the child; NULL: none */
    int kill_at;
    const char *listen; /* the server's address */
    bool shares;        /* through shared memory */
} plan;

static int child(void *argument) {
    const plan *plan = argument;
    failpoint_disarm_all(); /* does not count the parent's visits */
    if (plan->failpoint != NULL) TEST_CHILD_CHECK(failpoint_arm(plan->failpoint) == MR_OK);
    process self = {.kill_at = plan->kill_at, .shares = plan->shares};
    TEST_CHILD_CHECK(process_open(&self, plan->child_is_client));
    if (plan->child_is_client) {
        TEST_CHILD_CHECK(socket_end_connect(&self.end, plan->shared->address).v != 0);
    } else {
        TEST_CHILD_CHECK(socket_end_listen(&self.end, plan->listen));
        memcpy(plan->shared->address, self.end.address, sizeof plan->shared->address);
        plan->shared->listening = true;
    }
    bool ended = UNTIL(self.loop, self.end.closed == 1 || socket_transport_stats_now(self.end.transport).refused > 0);
    process_close(&self);
    for (size_t i = 0; i < failpoint_count() && i < FAILPOINTS_MAX; i++)
        plan->shared->visits[i] = failpoint_at(i)->visits;
    TEST_CHILD_CHECK(ended);
    return 0;
}

/* ---- The parent: the other side, and the checks. */

typedef struct recorder {
    event_loop *loop;
    int64_t died_us;
} recorder;

static void on_death(void *context) {
    recorder *recorder = context;
    if (recorder->died_us == 0) recorder->died_us = event_loop_now_us(recorder->loop);
}

typedef struct outcome {
    int code; /* exit code of the child */
    unsigned opened, closed, messages;
    cause why;
    int64_t told_us; /* time from the death to the notice; < 0: notice before the death */
} outcome;

static outcome run(plan *plan) {
    process self = {.shares = plan->shares};
    assert_true(process_open(&self, !plan->child_is_client));
    memset(plan->shared, 0, sizeof *plan->shared);
    if (plan->child_is_client) {
        assert_true(socket_end_listen(&self.end, plan->listen));
        memcpy(plan->shared->address, self.end.address, sizeof plan->shared->address);
    }
    pid_t pid = test_child_start(child, plan);
    recorder recorder = {.loop = self.loop};
    event_loop_watch *watch;
    int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    assert_int_equal(event_loop_watch_add(self.loop, pidfd, on_death, &recorder, &watch), MR_OK);
    if (!plan->child_is_client) {
        WAIT_FOR(self.loop, plan->shared->listening || recorder.died_us != 0);
        if (plan->shared->listening) assert_int_not_equal(socket_end_connect(&self.end, plan->shared->address).v, 0);
    }
    /* The child may die before this side knew the link: then there is no notice. */
    socket_end *e = &self.end;
    WAIT_FOR(self.loop,
             e->closed == 1 || (recorder.died_us != 0 && socket_transport_stats_now(e->transport).links == 0 &&
                                socket_transport_stats_now(e->transport).strangers == 0));
    outcome outcome = {.opened = e->opened, .closed = e->closed, .messages = e->messages, .why = e->why};
    WAIT_FOR(self.loop, recorder.died_us != 0);
    outcome.told_us = e->closed == 0 ? 0 : self.closed_us - recorder.died_us;
    event_loop_watch_remove(watch);
    close(pidfd);
    outcome.code = test_child_wait(pid, 30000);
    process_close(&self);
    return outcome;
}

typedef struct fixture {
    char folder[TEMP_DIR_FOLDER_MAX], path[TEMP_DIR_FOLDER_MAX + 16];
    plan plan;
} fixture;

static int setup(void **state) {
    fixture *f = xcalloc(1, sizeof *f);
    assert_true(temp_dir_folder(f->folder));
    snprintf(f->path, sizeof f->path, "unix:%s/socket", f->folder);
    f->plan.shared = mmap(NULL, sizeof(shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(f->plan.shared, MAP_FAILED);
    *state = f;
    return 0;
}

/* A killed child may leave its socket file, and nothing else. */
static int teardown(void **state) {
    fixture *f = *state;
    munmap(f->plan.shared, sizeof(shared));
    unlink(f->path + strlen("unix:"));
    assert_int_equal(rmdir(f->folder), 0);
    free(f);
    return 0;
}

enum { WAYS = 6 }; /* over tcp, over a unix socket, through shared memory; the child is either side */

static void use(fixture *f, int way) {
    f->plan.child_is_client = way % 2 == 0;
    f->plan.listen = way / 2 == 0 ? "tcp:127.0.0.1:0" : f->path;
    f->plan.shares = way / 2 == 2;
}

static void the_conversation_comes_to_its_end(void **state) {
    fixture *f = *state;
    for (int way = 0; way < WAYS; way++) {
        use(f, way);
        outcome outcome = run(&f->plan);
        assert_int_equal(outcome.code, 0);
        assert_int_equal(outcome.closed, 1);
        assert_int_equal(outcome.why.status, MR_CLOSED);
        assert_int_equal(outcome.messages, SMALL_MESSAGES + 1);
    }
}

static void expect_told(const outcome *outcome) {
    assert_int_equal(outcome->code, -SIGKILL);
    assert_int_equal(outcome->closed, 1);
    assert_int_equal(outcome->why.status, MR_PEER_DIED);
    assert_non_null(strstr(outcome->why.text, "lost 'other'"));
    assert_int_equal(outcome->why.signal, 0);
    assert_true(outcome->why.pid > 0);
    assert_true(outcome->told_us < TOLD_WITHIN_US);
}

static void a_killed_process_is_reported(void **state) {
    fixture *f = *state;
    static const int moments[] = {1, 5, SMALL_MESSAGES, -1, SMALL_MESSAGES + 1};
    int64_t latest_us = 0;
    for (int way = 0; way < WAYS; way++) {
        for (size_t i = 0; i < sizeof moments / sizeof moments[0]; i++) {
            use(f, way);
            f->plan.kill_at = moments[i];
            outcome outcome = run(&f->plan);
            expect_told(&outcome);
            if (outcome.told_us > latest_us) latest_us = outcome.told_us;
        }
    }
    print_message("told at most %lld us after the death\n", (long long)latest_us);
}

/* ---- Every step of a link's life. */

static bool is_ours(const failpoint *point) { return strncmp(point->name, "stream.", 7) == 0; }

/* The child dies at each failpoint in turn, as client and as server. This side ends, too, in time. */
static void killed_at_every_step(void **state) {
    fixture *f = *state;
    if (failpoint_count() == 0) skip();
    assert_true(failpoint_count() <= FAILPOINTS_MAX);
    unsigned kills = 0, visited[FAILPOINTS_MAX] = {0};
    int64_t latest_us = 0;
    for (int way = 0; way < WAYS; way++) {
        use(f, way);
        f->plan.failpoint = NULL;
        assert_int_equal(run(&f->plan).code, 0);
        unsigned visits[FAILPOINTS_MAX];
        memcpy(visits, f->plan.shared->visits, sizeof visits);
        for (size_t i = 0; i < failpoint_count(); i++) {
            if (!is_ours(failpoint_at(i)) || visits[i] == 0) continue;
            visited[i]++;
            char armed[128];
            snprintf(armed, sizeof armed, "%s=kill", failpoint_at(i)->name);
            f->plan.failpoint = armed;
            outcome outcome = run(&f->plan);
            /* Which side pings, and whether a ping finds a ring full, varies between runs. */
            for (int again = 0; outcome.code == 0 && again < 20; again++) outcome = run(&f->plan);
            if (outcome.code != -SIGKILL)
                print_error("%s: the child was not killed but ended with %d\n", armed, outcome.code);
            assert_int_equal(outcome.code, -SIGKILL);
            if (outcome.opened > 0) assert_int_equal(outcome.closed, 1);
            if (outcome.told_us >= TOLD_WITHIN_US)
                print_error("%s: told after %lld µs\n", armed, (long long)outcome.told_us);
            assert_true(outcome.told_us < TOLD_WITHIN_US);
            if (outcome.told_us > latest_us) latest_us = outcome.told_us;
            kills++;
        }
    }
    unsigned reached = 0;
    for (size_t i = 0; i < failpoint_count(); i++) {
        if (!is_ours(failpoint_at(i))) continue;
        if (visited[i] == 0) print_error("%s is never reached\n", failpoint_at(i)->name);
        assert_true(visited[i] > 0);
        reached++;
    }
    print_message("%u failpoints, %u kills; told at most %lld us after the death\n", reached, kills,
                  (long long)latest_us);
    assert_true(reached >= 10);
}

/* The failpoint returns an error instead of a death: both sides end, and neither hangs. */
static void errors_at_every_call(void **state) {
    fixture *f = *state;
    if (failpoint_count() == 0) skip();
    static const char *const errors[] = {"stream.connect=error", "stream.read=error",    "stream.read=error@5",
                                         "stream.write=error",   "stream.write=error@3", "stream.write=error@20"};
    for (int way = 0; way < WAYS; way++) {
        for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
            use(f, way);
            if (i == 0 && !f->plan.child_is_client) continue;
            f->plan.failpoint = errors[i];
            outcome outcome = run(&f->plan);
            assert_int_equal(outcome.code, 0);
            if (outcome.opened > 0) assert_int_equal(outcome.closed, 1);
        }
    }
}

/* ---- Stopped, not dead. */

static int serve_for_ever(void *argument) {
    const plan *plan = argument;
    process self = {0};
    TEST_CHILD_CHECK(process_open(&self, false));
    TEST_CHILD_CHECK(socket_end_listen(&self.end, plan->listen));
    memcpy(plan->shared->address, self.end.address, sizeof plan->shared->address);
    plan->shared->listening = true;
    event_loop_run(self.loop);
    return 0;
}

static void a_stopped_process_is_silent(void **state) {
    fixture *f = *state;
    use(f, 1);
    memset(f->plan.shared, 0, sizeof *f->plan.shared);
    pid_t pid = test_child_start(serve_for_ever, &f->plan);
    socket_transport_options impatient = {.heartbeat_us = 20000, .heartbeat_misses = 5};
    event_loop *loop;
    socket_end client;
    assert_int_equal(event_loop_create(&loop), MR_OK);
    assert_true(socket_end_open(&client, loop, &impatient));
    WAIT_FOR(loop, f->plan.shared->listening);
    socket_end_connect(&client, f->plan.shared->address);
    WAIT_FOR(loop, client.opened == 1);
    kill(pid, SIGSTOP);
    WAIT_FOR(loop, client.closed == 1);
    assert_int_equal(client.why.status, MR_TIMEOUT);
    assert_int_equal(client.why.pid, pid);
    kill(pid, SIGCONT); /* the child continues, finds its link closed, and serves the next link */
    socket_end_connect(&client, f->plan.shared->address);
    WAIT_FOR(loop, client.opened == 2);
    kill(pid, SIGKILL);
    WAIT_FOR(loop, client.closed == 2);
    assert_int_equal(client.why.status, MR_PEER_DIED);
    assert_int_equal(test_child_wait(pid, 10000), -SIGKILL);
    socket_end_close(&client);
    event_loop_destroy(loop);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(the_conversation_comes_to_its_end),
        TEST(a_killed_process_is_reported),
        TEST(killed_at_every_step),
        TEST(errors_at_every_call),
        TEST(a_stopped_process_is_silent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
