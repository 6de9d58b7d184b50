/* object_listing.c — see object_listing.h. */
#include "tests/support/object_listing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "runtime/process/context.h"

enum { PATIENCE_US = 10 * 1000 * 1000 };

node_store_stats object_listing_of(mr_context *mr) {
    node_store_stats stats;
    uint8_t answer[sizeof stats];
    size_t size = 0;
    context_lock(mr);
    mr_status status = context_call_node(mr, NODE_STORE, (span){0}, -1, answer, sizeof answer, &size);
    context_unlock(mr);
    if (status != MR_OK || size != sizeof stats) {
        fprintf(stderr, "the node does not say what its store has: %s\n", mr_last_error());
        abort();
    }
    memcpy(&stats, answer, sizeof stats);
    return stats;
}

bool object_listing_settles(mr_context *mr, unsigned objects) {
    int64_t until_us = clock_now_us(clock_real()) + PATIENCE_US;
    for (;;) {
        node_store_stats stats = object_listing_of(mr);
        if (stats.objects <= objects && stats.moving == 0) return true;
        if (clock_now_us(clock_real()) > until_us) {
            fprintf(stderr, "left in the store: %u objects of %u processes, %llu bytes in memory, %llu on disk\n",
                    stats.objects, stats.processes, (unsigned long long)stats.bytes,
                    (unsigned long long)stats.spilled_bytes);
            return false;
        }
        usleep(5000);
    }
}

size_t object_listing_here(mr_context *mr) {
    context_lock(mr);
    size_t count = mr->worker.objects.count;
    context_unlock(mr);
    return count;
}

/* Processes send RETURNs when they are otherwise idle, so the loop also drives this process. */
bool object_listing_empties(mr_context *mr) {
    int64_t until_us = clock_now_us(clock_real()) + PATIENCE_US;
    while (object_listing_here(mr) > 0 && clock_now_us(clock_real()) < until_us) {
        (void)object_listing_of(mr);
        usleep(2000);
    }
    if (object_listing_here(mr) == 0) return object_listing_settles(mr, 0);
    fprintf(stderr, "left in this process: %zu futures\n", object_listing_here(mr));
    return false;
}
