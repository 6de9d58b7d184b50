/* leavers.c — see leavers.h. */
#include "kv/office/leavers.h"

static bool set(leavers *leavers, uint32_t number, uint64_t incarnation) {
    leavers->incarnations[number] = incarnation;
    leavers->count = 0;
    for (uint32_t i = 0; i < SEATS_MAX; i++)
        if (leavers->incarnations[i] != 0) leavers->numbers[leavers->count++] = i;
    return true;
}

bool leavers_has(const leavers *leavers, uint32_t number, uint64_t incarnation) {
    return number < SEATS_MAX && leavers->incarnations[number] == incarnation;
}

bool leavers_add(leavers *leavers, uint32_t number, uint64_t incarnation) {
    return leavers->incarnations[number] < incarnation && set(leavers, number, incarnation);
}

bool leavers_heard(leavers *leavers, uint32_t number, uint64_t incarnation) {
    uint64_t leaving = number < SEATS_MAX ? leavers->incarnations[number] : 0;
    return leaving != 0 && leaving < incarnation && set(leavers, number, 0);
}
