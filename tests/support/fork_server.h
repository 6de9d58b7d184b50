/* fork_server.h — starts children of a test whose process has threads.
 *
 * A library thread may hold a lock at the moment of a fork (the allocator's of a sanitizer, say), and the child has it
 * locked for ever. So a test that starts processes while it has an open connection uses a process without threads: the
 * fork server, which is forked before there are any threads.
 *
 *   test ── function, argument ──► fork server ── fork ──► forks the child, sends its pid and ends
 *    ▲                                                                       │
 *    └──────────────── the test is now the parent of the child ◄─────────────┘
 *
 * The child is a child of the test like any other (test_child.h): the test waits for it in the same way, and the child
 * dies with the test. The child begins with the memory of the fork server: the state before fork_server_open, shared
 * memory, and a copy of the argument. Functions and static variables have the same addresses. */
#pragma once
#include <stddef.h>

#include "tests/support/test_child.h"

typedef struct fork_server {
    pid_t pid;
    int fd; /* socket to the fork server */
} fork_server;

enum { FORK_SERVER_ARGUMENT_MAX = 4096 };

bool fork_server_open(fork_server *server);  /* called while this process has one thread; false: failed */
void fork_server_close(fork_server *server); /* children that the fork server started outlive it */

/* -1: failed. The argument is copied; at most FORK_SERVER_ARGUMENT_MAX bytes. */
pid_t fork_server_start(const fork_server *server, test_child_fn *fn, const void *argument, size_t size);
