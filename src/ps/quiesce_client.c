/* quiesce_client.c — see quiesce_client.h. */
#include "ps/quiesce_client.h"

#include "base/assert.h"
#include "base/mutation.h"

bool quiesce_client_take(quiesce_client *quiesce, uint64_t number, uint64_t floor, int64_t now_us) {
    if (number <= quiesce->over || number < quiesce->number) return false;
    if (number > quiesce->number) {
        quiesce->number = number;
        quiesce->floor = 0;
        quiesce->since_us = now_us;
    }
    if (floor > quiesce->floor) quiesce->floor = floor;
    quiesce->until_us = now_us + QUIESCE_CLIENT_LEASE_US;
    return true;
}

void quiesce_client_end(quiesce_client *quiesce, uint64_t number) {
    if (number > quiesce->over) quiesce->over = number;
    if (quiesce->number <= quiesce->over) quiesce->number = 0;
    MR_ASSERT(quiesce->number == 0 || quiesce->number > quiesce->over);
}

void quiesce_client_tick(quiesce_client *quiesce, int64_t now_us) {
    bool late = now_us >= quiesce->until_us || now_us - quiesce->since_us >= QUIESCE_CLIENT_MOST_US;
    if (quiesce->number != 0 && late && !MUTATED("endless-pause")) quiesce_client_end(quiesce, quiesce->number);
}

void quiesce_client_forget(quiesce_client *quiesce) { *quiesce = (struct quiesce_client){0}; }
