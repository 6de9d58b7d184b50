/* leavers.c — see leavers.h. */
#include "kv/office/leavers.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/search.h"

void leavers_fini(leavers *leavers) {
    free(leavers->numbers);
    free(leavers->incarnations);
    *leavers = (struct leavers){0};
}

static int by_number(const void *key, const void *item) {
    uint32_t a = *(const uint32_t *)key, b = *(const uint32_t *)item;
    return (a > b) - (a < b);
}

static size_t seek(const leavers *leavers, uint32_t number) {
    return search_first(&number, leavers->numbers, leavers->count, sizeof number, by_number);
}

bool leavers_has(const leavers *leavers, uint32_t number, uint64_t incarnation) {
    size_t at = seek(leavers, number);
    return at < leavers->count && leavers->numbers[at] == number && leavers->incarnations[at] == incarnation;
}

bool leavers_add(leavers *leavers, uint32_t number, uint64_t incarnation) {
    size_t at = seek(leavers, number), count = leavers->count;
    if (at < count && leavers->numbers[at] == number) {
        if (leavers->incarnations[at] >= incarnation) return false;
        leavers->incarnations[at] = incarnation;
        return true;
    }
    leavers->numbers = xrealloc(leavers->numbers, (count + 1) * sizeof *leavers->numbers);
    leavers->incarnations = xrealloc(leavers->incarnations, (count + 1) * sizeof *leavers->incarnations);
    memmove(leavers->numbers + at + 1, leavers->numbers + at, (count - at) * sizeof *leavers->numbers);
    memmove(leavers->incarnations + at + 1, leavers->incarnations + at, (count - at) * sizeof *leavers->incarnations);
    leavers->numbers[at] = number;
    leavers->incarnations[at] = incarnation;
    leavers->count++;
    return true;
}

bool leavers_heard(leavers *leavers, uint32_t number, uint64_t incarnation) {
    size_t at = seek(leavers, number);
    if (at >= leavers->count || leavers->numbers[at] != number || leavers->incarnations[at] >= incarnation)
        return false;
    size_t behind = --leavers->count - at;
    memmove(leavers->numbers + at, leavers->numbers + at + 1, behind * sizeof *leavers->numbers);
    memmove(leavers->incarnations + at, leavers->incarnations + at + 1, behind * sizeof *leavers->incarnations);
    return true;
}
