/* process_dump.h — dump of a process's threads on stderr, for a test that waited for its end in vain. */
#pragma once
#include <sys/types.h>

void process_dump_print(pid_t pid); /* a line for it, and one for each thread: its name, its state, where it waits */
