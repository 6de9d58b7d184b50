/* boot.c — see boot.h. */
#include "runtime/boot.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "runtime/node.h"

#define ROLE    "MINIRAY_BOOT"
#define HUB     "MINIRAY_BOOT_HUB"
#define OPTIONS "MINIRAY_BOOT_OPTIONS"

enum { READY_TIMEOUT_MS = 20 * 1000, PROGRAM_FD_FIRST = 10 };

extern char **environ;

boot_role boot_role_now(void) {
    const char *role = getenv(ROLE);
    if (role == NULL) return BOOT_PROGRAM;
    return strcmp(role, "node") == 0 ? BOOT_NODE : strcmp(role, "worker") == 0 ? BOOT_WORKER : BOOT_PROGRAM;
}

const char *boot_hub(void) {
    const char *hub = getenv(HUB);
    return hub == NULL ? "" : hub;
}

/* Runs before main in every process that links the library. */
__attribute__((constructor)) static void take_over(void) {
    switch (boot_role_now()) {
    case BOOT_NODE:
        setsid(); /* a terminal's signals are the program's */
        fcntl(BOOT_LIFELINE_FD, F_SETFD, FD_CLOEXEC);
        fcntl(BOOT_READY_FD, F_SETFD, FD_CLOEXEC);
        _exit(node_main());
    case BOOT_WORKER: prctl(PR_SET_PDEATHSIG, SIGKILL); break; /* ends with its node, whatever it is doing */
    case BOOT_PROGRAM: break;
    }
}

/* ---- Starting. */

/* The environment without our variables, and with these. The strings are borrowed; the list is the caller's. */
static char **environment_with(const char *const *add, size_t count) {
    size_t size = 0, used = 0;
    while (environ[size] != NULL) size++;
    char **list = xcalloc(size + count + 1, sizeof *list);
    for (size_t i = 0; i < size; i++)
        if (strncmp(environ[i], ROLE, strlen(ROLE)) != 0) list[used++] = environ[i];
    for (size_t i = 0; i < count; i++) list[used++] = (char *)(uintptr_t)add[i];
    return list;
}

/* `fds` become BOOT_LIFELINE_FD and the one after it; NULL: none. */
static mr_status start(const char *const *variables, size_t count, const int *fds, pid_t *pid) {
    char program[] = "/proc/self/exe";
    char *arguments[] = {program_invocation_name, NULL};
    char **environment = environment_with(variables, count);
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    if (fds != NULL) {
        posix_spawn_file_actions_adddup2(&actions, fds[0], BOOT_LIFELINE_FD);
        posix_spawn_file_actions_adddup2(&actions, fds[1], BOOT_READY_FD);
    }
    int failed = posix_spawn(pid, program, &actions, &attributes, arguments, environment);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    free(environment);
    if (failed == 0) return MR_OK;
    errno = failed;
    return error_errno("this program could not be started again");
}

mr_status boot_start_worker(const char *hub, pid_t *pid) {
    char *path = xasprintf(HUB "=%s", hub);
    const char *variables[] = {ROLE "=worker", path};
    mr_status status = start(variables, 2, NULL, pid);
    free(path);
    return status;
}

/* Ends a node that does not stand, if it has not ended already. */
static int put_down(pid_t pid) {
    int status = 0;
    kill(pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
    return status;
}

/* What the node said: nothing but "ok" means that it stands. Otherwise it is gone afterwards. */
static mr_status await_ready(int fd, pid_t pid) {
    char text[400];
    size_t used = 0;
    for (;;) {
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        int ready = poll(&wait, 1, READY_TIMEOUT_MS);
        if (ready < 0 && errno == EINTR) continue;
        if (ready == 0) {
            put_down(pid);
            return error_set(MR_TIMEOUT, "the node did not stand within %d s", READY_TIMEOUT_MS / 1000);
        }
        ssize_t got = read(fd, text + used, sizeof text - 1 - used);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        used += (size_t)got;
        if (used == sizeof text - 1) break;
    }
    text[used] = '\0';
    if (strcmp(text, "ok") == 0) return MR_OK;
    int status = put_down(pid);
    if (used > 0) return error_set(MR_IO, "the node could not start: %s", text);
    if (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL)
        return error_set(MR_PEER_DIED, "the node died at its start: %s", strsignal(WTERMSIG(status)));
    return error_set(MR_PEER_DIED, "the node ended at its start without a word");
}

/* A pipe whose ends lie above the numbers that the node gets them at, so that neither dup2 closes the other. */
static mr_status high_pipe(int fds[2]) {
    int low[2];
    if (pipe2(low, O_CLOEXEC) != 0) return error_errno("no pipe to the node");
    fds[0] = fcntl(low[0], F_DUPFD_CLOEXEC, PROGRAM_FD_FIRST);
    fds[1] = fcntl(low[1], F_DUPFD_CLOEXEC, PROGRAM_FD_FIRST);
    mr_status status = fds[0] < 0 || fds[1] < 0 ? error_errno("no pipe to the node") : MR_OK;
    close(low[0]);
    close(low[1]);
    if (status != MR_OK && fds[0] >= 0) close(fds[0]);
    return status;
}

mr_status boot_start_node(const char *hub, const boot_node *told, pid_t *pid, int *lifeline_fd) {
    int lifeline[2], ready[2];
    MR_TRY(high_pipe(lifeline));
    mr_status status = high_pipe(ready);
    if (status != MR_OK) goto close_lifeline;
    char resources[1024];
    resources_text(&told->total, resources, sizeof resources);
    for (char *at = resources, *to = resources; (*to = *at) != '\0'; at++) to += *at != ' ';
    char *options = xasprintf(OPTIONS "=workers=%u arena=%llu total=%s", told->workers,
                              (unsigned long long)told->arena_bytes, resources);
    char *path = xasprintf(HUB "=%s", hub);
    const char *variables[] = {ROLE "=node", path, options};
    status = start(variables, 3, (int[]){lifeline[0], ready[1]}, pid);
    free(options);
    free(path);
    close(ready[1]);
    if (status == MR_OK) status = await_ready(ready[0], *pid);
    close(ready[0]);
    close(lifeline[0]);
    if (status != MR_OK) {
        close(lifeline[1]);
        return status;
    }
    *lifeline_fd = lifeline[1];
    return MR_OK;

close_lifeline:
    close(lifeline[0]);
    close(lifeline[1]);
    return status;
}

/* ---- In the node. */

mr_status boot_read_node(boot_node *out) {
    const char *text = getenv(OPTIONS);
    char total[1024] = "";
    unsigned long long arena = 0;
    memset(out, 0, sizeof *out);
    if (text == NULL || sscanf(text, "workers=%u arena=%llu total=%1023s", &out->workers, &arena, total) < 2)
        return error_set(MR_INVALID, "a node is started by a program, not by hand");
    out->arena_bytes = arena;
    return resources_parse(&out->total, total);
}

void boot_node_ready(const char *error) {
    const char *text = error == NULL ? "ok" : error;
    ssize_t written = write(BOOT_READY_FD, text, strlen(text));
    (void)written; /* the program is gone: its lifeline tells */
    close(BOOT_READY_FD);
}
