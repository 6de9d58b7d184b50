/* coordinator.c — see coordinator.h: the operations of backends that send their requests as control messages.
 * Tested by tests/coordinator_test.c. */
#include "cluster/coordinator.h"

#include <string.h>

#include "cluster/letter.h"

static void ask(void *self, letter question, coordinator_done_fn *done, void *argument) {
    coordinator_asker *asker = self;
    asker->ask(asker, &question, done, argument);
}

static void get(void *self, const char *key, uint64_t known, coordinator_done_fn *done, void *argument) {
    ask(self, (letter){.kind = LETTER_GET, .key = span_of(key, strlen(key)), .version = known}, done, argument);
}

static void swap(void *self, const char *key, uint64_t expected, span value, uint64_t lease, coordinator_done_fn *done,
                 void *argument) {
    letter question = {.kind = LETTER_SWAP, .version = expected, .lease = lease, .value = value};
    question.key = span_of(key, strlen(key));
    ask(self, question, done, argument);
}

static void watch(void *self, const char *key, uint64_t known, coordinator_done_fn *done, void *argument) {
    ask(self, (letter){.kind = LETTER_WATCH, .key = span_of(key, strlen(key)), .version = known}, done, argument);
}

static void lease(void *self, uint64_t lease, int64_t ttl_us, coordinator_done_fn *done, void *argument) {
    ask(self, (letter){.kind = LETTER_LEASE, .lease = lease, .ttl_us = (uint64_t)ttl_us}, done, argument);
}

coordinator coordinator_of(coordinator_asker *asker) {
    static const coordinator_ops ops = {
        .name = "asker", .get = get, .compare_and_swap = swap, .watch = watch, .lease = lease};
    return (coordinator){&ops, asker};
}
