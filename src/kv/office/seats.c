/* seats.c — see seats.h. */
#include "kv/office/seats.h"

void seats_heard(seats *seats, uint32_t number, int64_t now_us) {
    if (number >= SEATS_MAX) return;
    seats->list[number].taken = true;
    seats->list[number].heard_us = now_us;
}

static bool is_free(const seat *seat, int64_t now_us) {
    return !seat->taken || now_us - seat->heard_us >= SEATS_SILENT_US;
}

uint32_t seats_give(seats *seats, uint32_t most, uint64_t token, int64_t now_us) {
    uint32_t number = 0;
    while (number < most && seats->list[number].token != token) number++;
    if (number == most || token == 0)
        for (number = 0; number < most && !is_free(&seats->list[number], now_us);) number++;
    if (number == most) return SEATS_MAX;
    seats->list[number] = (seat){true, now_us, token};
    return number;
}
