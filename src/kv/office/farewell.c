/* farewell.c — see farewell.h. */
#include "kv/office/farewell.h"

void farewell_begin(farewell *farewell, int64_t now_us) {
    if (farewell->leaving) return;
    *farewell = (struct farewell){.leaving = true, .since_us = now_us, .heard_us = now_us, .next_us = now_us};
}

static bool is_in_a_chain(const chart *chart, uint32_t server, uint64_t incarnation) {
    for (uint32_t i = 0; i < chart->slot_count; i++)
        if (chart_place(&chart->slots[i], server, incarnation) >= 0) return true;
    return false;
}

bool farewell_tick(farewell *farewell, const chart *chart, uint32_t server, uint64_t incarnation, int64_t now_us) {
    if (!farewell->leaving) return false;
    if (is_in_a_chain(chart, server, incarnation))
        farewell->empty_us = 0;
    else if (farewell->empty_us == 0)
        farewell->empty_us = now_us;
    farewell->next_us = now_us + FAREWELL_AGAIN_US;
    return true;
}

void farewell_take(farewell *farewell, const letter *letter, int64_t now_us) {
    if (!farewell->leaving) return;
    farewell->heard_us = now_us;
    farewell->told_to_go = letter->stamp.view != 0;
}

bool farewell_is_over(const farewell *farewell, int64_t now_us) {
    if (!farewell->leaving) return false;
    bool empty = farewell->empty_us != 0 && now_us - farewell->empty_us >= FAREWELL_GRACE_US;
    bool deaf = now_us - farewell->heard_us >= FAREWELL_DEAF_US;
    return empty || farewell->told_to_go || deaf || now_us - farewell->since_us >= FAREWELL_US;
}
