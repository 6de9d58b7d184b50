/* broker_process.h — a broker in a process of its own, for tests, and a folder for its socket. */
#pragma once
#include <sys/types.h>

#include "net/shm/broker.h"
#include "tests/support/temp_dir.h"

typedef struct broker_process {
    char folder[TEMP_DIR_FOLDER_MAX], path[TEMP_DIR_FOLDER_MAX + 8];
    pid_t pid;
    int stop_fd;      /* closing it ends the broker */
    uint32_t *visits; /* set before the start: shared memory for counts of failpoint visits, or NULL */
    size_t visits_max;
} broker_process;

/* Starts the broker; asserts that it is ready. `failpoint` is armed in the broker (NULL: none). `arena_bytes` 0: 64
 * MB. */
void broker_process_start(broker_process *process, uint64_t arena_bytes, const char *failpoint);

/* Ends the broker, and removes the folder. 0: every client left within two seconds, and no byte, link or descriptor was
 * left. -9: the broker had been killed. 90: other files were left in the folder. */
int broker_process_stop(broker_process *process);
