/* shm_pipe_pair.h — both ends of a shm pipe in one process, with the pipe's shared memory open to a hostile peer. */
#pragma once
#include "net/socket/shm_pipe.h"

typedef struct shm_pipe_pair {
    shm_pipe *made, *joined;
    uint64_t *words;
} shm_pipe_pair;

void shm_pipe_pair_start(shm_pipe_pair *pair);
void shm_pipe_pair_stop(shm_pipe_pair *pair);

/* Returns the number of bytes moved. */
size_t pipe_put(shm_pipe *pipe, const void *bytes, size_t size, bool *wake);
size_t pipe_get(shm_pipe *pipe, void *bytes, size_t size, bool *wake);
