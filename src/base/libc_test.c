/* libc_test.c — the functions of libc.h, with those of this glibc and as if it had none of them. */
#define LIBC_HAS(function)  (0)
#define libc_signal_name    old_signal_name
#define libc_close_from     old_close_from
#define libc_has_one_thread old_has_one_thread
#define libc_spawn_in       old_spawn_in
#include "base/libc.c"
#undef libc_signal_name
#undef libc_close_from
#undef libc_has_one_thread
#undef libc_spawn_in

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <cmocka.h>

/* Without the functions' declarations in libc.h, which has them under other names here. */
const char *libc_signal_name(int signal);
void libc_close_from(int first);
bool libc_has_one_thread(void);
int libc_spawn_in(int folder_fd, pid_t *pid, const char *program, posix_spawn_file_actions_t *actions,
                  const posix_spawnattr_t *attributes, char *const arguments[], char *const environment[]);

static void signals_have_names(void **state) {
    static const int signals[] = {SIGKILL, SIGSEGV, SIGABRT, SIGBUS, SIGTERM, SIGINT, SIGILL, SIGFPE, SIGXCPU};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        assert_string_equal(old_signal_name(signals[i]), libc_signal_name(signals[i]));
    assert_string_equal(libc_signal_name(SIGKILL), "KILL");
    assert_string_equal(libc_signal_name(12345), "?");
    assert_string_equal(old_signal_name(12345), "?");
}

/* In a child with 300 descriptors: all from the fifth on are closed, the others are not. Returns whether it did. */
static bool closes(void (*close_from)(int first)) {
    enum { FIRST = 5, COUNT = 300 };
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < COUNT; i++)
            if (open("/dev/null", O_RDONLY | O_CLOEXEC) < 0) _exit(2);
        for (int fd = 0; fd < FIRST; fd++) dup2(FIRST + COUNT / 2, fd);
        close_from(FIRST);
        for (int fd = 0; fd < FIRST + COUNT; fd++)
            if ((fcntl(fd, F_GETFD) >= 0) != (fd < FIRST)) _exit(1);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void descriptors_are_closed(void **state) {
    assert_true(closes(libc_close_from));
    assert_true(closes(old_close_from));
}

typedef struct pause_at {
    pthread_mutex_t lock;
} pause_at;

static void *wait_for_lock(void *argument) {
    pause_at *pause = argument;
    pthread_mutex_lock(&pause->lock);
    pthread_mutex_unlock(&pause->lock);
    return NULL;
}

/* In a child, which begins with one thread. */
static void threads_are_seen(void **state) {
    pid_t child = fork();
    if (child == 0) {
        pause_at pause = {.lock = PTHREAD_MUTEX_INITIALIZER};
        pthread_t thread;
        bool alone = old_has_one_thread();
        pthread_mutex_lock(&pause.lock);
        if (pthread_create(&thread, NULL, wait_for_lock, &pause) != 0) _exit(2);
        bool together = !old_has_one_thread() && !libc_has_one_thread();
        pthread_mutex_unlock(&pause.lock);
        pthread_join(thread, NULL);
        _exit(alone && together ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
#ifndef __SANITIZE_THREAD__ /* it has a thread of its own */
    assert_int_equal(status, 0);
#endif
}

typedef int spawn_fn(int folder_fd, pid_t *pid, const char *program, posix_spawn_file_actions_t *actions,
                     const posix_spawnattr_t *attributes, char *const arguments[], char *const environment[]);

/* Returns the exit status of `test -e self/status`, which only the folder /proc has. */
static int looks(spawn_fn *spawn_in, int folder_fd) {
    char program[] = "test", option[] = "-e", path[] = "self/status";
    char *arguments[] = {program, option, path, NULL}, *environment[] = {NULL};
    posix_spawn_file_actions_t actions;
    pid_t pid;
    int status;
    posix_spawn_file_actions_init(&actions);
    int failed = spawn_in(folder_fd, &pid, "/usr/bin/test", &actions, NULL, arguments, environment);
    posix_spawn_file_actions_destroy(&actions);
    assert_int_equal(failed, 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WEXITSTATUS(status);
}

static void processes_start_in_a_folder(void **state) {
    spawn_fn *const ways[] = {libc_spawn_in, old_spawn_in};
    char before[4096], after[4096];
    assert_non_null(getcwd(before, sizeof before));
    int folder_fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(looks(ways[i], folder_fd), 0);
        assert_int_equal(looks(ways[i], -1), 1);
        assert_non_null(getcwd(after, sizeof after));
        assert_string_equal(before, after);
    }
    close(folder_fd);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(signals_have_names),
        cmocka_unit_test(descriptors_are_closed),
        cmocka_unit_test(threads_are_seen),
        cmocka_unit_test(processes_start_in_a_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
