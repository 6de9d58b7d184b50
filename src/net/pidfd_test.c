/* pidfd_test.c — the process at the other end of a socket, and its end, for children and other processes: with pidfds,
 * and on a kernel without them (tests/support/syscall_filter.h). */
#include "net/pidfd.h"

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
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/syscall_filter.h"
#include "tests/support/test_child.h"

enum { CHILD_MS = 10000 };

/* A listener with an abstract name that the kernel chooses; children connect to it. */
typedef struct door {
    int fd;
    struct sockaddr_un address;
    socklen_t size;
    int ending; /* how the released child ends: the exit status, or a signal if negative */
} door;

static void door_open(door *door, int ending) {
    door->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    struct sockaddr_un any = {.sun_family = AF_UNIX};
    assert_int_equal(bind(door->fd, (void *)&any, sizeof any.sun_family), 0);
    door->size = sizeof door->address;
    assert_int_equal(getsockname(door->fd, (void *)&door->address, &door->size), 0);
    assert_int_equal(listen(door->fd, 4), 0);
    door->ending = ending;
}

static int caller(void *argument) {
    door *door = argument;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    TEST_CHILD_CHECK(connect(fd, (void *)&door->address, door->size) == 0);
    char none;
    TEST_CHILD_CHECK(read(fd, &none, 1) == 1);
    if (door->ending < 0) raise(-door->ending);
    return door->ending;
}

static int mother(void *argument) {
    pid_t pid = test_child_start(caller, argument);
    (void)pid; /* not waited for: the process stays a zombie */
    pause();
    return 1;
}

static int answer(const door *door, int *pid) {
    int fd = accept4(door->fd, NULL, NULL, SOCK_CLOEXEC);
    struct ucred who;
    socklen_t size = sizeof who;
    assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size), 0);
    *pid = (int)who.pid;
    return fd;
}

static void let_go_and_wait(int fd, const pidfd *process) {
    assert_false(pidfd_ended(process));
    assert_false(pidfd_await(process, 1));
    assert_int_equal(write(fd, "x", 1), 1);
    struct pollfd wait = {.fd = process->fd, .events = POLLIN};
    do assert_int_equal(poll(&wait, 1, CHILD_MS), 1);
    while (!pidfd_ended(process));
    assert_true(pidfd_await(process, 0));
}

static void a_child_tells_how_it_ended(void **state) {
    static const int endings[] = {0, 7, -SIGKILL, -SIGUSR1};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        door door;
        door_open(&door, endings[i]);
        pid_t child = test_child_start(caller, &door);
        pidfd process;
        int pid, status = -1, fd = answer(&door, &pid);
        assert_int_equal(pid, child);
        assert_int_equal(pidfd_of_peer(fd, pid, &process), MR_OK);
        assert_true(fcntl(process.fd, F_GETFD) & FD_CLOEXEC);
        assert_true(pidfd_is_child(pid));
        assert_false(pidfd_wait_status(&process, &status));
        let_go_and_wait(fd, &process);
        assert_true(pidfd_wait_status(&process, &status));
        assert_int_equal(status, endings[i] < 0 ? -endings[i] : endings[i] << 8);
        assert_int_equal(test_child_wait(child, CHILD_MS), endings[i]); /* pidfd_wait_status has not reaped the child */
        assert_false(pidfd_is_child(pid));
        pidfd_close(&process);
        close(fd);
        close(door.fd);
    }
}

static void anothers_child_tells_too(void **state) {
    static const int endings[] = {3, -SIGKILL};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        door door;
        door_open(&door, endings[i]);
        pid_t child = test_child_start(mother, &door);
        pidfd process;
        int pid, status = -1, fd = answer(&door, &pid);
        assert_int_not_equal(pid, child);
        assert_int_equal(pidfd_of_peer(fd, pid, &process), MR_OK);
        assert_false(pidfd_is_child(pid));
        let_go_and_wait(fd, &process);
        assert_true(pidfd_wait_status(&process, &status));
        assert_int_equal(status, endings[i] < 0 ? -endings[i] : endings[i] << 8);
        kill(child, SIGKILL);
        assert_int_equal(test_child_wait(child, CHILD_MS), -SIGKILL);
        pidfd_close(&process);
        close(fd);
        close(door.fd);
    }
}

static int at_once(void *argument) { return 0; }
static int never(void *argument) { return pause(); }

static void a_number_tells_whether_its_process_has_ended(void **state) {
    pid_t ends = test_child_start(at_once, NULL), stays = test_child_start(never, NULL);
    assert_int_equal(waitid(P_PID, (id_t)ends, &(siginfo_t){0}, WEXITED | WNOWAIT), 0);
    assert_true(pidfd_process_ended(ends)); /* a zombie */
    assert_int_equal(test_child_wait(ends, CHILD_MS), 0);
    assert_true(pidfd_process_ended(ends));
    assert_false(pidfd_process_ended(stays));
    assert_false(pidfd_process_ended(getpid()));
    kill(stays, SIGKILL);
    assert_int_equal(test_child_wait(stays, CHILD_MS), -SIGKILL);
    assert_true(pidfd_process_ended(INT32_MAX - 1));
}

static void a_missing_process_is_reported(void **state) {
    int pipes[2];
    pidfd process;
    assert_int_equal(pipe2(pipes, O_CLOEXEC), 0); /* not a socket: only the number counts */
    assert_int_equal(pidfd_of_peer(pipes[0], 0, &process), MR_IO);
    assert_int_equal(pidfd_of_peer(pipes[0], INT32_MAX - 1, &process), MR_PEER_DIED);
    assert_int_equal(pidfd_of_peer(pipes[0], getpid(), &process), MR_OK);
    assert_false(pidfd_ended(&process));
    pidfd_close(&process);
    close(pipes[0]);
    close(pipes[1]);
}

static void a_signal_reaches_a_live_process_only(void **state) {
    pidfd process;
    pid_t stays = test_child_start(never, NULL);
    assert_int_equal(pidfd_of_pid(stays, &process), MR_OK);
    pidfd_signal(&process, SIGTERM);
    assert_true(pidfd_await(&process, CHILD_MS));
    assert_int_equal(test_child_wait(stays, CHILD_MS), -SIGTERM);
    pidfd_signal(&process, SIGTERM);
    assert_true(pidfd_ended(&process));
    pidfd_close(&process);
    assert_int_equal(process.fd, -1);
    assert_int_equal(pidfd_of_pid(stays, &process), MR_PEER_DIED);
}

static void *sleep_long(void *argument) {
    pause();
    return NULL;
}

static int end_first_thread(void *argument) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, sleep_long, NULL) == 0) pthread_exit(NULL);
    return 1;
}

static void a_process_lives_longer_than_its_first_thread(void **state) {
    pidfd process;
    pid_t child = test_child_start(end_first_thread, NULL);
    assert_int_equal(pidfd_of_pid(child, &process), MR_OK);
    assert_false(pidfd_await(&process, 300));
    pidfd_signal(&process, SIGKILL);
    assert_true(pidfd_await(&process, CHILD_MS));
    assert_int_equal(test_child_wait(child, CHILD_MS), -SIGKILL);
    pidfd_close(&process);
}

static int run_all(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_child_tells_how_it_ended),
        cmocka_unit_test(anothers_child_tells_too),
        cmocka_unit_test(a_number_tells_whether_its_process_has_ended),
        cmocka_unit_test(a_missing_process_is_reported),
        cmocka_unit_test(a_signal_reaches_a_live_process_only),
        cmocka_unit_test(a_process_lives_longer_than_its_first_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

static int run_without_pidfds(void *argument) {
    const syscall_rule linux_5_0[] = {{SYS_pidfd_open, ENOSYS},
                                      {SYS_pidfd_send_signal, ENOSYS},
                                      {SYS_getsockopt, ENOPROTOOPT, 2, UINT32_MAX, 77 /* SO_PEERPIDFD */},
                                      {SYS_waitid, EINVAL, 0, UINT32_MAX, 3 /* P_PIDFD */}};
    pidfd process;
    TEST_CHILD_CHECK(syscall_filter_install(linux_5_0, sizeof linux_5_0 / sizeof *linux_5_0));
    TEST_CHILD_CHECK(pidfd_of_pid(getpid(), &process) == MR_OK && process.timed);
    pidfd_close(&process);
    return run_all();
}

static void all_holds_without_pidfds(void **state) {
    assert_int_equal(test_child_run(run_without_pidfds, NULL, 10 * CHILD_MS), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_holds_without_pidfds)};
    int failed = run_all();
    return cmocka_run_group_tests(tests, NULL, NULL) + failed;
}
