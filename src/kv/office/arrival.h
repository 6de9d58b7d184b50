/* arrival.h — barrier, worker's side: the place in the program at which a rank waits, and whether it may pass.
 *
 *   arrival_come ──► waits ── COME, again every ARRIVAL_AGAIN_US ──► the scheduler (barriers.h)
 *                      ▲ └── PASS: not yet, these are missing ──┐
 *                      └────────────────────────────────────────┘
 *                      └── PASS: go on ──► passed, when the chart that the scheduler knew is known here, too
 *
 * Who comes once more to a barrier at which it waits (a time-out) goes on waiting. A place in a step is void with its
 * generation (arrival_restart).
 *
 *   bytes    COME, behind its stamp            PASS
 *   -------  --------------------------------  ----------------------------------------------------
 *   8 1 1    token, group, early               1 4  mr_status: OK, BUSY, else why not; how many are missing
 *   8 8 8    place, generation, first step     1 1  role of the missing, how many of them follow
 *   1 + n    name                              4 …  their numbers
 *
 * Bounds      ARRIVAL_MAX barriers at which a process waits or that it has passed in this step. Pure. */
#pragma once
#include "base/list.h"
#include "kv/office/barriers.h"
#include "kv/office/standing.h"

#define ARRIVAL_AGAIN_US INT64_C(200000)
enum { ARRIVAL_MAX = 1024, ARRIVAL_NAMED = 8 };

typedef struct arrival_word { /* what COME says */
    uint64_t token;
    uint8_t group;
    bool early;
    uint64_t place, generation, first;
    char name[MR_PS_NAME_MAX];
} arrival_word;

typedef struct arrival_verdict { /* what PASS says */
    mr_status status;            /* MR_OK, MR_BUSY, MR_TOO_LARGE */
    uint8_t role;                /* of the missing */
    uint32_t missing, named;
    uint32_t numbers[ARRIVAL_NAMED];
} arrival_verdict;

enum { ARRIVAL_WORD_MAX = 34 + MR_PS_NAME_MAX, ARRIVAL_VERDICT_MAX = 10 + 4 * ARRIVAL_NAMED };
size_t arrival_word_encode(const arrival_word *word, uint8_t *out);
MR_MUST mr_status arrival_word_decode(span bytes, arrival_word *out); /* MR_CORRUPT */
size_t arrival_verdict_encode(const arrival_verdict *verdict, uint8_t *out);
MR_MUST mr_status arrival_verdict_decode(span bytes, arrival_verdict *out); /* MR_CORRUPT */

typedef struct arrivals arrivals;

typedef struct arrivals_options {
    const char *scheduler; /* borrowed for its life */
    void (*send)(void *context, const char *address, const letter *letter);
    void *context;
} arrivals_options;

typedef struct arrivals_where { /* the program, as it comes */
    bool early, open;           /* no step was begun yet; one is open */
    uint64_t step;
} arrivals_where;

arrivals *arrivals_create(const arrivals_options *options, uint64_t token);
void arrivals_destroy(arrivals *arrivals);

/* Comes, or has come and waits on. MR_TOO_LARGE. */
MR_MUST mr_status arrivals_come(arrivals *arrivals, const char *name, uint8_t group, arrivals_where where,
                                int64_t now_us);
/* How the one is to which it has come: MR_BUSY, and the error says who is missing; MR_OK, MR_STALE, MR_TOO_LARGE: that
 * is over, and forgotten. `self` says which chart is known. */
mr_status arrivals_passed(arrivals *arrivals, const char *name, const standing *self);
void arrivals_restart(arrivals *arrivals); /* another generation has begun */

bool arrivals_take(arrivals *arrivals, const letter *letter); /* false: not for it */
int64_t arrivals_next_us(const arrivals *arrivals);
/* `self`: who comes, and with which step it came into its generation; nothing is said before it is ready. */
void arrivals_tick(arrivals *arrivals, const standing *self, int64_t now_us);
