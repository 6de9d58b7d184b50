/* horizon.c — see horizon.h. */
#include "ps/horizon.h"

#include "base/assert.h"

void horizon_restart(horizon *horizon) { *horizon = (struct horizon){.question = horizon->question}; }

uint64_t horizon_ask(horizon *horizon, uint64_t acknowledged) {
    horizon->asked = acknowledged;
    return ++horizon->question;
}

static void pass(horizon *horizon, uint64_t steps) {
    if (steps > horizon->over) horizon->over = steps;
}

void horizon_hear(horizon *horizon, uint64_t question, uint64_t bound, uint64_t oldest, bool rounds) {
    if (question != horizon->question || question == 0) return;
    if (bound == 0) {
        pass(horizon, horizon->asked);
        return;
    }
    if (horizon->waits && oldest > horizon->bound) {
        horizon->waits = false;
        pass(horizon, rounds && oldest < horizon->steps ? oldest : horizon->steps);
    }
    if (horizon->waits) return;
    horizon->waits = true;
    horizon->steps = horizon->asked;
    horizon->bound = bound;
    MR_ASSERT(horizon->bound != 0); /* else nothing is waited for */
}
