/* misses.c — see misses.h. */
#include "kv/worker/misses.h"

#include <string.h>

void misses_begin(misses *misses, uint64_t since) {
    misses->count = 0;
    misses->since = since;
}

void misses_rewind(misses *misses, uint64_t step) {
    while (misses->count != 0 && misses->runs[misses->count - 1].from >= step) misses->count--;
    if (misses->count != 0 && misses->runs[misses->count - 1].to > step) misses->runs[misses->count - 1].to = step;
}

void misses_add(misses *misses, uint64_t from, uint64_t to) {
    misses_run *last = misses->count == 0 ? NULL : &misses->runs[misses->count - 1];
    if (last != NULL && from < last->to) from = last->to;
    if (from >= to) return;
    if (last != NULL && from == last->to) {
        last->to = to;
        return;
    }
    if (misses->count == MISSES_MAX) memmove(misses->runs, misses->runs + 1, --misses->count * sizeof *misses->runs);
    misses->runs[misses->count++] = (misses_run){from, to};
}

static uint64_t later(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* The first missed step at `step` or behind it; UINT64_MAX: none. */
static uint64_t first_from(const misses *misses, uint64_t step) {
    step = later(step, misses->since);
    for (uint32_t i = 0; i < misses->count; i++)
        if (misses->runs[i].to > step) return later(misses->runs[i].from, step);
    return UINT64_MAX;
}

bool misses_any(const misses *misses, uint64_t said, uint64_t over) { return first_from(misses, said) < over; }

claims_past misses_past(const misses *misses, uint64_t said, uint64_t over) {
    uint64_t first = first_from(misses, said);
    if (first < over && over - first > 64) over = first + 64;
    claims_past past = {.over = over, .since = misses->since < over ? misses->since : over, .spent = UINT64_MAX};
    for (uint64_t step = first; step < over; step = first_from(misses, step + 1))
        past.spent &= ~(UINT64_C(1) << (over - 1 - step));
    return past;
}
