/* fork_server.c — see fork_server.h. */
#include "tests/support/fork_server.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct order {
    test_child_fn *fn;
    uint8_t argument[FORK_SERVER_ARGUMENT_MAX] __attribute__((aligned(16)));
} order;

static bool carry_whole(ssize_t (*carry)(int, void *, size_t), int fd, void *bytes, size_t size) {
    for (uint8_t *at = bytes; size > 0;) {
        ssize_t count = carry(fd, at, size);
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return false;
        at += count;
        size -= (size_t)count;
    }
    return true;
}

static ssize_t send_some(int fd, void *bytes, size_t size) { return send(fd, bytes, size, MSG_NOSIGNAL); }
static ssize_t receive_some(int fd, void *bytes, size_t size) { return recv(fd, bytes, size, 0); }

/* ---- In the fork server. */

static int be_born(order *order, pid_t test) {
    for (int i = 0; i < 100000 && getppid() != test; i++) usleep(100); /* until the intermediate process has ended */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != test) return 125; /* the test died before */
    return order->fn(order->argument);
}

/* Forks a process that forks the child and ends at once, so that the child gets the nearest subreaper as parent. */
static pid_t bear(order *order, pid_t test, int fd) {
    int ends[2];
    if (pipe(ends) != 0) return -1;
    pid_t between = fork(), born = -1;
    if (between == 0) {
        born = fork();
        if (born == 0) {
            close(ends[0]);
            close(ends[1]);
            close(fd);
            int code = be_born(order, test);
            fflush(NULL);
            _exit(code);
        }
        _exit(write(ends[1], &born, sizeof born) == (ssize_t)sizeof born ? 0 : 1);
    }
    close(ends[1]);
    if (between < 0 || read(ends[0], &born, sizeof born) != (ssize_t)sizeof born) born = -1;
    close(ends[0]);
    while (between > 0 && waitpid(between, NULL, 0) < 0 && errno == EINTR) continue;
    return born;
}

static void serve(int fd, pid_t test) {
    static order order;
    while (carry_whole(receive_some, fd, &order, sizeof order)) {
        pid_t born = bear(&order, test, fd);
        if (!carry_whole(send_some, fd, &born, sizeof born)) return;
    }
}

/* ---- In the test. */

bool fork_server_open(fork_server *server) {
    int ends[2];
    pid_t test = getpid();
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return false;
    fflush(NULL);
    signal(SIGINT, SIG_DFL); /* shells start background processes with SIGINT ignored */
    server->pid = fork();
    if (server->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(ends[0]);
        serve(ends[1], test);
        _exit(0);
    }
    close(ends[1]);
    server->fd = ends[0];
    if (server->pid < 0) close(ends[0]);
    return server->pid > 0;
}

void fork_server_close(fork_server *server) {
    close(server->fd);
    (void)test_child_wait(server->pid, 10000);
}

pid_t fork_server_start(const fork_server *server, test_child_fn *fn, const void *argument, size_t size) {
    static order order;
    pid_t born;
    if (size > FORK_SERVER_ARGUMENT_MAX) return -1;
    order.fn = fn;
    memcpy(order.argument, argument, size);
    fflush(NULL);
    bool done = carry_whole(send_some, server->fd, &order, sizeof order) &&
                carry_whole(receive_some, server->fd, &born, sizeof born);
    return done ? born : -1;
}
