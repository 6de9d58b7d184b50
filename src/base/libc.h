/* libc.h — functions of glibc 2.29 to 2.35, and what happens without them.
 *
 * In a build against an older glibc (LIBC_WEAK, meson.build) the functions are weak: a process has them if the glibc
 * that it runs with has them. */
#pragma once
#include <spawn.h>
#include <stdbool.h>

const char *libc_signal_name(int signal); /* without "SIG"; "?": no name is known */
void libc_close_from(int first);          /* closes all descriptors from `first` on; async-signal-safe */
bool libc_has_one_thread(void);           /* of this process; false: maybe more */

/* As posix_spawn, in the folder `folder_fd` (-1: the current one). Without the function, the calling process is in that
 * folder for the duration of the call. */
int libc_spawn_in(int folder_fd, pid_t *pid, const char *program, posix_spawn_file_actions_t *actions,
                  const posix_spawnattr_t *attributes, char *const arguments[], char *const environment[]);
