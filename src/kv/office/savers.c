/* savers.c — see savers.h. */
#include "kv/office/savers.h"

static void forget_silent(savers *savers, int64_t now_us) {
    size_t kept = 0;
    for (size_t i = 0; i < savers->count; i++)
        if (now_us - savers->list[i].asked_us < SAVERS_SILENT_US) savers->list[kept++] = savers->list[i];
    savers->count = kept;
}

uint64_t savers_ask(savers *savers, uint64_t token, bool making, int64_t now_us) {
    size_t at = 0;
    while (at < savers->count && savers->list[at].token != token) at++;
    if (at == savers->count) forget_silent(savers, now_us);
    if (at >= savers->count) {
        if (savers->count == SAVERS_MAX) return 0;
        at = savers->count++;
        savers->list[at] = (saver){.token = token, .owed = making || !savers->seen ? 2 : 1};
    }
    savers->list[at].asked_us = now_us;
    return savers->list[at].number;
}

void savers_whole(savers *savers, uint64_t number) {
    savers->seen = true;
    for (size_t i = 0; i < savers->count; i++) {
        saver *saver = &savers->list[i];
        if (saver->owed != 0 && --saver->owed == 0) saver->number = number;
    }
}
