/* id_allocator.c — see id_allocator.h. */
#include "kv/control/id_allocator.h"

#include <stdio.h>
#include <string.h>

void id_allocator_heard(id_allocator *ids, uint32_t number, const char *address, int64_t now_us) {
    if (number >= ID_ALLOCATOR_MAX) return;
    id_assignment *assignment = &ids->list[number];
    assignment->taken = true;
    assignment->broken = false;
    assignment->heard_us = now_us;
    snprintf(assignment->address, sizeof assignment->address, "%s", address);
}

void id_allocator_broken(id_allocator *ids, const char *address) {
    for (uint32_t i = 0; i < ID_ALLOCATOR_MAX; i++)
        if (ids->list[i].taken && strcmp(ids->list[i].address, address) == 0) ids->list[i].broken = true;
}

static bool is_free(const id_assignment *assignment, int64_t now_us) {
    int64_t silent_us = now_us - assignment->heard_us;
    /* the link broke, or the process that got the number never connected */
    bool gone = assignment->broken || assignment->address[0] == '\0';
    return !assignment->taken || silent_us >= (gone ? ID_ALLOCATOR_SILENT_US : ID_ALLOCATOR_LOST_US);
}

static void sit_down(id_assignment *assignment, uint64_t token, int64_t now_us) {
    *assignment = (struct id_assignment){.taken = true, .heard_us = now_us, .token = token};
}

uint32_t id_allocator_give(id_allocator *ids, uint32_t most, uint64_t token, int64_t now_us) {
    uint32_t number = 0;
    while (number < most && ids->list[number].token != token) number++;
    if (number == most || token == 0)
        for (number = 0; number < most && !is_free(&ids->list[number], now_us);) number++;
    if (number == most) return ID_ALLOCATOR_MAX;
    sit_down(&ids->list[number], token, now_us);
    return number;
}

bool id_allocator_take(id_allocator *ids, uint32_t number, uint64_t token, int64_t now_us) {
    if (number >= ID_ALLOCATOR_MAX) return false;
    id_assignment *assignment = &ids->list[number];
    bool here = assignment->taken && !assignment->broken && now_us - assignment->heard_us < ID_ALLOCATOR_SILENT_US;
    if (here && assignment->token != token) return false;
    sit_down(assignment, token, now_us);
    return true;
}
