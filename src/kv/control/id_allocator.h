/* id_allocator.h — allocator of process numbers for processes started without one: the scheduler's memory of recent
 * numbers.
 *
 * Servers and workers have numbers, each kind its own. A process without a number asks, and is given the lowest free
 * one. So a process that is started in the place of a dead one gets its number, and what it left. That may be the end
 * of what the one before it had: so one that is merely silent, and whose link is whole, is waited for.
 *
 *  free ── given, or heard of ──► taken ── silent for ID_ALLOCATOR_SILENT_US, and its link broke ──► free
 *                              └──── silent for ID_ALLOCATOR_LOST_US ────────────────────────► free
 *
 * A server that was told its number takes the place of one that is silent for ID_ALLOCATOR_SILENT_US or whose link
 * broke, but not of one that is here. A worker takes its rank even if another process has it.
 *
 * An asker has a token, and is given the same number however often it asks. A number that is given to two by mistake
 * (somebody was silent and lives) is the later one's: its incarnation is newer, and the other is heard no more.
 *
 * Bounds  ID_ALLOCATOR_MAX numbers of a kind.
 * Pure. */
#pragma once
#include "ps/slot_message.h"

enum { ID_ALLOCATOR_MAX = 1024 };
#define ID_ALLOCATOR_SILENT_US INT64_C(2000000)
#define ID_ALLOCATOR_LOST_US   INT64_C(60000000)

typedef struct id_assignment {
    bool taken;
    bool broken; /* its link was, after it was heard */
    int64_t heard_us;
    uint64_t token;                         /* of whom it was given to; 0: nobody */
    char address[SLOT_MESSAGE_ADDRESS_MAX]; /* of whom was heard; "": nobody was */
} id_assignment;

typedef struct id_allocator { /* zero-initialized all are free */
    id_assignment list[ID_ALLOCATOR_MAX];
} id_allocator;

void id_allocator_heard(id_allocator *ids, uint32_t number, const char *address, int64_t now_us);
void id_allocator_broken(id_allocator *ids, const char *address); /* the link to whoever is there */

/* The number for this asker, below `most`, which is at most ID_ALLOCATOR_MAX; ID_ALLOCATOR_MAX: none is free. */
uint32_t id_allocator_give(id_allocator *ids, uint32_t most, uint64_t token, int64_t now_us);

/* The number that the asker wants. False: somebody who is here has it. */
bool id_allocator_take(id_allocator *ids, uint32_t number, uint64_t token, int64_t now_us);
