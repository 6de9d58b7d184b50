/* death.h — text about the end of a worker: "was killed by signal 9 (SIGKILL), out of memory; its last output: …".
 * Pure. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

typedef enum death_memory {
    DEATH_MEMORY_ENOUGH,
    DEATH_MEMORY_OUT,     /* the kernel has ended a process for want of it */
    DEATH_MEMORY_UNKNOWN, /* nobody can say */
} death_memory;

typedef struct death { /* all borrowed */
    int wait_status;
    bool ordered;         /* the node has ended it */
    const char *sentence; /* why it did; "": nothing to say */
    death_memory memory;
    const char *last; /* what it printed last; "": nothing */
} death;

void death_status_text(int wait_status, char *out, size_t size);  /* "exited with status 3" */
void death_more_text(const death *death, char *out, size_t size); /* what is to be said behind that; may be "" */
bool death_was_wished(const char *text); /* so told: the node ended it for no reason of its own, so somebody asked */
