/* id_allocator.h — allocator of process numbers for processes started without one: the scheduler's list of recently
 * used numbers.
 *
 * Servers and workers are numbered separately. A process without a number asks, and gets the lowest free one. So a
 * process that replaces a dead one gets its number and its state. A process whose number is given away ends; so a
 * process that is silent on an intact link keeps its number longer.
 *
 *  free ── given, or reported ──► taken ── silent for ID_ALLOCATOR_SILENT_US, and its link broke ──► free
 *                              └──── silent for ID_ALLOCATOR_LOST_US ────────────────────────► free
 *
 * A server that asks for a certain number replaces a server that is silent for ID_ALLOCATOR_SILENT_US or whose link
 * broke, but not a live one. A worker takes its rank even if another process has it.
 *
 * A requester has a token, and gets the same number for each repetition. If two processes get one number (a silent one
 * was alive), the later one keeps it: its incarnation is newer, and messages of the other are ignored.
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
    bool broken; /* the link broke after the last message */
    int64_t heard_us;
    uint64_t token;                         /* of the requester that got the number; 0: none */
    char address[SLOT_MESSAGE_ADDRESS_MAX]; /* of the last process with this number; "": none */
} id_assignment;

typedef struct id_allocator { /* zero-initialized: all numbers are free */
    id_assignment list[ID_ALLOCATOR_MAX];
} id_allocator;

void id_allocator_heard(id_allocator *ids, uint32_t number, const char *address, int64_t now_us);
void id_allocator_broken(id_allocator *ids, const char *address); /* the link to that address broke */

/* Number for this requester, below `most`, which is at most ID_ALLOCATOR_MAX. ID_ALLOCATOR_MAX: none is free. */
uint32_t id_allocator_give(id_allocator *ids, uint32_t most, uint64_t token, int64_t now_us);

/* Takes a certain number. False: a live process has it. */
bool id_allocator_take(id_allocator *ids, uint32_t number, uint64_t token, int64_t now_us);
