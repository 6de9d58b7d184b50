/* incarnation.c — see incarnation.h. */
#include "cluster/incarnation.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"

struct incarnation_acquire {
    metadata_store store;
    rng *rng;
    char key[24];
    incarnation_acquire_done_fn *done;
    void *context;
    uint64_t known;
    bool is_done;
    int64_t wait_us, now_us, next_us;
};

incarnation_acquire *incarnation_acquire_create(metadata_store store, rng *rng, uint32_t member, int64_t now_us,
                                                incarnation_acquire_done_fn *done, void *context) {
    MR_ASSERT(store.ops != NULL && rng != NULL && done != NULL);
    incarnation_acquire *acquire =
        XNEW(incarnation_acquire, .store = store, .rng = rng, .done = done, .context = context, .is_done = true);
    snprintf(acquire->key, sizeof acquire->key, "incarnation%u", member % INCARNATION_ACQUIRE_KEYS);
    incarnation_acquire_again(acquire, 0, now_us);
    return acquire;
}

/* A pending request may still return a number below `known`; the process then learns of `known` and calls again. */
void incarnation_acquire_again(incarnation_acquire *acquire, uint64_t known, int64_t now_us) {
    if (known > acquire->known) acquire->known = known;
    if (!acquire->is_done) return;
    acquire->is_done = false;
    acquire->wait_us = INCARNATION_ACQUIRE_WAIT_US;
    acquire->now_us = acquire->next_us = now_us;
}

void incarnation_acquire_destroy(incarnation_acquire *acquire) { free(acquire); }
int64_t incarnation_acquire_next_us(const incarnation_acquire *acquire) { return acquire->next_us; }

static void try_later(incarnation_acquire *acquire) {
    MR_ASSERT(!acquire->is_done && acquire->next_us == CLOCK_NEVER_US); /* no other request is pending */
    acquire->next_us = acquire->now_us + rng_between(acquire->rng, 0, acquire->wait_us);
    if (acquire->wait_us < INCARNATION_ACQUIRE_WAIT_MAX_US) acquire->wait_us *= 2;
}

static void on_swapped(void *argument, const metadata_store_answer *answer) {
    incarnation_acquire *acquire = argument;
    acquire->is_done = answer->status == MR_OK;
    if (acquire->is_done)
        acquire->done(acquire->context, answer->version); /* `acquire` may be gone afterwards */
    else
        try_later(acquire);
}

static void on_read(void *argument, const metadata_store_answer *answer) {
    incarnation_acquire *acquire = argument;
    if (answer->status != MR_OK) {
        try_later(acquire);
        return;
    }
    const metadata_store *store = &acquire->store;
    store->ops->compare_and_swap(store->self, acquire->key, answer->version, (span){0}, 0, on_swapped, acquire);
}

void incarnation_acquire_tick(incarnation_acquire *acquire, int64_t now_us) {
    const metadata_store *store = &acquire->store;
    acquire->now_us = now_us;
    if (now_us < acquire->next_us) return;
    acquire->next_us = CLOCK_NEVER_US;
    store->ops->get(store->self, acquire->key, acquire->known, on_read, acquire);
}
