/* fork_server.h — children of a test whose process has threads by then.
 *
 * A library thread may hold a lock at the moment of a fork (the allocator's of a sanitizer, say), and the child has it
 * locked for ever. So whoever starts processes beside an open connection has them started by a process without threads:
 * the nursery, which is forked before there are any.
 *
 *   test ── function, argument ──► nursery ── fork ──► one that forks the child, says its number and ends
 *     ▲                                                                    │
 *     └────────────── the child: the test is its parent now ◄──────────────┘
 *
 * What is started is a child of the test like any other (test_child.h): it is waited for in the same way, and dies with
 * it. It begins with the memory that the nursery has: what was set before fork_server_open, memory that is shared, and
 * a copy of the argument. Functions and what is static lie at the same places. */
#pragma once
#include <stddef.h>

#include "tests/support/test_child.h"

typedef struct fork_server {
    pid_t pid;
    int fd; /* a socket to it */
} fork_server;

enum { FORK_SERVER_ARGUMENT_MAX = 4096 };

bool fork_server_open(fork_server *server);  /* while this process has one thread only. False: it cannot be made */
void fork_server_close(fork_server *server); /* what it has started lives on */

/* -1: it could not be started. The argument is copied, FORK_SERVER_ARGUMENT_MAX bytes at most. */
pid_t fork_server_start(const fork_server *server, test_child_fn *fn, const void *argument, size_t size);
