/* process_limit.h — why the system starts no more processes, for the error. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

/* Whether an errno of fork, clone or posix_spawn means that no process can be started at the moment: there are too many
 * processes or threads (EAGAIN), or there is no memory for another one (ENOMEM). */
bool process_limit_is(int error);

enum { PROCESS_LIMIT_TEXT_MAX = 300 };

/* Writes the limits of this process's user, cgroup and machine, as "user 100 (ulimit -u), …", or for ENOMEM the
 * available memory, with the next step. */
void process_limit_text(int error, char *out, size_t size);
