/* broker_process.h — a broker in a process of its own, for tests, and a folder for its socket. */
#pragma once
#include <sys/types.h>

#include "net/shm/broker.h"
#include "tests/support/temp_dir.h"

typedef struct broker_process {
    char folder[TEMP_DIR_FOLDER_MAX], path[TEMP_DIR_FOLDER_MAX + 8];
    pid_t pid;
    int stop_fd; /* closing it asks the broker to end */
    uint32_t
        *visits; /* set before the start: shared memory where it leaves how often it passed each failpoint, or NULL */
    size_t visits_max;
} broker_process;

/* Starts it; asserts that it stands. `failpoint` is armed in it (NULL: none), `arena_bytes` 0: 64 MB. */
void broker_process_start(broker_process *process, uint64_t arena_bytes, const char *failpoint);

/* Ends it. 0: every guest had left within two seconds, and not a byte, link or descriptor was left over. -9: it had
 * been killed. Removes the folder; 90: something else was left in it. */
int broker_process_stop(broker_process *process);
