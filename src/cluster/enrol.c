/* enrol.c — see enrol.h. */
#include "cluster/enrol.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"

struct enrol {
    coordinator coordinator;
    rng *rng;
    char key[24];
    enrol_done_fn *done;
    void *context;
    uint64_t known;
    bool is_done;
    int64_t wait_us, now_us, next_us;
};

enrol *enrol_create(coordinator coordinator, rng *rng, uint32_t member, int64_t now_us, enrol_done_fn *done,
                    void *context) {
    MR_ASSERT(coordinator.ops != NULL && rng != NULL && done != NULL);
    enrol *enrol = xcalloc(1, sizeof *enrol);
    *enrol = (struct enrol){.coordinator = coordinator, .rng = rng, .done = done, .context = context};
    snprintf(enrol->key, sizeof enrol->key, "incarnation%u", member % ENROL_KEYS);
    enrol->wait_us = ENROL_WAIT_US;
    enrol->now_us = enrol->next_us = now_us;
    return enrol;
}

/* One that is under way, and comes out below, is told of once more. */
void enrol_again(enrol *enrol, uint64_t known, int64_t now_us) {
    if (known > enrol->known) enrol->known = known;
    if (!enrol->is_done) return;
    enrol->is_done = false;
    enrol->wait_us = ENROL_WAIT_US;
    enrol->now_us = enrol->next_us = now_us;
}

void enrol_destroy(enrol *enrol) { free(enrol); }
int64_t enrol_next_us(const enrol *enrol) { return enrol->next_us; }

static void try_later(enrol *enrol) {
    MR_ASSERT(!enrol->is_done && enrol->next_us == CLOCK_NEVER_US); /* no other request is open */
    enrol->next_us = enrol->now_us + rng_between(enrol->rng, 0, enrol->wait_us);
    if (enrol->wait_us < ENROL_WAIT_MAX_US) enrol->wait_us *= 2;
}

static void on_swapped(void *argument, const coordinator_answer *answer) {
    enrol *enrol = argument;
    enrol->is_done = answer->status == MR_OK;
    if (enrol->is_done)
        enrol->done(enrol->context, answer->version); /* nothing of it is used after that */
    else
        try_later(enrol);
}

static void on_read(void *argument, const coordinator_answer *answer) {
    enrol *enrol = argument;
    if (answer->status != MR_OK) {
        try_later(enrol);
        return;
    }
    const coordinator *coordinator = &enrol->coordinator;
    coordinator->ops->compare_and_swap(coordinator->self, enrol->key, answer->version, (span){0}, 0, on_swapped, enrol);
}

void enrol_tick(enrol *enrol, int64_t now_us) {
    const coordinator *coordinator = &enrol->coordinator;
    enrol->now_us = now_us;
    if (now_us < enrol->next_us) return;
    enrol->next_us = CLOCK_NEVER_US;
    coordinator->ops->get(coordinator->self, enrol->key, enrol->known, on_read, enrol);
}
