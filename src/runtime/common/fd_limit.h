/* fd_limit.h — limit of open files of this process.
 *
 * A node has a few descriptors for each worker, a program one for each process it communicates with: a thousand actors
 * exceed the soft limit of many machines, 1,024, which exists for programs that use select(). The hard limit is for
 * programs that do not. */
#pragma once

enum { FD_LIMIT_WANTED = 65536 };

/* Raises the soft limit to the hard one, or to the most ever needed. Never lowers the limit, and ignores failures: a
 * process without free descriptors gets an error with the limit (error_errno). */
void fd_limit_raise(void);
