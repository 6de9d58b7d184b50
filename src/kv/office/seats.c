/* seats.c — see seats.h. */
#include "kv/office/seats.h"

#include <stdio.h>
#include <string.h>

void seats_heard(seats *seats, uint32_t number, const char *address, int64_t now_us) {
    if (number >= SEATS_MAX) return;
    seat *seat = &seats->list[number];
    seat->taken = true;
    seat->broken = false;
    seat->heard_us = now_us;
    snprintf(seat->address, sizeof seat->address, "%s", address);
}

void seats_broken(seats *seats, const char *address) {
    for (uint32_t i = 0; i < SEATS_MAX; i++)
        if (seats->list[i].taken && strcmp(seats->list[i].address, address) == 0) seats->list[i].broken = true;
}

static bool is_free(const seat *seat, int64_t now_us) {
    int64_t silent_us = now_us - seat->heard_us;
    bool gone = seat->broken || seat->address[0] == '\0'; /* whoever was given it never came */
    return !seat->taken || silent_us >= (gone ? SEATS_SILENT_US : SEATS_LOST_US);
}

static void sit_down(seat *seat, uint64_t token, int64_t now_us) {
    *seat = (struct seat){.taken = true, .heard_us = now_us, .token = token};
}

uint32_t seats_give(seats *seats, uint32_t most, uint64_t token, int64_t now_us) {
    uint32_t number = 0;
    while (number < most && seats->list[number].token != token) number++;
    if (number == most || token == 0)
        for (number = 0; number < most && !is_free(&seats->list[number], now_us);) number++;
    if (number == most) return SEATS_MAX;
    sit_down(&seats->list[number], token, now_us);
    return number;
}

bool seats_take(seats *seats, uint32_t number, uint64_t token, int64_t now_us) {
    if (number >= SEATS_MAX) return false;
    seat *seat = &seats->list[number];
    bool here = seat->taken && !seat->broken && now_us - seat->heard_us < SEATS_SILENT_US;
    if (here && seat->token != token) return false;
    sit_down(seat, token, now_us);
    return true;
}
