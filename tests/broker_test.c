/* broker_test.c — a broker and real processes: clients are killed at any moment, stopped, replaced, or of another user.
 * Every other client gets the cause, and nothing stays behind. */
#include "net/shm/broker.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"
#include "base/rng.h"
#include "net/shm/doorbell.h"
#include "tests/support/broker_fixture.h"
#include "tests/support/test_child.h"

/* Limit for the notice of a death. The bar is 100 ms; tests allow ten times as much, and print the measured value. */
enum { TOLD_MS_MAX = 1000, CHILD_MS = 30000 };

static broker_fixture house_;
static broker_fixture *const home = &house_;

static int set_up(void **state) { return broker_fixture_build(home); }
static int tear_down(void **state) { return broker_fixture_raze(home); }

static void open_broker(const broker_options *options) { assert_int_equal(broker_fixture_open(home, options), MR_OK); }

#define until(visitors, count, condition) assert_true(broker_fixture_until(home, visitors, count, condition))

static void assert_empty(void) { until(NULL, 0, broker_fixture_is_empty(home)); }

static void assert_clean(size_t fds) {
    assert_empty();
    until(NULL, 0, broker_fixture_fds() == fds);
}

/* ---- Ways in which a client ends. */

typedef enum ending { KILLED, SEGFAULT, EXIT_7, SAYS_BYE, REPLACED, REAPED_BY_OTHERS, NOT_REAPED } ending;

typedef struct victim_life {
    const char *path;
    ending ending;
    const char *calls; /* client to which the victim opens a link; NULL: the victim waits for a link */
} victim_life;

static int victim_stays(visitor *victim) {
    for (;;) {
        visitor_wait(victim, 1000000);
        if (victim->broker_gone_count > 0) return 1;
    }
}

/* Joins, waits for the first link, then ends in the given way. A victim that is to be killed only waits. */
static int victim_main(void *argument) {
    const victim_life *life = argument;
    visitor victim;
    TEST_CHILD_CHECK(visitor_join(&victim, life->path, "victim") == MR_OK);
    if (life->calls != NULL) TEST_CHILD_CHECK(broker_client_connect_name(victim.client, life->calls, 1) == MR_OK);
    while (victim.link_count == 0 && victim.broker_gone_count == 0) visitor_wait(&victim, 1000000);
    switch (life->ending) {
    case SEGFAULT: raise(SIGUSR1); break;
    case EXIT_7: return 7;
    case SAYS_BYE: visitor_leave(&victim); return 0;
    case REPLACED: execl("/bin/sleep", "sleep", "60", (char *)NULL); return 99;
    default: break;
    }
    return victim_stays(&victim);
}

/* The victim is the grandchild of the broker's process: only the kernel reports its end. */
static int stepmother(void *argument) {
    const victim_life *life = argument;
    pid_t pid = test_child_start(victim_main, argument);
    if (life->ending == REAPED_BY_OTHERS) return test_child_wait(pid, CHILD_MS) == -SIGKILL ? 0 : 1;
    pause();
    return 1;
}

static double ms_since(int64_t start_ns) { return (double)(clock_ns() - start_ns) / 1e6; }

/* A client with a link to the victim; returns the cause that it received, and the time until then. */
static cause watch_it_end(ending ending, double *ms) {
    victim_life life = {.path = home->path, .ending = ending};
    bool grandchild = ending == REAPED_BY_OTHERS || ending == NOT_REAPED;
    visitor recorder;
    assert_int_equal(broker_fixture_join(home, &recorder, "witness"), MR_OK);
    pid_t child = test_child_start(grandchild ? stepmother : victim_main, &life);
    until(&recorder, 1, broker_stats_now(home->broker).peers == 2);
    assert_int_equal(broker_client_connect_name(recorder.client, "victim", 1), MR_OK);
    until(&recorder, 1, recorder.link_count == 1);
    pid_t victim = recorder.links[0].peer.pid;
    if (!grandchild) assert_int_equal(victim, child);
    int64_t start = clock_ns();
    if (ending == KILLED || grandchild) assert_int_equal(kill(victim, SIGKILL), 0);
    until(&recorder, 1, recorder.gone_count == 1);
    *ms = ms_since(start);
    assert_int_equal(recorder.gone_link, recorder.links[0].link);
    assert_int_equal(recorder.why.pid, victim);
    if (ending == REPLACED || ending == NOT_REAPED) kill(child, SIGKILL);
    (void)test_child_wait(child, CHILD_MS);
    cause why = recorder.why;
    visitor_leave(&recorder);
    return why;
}

static void ends_are_told_with_their_cause(void **state) {
    static const struct {
        const char *name;
        ending ending;
        mr_status status;
        int signal, exit_code;
        const char *text;
    } cases[] = {
        {"kill -9", KILLED, MR_PEER_DIED, SIGKILL, -1, "SIGKILL"},
        {"a signal", SEGFAULT, MR_PEER_DIED, SIGUSR1, -1, "SIGUSR1"},
        {"exit 7", EXIT_7, MR_PEER_DIED, 0, 7, "status 7"},
        {"goodbye", SAYS_BYE, MR_CLOSED, 0, -1, "left"},
        {"exec", REPLACED, MR_CLOSED, 0, -1, "without saying goodbye"},
        {"kill -9, not reaped", NOT_REAPED, MR_PEER_DIED, SIGKILL, -1, "SIGKILL"},
        {"kill -9, reaped elsewhere", REAPED_BY_OTHERS, MR_PEER_DIED, SIGKILL, -1, NULL},
    };
    open_broker(NULL);
    size_t fds = broker_fixture_fds();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double ms;
        cause why = watch_it_end(cases[i].ending, &ms);
        print_message("%-26s told after %6.2f ms: %s\n", cases[i].name, ms, why.text);
        assert_int_equal(why.status, cases[i].status);
        if (cases[i].ending != REPLACED) assert_true(ms < TOLD_MS_MAX); /* a replaced process may still run */
        assert_int_equal(why.exit_code, cases[i].exit_code);
        if (cases[i].text != NULL) {
            assert_int_equal(why.signal, cases[i].signal);
            assert_non_null(strstr(why.text, cases[i].text));
        } else { /* before Linux 6.15 the exit status may be unknown */
            assert_true(why.signal == SIGKILL || strstr(why.text, "not known") != NULL);
        }
        assert_clean(fds);
    }
}

/* Sends many requests, reads nothing, sends BYE and ends at once. */
typedef struct hasty_life {
    const char *path;
    uint32_t asks;
} hasty_life;

static int hasty_main(void *argument) {
    const hasty_life *life = argument;
    visitor *self = calloc(1, sizeof *self);
    TEST_CHILD_CHECK(visitor_join(self, life->path, "victim") == MR_OK);
    while (self->link_count == 0) visitor_wait(self, 1000000);
    for (uint32_t tag = 1; tag <= life->asks; tag++)
        TEST_CHILD_CHECK(broker_client_connect_name(self->client, "nobody", tag) == MR_OK);
    visitor_leave(self);
    return 0;
}

static bool has_ended(pid_t pid) {
    siginfo_t info = {0};
    return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid;
}

static void last_words_are_heard(void **state) {
    open_broker(NULL);
    /* Unpumped, the broker finds all requests at once; pumped, the client has stopped reading. */
    for (int pumped = 0; pumped < 2; pumped++) {
        hasty_life life = {.path = home->path, .asks = pumped ? 380 : 200};
        visitor recorder;
        assert_int_equal(broker_fixture_join(home, &recorder, "witness"), MR_OK);
        pid_t child = test_child_start(hasty_main, &life);
        until(&recorder, 1, broker_stats_now(home->broker).peers == 2);
        assert_int_equal(broker_client_connect_name(recorder.client, "victim", 1), MR_OK);
        until(&recorder, 1, recorder.link_count == 1);
        while (!has_ended(child))
            if (pumped) broker_fixture_pump(home, &recorder, 1);
        until(&recorder, 1, recorder.gone_count == 1);
        assert_int_equal(recorder.why.status, MR_CLOSED);
        assert_non_null(strstr(recorder.why.text, "left"));
        assert_null(strstr(recorder.why.text, "goodbye"));
        assert_int_equal(test_child_wait(child, CHILD_MS), 0);
        visitor_leave(&recorder);
        assert_empty();
    }
}

/* The parent of a process learns its exit status first, and reports it to the broker. */
static void the_node_knows_how_its_child_ended(void **state) {
    open_broker(NULL);
    victim_life life = {.path = home->path, .ending = EXIT_7};
    visitor recorder;
    assert_int_equal(broker_fixture_join(home, &recorder, "witness"), MR_OK);
    pid_t child = test_child_start(victim_main, &life);
    until(&recorder, 1, broker_stats_now(home->broker).peers == 2);
    assert_int_equal(broker_client_connect_name(recorder.client, "victim", 1), MR_OK);
    until(&recorder, 1, recorder.link_count == 1);
    broker_note_exit(home->broker, child, W_EXITCODE(0, SIGILL)); /* the child runs, so the report is ignored */
    int status;
    pid_t got;
    do got = waitpid(child, &status, WNOHANG);
    while (got == 0);
    assert_int_equal(got, child);
    broker_note_exit(home->broker, child, W_EXITCODE(9, 0));
    broker_note_exit(home->broker, 1, W_EXITCODE(9, 0)); /* process 1 is no client */
    until(&recorder, 1, recorder.gone_count == 1);
    assert_int_equal(recorder.why.exit_code, 9);
    visitor_leave(&recorder);
    assert_empty();
}

/* ---- Kill -9 at any moment. */

enum { CROWD = 4 };

typedef struct crowd_life {
    const char *path;
    uint64_t seed;
    int self;
} crowd_life;

static void crowd_name(char *out, size_t size, int index) { snprintf(out, size, "crowd-%d", index); }

static void crowd_step(visitor *self, rng *rng, uint32_t *tag, int index) {
    char name[32];
    uint64_t what = rng_below(rng, 8);
    broker_client_link *link =
        self->link_count == 0
            ? NULL
            : &self->links[rng_below(rng, self->link_count < VISITOR_LINKS_MAX ? self->link_count : VISITOR_LINKS_MAX)];
    if (what < 4) {
        crowd_name(name, sizeof name, (index + 1 + (int)rng_below(rng, CROWD - 1)) % CROWD);
        (void)!broker_client_connect_name(self->client, name, ++*tag);
    } else if (link != NULL && link->link != 0 && what < 6) {
        (void)!broker_client_resize(self->client, link->link, 4096 << rng_below(rng, 5));
    } else if (link != NULL && link->link != 0) {
        (void)!broker_client_close(self->client, link->link);
        link->link = 0;
    }
}

/* Connects, resizes, closes, joins and leaves, for ever. */
static int crowd_main(void *argument) {
    const crowd_life *life = argument;
    rng rng;
    rng_init(&rng, life->seed);
    visitor *self = calloc(1, sizeof *self);
    char name[32];
    crowd_name(name, sizeof name, life->self);
    for (;;) {
        mr_status status = visitor_join(self, life->path, name);
        if (status == MR_EXISTS) continue; /* the broker has not noticed the end of the previous client */
        TEST_CHILD_CHECK(status == MR_OK);
        uint32_t tag = 0;
        for (uint64_t steps = rng_below(&rng, 2000); steps > 0; steps--) {
            crowd_step(self, &rng, &tag, life->self);
            visitor_poll(self);
            TEST_CHILD_CHECK(self->broker_gone_count == 0);
        }
        visitor_leave(self);
    }
}

static void many_killed_processes_leave_nothing(void **state) {
    enum { KILLS = 120 };
    open_broker(&(broker_options){.arena_bytes = 32 << 20, .links_per_peer_max = 200});
    size_t fds = broker_fixture_fds();
    rng rng;
    rng_init(&rng, 5);
    crowd_life lives[CROWD];
    pid_t pids[CROWD] = {0};
    uint32_t links_max = 0;
    for (int kills = 0; kills < KILLS; kills++) {
        int i = (int)rng_below(&rng, CROWD);
        if (pids[i] != 0) {
            kill(pids[i], SIGKILL);
            assert_int_equal(test_child_wait(pids[i], CHILD_MS), -SIGKILL);
        }
        lives[i] = (crowd_life){.path = home->path, .seed = rng_next(&rng), .self = i};
        pids[i] = test_child_start(crowd_main, &lives[i]);
        for (uint64_t turns = rng_below(&rng, 100); turns > 0; turns--) event_loop_run_once(home->loop, 100);
        uint32_t links = broker_stats_now(home->broker).links;
        if (links > links_max) links_max = links;
    }
    print_message("up to %u links at a time\n", links_max);
    assert_true(links_max > 10);
    for (int i = 0; i < CROWD; i++) {
        if (pids[i] == 0) continue;
        kill(pids[i], SIGKILL);
        assert_int_equal(test_child_wait(pids[i], CHILD_MS), -SIGKILL);
    }
    assert_clean(fds);
}

/* ---- Stopped, asleep. */

static void a_stopped_client_does_not_delay_others(void **state) {
    open_broker(&(broker_options){.arena_bytes = 64 << 20});
    size_t fds = broker_fixture_fds();
    victim_life life = {.path = home->path, .ending = EXIT_7};
    visitor *visitors = calloc(2, sizeof *visitors);
    assert_int_equal(broker_fixture_join(home, &visitors[0], "one"), MR_OK);
    assert_int_equal(broker_fixture_join(home, &visitors[1], "two"), MR_OK);
    pid_t child = test_child_start(victim_main, &life);
    until(visitors, 2, broker_stats_now(home->broker).peers == 3);
    assert_int_equal(kill(child, SIGSTOP), 0);
    uint32_t tag = 0;
    double slowest = 0;
    while (visitors[0].refused_count == 0) { /* until the stopped client's queue exceeds the limit */
        assert_int_equal(broker_client_connect_name(visitors[0].client, "victim", ++tag), MR_OK);
        int64_t start = clock_ns();
        assert_int_equal(broker_client_connect_name(visitors[1].client, "one", tag), MR_OK);
        until(visitors, 2, visitors[1].link_count == tag);
        if (ms_since(start) > slowest) slowest = ms_since(start);
        assert_true(tag < 1000);
    }
    print_message("no more than %u links to a stopped process; others waited %.2f ms at most\n", tag - 1, slowest);
    assert_int_equal(visitors[0].why.status, MR_BUSY);
    assert_true(slowest < TOLD_MS_MAX);
    assert_int_equal(kill(child, SIGCONT), 0);
    until(visitors, 2, visitors[0].gone_count == tag - 1); /* the client continues, and exits */
    assert_int_equal(visitors[0].why.exit_code, 7);
    assert_int_equal(test_child_wait(child, CHILD_MS), 7);
    visitor_leave(&visitors[0]);
    visitor_leave(&visitors[1]);
    assert_clean(fds);
    free(visitors);
}

/* A client that has sent an invalid message is stopped while it uses rings. It may write to the rings when it
 * continues, so they stay allocated until it has ended. */
static int nonsense_main(void *argument) {
    visitor *self = calloc(1, sizeof *self);
    TEST_CHILD_CHECK(visitor_join(self, argument, "victim") == MR_OK);
    while (self->link_count == 0) visitor_wait(self, 1000000);
    TEST_CHILD_CHECK(broker_client_close(self->client, 4711) == MR_OK);
    raise(SIGSTOP);
    return victim_stays(self);
}

static void rings_stay_while_a_process_may_write(void **state) {
    open_broker(NULL);
    size_t fds = broker_fixture_fds();
    visitor recorder;
    assert_int_equal(broker_fixture_join(home, &recorder, "witness"), MR_OK);
    pid_t child = test_child_start(nonsense_main, home->path);
    until(&recorder, 1, broker_stats_now(home->broker).peers == 2);
    assert_int_equal(broker_client_connect_name(recorder.client, "victim", 1), MR_OK);
    until(&recorder, 1, recorder.gone_count == 1);
    assert_int_equal(recorder.why.status, MR_CORRUPT);
    assert_int_equal(recorder.why.pid, child);
    visitor_leave(&recorder);
    until(NULL, 0, broker_stats_now(home->broker).peers == 0);
    assert_int_equal(broker_stats_now(home->broker).rings, 2);
    assert_int_equal(kill(child, SIGCONT), 0);
    assert_int_equal(test_child_wait(child, CHILD_MS), 1); /* the client noticed that the broker had dropped it */
    assert_clean(fds);
}

/* A client that sleeps on its doorbell instead of the socket, as processes that wait for messages do. */
static int sleeper_main(void *argument) {
    visitor *self = calloc(1, sizeof *self);
    TEST_CHILD_CHECK(visitor_join(self, argument, "sleeper") == MR_OK);
    process_block *block =
        arena_process_block(broker_client_arena(self->client), broker_client_process_block(self->client));
    while (self->gone_count == 0) {
        doorbell_arm(block, DOORBELL_FUTEX);
        uint32_t links = self->link_count;
        visitor_poll(self);
        if (self->gone_count == 0 && self->link_count == links) doorbell_sleep(block, -1);
        doorbell_disarm(block);
    }
    return self->why.signal == SIGKILL ? 0 : 1;
}

static void a_sleeper_is_woken_by_a_death(void **state) {
    open_broker(NULL);
    size_t fds = broker_fixture_fds();
    visitor recorder; /* receives the sleeper's doorbell */
    assert_int_equal(broker_fixture_join(home, &recorder, "witness"), MR_OK);
    pid_t sleeper = test_child_start(sleeper_main, home->path);
    until(&recorder, 1, broker_stats_now(home->broker).peers == 2);
    victim_life life = {.path = home->path, .ending = KILLED, .calls = "sleeper"};
    pid_t victim = test_child_start(victim_main, &life);
    until(&recorder, 1, broker_stats_now(home->broker).links == 1);
    const process_block *block = arena_process_block(broker_client_arena(recorder.client), 1);
    assert_int_equal(block->pid, sleeper);
    until(&recorder, 1, atomic_load(&block->sleep) == DOORBELL_FUTEX);
    int64_t start = clock_ns();
    assert_int_equal(kill(victim, SIGKILL), 0);
    until(&recorder, 1, broker_stats_now(home->broker).peers == 1);
    print_message("woken and gone after %.2f ms\n", ms_since(start));
    assert_int_equal(test_child_wait(victim, CHILD_MS), -SIGKILL);
    assert_int_equal(test_child_wait(sleeper, CHILD_MS), 0);
    visitor_leave(&recorder);
    assert_clean(fds);
}

/* ---- The end of the broker. */

typedef struct broker_life {
    broker_fixture *fixture;
    int ready; /* write end of a pipe, closed when the broker runs */
} broker_life;

static int broker_main(void *argument) {
    broker_life *life = argument;
    broker_fixture fixture = *life->fixture;
    TEST_CHILD_CHECK(event_loop_create(&fixture.loop) == MR_OK);
    TEST_CHILD_CHECK(broker_fixture_open(&fixture, NULL) == MR_OK);
    close(life->ready);
    event_loop_run(fixture.loop);
    return 0;
}

/* Starts a broker process, and returns when the broker runs. */
static pid_t start_broker(test_child_fn *fn) {
    int ready[2];
    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    broker_life life = {.fixture = home, .ready = ready[1]};
    pid_t pid = test_child_start(fn, &life);
    close(ready[1]);
    char none;
    assert_int_equal(read(ready[0], &none, 1), 0);
    close(ready[0]);
    return pid;
}

static bool wait_for(visitor *visitor, const uint32_t *count, uint32_t at_least) {
    int64_t deadline = clock_ns() + (int64_t)BROKER_FIXTURE_PATIENCE_US * 1000;
    while (*count < at_least && clock_ns() < deadline) visitor_wait(visitor, 100000);
    return *count >= at_least;
}

static void clients_notice_that_the_broker_was_killed(void **state) {
    size_t fds = broker_fixture_fds();
    pid_t broker = start_broker(broker_main);
    visitor visitors[2];
    assert_int_equal(visitor_join(&visitors[0], home->path, "a"), MR_OK);
    assert_int_equal(visitor_join(&visitors[1], home->path, "b"), MR_OK);
    assert_int_equal(broker_client_connect_name(visitors[0].client, "b", 1), MR_OK);
    assert_true(wait_for(&visitors[0], &visitors[0].link_count, 1));
    int64_t start = clock_ns();
    assert_int_equal(kill(broker, SIGKILL), 0);
    for (int i = 0; i < 2; i++) {
        assert_true(wait_for(&visitors[i], &visitors[i].broker_gone_count, 1));
        double ms = ms_since(start);
        print_message("told after %.2f ms: %s\n", ms, visitors[i].why.text);
        assert_true(ms < TOLD_MS_MAX);
        assert_int_equal(visitors[i].why.status, MR_PEER_DIED);
        assert_int_equal(visitors[i].why.pid, broker);
        /* the arena is still mapped */
        memset(arena_at(broker_client_arena(visitors[i].client), visitors[0].links[0].send.offset), 1, 4096);
    }
    assert_int_equal(test_child_wait(broker, CHILD_MS), -SIGKILL);
    visitor late;
    assert_int_equal(visitor_join(&late, home->path, "late"), MR_NOT_FOUND);
    open_broker(NULL); /* takes over the socket file of the dead broker */
    assert_int_equal(broker_fixture_join(home, &late, "a"), MR_OK);
    visitor_leave(&late);
    visitor_leave(&visitors[0]);
    visitor_leave(&visitors[1]);
    assert_empty();
    broker_close(home->broker);
    home->broker = NULL;
    until(NULL, 0, broker_fixture_fds() == fds);
}

/* A forked child of the broker keeps its socket open: clients notice the broker's end nevertheless. */
static int broker_with_fork(void *argument) {
    broker_life *life = argument;
    pid_t fork_of_broker = -1;
    broker_fixture fixture = *life->fixture;
    TEST_CHILD_CHECK(event_loop_create(&fixture.loop) == MR_OK);
    TEST_CHILD_CHECK(broker_fixture_open(&fixture, NULL) == MR_OK);
    close(life->ready);
    while (fork_of_broker < 0) {
        event_loop_run_once(fixture.loop, 100000);
        if (broker_stats_now(fixture.broker).peers < 1) continue;
        fork_of_broker = fork();
        if (fork_of_broker == 0) {
            usleep(BROKER_FIXTURE_PATIENCE_US);
            _exit(0);
        }
    }
    event_loop_run(fixture.loop);
    return 0;
}

static void a_fork_of_the_broker_hides_nothing(void **state) {
    pid_t broker = start_broker(broker_with_fork);
    visitor one;
    assert_int_equal(visitor_join(&one, home->path, "one"), MR_OK);
    assert_int_equal(broker_client_connect_name(one.client, "nobody", 1), MR_OK);
    assert_true(wait_for(&one, &one.refused_count, 1)); /* the fork happens before the broker reads this */
    int64_t start = clock_ns();
    assert_int_equal(kill(broker, SIGKILL), 0);
    assert_true(wait_for(&one, &one.broker_gone_count, 1));
    assert_true(ms_since(start) < TOLD_MS_MAX);
    assert_int_equal(test_child_wait(broker, CHILD_MS), -SIGKILL);
    visitor_leave(&one);
    unlink(home->path);
}

/* A forked child of a client leaves without ending the client's membership. */
static int fork_leaves(void *argument) {
    visitor_leave(argument);
    return 0;
}

static void a_fork_of_a_client_is_no_client(void **state) {
    open_broker(NULL);
    visitor visitors[2];
    assert_int_equal(broker_fixture_join(home, &visitors[0], "a"), MR_OK);
    assert_int_equal(broker_fixture_join(home, &visitors[1], "b"), MR_OK);
    assert_int_equal(test_child_run(fork_leaves, &visitors[0], CHILD_MS), 0);
    for (int i = 0; i < 20; i++) broker_fixture_pump(home, visitors, 2);
    assert_int_equal(broker_stats_now(home->broker).peers, 2);
    assert_int_equal(broker_client_connect_name(visitors[1].client, "a", 1), MR_OK);
    until(visitors, 2, visitors[0].link_count == 1 && visitors[1].link_count == 1);
    visitor_leave(&visitors[0]);
    until(&visitors[1], 1, visitors[1].gone_count == 1);
    visitor_leave(&visitors[1]);
    assert_empty();
}

/* ---- Other users. */

static int other_user(void *argument) {
    if (setgid(65534) != 0 || setuid(65534) != 0) return 77;
    visitor self;
    mr_status status = visitor_join(&self, argument, "other");
    if (status == MR_OK) return 1;
    TEST_CHILD_CHECK(status == MR_DENIED);
    TEST_CHILD_CHECK(strstr(self.join_text, "ermission denied") != NULL ||
                     strstr(self.join_text, "may not join") != NULL);
    return strstr(self.join_text, "may not join") != NULL ? 3 : 2;
}

static int run_pumped(test_child_fn *fn, void *argument) {
    pid_t child = test_child_start(fn, argument);
    siginfo_t info = {0};
    int64_t deadline = clock_ns() + (int64_t)CHILD_MS * 1000000;
    while (clock_ns() < deadline && waitid(P_PID, (id_t)child, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == 0)
        event_loop_run_once(home->loop, 1000);
    return test_child_wait(child, 1000);
}

static void other_users_stay_outside(void **state) {
    if (geteuid() != 0) skip();
    open_broker(NULL);
    size_t fds = broker_fixture_fds();
    assert_int_equal(chmod(home->folder, 0755), 0);
    assert_int_equal(run_pumped(other_user, home->path), 2); /* the mode of the socket file denies access */
    assert_int_equal(chmod(home->path, 0666), 0);
    assert_int_equal(run_pumped(other_user, home->path), 3); /* and the broker checks the peer's credentials */
    assert_clean(fds);
}

/* A broker of an ordinary user accepts root, and rejects other users. */
static int user_broker(void *argument) {
    if (setgid(65534) != 0 || setuid(65534) != 0) return 77;
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* setuid clears the death signal */
    return broker_main(argument);
}

static int third_user(void *argument) {
    if (setuid(12345) != 0) return 77;
    visitor self;
    return visitor_join(&self, argument, "third") == MR_DENIED ? 0 : 1;
}

static void root_may_visit_users(void **state) {
    if (geteuid() != 0) skip();
    assert_int_equal(chown(home->folder, 65534, 65534), 0);
    assert_int_equal(chmod(home->folder, 0755), 0);
    pid_t broker = start_broker(user_broker);
    visitor root;
    assert_int_equal(visitor_join(&root, home->path, "root"), MR_OK);
    visitor_leave(&root);
    assert_int_equal(chmod(home->path, 0666), 0);
    assert_int_equal(test_child_run(third_user, home->path, CHILD_MS), 0);
    kill(broker, SIGKILL);
    assert_int_equal(test_child_wait(broker, CHILD_MS), -SIGKILL);
    unlink(home->path);
}

int main(void) {
    log_set_level(LOG_ERROR); /* no warnings about clients that the test kills */
#define BROKER_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        BROKER_TEST(ends_are_told_with_their_cause),
        BROKER_TEST(last_words_are_heard),
        BROKER_TEST(the_node_knows_how_its_child_ended),
        BROKER_TEST(many_killed_processes_leave_nothing),
        BROKER_TEST(a_stopped_client_does_not_delay_others),
        BROKER_TEST(rings_stay_while_a_process_may_write),
        BROKER_TEST(a_sleeper_is_woken_by_a_death),
        BROKER_TEST(clients_notice_that_the_broker_was_killed),
        BROKER_TEST(a_fork_of_the_broker_hides_nothing),
        BROKER_TEST(a_fork_of_a_client_is_no_client),
        BROKER_TEST(other_users_stay_outside),
        BROKER_TEST(root_may_visit_users),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
