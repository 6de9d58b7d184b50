/* fd_limit.h — limit of open files of this process.
 *
 * A node has a few for each worker, a program one for each process that it talks to: a thousand actors are more than
 * the soft limit of many machines, 1,024, which is meant for programs that use select(). The hard limit is meant for
 * those that do not. */
#pragma once

enum { FD_LIMIT_WANTED = 65536 };

/* Moves the soft limit up to the hard one, or to as many as are ever wanted. Never down; what cannot be had is done
 * without: whoever runs out is told then, with the limit (error_errno). */
void fd_limit_raise(void);
