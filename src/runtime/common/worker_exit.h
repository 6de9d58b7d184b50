/* worker_exit.h — text about the end of a worker: "was killed by signal 9 (SIGKILL), out of memory; its last output:
 * …". Pure. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum worker_exit_memory {
    WORKER_EXIT_MEMORY_ENOUGH,
    WORKER_EXIT_MEMORY_OUT,     /* the kernel's OOM killer has ended a process */
    WORKER_EXIT_MEMORY_UNKNOWN, /* OOM kills cannot be counted */
} worker_exit_memory;

typedef struct worker_exit { /* all borrowed */
    int wait_status;
    bool ordered;         /* the node has killed the worker */
    const char *sentence; /* the node's reason; "": none */
    worker_exit_memory memory;
    uint64_t peak_bytes,
        limit_bytes;  /* if `memory` is OUT: peak of the worker's resident memory, and the least limit of
                                         memory around it; 0: not known */
    const char *last; /* last output of the worker; "": none */
} worker_exit;

/* Text to append to that of pidfd_status_text; may be "". */
void worker_exit_more_text(const worker_exit *exit, char *out, size_t size);
/* Whether the text says that the node killed the worker on request. */
bool worker_exit_was_wished(const char *text);
