/* rest.c — see rest.h. */
#include "ps/rest.h"

#include "base/assert.h"
#include "base/mutation.h"

bool rest_take(rest *rest, uint64_t number, uint64_t floor, int64_t now_us) {
    if (number <= rest->over || number < rest->number) return false;
    if (number > rest->number) {
        rest->number = number;
        rest->floor = 0;
        rest->since_us = now_us;
    }
    if (floor > rest->floor) rest->floor = floor;
    rest->until_us = now_us + REST_LEASE_US;
    return true;
}

void rest_end(rest *rest, uint64_t number) {
    if (number > rest->over) rest->over = number;
    if (rest->number <= rest->over) rest->number = 0;
    MR_ASSERT(rest->number == 0 || rest->number > rest->over);
}

void rest_tick(rest *rest, int64_t now_us) {
    bool late = now_us >= rest->until_us || now_us - rest->since_us >= REST_MOST_US;
    if (rest->number != 0 && late && !MUTATED("endless-pause")) rest_end(rest, rest->number);
}

void rest_forget(rest *rest) { *rest = (struct rest){0}; }
