/* zygote_pool_test.c — the node's side of zygotes; the test sends each zygote's packets and reports its end. */
#include "runtime/node/zygote_pool.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/error.h"
#include "runtime/common/zygote.h"

enum { PROGRAM = 7, FIRST_PID = 1000 };

typedef struct fixture {
    event_loop *loop;
    zygote_pool *pool;
    launch_spec spec;
    int socket_fd; /* of the zygote started last */
    int started;   /* zygotes started */
    pid_t killed;  /* the zygote killed last */
    int made, afresh, failed;
    pid_t last_made;
    char why[400];
    bool cannot_start, drops; /* drops: the host drops the program in `failed` */
} fixture;

static mr_status on_start(void *context, uint32_t program, const launch_spec *spec, int socket_fd, pid_t *pid) {
    fixture *fixture = context;
    assert_int_equal(program, PROGRAM);
    assert_ptr_equal(spec, &fixture->spec);
    if (fixture->cannot_start) return error_set(MR_IO, "no process");
    fixture->socket_fd = dup(socket_fd);
    *pid = FIRST_PID + fixture->started++;
    return MR_OK;
}

static void on_kill(void *context, pid_t pid) { ((fixture *)context)->killed = pid; }

static void on_made(void *context, uint32_t program, pid_t pid) {
    fixture *fixture = context;
    fixture->made++;
    fixture->last_made = pid;
}

static void on_afresh(void *context, uint32_t program) { ((fixture *)context)->afresh++; }

static void on_failed(void *context, uint32_t program, const char *why) {
    fixture *fixture = context;
    fixture->failed++;
    strncpy(fixture->why, why, sizeof fixture->why - 1);
    if (fixture->drops) zygote_pool_drop(fixture->pool, program);
}

static const zygote_pool_host host = {
    .start = on_start, .kill = on_kill, .made = on_made, .afresh = on_afresh, .failed = on_failed};

static void begin(fixture *fixture) {
    memset(fixture, 0, sizeof *fixture);
    fixture->socket_fd = -1;
    assert_int_equal(event_loop_create(&fixture->loop), MR_OK);
    fixture->pool = zygote_pool_create(fixture->loop, &host, fixture);
}

static void end(fixture *fixture) {
    zygote_pool_destroy(fixture->pool);
    if (fixture->socket_fd >= 0) close(fixture->socket_fd);
    event_loop_destroy(fixture->loop);
}

static void turn(fixture *fixture) {
    for (int i = 0; i < 3; i++) event_loop_run_once(fixture->loop, 0);
}

static void ask(fixture *fixture, int count) {
    for (int i = 0; i < count; i++) assert_int_equal(zygote_pool_ask(fixture->pool, PROGRAM, &fixture->spec), MR_OK);
}

static void say(fixture *fixture, zygote_kind kind, uint32_t number, int value) {
    zygote_report report = {.kind = kind, .number = number, .value = value};
    assert_int_equal(send(fixture->socket_fd, &report, sizeof report, 0), sizeof report);
}

/* Receives the requests that wait at the zygote; returns their count. */
static int requests(fixture *fixture, uint32_t *last) {
    zygote_request request;
    int count = 0;
    for (; recv(fixture->socket_fd, &request, sizeof request, MSG_DONTWAIT) == sizeof request; count++)
        *last = request.number;
    return count;
}

static void zygote_ends(fixture *fixture, const char *why) {
    close(fixture->socket_fd);
    fixture->socket_fd = -1;
    turn(fixture);
    zygote_pool_ended(fixture->pool, FIRST_PID + fixture->started - 1, why);
}

/* ---- */

static void a_zygote_is_asked_when_it_is_ready(void **state) {
    fixture fixture;
    uint32_t last = 0;
    begin(&fixture);
    ask(&fixture, 2);
    turn(&fixture);
    assert_int_equal(fixture.started, 1);
    assert_int_equal(requests(&fixture, &last), 0);
    say(&fixture, ZYGOTE_READY, 0, 0);
    turn(&fixture);
    assert_int_equal(requests(&fixture, &last), 2);
    assert_int_equal(last, 2);
    end(&fixture);
}

static void a_worker_that_is_reported_twice_is_one(void **state) {
    fixture fixture;
    begin(&fixture);
    ask(&fixture, 2);
    say(&fixture, ZYGOTE_READY, 0, 0);
    turn(&fixture);
    say(&fixture, ZYGOTE_MADE, 2, 52); /* the second copy is faster than the first */
    say(&fixture, ZYGOTE_MADE, 1, 51);
    zygote_pool_settle(fixture.pool);
    assert_int_equal(fixture.made, 2);
    assert_int_equal(fixture.last_made, 51);
    say(&fixture, ZYGOTE_MADE, 1, 51);
    say(&fixture, ZYGOTE_MADE, 2, 52);
    say(&fixture, ZYGOTE_MADE, 3, 53); /* never requested */
    turn(&fixture);
    assert_int_equal(fixture.made, 2);
    end(&fixture);
}

static void many_are_asked_for_a_few_at_a_time(void **state) {
    fixture fixture;
    uint32_t last = 0;
    begin(&fixture);
    ask(&fixture, 1000);
    say(&fixture, ZYGOTE_READY, 0, 0);
    for (uint32_t seen = 0; fixture.made < 1000;) {
        turn(&fixture);
        int count = requests(&fixture, &last);
        assert_in_range(count, 1, 16);
        for (; seen < last; seen++) say(&fixture, ZYGOTE_MADE, seen + 1, 1);
        turn(&fixture);
    }
    assert_int_equal(last, 1000);
    end(&fixture);
}

static void one_that_ends_before_it_is_ready_fails_with_the_reason(void **state) {
    fixture fixture;
    begin(&fixture);
    ask(&fixture, 3);
    zygote_ends(&fixture, "ended with exit code 3");
    assert_int_equal(fixture.failed, 3);
    assert_string_equal(fixture.why, "the zygote of workers ended with exit code 3");
    ask(&fixture, 1); /* starts another zygote */
    assert_int_equal(fixture.started, 2);
    end(&fixture);
}

static void one_that_ends_later_is_followed_by_another(void **state) {
    fixture fixture;
    uint32_t last = 0;
    begin(&fixture);
    ask(&fixture, 3);
    say(&fixture, ZYGOTE_READY, 0, 0);
    turn(&fixture);
    say(&fixture, ZYGOTE_MADE, 1, 51);
    turn(&fixture);
    zygote_ends(&fixture, "was killed");
    assert_int_equal(fixture.failed, 0);
    assert_int_equal(fixture.started, 2);
    say(&fixture, ZYGOTE_READY, 0, 0);
    turn(&fixture);
    assert_int_equal(requests(&fixture, &last), 2);
    end(&fixture);
}

/* The host decides when it asks again: it may wait first. */
static void one_that_makes_nothing_is_not_followed_at_once(void **state) {
    fixture fixture;
    begin(&fixture);
    for (int i = 1; i <= 3; i++) {
        ask(&fixture, 2);
        say(&fixture, ZYGOTE_READY, 0, 0);
        turn(&fixture);
        assert_int_equal(fixture.failed, 2 * (i - 1));
        zygote_ends(&fixture, "was killed");
        assert_int_equal(fixture.failed, 2 * i);
        assert_int_equal(fixture.started, i);
    }
    end(&fixture);
}

static void a_copy_may_outlive_its_zygote_and_say_so(void **state) {
    fixture fixture;
    begin(&fixture);
    ask(&fixture, 1);
    say(&fixture, ZYGOTE_READY, 0, 0);
    turn(&fixture);
    zygote_pool_ended(fixture.pool, FIRST_PID, "was killed"); /* the copy still has the socket open */
    assert_int_equal(fixture.failed, 0);
    say(&fixture, ZYGOTE_MADE, 1, 51);
    close(fixture.socket_fd);
    fixture.socket_fd = -1;
    turn(&fixture);
    assert_int_equal(fixture.made, 1);
    assert_int_equal(fixture.failed, 0);
    assert_int_equal(fixture.started, 1);
    ask(&fixture, 1);
    assert_int_equal(fixture.started, 2);
    end(&fixture);
}

static void one_that_refuses_is_not_asked_again(void **state) {
    fixture fixture;
    begin(&fixture);
    ask(&fixture, 2);
    assert_false(zygote_pool_is_cold(fixture.pool, PROGRAM));
    say(&fixture, ZYGOTE_REFUSED, 0, 4);
    turn(&fixture);
    assert_int_equal(fixture.afresh, 2);
    assert_int_equal(fixture.killed, FIRST_PID);
    assert_true(zygote_pool_is_cold(fixture.pool, PROGRAM));
    zygote_ends(&fixture, "was killed");
    assert_int_equal(fixture.failed, 0);
    assert_int_equal(fixture.started, 1);
    end(&fixture);
}

static void one_that_lacks_processes_fails_one_request(void **state) {
    fixture fixture;
    begin(&fixture);
    ask(&fixture, 2);
    say(&fixture, ZYGOTE_READY, 0, 0);
    turn(&fixture);
    say(&fixture, ZYGOTE_REFUSED, 1, -EAGAIN);
    turn(&fixture);
    assert_int_equal(fixture.failed, 1);
    assert_non_null(strstr(fixture.why, "could not fork"));
    assert_non_null(strstr(fixture.why, "the limit of processes and threads is reached"));
    assert_false(zygote_pool_is_cold(fixture.pool, PROGRAM));
    assert_int_equal(fixture.killed, 0);
    say(&fixture, ZYGOTE_MADE, 2, 50);
    turn(&fixture);
    assert_int_equal(fixture.made, 1);
    end(&fixture);
}

static void one_that_is_dropped_still_answers(void **state) {
    fixture fixture;
    begin(&fixture);
    ask(&fixture, 2);
    zygote_pool_drop(fixture.pool, PROGRAM);
    assert_int_equal(fixture.killed, FIRST_PID);
    assert_int_equal(fixture.failed, 0);
    zygote_ends(&fixture, "was killed");
    assert_int_equal(fixture.failed, 2);
    assert_false(zygote_pool_has(fixture.pool, FIRST_PID));
    zygote_pool_drop(fixture.pool, PROGRAM); /* dropped already: no effect */
    end(&fixture);
}

static void a_callback_may_drop_the_zygote(void **state) {
    fixture fixture;
    begin(&fixture);
    fixture.drops = true;
    ask(&fixture, 2);
    zygote_ends(&fixture, "was killed");
    assert_int_equal(fixture.failed, 2);
    end(&fixture);
}

static void one_that_cannot_be_started_fails_at_once(void **state) {
    fixture fixture;
    begin(&fixture);
    fixture.cannot_start = true;
    assert_int_equal(zygote_pool_ask(fixture.pool, PROGRAM, &fixture.spec), MR_IO);
    assert_int_equal(fixture.failed, 0);
    fixture.cannot_start = false;
    ask(&fixture, 1);
    assert_int_equal(fixture.started, 1);
    end(&fixture);
}

static void nonsense_ends_it(void **state) {
    fixture fixture;
    begin(&fixture);
    ask(&fixture, 1);
    assert_int_equal(send(fixture.socket_fd, "?", 1, 0), 1);
    turn(&fixture);
    assert_int_equal(fixture.killed, FIRST_PID);
    zygote_pool_ended(fixture.pool, FIRST_PID, "was killed");
    assert_int_equal(fixture.failed, 1);
    end(&fixture);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_zygote_is_asked_when_it_is_ready),
        cmocka_unit_test(a_worker_that_is_reported_twice_is_one),
        cmocka_unit_test(many_are_asked_for_a_few_at_a_time),
        cmocka_unit_test(one_that_ends_before_it_is_ready_fails_with_the_reason),
        cmocka_unit_test(one_that_ends_later_is_followed_by_another),
        cmocka_unit_test(one_that_makes_nothing_is_not_followed_at_once),
        cmocka_unit_test(a_copy_may_outlive_its_zygote_and_say_so),
        cmocka_unit_test(one_that_refuses_is_not_asked_again),
        cmocka_unit_test(one_that_lacks_processes_fails_one_request),
        cmocka_unit_test(one_that_is_dropped_still_answers),
        cmocka_unit_test(a_callback_may_drop_the_zygote),
        cmocka_unit_test(one_that_cannot_be_started_fails_at_once),
        cmocka_unit_test(nonsense_ends_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
