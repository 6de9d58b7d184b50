/* process_identity.h — identity of a process, for a file that may outlive it: the number of a process is reused, and
 * means nothing on another machine, after a reboot, or in another pid namespace. As text:
 *
 *   <boot id> <inode of the pid namespace> <process id> <start time of the process>
 */
#pragma once
#include <stdbool.h>

enum { PROCESS_IDENTITY_TEXT_MAX = 120 };

typedef struct process_identity {
    char boot[40]; /* "?": unknown */
    unsigned long long namespace;
    int process;
    unsigned long long start; /* in clock ticks since the boot; 0: unknown */
} process_identity;

process_identity process_identity_of(int process); /* a process of this process's namespace */
/* Returns the length. */
int process_identity_write(const process_identity *identity, char out[PROCESS_IDENTITY_TEXT_MAX]);
bool process_identity_read(const char *text, process_identity *out); /* text may follow */
/* Whether this process can check whether the other one lives. */
bool process_identity_is_visible(const process_identity *identity);
bool process_identity_is_gone(const process_identity *identity); /* it is known to have ended */
