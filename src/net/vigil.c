/* vigil.c — see vigil.h. */
#include "net/vigil.h"

static void trust(vigil *vigil) {
    if (vigil->trust < VIGIL_TRUST_MAX) vigil->trust++;
}

bool vigil_look(vigil *vigil, clock_source clock, vigil_ready_fn *ready, void *context) {
    if (vigil->trust < (uint32_t)VIGIL_TRUST << vigil->vain) return false;
    int64_t until_us = clock_now_us(clock) + VIGIL_US;
    do {
        if (!ready(context)) continue;
        vigil->hits++;
        vigil->vain -= vigil->vain != 0;
        trust(vigil);
        return true;
    } while (clock_now_us(clock) < until_us);
    vigil->lost++;
    vigil->trust = 0;
    vigil->vain += (VIGIL_TRUST << vigil->vain) < VIGIL_TRUST_MAX;
    return false;
}

void vigil_slept(vigil *vigil, int64_t slept_us) {
    if (slept_us < VIGIL_US)
        trust(vigil);
    else
        vigil->trust -= vigil->trust != 0;
}
