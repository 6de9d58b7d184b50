/* process_limit.h — limits on the number of processes, for the error when the system starts no more. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

/* Whether an errno of fork, clone or posix_spawn can mean that there are too many processes or threads. */
bool process_limit_is(int error);

enum { PROCESS_LIMIT_TEXT_MAX = 300 };

/* Writes the limits of this process's user, cgroup and machine, as "user 100 (ulimit -u), …", with the next step. */
void process_limit_text(char *out, size_t size);
