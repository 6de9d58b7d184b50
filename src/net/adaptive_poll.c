/* adaptive_poll.c — see adaptive_poll.h. */
#include "net/adaptive_poll.h"

static void trust(adaptive_poll *poll) {
    if (poll->trust < ADAPTIVE_POLL_TRUST_MAX) poll->trust++;
}

bool adaptive_poll_look(adaptive_poll *poll, clock_source clock, adaptive_poll_ready_fn *ready, void *context) {
    if (poll->trust < (uint32_t)ADAPTIVE_POLL_TRUST << poll->vain) return false;
    int64_t until_us = clock_now_us(clock) + ADAPTIVE_POLL_US;
    do {
        if (!ready(context)) continue;
        poll->hits++;
        poll->vain -= poll->vain != 0;
        trust(poll);
        return true;
    } while (clock_now_us(clock) < until_us);
    poll->lost++;
    poll->trust = 0;
    poll->vain += (ADAPTIVE_POLL_TRUST << poll->vain) < ADAPTIVE_POLL_TRUST_MAX;
    return false;
}

void adaptive_poll_slept(adaptive_poll *poll, int64_t slept_us) {
    if (slept_us < ADAPTIVE_POLL_US)
        trust(poll);
    else
        poll->trust -= poll->trust != 0;
}
