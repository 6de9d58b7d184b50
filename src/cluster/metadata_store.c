/* metadata_store.c — see metadata_store.h: the operations of backends that send their requests as control messages.
 * Tested by tests/metadata_store_test.c. */
#include "cluster/metadata_store.h"

#include <string.h>

#include "cluster/control_message.h"

static void ask(void *self, const char *key, control_message question, metadata_store_done_fn *done, void *argument) {
    metadata_store_asker *asker = self;
    question.key = span_of(key, strlen(key));
    asker->ask(asker, &question, done, argument);
}

static void get(void *self, const char *key, uint64_t known, metadata_store_done_fn *done, void *argument) {
    ask(self, key, (control_message){.kind = CONTROL_MESSAGE_GET, .version = known}, done, argument);
}

static void swap(void *self, const char *key, uint64_t expected, span value, uint64_t lease,
                 metadata_store_done_fn *done, void *argument) {
    control_message question = {.kind = CONTROL_MESSAGE_SWAP, .version = expected, .lease = lease, .value = value};
    ask(self, key, question, done, argument);
}

static void watch(void *self, const char *key, uint64_t known, metadata_store_done_fn *done, void *argument) {
    ask(self, key, (control_message){.kind = CONTROL_MESSAGE_WATCH, .version = known}, done, argument);
}

static void lease(void *self, uint64_t lease, int64_t ttl_us, metadata_store_done_fn *done, void *argument) {
    control_message question = {.kind = CONTROL_MESSAGE_LEASE, .lease = lease, .ttl_us = (uint64_t)ttl_us};
    ask(self, "", question, done, argument);
}

metadata_store metadata_store_of(metadata_store_asker *asker) {
    static const metadata_store_ops ops = {
        .name = "asker", .get = get, .compare_and_swap = swap, .watch = watch, .lease = lease};
    return (metadata_store){&ops, asker};
}
