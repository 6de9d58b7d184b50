/* libc.c — see libc.h. libc_test.c compiles this file a second time, as if no function were there. */
#include "base/libc.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifdef LIBC_WEAK
extern const char *sigabbrev_np(int signal) __attribute__((weak));
extern void closefrom(int first) __attribute__((weak));
extern int posix_spawn_file_actions_addfchdir_np(posix_spawn_file_actions_t *actions, int fd) __attribute__((weak));
extern char __libc_single_threaded __attribute__((weak));
#define LIBC_HAS(function) ((function) != NULL)
#else
#include <sys/single_threaded.h>
#endif
#ifndef LIBC_HAS
#define LIBC_HAS(function) true
#endif

/* ---- Signals. */

static const char *name_of(int signal) {
    static const struct {
        int signal;
        const char *name;
    } names[] = {
        {SIGABRT, "ABRT"}, {SIGALRM, "ALRM"}, {SIGBUS, "BUS"},   {SIGFPE, "FPE"},   {SIGHUP, "HUP"},
        {SIGILL, "ILL"},   {SIGINT, "INT"},   {SIGKILL, "KILL"}, {SIGPIPE, "PIPE"}, {SIGQUIT, "QUIT"},
        {SIGSEGV, "SEGV"}, {SIGSYS, "SYS"},   {SIGTERM, "TERM"}, {SIGTRAP, "TRAP"}, {SIGUSR1, "USR1"},
        {SIGUSR2, "USR2"}, {SIGXCPU, "XCPU"}, {SIGXFSZ, "XFSZ"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].signal == signal) return names[i].name;
    return NULL;
}

const char *libc_signal_name(int signal) {
    const char *name = LIBC_HAS(sigabbrev_np) ? sigabbrev_np(signal) : name_of(signal);
    return name == NULL ? "?" : name;
}

/* ---- Descriptors. */

/* The number in a name of /proc/self/fd; -1: "." or "..". */
static int number_of(const char *name) {
    int number = 0;
    if (*name < '0' || *name > '9') return -1;
    for (; *name != '\0'; name++) number = number * 10 + (*name - '0');
    return number;
}

/* Closes the descriptors that a part of the list names; `list` is the descriptor of the list. Returns the number of the
 * closed ones. */
static int close_listed(const char *part, long size, int first, int list) {
    enum { SIZE_AT = 16, NAME_AT = 19 }; /* in a linux_dirent64 */
    int closed = 0;
    uint16_t length;
    for (long at = 0; at < size; at += length) {
        memcpy(&length, part + at + SIZE_AT, sizeof length);
        int fd = number_of(part + at + NAME_AT);
        if (fd >= first && fd != list && close(fd) == 0) closed++;
    }
    return closed;
}

/* Entries may move while descriptors are closed, so the list is read until nothing is left. */
static bool close_by_list(int first) {
    char part[1024];
    int closed;
    int list = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (list < 0) return false;
    do {
        long size;
        closed = 0;
        lseek(list, 0, SEEK_SET);
        while ((size = syscall(SYS_getdents64, list, part, sizeof part)) > 0)
            closed += close_listed(part, size, first, list);
    } while (closed > 0);
    close(list);
    return true;
}

void libc_close_from(int first) {
    if (LIBC_HAS(closefrom)) {
        closefrom(first);
        return;
    }
    if (close_by_list(first)) return;
    for (long fd = first, end = sysconf(_SC_OPEN_MAX); fd < end; fd++) close((int)fd);
}

/* ---- Processes. */

bool libc_has_one_thread(void) {
    if (LIBC_HAS(&__libc_single_threaded)) return __libc_single_threaded;
    struct stat threads;
    return stat("/proc/self/task", &threads) == 0 && threads.st_nlink == 3; /* ".", ".." and one thread */
}

static int spawn_inside(int folder_fd, pid_t *pid, const char *program, posix_spawn_file_actions_t *actions,
                        const posix_spawnattr_t *attributes, char *const arguments[], char *const environment[]) {
    int here = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (here < 0) return errno;
    int failed =
        fchdir(folder_fd) != 0 ? errno : posix_spawn(pid, program, actions, attributes, arguments, environment);
    if (fchdir(here) != 0 && failed == 0) failed = errno;
    close(here);
    return failed;
}

int libc_spawn_in(int folder_fd, pid_t *pid, const char *program, posix_spawn_file_actions_t *actions,
                  const posix_spawnattr_t *attributes, char *const arguments[], char *const environment[]) {
    if (folder_fd >= 0 && !LIBC_HAS(posix_spawn_file_actions_addfchdir_np))
        return spawn_inside(folder_fd, pid, program, actions, attributes, arguments, environment);
    int failed = folder_fd < 0 ? 0 : posix_spawn_file_actions_addfchdir_np(actions, folder_fd);
    return failed != 0 ? failed : posix_spawn(pid, program, actions, attributes, arguments, environment);
}
