/* seats.h — which number a process has that was started without one: the scheduler's memory of who was here lately.
 *
 * Servers and workers have numbers, each kind its own. Whoever knows its number takes it; whoever does not asks, and is
 * given the lowest one of which nothing was heard for SEATS_SILENT_US. So a process that is started in the place of a
 * dead one gets its number, and what it left.
 *
 *   free ── given, or heard of ──► taken ── silent for SEATS_SILENT_US ──► free
 *
 * An asker has a token, and is given the same number however often it asks. A number that is given to two by mistake
 * (somebody was silent and lives) is the later one's: its incarnation is newer, and the other is heard no more.
 *
 * Bounds      SEATS_MAX numbers of a kind.
 * Pure. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum { SEATS_MAX = 1024 };
#define SEATS_SILENT_US INT64_C(2000000)

typedef struct seat {
    bool taken;
    int64_t heard_us;
    uint64_t token; /* of whom it was given to; 0: nobody */
} seat;

typedef struct seats { /* zero-initialized all are free */
    seat list[SEATS_MAX];
} seats;

void seats_heard(seats *seats, uint32_t number, int64_t now_us);

/* The number for this asker, below `most`, which is at most SEATS_MAX; SEATS_MAX: none is free. */
uint32_t seats_give(seats *seats, uint32_t most, uint64_t token, int64_t now_us);
