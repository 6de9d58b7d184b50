/* id_allocator.h — allocator of process numbers for processes started without one: the scheduler's memory of recent
 * numbers.
 *
 * Servers and workers have numbers, each kind its own. A process without a number asks, and is given the lowest free
 * one. So a process that replaces a dead one gets its number and its state. A number that is given away ends the
 * process that had it: so a process that is merely silent, with its link whole, keeps its number longer.
 *
 *  free ── given, or heard of ──► taken ── silent for ID_ALLOCATOR_SILENT_US, and its link broke ──► free
 *                              └──── silent for ID_ALLOCATOR_LOST_US ────────────────────────► free
 *
 * A server that asks for its number replaces a server that is silent for ID_ALLOCATOR_SILENT_US or whose link broke,
 * but not one that is here. A worker takes its rank even if another process has it.
 *
 * A requester has a token, and is given the same number however often it asks. A number that is given to two processes
 * by mistake (one was silent and lives) belongs to the later one: its incarnation is newer, and the other is ignored.
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
    bool broken; /* its link broke after it was heard */
    int64_t heard_us;
    uint64_t token;                         /* of the requester that has it; 0: none */
    char address[SLOT_MESSAGE_ADDRESS_MAX]; /* of the process that was heard; "": none */
} id_assignment;

typedef struct id_allocator { /* zero-initialized: all are free */
    id_assignment list[ID_ALLOCATOR_MAX];
} id_allocator;

void id_allocator_heard(id_allocator *ids, uint32_t number, const char *address, int64_t now_us);
void id_allocator_broken(id_allocator *ids, const char *address); /* the link to that address */

/* The number for this requester, below `most`, which is at most ID_ALLOCATOR_MAX; ID_ALLOCATOR_MAX: none is free. */
uint32_t id_allocator_give(id_allocator *ids, uint32_t most, uint64_t token, int64_t now_us);

/* Takes the wanted number. False: a process that is here has it. */
bool id_allocator_take(id_allocator *ids, uint32_t number, uint64_t token, int64_t now_us);
