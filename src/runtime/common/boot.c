/* boot.c — see boot.h. */
#include "runtime/common/boot.h"

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
#include "base/libc.h"
#include "base/thread.h"
#include "runtime/common/orphans.h"
#include "runtime/common/process_limit.h"

#define ROLE    "MINIRAY_BOOT"
#define BROKER  "MINIRAY_BOOT_HUB"
#define NODE    "MINIRAY_BOOT_NODE"
#define RUN     "MINIRAY_BOOT_RUN"
#define OPTIONS "MINIRAY_BOOT_OPTIONS"
#define TOTAL   " total="

enum { READY_TIMEOUT_MS = 20 * 1000, PROGRAM_FD_FIRST = 10 };

/* An environment variable; "" if it is not set. */
static const char *variable(const char *name) {
    const char *text = getenv(name);
    return text == NULL ? "" : text;
}

boot_role boot_role_now(void) {
    const char *role = variable(ROLE);
    if (strcmp(role, "node") == 0) return BOOT_NODE;
    if (strcmp(role, "worker") == 0) return BOOT_WORKER;
    if (strcmp(role, "native") == 0) return BOOT_NATIVE;
    return strcmp(role, "template") == 0 ? BOOT_ZYGOTE : BOOT_PROGRAM;
}

const char *boot_broker(void) { return variable(BROKER); }
const char *boot_run(void) { return variable(RUN); }
static bool is_lasting(void) { return strstr(variable(OPTIONS), "lasting=1") != NULL; }

void boot_begin_node(void) {
    if (is_lasting() && fork() != 0) _exit(0); /* a standalone node is no child of the process that started it */
    setsid();                                  /* signals of a terminal go to the driver only */
    prctl(PR_SET_NAME, "miniray-node");
    thread_bar_privileges(); /* of the node, and of all processes that it starts */
    for (int fd = BOOT_LIFELINE_FD; fd <= BOOT_LAUNCH_SPEC_FD; fd++) fcntl(fd, F_SETFD, FD_CLOEXEC);
}

/* When memory is exhausted, the kernel ends tasks and what they started before it ends the driver, the node, and the
 * servers of a parameter server. Ray uses the same number, the highest one. */
static void be_first_for_oom_killer(void) {
    static const char score[] = "1000";
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd < 0) return;
    (void)!write(fd, score, sizeof score - 1);
    close(fd);
}

void boot_begin_worker(void) {
    if (boot_role_now() != BOOT_NATIVE) be_first_for_oom_killer();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setpgid(0, 0); /* processes that the worker starts end with it (orphans.h) */
    prctl(PR_SET_NAME, program_invocation_short_name);
}

bool boot_has_node(void) {
    const char *node = getenv(NODE);
    return node != NULL && atoi(node) == (int)getppid();
}

void boot_hide(void) {
    char *role = getenv(ROLE);
    if (role != NULL) memcpy(role, "kept", 4);
}

void boot_forget(void) {
    static const char *const told[] = {ROLE, BROKER, NODE, RUN};
    for (size_t i = 0; i < sizeof told / sizeof told[0]; i++) unsetenv(told[i]);
}

/* ---- Starting processes. */

enum { VARIABLES = 4, FDS = 6 };

/* The launch spec's environment without the runtime's variables, and with `variables`. The strings are borrowed; the
 * caller frees the list. */
static char **environment_with(const launch_spec *spec, char *const variables[VARIABLES]) {
    size_t size = 0, used = 0;
    while (spec->environment[size] != NULL) size++;
    char **list = xcalloc(size + VARIABLES + 1, sizeof *list);
    for (size_t i = 0; i < size; i++)
        if (strncmp(spec->environment[i], ROLE, strlen(ROLE)) != 0) list[used++] = spec->environment[i];
    for (size_t i = 0; i < VARIABLES && variables[i] != NULL; i++) list[used++] = variables[i];
    return list;
}

typedef struct plan {
    const launch_spec *spec;
    const char *executable;     /* NULL: the launch spec's */
    char *variables[VARIABLES]; /* owned, `start` frees them; the rest NULL */
    int fds[FDS];               /* source of descriptor 0, 1, …; -1: unchanged, if inherited */
} plan;

static int spawn(const plan *plan, posix_spawn_file_actions_t *actions, posix_spawnattr_t *attributes, pid_t *pid) {
    char program[32] = "/proc/self/exe";
    if (plan->spec->executable_fd >= 0)
        snprintf(program, sizeof program, "/proc/self/fd/%d", plan->spec->executable_fd);
    for (int i = 0; i < FDS; i++)
        if (plan->fds[i] >= 0) posix_spawn_file_actions_adddup2(actions, plan->fds[i], i);
    char **environment = environment_with(plan->spec, plan->variables);
    const char *path = plan->spec->emulated ? plan->spec->arguments[0] : program;
    int failed = libc_spawn_in(plan->spec->folder_fd, pid, plan->executable != NULL ? plan->executable : path, actions,
                               attributes, plan->spec->arguments, environment);
    free(environment);
    return failed;
}

static mr_status start(const plan *plan, pid_t *pid) {
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
    int failed = spawn(plan, &actions, &attributes, pid);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    for (size_t i = 0; i < VARIABLES; i++) free(plan->variables[i]);
    if (failed == 0) return MR_OK;
    errno = failed;
    if (process_limit_is(failed)) {
        char limits[2 * PROCESS_LIMIT_TEXT_MAX];
        process_limit_text(failed, limits, sizeof limits);
        return error_set(error_status(failed), "cannot start a process of '%.200s': %s; %s", plan->spec->arguments[0],
                         strerror(failed), limits);
    }
    if (plan->executable != NULL)
        return error_errno("cannot start the node's executable '%.200s': posix_spawn", plan->executable);
    return error_errno("cannot start a worker with the executable of '%.200s': posix_spawn", plan->spec->arguments[0]);
}

mr_status boot_start_worker(const launch_spec *spec, const boot_worker *told, pid_t *pid) {
    bool is_zygote = told->socket_fd >= 0;
    const char *role = is_zygote ? "template" : spec->native ? "native" : "worker";
    const plan plan = {.spec = spec,
                       .variables = {xasprintf(ROLE "=%s", role), xasprintf(BROKER "=%s", told->broker),
                                     xasprintf(NODE "=%d", (int)getpid()),
                                     is_zygote ? xasprintf(RUN "=%s", told->run) : NULL},
                       .fds = {told->stdio.input_fd, told->stdio.output_fds[STD_STREAM_OUT],
                               told->stdio.output_fds[STD_STREAM_ERR], told->socket_fd, -1, -1}};
    _Static_assert(BOOT_ZYGOTE_FD == 3, "its place in fds");
    return start(&plan, pid);
}

/* Kills a node that is not ready, unless it has ended already, and reaps it. */
static int put_down(pid_t pid) {
    kill(pid, SIGKILL);
    return orphans_reap(pid);
}

/* Waits for the node's message: only "ok" means that the node is ready. Otherwise kills the node. */
static mr_status await_ready(int fd, pid_t pid) {
    char text[400];
    size_t used = 0;
    for (;;) {
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        int ready = poll(&wait, 1, READY_TIMEOUT_MS);
        if (ready < 0 && errno == EINTR) continue;
        if (ready == 0) {
            put_down(pid);
            return error_set(MR_TIMEOUT,
                             "the node (process %d) was not ready within %d s; `miniray doctor` checks this "
                             "machine",
                             (int)pid, READY_TIMEOUT_MS / 1000);
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
    if (used > 0) return error_set(MR_IO, "cannot start the node: %s", text);
    if (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL)
        return error_set(MR_PEER_DIED, "the node (process %d) died while it started: %s", (int)pid,
                         strsignal(WTERMSIG(status)));
    return error_set(MR_PEER_DIED, "the node (process %d) ended while it started, without an error message", (int)pid);
}

/* A pipe with descriptors above those that the node gets, so that neither dup2 closes the other. The caller closes the
 * ends that are not -1, also after a failure. */
static mr_status high_pipe(int fds[2]) {
    int low[2];
    if (pipe2(low, O_CLOEXEC) != 0)
        return error_errno("cannot create a pipe to the node (descriptors from %d on)", PROGRAM_FD_FIRST);
    fds[0] = fcntl(low[0], F_DUPFD_CLOEXEC, PROGRAM_FD_FIRST);
    fds[1] = fcntl(low[1], F_DUPFD_CLOEXEC, PROGRAM_FD_FIRST);
    if (errno == EINVAL) errno = EMFILE; /* the limit of descriptors is below PROGRAM_FD_FIRST */
    mr_status status = fds[0] < 0 || fds[1] < 0
                           ? error_errno("cannot create a pipe to the node (descriptors from %d on)", PROGRAM_FD_FIRST)
                           : MR_OK;
    close(low[0]);
    close(low[1]);
    return status;
}

static char *options_of(const boot_node *told) {
    char resources[RESOURCES_TEXT_MAX];
    resources_text(&told->total, resources, sizeof resources);
    for (char *at = resources, *to = resources; (*to = *at) != '\0'; at++) to += *at != ' ';
    return xasprintf(OPTIONS "=workers=%u arena=%llu lasting=%d recipe=%d program=%d" TOTAL "%s", told->workers,
                     (unsigned long long)told->arena_bytes, told->lasting, told->has_launch_spec, (int)getpid(),
                     resources);
}

/* A standalone node is detached from its terminal: stdin is empty, and output goes to its log. */
static mr_status open_stdio(const char *run, int fds[2]) {
    char path[256];
    snprintf(path, sizeof path, "%s/node.log", run);
    fds[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    fds[1] = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0600);
    if (fds[0] >= 0 && fds[1] >= 0) return MR_OK;
    mr_status status = error_errno("cannot open the node's log %s", path);
    if (fds[0] >= 0) close(fds[0]);
    return status;
}

/* A descriptor of the launch spec above those that the node gets; -1: there is no launch spec. */
static mr_status open_launch_spec(const boot_node *told, int *fd) {
    if (!told->has_launch_spec) return MR_OK;
    *fd = fcntl(told->launch_spec_fd, F_DUPFD_CLOEXEC, PROGRAM_FD_FIRST);
    return *fd >= 0 ? MR_OK
                    : error_errno("cannot pass the command line of workers (fd %d) to the node", told->launch_spec_fd);
}

mr_status boot_start_node(const char *broker, const char *run, const boot_node *told, pid_t *pid, int *lifeline_fd) {
    enum { COUNT = 7 };
    int fds[COUNT] = {-1, -1, -1, -1, -1, -1, -1};
    int *lifeline = fds, *ready = fds + 2, *stdio = fds + 4, *spec_fd = fds + 6;
    launch_spec *own = launch_spec_own();
    mr_status status = high_pipe(ready);
    if (status == MR_OK) status = open_launch_spec(told, spec_fd);
    if (status == MR_OK) status = told->lasting ? open_stdio(run, stdio) : high_pipe(lifeline);
    if (status != MR_OK) goto close_all;
    const plan plan = {.spec = own,
                       .executable = told->executable,
                       .variables = {xstrdup(ROLE "=node"), xasprintf(BROKER "=%s", broker), xasprintf(RUN "=%s", run),
                                     options_of(told)},
                       .fds = {stdio[0], stdio[1], stdio[1], lifeline[0], ready[1], *spec_fd}};
    _Static_assert(BOOT_LIFELINE_FD == 3 && BOOT_READY_FD == 4 && BOOT_LAUNCH_SPEC_FD == 5, "their places in fds");
    status = start(&plan, pid);
    if (status != MR_OK) goto close_all;
    close(ready[1]);
    ready[1] = -1;
    status = await_ready(ready[0], *pid);
    if (status == MR_OK && told->lasting) orphans_reap(*pid);
    if (status == MR_OK) {
        *lifeline_fd = lifeline[1];
        lifeline[1] = -1;
    }

close_all:
    launch_spec_destroy(own);
    for (int i = 0; i < COUNT; i++)
        if (fds[i] >= 0) close(fds[i]);
    return status;
}

/* ---- In the node. */

mr_status boot_read_node(boot_node *out) {
    const char *text = getenv(OPTIONS), *total = text == NULL ? NULL : strstr(text, TOTAL);
    unsigned long long arena = 0;
    int lasting = 0, has_launch_spec = 0;
    *out = (boot_node){0};
    if (total == NULL || sscanf(text, "workers=%u arena=%llu lasting=%d recipe=%d program=%d", &out->workers, &arena,
                                &lasting, &has_launch_spec, &out->program) != 5)
        return error_set(MR_INVALID, "a node cannot be run by hand: use `miniray start`, or a program that calls "
                                     "mr_init");
    out->arena_bytes = arena;
    out->lasting = lasting != 0;
    out->has_launch_spec = has_launch_spec != 0;
    return resources_parse(&out->total, total + strlen(TOTAL));
}

mr_status boot_read_launch_spec(const boot_node *told, launch_spec **out) {
    mr_status status = launch_spec_read(BOOT_LAUNCH_SPEC_FD, told->program, out);
    close(BOOT_LAUNCH_SPEC_FD);
    return status;
}

void boot_node_ready(const char *error) {
    const char *text = error == NULL ? "ok" : error;
    ssize_t written = write(BOOT_READY_FD, text, strlen(text));
    (void)written; /* the driver is gone: the lifeline shows it */
    close(BOOT_READY_FD);
}
