/* worker_exit.h — text about the end of a worker: "was killed by signal 9 (SIGKILL), out of memory; its last output:
 * …". Pure. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

typedef enum worker_exit_memory {
    WORKER_EXIT_MEMORY_ENOUGH,
    WORKER_EXIT_MEMORY_OUT,     /* the kernel has ended a process for want of it */
    WORKER_EXIT_MEMORY_UNKNOWN, /* nobody can say */
} worker_exit_memory;

typedef struct worker_exit { /* all borrowed */
    int wait_status;
    bool ordered;         /* the node has ended it */
    const char *sentence; /* why it did; "": nothing to say */
    worker_exit_memory memory;
    const char *last; /* what it printed last; "": nothing */
} worker_exit;

void worker_exit_status_text(int wait_status, char *out, size_t size); /* "exited with status 3" */
/* what is to be said behind that; may be "" */
void worker_exit_more_text(const worker_exit *exit, char *out, size_t size);
/* so told: the node ended it for no reason of its own, so somebody asked */
bool worker_exit_was_wished(const char *text);
