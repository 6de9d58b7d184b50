/* low_watermark.c — see low_watermark.h. */
#include "ps/low_watermark.h"

#include "base/assert.h"

void low_watermark_restart(low_watermark *watermark) {
    *watermark = (struct low_watermark){.question = watermark->question};
}

uint64_t low_watermark_ask(low_watermark *watermark, uint64_t acknowledged) {
    watermark->asked = acknowledged;
    return ++watermark->question;
}

static void pass(low_watermark *watermark, uint64_t steps) {
    if (steps > watermark->over) watermark->over = steps;
}

void low_watermark_hear(low_watermark *watermark, uint64_t question, uint64_t bound, uint64_t oldest,
                        uint64_t version) {
    if (question != watermark->question || question == 0) return;
    if (bound == 0) {
        pass(watermark, watermark->asked);
        return;
    }
    if (watermark->waits && oldest > watermark->bound) {
        watermark->waits = false;
        pass(watermark, version < watermark->steps ? version : watermark->steps);
    }
    if (watermark->waits) return;
    watermark->waits = true;
    watermark->steps = watermark->asked;
    watermark->bound = bound;
    MR_ASSERT(watermark->bound != 0); /* bound 0 would mean that there is nothing to wait for */
}
