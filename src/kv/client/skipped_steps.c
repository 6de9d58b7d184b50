/* skipped_steps.c — see skipped_steps.h. */
#include "kv/client/skipped_steps.h"

#include <string.h>

void skipped_steps_rewind(skipped_steps *skipped, uint64_t step) {
    while (skipped->count != 0 && skipped->runs[skipped->count - 1].from >= step) skipped->count--;
    if (skipped->count != 0 && skipped->runs[skipped->count - 1].to > step) skipped->runs[skipped->count - 1].to = step;
}

void skipped_steps_add(skipped_steps *skipped, uint64_t from, uint64_t to) {
    skipped_steps_run *last = skipped->count == 0 ? NULL : &skipped->runs[skipped->count - 1];
    if (last != NULL && from < last->to) from = last->to;
    if (from >= to) return;
    if (last != NULL && from == last->to) {
        last->to = to;
        return;
    }
    if (skipped->count == SKIPPED_STEPS_MAX)
        memmove(skipped->runs, skipped->runs + 1, --skipped->count * sizeof *skipped->runs);
    skipped->runs[skipped->count++] = (skipped_steps_run){from, to};
}

static uint64_t later(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* First missed step at or behind `step`; UINT64_MAX: none. */
static uint64_t first_from(const skipped_steps *skipped, uint64_t step) {
    step = later(step, skipped->since);
    for (uint32_t i = 0; i < skipped->count; i++)
        if (skipped->runs[i].to > step) return later(skipped->runs[i].from, step);
    return UINT64_MAX;
}

bool skipped_steps_any(const skipped_steps *skipped, uint64_t said, uint64_t over) {
    return first_from(skipped, said) < over;
}

batch_claims_past skipped_steps_past(const skipped_steps *skipped, uint64_t said, uint64_t over) {
    uint64_t first = first_from(skipped, said);
    if (first < over && over - first > 64) over = first + 64;
    batch_claims_past past = {
        .over = over, .since = skipped->since < over ? skipped->since : over, .spent = UINT64_MAX};
    for (uint64_t step = first; step < over; step = first_from(skipped, step + 1))
        past.spent &= ~(UINT64_C(1) << (over - 1 - step));
    return past;
}
