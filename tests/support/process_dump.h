/* process_dump.h — prints the threads of a process on stderr, for a test whose wait for the process timed out. */
#pragma once
#include <sys/types.h>

void process_dump_print(pid_t pid); /* one line for the process, and one per thread: name, state, wait channel */
