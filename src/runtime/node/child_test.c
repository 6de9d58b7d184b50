/* child_test.c — child processes that exit, are killed, or are left at children_fini; no zombie or descriptor
 * remains. */
#include "runtime/node/child.h"

#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

extern char **environ;

enum { CHILDREN_MAX = 16, PATIENCE = 3000 /* runs of the loop, 10 ms each */ };

typedef struct fixture {
    event_loop *loop;
    children children;
    int fds;
    size_t ended;
    struct {
        pid_t pid;
        int status;
    } ends[CHILDREN_MAX];
} fixture;

static int open_fds(void) {
    int count = 0;
    DIR *folder = opendir("/proc/self/fd");
    assert_non_null(folder);
    while (readdir(folder) != NULL) count++;
    closedir(folder);
    return count;
}

static void on_exit_of(void *context, pid_t pid, int wait_status, uint64_t peak_bytes) {
    fixture *fixture = context;
    assert_true(peak_bytes > 0 && peak_bytes < UINT64_C(1) << 30); /* of a shell */
    assert_true(fixture->ended < CHILDREN_MAX);
    fixture->ends[fixture->ended].pid = pid;
    fixture->ends[fixture->ended].status = wait_status;
    fixture->ended++;
}

static void begin(fixture *fixture) {
    memset(fixture, 0, sizeof *fixture);
    assert_int_equal(event_loop_create(&fixture->loop), MR_OK);
    fixture->fds = open_fds();
    children_init(&fixture->children, fixture->loop, on_exit_of, fixture);
}

static void end(fixture *fixture) {
    children_fini(&fixture->children);
    assert_int_equal(fixture->children.by_pid.count, 0);
    assert_int_equal(open_fds(), fixture->fds);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* neither a child nor a zombie */
    assert_int_equal(errno, ECHILD);
    event_loop_destroy(fixture->loop);
}

static pid_t spawn(const char *script) {
    char shell[] = "/bin/sh", option[] = "-c", text[64];
    strncpy(text, script, sizeof text - 1);
    text[sizeof text - 1] = '\0';
    char *arguments[] = {shell, option, text, NULL};
    pid_t pid;
    assert_int_equal(posix_spawn(&pid, shell, NULL, NULL, arguments, environ), 0);
    return pid;
}

static pid_t add(fixture *fixture, const char *script) {
    pid_t pid = spawn(script);
    assert_int_equal(children_add(&fixture->children, pid), MR_OK);
    return pid;
}

static void run_until(fixture *fixture, size_t ended) {
    for (int i = 0; i < PATIENCE && fixture->ended < ended; i++) event_loop_run_once(fixture->loop, 10 * 1000);
    assert_int_equal(fixture->ended, ended);
}

static void an_end_is_told_with_its_code(void **state) {
    fixture fixture;
    begin(&fixture);
    pid_t pids[3] = {add(&fixture, "exit 0"), add(&fixture, "exit 41"), add(&fixture, "kill -TERM $$")};
    assert_int_equal(fixture.children.by_pid.count, 3);
    run_until(&fixture, 3);
    assert_int_equal(fixture.children.by_pid.count, 0);
    for (size_t i = 0; i < 3; i++) {
        int status = fixture.ends[i].status;
        if (fixture.ends[i].pid == pids[0]) assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        if (fixture.ends[i].pid == pids[1]) assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 41);
        if (fixture.ends[i].pid == pids[2]) assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
        for (size_t j = 0; j < i; j++) assert_true(fixture.ends[i].pid != fixture.ends[j].pid);
    }
    end(&fixture);
}

static void one_is_killed_and_others_are_not(void **state) {
    fixture fixture;
    begin(&fixture);
    pid_t victim = add(&fixture, "exec sleep 600"), other = add(&fixture, "exec sleep 600");
    children_kill(&fixture.children, 1); /* pid 1 is no child of this process */
    children_kill(&fixture.children, victim);
    run_until(&fixture, 1);
    assert_int_equal(fixture.ends[0].pid, victim);
    assert_true(WIFSIGNALED(fixture.ends[0].status) && WTERMSIG(fixture.ends[0].status) == SIGKILL);
    children_kill(&fixture.children, victim); /* the pid may have been reused by now: no-op */
    assert_int_equal(fixture.children.by_pid.count, 1);
    assert_int_equal(kill(other, 0), 0);
    end(&fixture); /* kills and reaps the other child without a call of on_exit */
    assert_int_equal(fixture.ended, 1);
}

static void one_that_has_ended_already_is_told_all_the_same(void **state) {
    fixture fixture;
    begin(&fixture);
    pid_t pid = spawn("exit 3");
    siginfo_t info;
    assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
    assert_int_equal(children_add(&fixture.children, pid), MR_OK);
    run_until(&fixture, 1);
    assert_true(WIFEXITED(fixture.ends[0].status) && WEXITSTATUS(fixture.ends[0].status) == 3);
    end(&fixture);
}

static void many_end_at_once(void **state) {
    fixture fixture;
    begin(&fixture);
    pid_t pids[CHILDREN_MAX];
    for (size_t i = 0; i < CHILDREN_MAX; i++) pids[i] = add(&fixture, "exec sleep 600");
    for (size_t i = 0; i < CHILDREN_MAX; i++) children_kill(&fixture.children, pids[i]);
    run_until(&fixture, CHILDREN_MAX);
    end(&fixture);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_end_is_told_with_its_code),
        cmocka_unit_test(one_is_killed_and_others_are_not),
        cmocka_unit_test(one_that_has_ended_already_is_told_all_the_same),
        cmocka_unit_test(many_end_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
