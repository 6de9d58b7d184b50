/* cmd_ps_local.c — `miniray ps local`: supervisor of a whole parameter server on this machine.
 *
 *   this process ──► scheduler, server 0, server 1, …      children, which end with this process, even if it is killed
 *        ▲
 *        └── SIGTERM, SIGINT, or the end of the process of --parent-pid: the scheduler makes a last checkpoint, unless
 *            its directory is temporary; all children end, temporary files are removed
 *
 * A child that dies is started again: a server copies its slots from other replicas, the scheduler continues from its
 * directory. A child that keeps dying within LASTING_MS is started again after growing pauses. A scheduler that cannot
 * start ends everything. Tested by tests/python/test_kv_start.py. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/cmd_ps.h"
#include "cli/command_line.h"
#include "miniray/admin.h"

enum { ROLES_MAX = 1 + 1024, AGAIN_MIN_MS = 20, AGAIN_MAX_MS = 2000, LASTING_MS = 5000, LOOK_MS = 100 };
/* a scheduler that saves ends within 10 minutes (mr_ps_scheduler_options.final_checkpoint_us) */
enum { END_MS = 5000, SAVE_MS = 605000, TWICE_MS = 1000 };
enum { PARENT_PID = 512, PID_MAX = 1 << 22 };
enum { PATH_ROOM = 64 }; /* of a path in the temporary directory */

typedef struct role { /* a child: role 0 is the scheduler, the others are servers */
    pid_t pid;        /* 0: not running */
    int64_t began_ms, again_ms;
    int64_t pause_ms; /* before the next start */
} role;

typedef struct local {
    const char *title;
    mr_ps_scheduler_options scheduler;
    int with;                       /* process of --parent-pid; 0: none */
    mr_ps_supervision *supervision; /* owned; NULL: none */
    char address[PATH_ROOM], folder[PATH_ROOM];
    role roles[ROLES_MAX];
    unsigned count;
    int signals, ended; /* descriptors; ended is -1 without --parent-pid, and where pidfd_open is missing */
    bool is_parent;     /* the process of --parent-pid started this one */
    sigset_t before;
    int code;   /* exit status of the scheduler */
    bool begun; /* the scheduler was started before: a restarted one does not print its address */
} local;

static int64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- Temporary directory: for sockets, and for the scheduler's state without --checkpoint-dir. */

static bool make_place(local *local) {
    if (mr_ps_supervise(&local->supervision) != MR_OK) {
        fprintf(stderr, "%s: %s\n", local->title, mr_last_error());
        return false;
    }
    const char *place = mr_ps_supervision_dir(local->supervision);
    snprintf(local->address, sizeof local->address, "unix:%s/s", place);
    snprintf(local->folder, sizeof local->folder, "%s/state", place);
    if (local->scheduler.listen == NULL) local->scheduler.listen = local->address;
    if (local->scheduler.checkpoint_dir != NULL) return true;
    local->scheduler.checkpoint_dir = local->folder;
    local->scheduler.final_checkpoint_us = -1; /* the folder is removed at the end */
    return true;
}

/* ---- Child processes. */

static int be(local *local, unsigned number) {
    mr_ps_server_options server = MR_OPTIONS(mr_ps_server_options, .scheduler = local->scheduler.listen,
                                             .number = number, .allow_remote = local->scheduler.allow_remote);
    char name[] = "scheduler", short_name[16];
    snprintf(short_name, sizeof short_name, number == 0 ? "ps-scheduler" : "ps-server-%u", number - 1);
    prctl(PR_SET_NAME, short_name);
    signal(SIGINT, SIG_IGN); /* Ctrl-C reaches the whole process group, and this process's parent ends it in order */
    if (number == 0 && !local->begun) {
        local->scheduler.on_listening = ps_say_address;
        local->scheduler.context = name;
    }
    mr_status status = number == 0 ? mr_ps_run_scheduler(&local->scheduler) : mr_ps_run_server(&server);
    if (status != MR_OK) fprintf(stderr, "%s: %s: %s\n", local->title, short_name, mr_last_error());
    return status == MR_OK ? COMMAND_OK : status == MR_INVALID ? COMMAND_USAGE : COMMAND_FAILED;
}

static void start(local *local, unsigned number) {
    role *role = &local->roles[number];
    pid_t own = getpid();
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != own) _exit(1);
        sigprocmask(SIG_SETMASK, &local->before, NULL);
        _exit(be(local, number));
    }
    if (pid < 0)
        fprintf(stderr, "%s: cannot start process %u of %u: %s; retrying in %d ms\n", local->title, number + 1,
                local->count, strerror(errno), AGAIN_MAX_MS);
    role->pid = pid < 0 ? 0 : pid;
    role->began_ms = now_ms();
    if (pid < 0) role->again_ms = role->began_ms + AGAIN_MAX_MS;
    if (number == 0 && pid > 0) local->begun = true;
}

/* Handles the death of a child. False: the scheduler has exited, so everything must end. */
static bool take_death(local *local, role *role, int status) {
    int64_t now = now_ms();
    role->pid = 0;
    if (role == local->roles && WIFEXITED(status))
        return local->code = WEXITSTATUS(status), false; /* the scheduler has printed the cause */
    if (now - role->began_ms >= LASTING_MS || role->pause_ms == 0)
        role->pause_ms = AGAIN_MIN_MS;
    else if (role->pause_ms < AGAIN_MAX_MS)
        role->pause_ms *= 2;
    role->again_ms = now + (WIFSIGNALED(status) && role->pause_ms == AGAIN_MIN_MS ? 0 : role->pause_ms);
    return true;
}

static bool take_deaths(local *local) {
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
        for (unsigned i = 0; i < local->count; i++)
            if (local->roles[i].pid == pid && !take_death(local, &local->roles[i], status)) return false;
    return true;
}

/* Starts children whose pause is over. Returns the milliseconds until the next start; -1: all run. */
static int start_again(local *local) {
    int64_t now = now_ms(), least = -1;
    for (unsigned i = 0; i < local->count; i++) {
        role *role = &local->roles[i];
        if (role->pid != 0) continue;
        if (role->again_ms <= now) start(local, i);
        int64_t left = role->pid != 0 ? -1 : role->again_ms - now;
        if (left >= 0 && (least < 0 || left < least)) least = left;
    }
    return (int)least;
}

/* Waits for the end of a child, until `until_ms`, or a second signal, which kills it. */
static void await_end(const local *local, role *role, int64_t until_ms) {
    const int64_t since_ms = now_ms();
    while (role->pid != 0 && waitpid(role->pid, NULL, WNOHANG) == 0) {
        struct pollfd wait = {.fd = local->signals, .events = POLLIN};
        struct signalfd_siginfo info = {0};
        if (now_ms() >= until_ms) kill(role->pid, SIGKILL);
        if (poll(&wait, 1, 10) > 0 && read(local->signals, &info, sizeof info) < 0) break;
        bool again = info.ssi_signo == SIGTERM || info.ssi_signo == SIGINT;
        if (again && now_ms() - since_ms >= TWICE_MS) until_ms = now_ms();
    }
    role->pid = 0;
}

/* Ends all children: first the scheduler, which saves the tables from the servers. Servers have no state on disk and
 * are killed. */
static void end(local *local) {
    bool saves = local->scheduler.final_checkpoint_us >= 0;
    if (local->roles[0].pid != 0) {
        kill(local->roles[0].pid, SIGTERM);
        await_end(local, &local->roles[0], now_ms() + (saves ? SAVE_MS : END_MS));
    }
    for (unsigned i = 1; i < local->count; i++)
        if (local->roles[i].pid != 0) kill(local->roles[i].pid, SIGKILL);
    for (unsigned i = 1; i < local->count; i++) await_end(local, &local->roles[i], now_ms() + END_MS);
}

/* ---- Waiting for the end. */

static bool listen_for_ends(local *local) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, &local->before);
    local->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    local->ended = local->with == 0 ? -1 : (int)syscall(SYS_pidfd_open, local->with, 0);
    local->is_parent = local->with == getppid();
    bool missing = local->ended < 0 && (errno == ENOSYS || errno == EPERM || errno == EACCES);
    if (local->signals >= 0 && (local->with == 0 || local->ended >= 0 || missing)) return true;
    fprintf(stderr, "%s: cannot watch process %d of --parent-pid: %s\n", local->title, local->with, strerror(errno));
    return false;
}

/* Whether the process of --parent-pid has ended, where the kernel does not report it. */
static bool parent_ended(const local *local) {
    if (local->with == 0 || local->ended >= 0) return false;
    return (local->is_parent && getppid() != local->with) || (kill(local->with, 0) != 0 && errno == ESRCH);
}

static int look_after(local *local) {
    for (;;) {
        int pause_ms = start_again(local);
        bool looks = local->with != 0 && local->ended < 0;
        if (looks && (pause_ms < 0 || pause_ms > LOOK_MS)) pause_ms = LOOK_MS;
        struct pollfd waits[] = {{.fd = local->signals, .events = POLLIN}, {.fd = local->ended, .events = POLLIN}};
        struct signalfd_siginfo info;
        if (poll(waits, 2, pause_ms) < 0 && errno != EINTR) return 1;
        if (waits[1].revents != 0 || parent_ended(local)) return 0;
        while (read(local->signals, &info, sizeof info) == (ssize_t)sizeof info)
            if (info.ssi_signo != SIGCHLD) return 0;
        if (!take_deaths(local)) return local->code;
    }
}

static error_t parse(int key, char *text, struct argp_state *state) {

    local *local = state->input;
    char *rest;
    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = &local->scheduler; return 0;
    case PARENT_PID: {
        long pid = strtol(text, &rest, 10);
        if (*rest != '\0' || pid < 1 || pid > PID_MAX)
            command_line_error(state, "--parent-pid must be a process id from 1 to %d, not '%s'", PID_MAX, text);
        local->with = (int)pid;
        return 0;
    }
    default: return ARGP_ERR_UNKNOWN;
    }
}

int ps_local(int argc, char **argv) {
    const struct argp_option options[] = {
        {"parent-pid", PARENT_PID, "PID", 0, "End when this process ends (default: only at SIGTERM and Ctrl-C)", 0},
        {0}};
    struct argp scheduler = ps_scheduler_argp;
    scheduler.doc = NULL;
    const struct argp_child children[] = {{&scheduler, 0, "Scheduler:", 0}, {0}};
    const struct argp argp = {
        .options = options,
        .parser = parse,
        .children = children,
        .doc = "Runs the scheduler and the servers of a parameter server on this machine and restarts those that die.\v"
               "Without --listen and --checkpoint-dir, the socket and the state are in a temporary directory, which is "
               "removed at the end. With both, a later start continues from the saved state.",
    };
    local *local = calloc(1, sizeof *local);
    if (local == NULL) return COMMAND_FAILED;
    local->scheduler.size = sizeof local->scheduler;
    local->title = argv[0];
    command_line_parse(&argp, argc, argv, 0, local,
                       "miniray ps local --num-servers 2 --num-workers 4 --consistency bsp");
    local->count = 1 + local->scheduler.num_servers;
    int code = COMMAND_FAILED;
    if (local->scheduler.num_servers == 0) {
        fprintf(stderr, "%s: the number of servers is missing: use --num-servers N, from 1 to %d\n", argv[0],
                ROLES_MAX - 1);
        code = COMMAND_USAGE;
    } else if (local->scheduler.num_servers >= ROLES_MAX) {
        fprintf(stderr, "%s: --num-servers must be a number from 1 to %d, not %u\n", argv[0], ROLES_MAX - 1,
                local->scheduler.num_servers);
        code = COMMAND_USAGE;
    } else if (listen_for_ends(local) && make_place(local))
        code = look_after(local);
    end(local);
    mr_ps_supervision_end(local->supervision);
    free(local);
    return code;
}
