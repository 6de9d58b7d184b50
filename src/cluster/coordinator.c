/* coordinator.c — see coordinator.h. */
#include "cluster/coordinator.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

typedef struct put {
    coordinator coordinator;
    char *key;
    uint8_t *value;
    size_t size;
    unsigned tries;
    coordinator_done_fn *done;
    void *argument;
} put;

static void end_put(put *put, const coordinator_answer *answer) {
    put->done(put->argument, answer);
    free(put->key);
    free(put->value);
    free(put);
}

static void on_swapped(void *argument, const coordinator_answer *answer);

static void swap(put *put, uint64_t expected) {
    put->tries++;
    put->coordinator.ops->compare_and_swap(put->coordinator.self, put->key, expected, span_of(put->value, put->size), 0,
                                           on_swapped, put);
}

static void on_swapped(void *argument, const coordinator_answer *answer) {
    put *put = argument;
    if (answer->status == MR_STALE && put->tries < COORDINATOR_PUT_TRIES)
        swap(put, answer->version);
    else
        end_put(put, answer);
}

static void on_read(void *argument, const coordinator_answer *answer) {
    if (answer->status == MR_OK)
        swap(argument, answer->version);
    else
        end_put(argument, answer);
}

void coordinator_put(coordinator coordinator, const char *key, span value, coordinator_done_fn *done, void *argument) {
    put *put = xcalloc(1, sizeof *put);
    put->coordinator = coordinator;
    put->key = xstrdup(key);
    put->value = xmalloc(value.size + 1);
    put->size = value.size;
    if (value.size != 0) memcpy(put->value, value.data, value.size);
    put->done = done;
    put->argument = argument;
    coordinator.ops->get(coordinator.self, key, 0, on_read, put);
}
