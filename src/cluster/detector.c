/* detector.c — see detector.h. */
#include "cluster/detector.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/invariants.h"
#include "base/map.h"

typedef struct watched {
    int64_t heard_us;
    int64_t hinted_us; /* -1: no hint since the last heartbeat */
    bool suspect;
    unsigned forgiven; /* number of forgiven suspicions; each makes the patience four times as long */
    int64_t calm_us;   /* time since which `forgiven` has not changed */
} watched;

struct detector {
    detector_options options;
    int64_t last_tick_us;
    map watched; /* id → watched, owned */
    size_t suspects;
};

detector *detector_create(const detector_options *options, int64_t now_us) {
    MR_ASSERT(options->interval_us > 0 && options->suspect_us >= 3 * options->interval_us);
    return XNEW(detector, .options = *options, .last_tick_us = now_us);
}

void detector_destroy(detector *detector) {
    detector_forget_all(detector);
    map_fini(&detector->watched);
    free(detector);
}

void detector_watch(detector *detector, uint64_t id, int64_t now_us) {
    detector_forget(detector, id);
    map_put(&detector->watched, id, XNEW(watched, .heard_us = now_us, .hinted_us = -1));
}

void detector_forget(detector *detector, uint64_t id) {
    watched *watched = map_remove(&detector->watched, id);
    if (watched == NULL) return;
    MR_ASSERT(!watched->suspect || detector->suspects > 0);
    if (watched->suspect) detector->suspects--;
    free(watched);
}

void detector_forget_all(detector *detector) {
    map_for_each (slot, &detector->watched) free(slot.value);
    map_fini(&detector->watched);
    detector->suspects = 0;
}

void detector_heard(detector *detector, uint64_t id, int64_t now_us) {
    watched *watched = map_get(&detector->watched, id);
    if (watched == NULL) return;
    watched->heard_us = now_us;
    watched->hinted_us = -1;
    MR_ASSERT(!watched->suspect || detector->suspects > 0);
    if (watched->suspect) detector->suspects--;
    watched->suspect = false;
}

void detector_forgive(detector *detector, uint64_t id, int64_t now_us) {
    watched *watched = map_get(&detector->watched, id);
    if (watched == NULL || !watched->suspect) return;
    if (watched->forgiven < DETECTOR_FORGIVEN_MAX) watched->forgiven++;
    watched->calm_us = now_us;
}

void detector_hint(detector *detector, uint64_t id, int64_t now_us) {
    watched *watched = map_get(&detector->watched, id);
    if (watched != NULL && watched->hinted_us < 0) watched->hinted_us = now_us;
}

/* Excuses silence during a pause of this process: moves the last heartbeat later by the pause, at most to now. */
static void excuse(watched *watched, int64_t stood_us, int64_t now_us) {
    watched->heard_us = clock_earlier_us(watched->heard_us + stood_us, now_us);
    if (watched->hinted_us >= 0) watched->hinted_us = clock_earlier_us(watched->hinted_us + stood_us, now_us);
}

static void calm_down(watched *watched, int64_t calm_us, int64_t now_us) {
    if (watched->forgiven == 0 || watched->suspect || now_us - watched->calm_us < calm_us) return;
    watched->forgiven--;
    watched->calm_us = now_us;
}

int64_t detector_tick(detector *detector, int64_t now_us) {
    const detector_options *options = &detector->options;
    int64_t stood_us = now_us - detector->last_tick_us - options->interval_us;
    if (stood_us < options->interval_us) stood_us = 0; /* a delay of less than an interval does not count */
    detector->last_tick_us = now_us;
    map_for_each (slot, &detector->watched) {
        watched *watched = slot.value;
        if (stood_us > 0) excuse(watched, stood_us, now_us);
        calm_down(watched, DETECTOR_CALM * options->suspect_us, now_us);
        bool silent = now_us - watched->heard_us >= options->suspect_us << 2 * watched->forgiven ||
                      (watched->hinted_us >= 0 && now_us - watched->hinted_us >= 2 * options->interval_us);
        if (silent && !watched->suspect) detector->suspects++;
        watched->suspect = watched->suspect || silent;
    }
    MR_ASSERT(detector->suspects <= detector->watched.count && stood_us >= 0);
    CHECK_INVARIANTS(detector->watched.count, detector_check(detector));
    return stood_us;
}

bool detector_suspects(const detector *detector, uint64_t id) {
    const watched *watched = map_get(&detector->watched, id);
    return watched != NULL && watched->suspect;
}

bool detector_doubts(const detector *detector, uint64_t id) {
    const watched *watched = map_get(&detector->watched, id);
    return watched != NULL && (watched->suspect || watched->hinted_us >= 0);
}

bool detector_hinted(const detector *detector, uint64_t id) {
    const watched *watched = map_get(&detector->watched, id);
    return watched != NULL && watched->hinted_us >= 0;
}

bool detector_watches(const detector *detector, uint64_t id) { return map_get(&detector->watched, id) != NULL; }
size_t detector_suspect_count(const detector *detector) { return detector->suspects; }

void detector_check(const detector *detector) {
    size_t suspects = 0;
    map_for_each (slot, &detector->watched) {
        const watched *watched = slot.value;
        suspects += watched->suspect;
        MR_ASSERT(watched->forgiven <= DETECTOR_FORGIVEN_MAX); /* 2 */
    }
    MR_ASSERT(suspects == detector->suspects); /* 1 */
}
