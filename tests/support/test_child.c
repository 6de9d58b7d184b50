/* test_child.c — see test_child.h. */
#include "tests/support/test_child.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "net/pidfd.h"
#include "tests/support/process_dump.h"

pid_t test_child_start(test_child_fn *fn, void *argument) {
    fflush(NULL);
    signal(SIGINT, SIG_DFL); /* shells start background processes with SIGINT ignored */
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid != 0) return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(125); /* the parent died before prctl */
    int code = fn(argument);
    fflush(NULL);
    _exit(code);
}

bool test_child_stops(pid_t pid) {
    siginfo_t info = {0};
    int got;
    do got = waitid(P_PID, (id_t)pid, &info, WSTOPPED | WEXITED | WNOWAIT);
    while (got != 0 && errno == EINTR);
    return got == 0 && info.si_code == CLD_STOPPED;
}

int test_child_wait(pid_t pid, int timeout_ms) {
    pidfd child;
    bool late = false;
    if (pidfd_of_pid(pid, &child) == MR_OK) {
        late = !pidfd_await(&child, timeout_ms);
        pidfd_close(&child);
    }
    if (late) process_dump_print(pid);
    if (late) kill(pid, SIGKILL);
    int status;
    pid_t got;
    do got = waitpid(pid, &status, 0);
    while (got < 0 && errno == EINTR);
    if (late) return -1000;
    if (got != pid) return -1001;
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

int test_child_run(test_child_fn *fn, void *argument, int timeout_ms) {
    return test_child_wait(test_child_start(fn, argument), timeout_ms);
}

int test_child_failed(const char *condition, const char *file, int line) {
    fprintf(stderr, "child %d: %s:%d: %s does not hold\n", (int)getpid(), file, line, condition);
    return 101;
}
