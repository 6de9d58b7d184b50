/* marshal.h — leader of the consumer group: the scheduler's side, and the copy of the state that members follow.
 *
 * Members say what they want, again and again: that they are here, and for which steps they need pieces of the data.
 * The marshal makes the next roster of that, has it decided, and sends the newest to members that have an older one:
 *
 *   attendee ── ATTEND: who, as what, what it wants ──► marshal ── compare-and-swap, one at a time ──► coordinator
 *      ▲                                                  │
 *      └──────────── ROSTER, decided, if newer ───────────┘
 *
 * Messages that arrive while a roster is being decided are kept, the last of each member, for the next one. So a
 * decision has many wants in it, and the claims of one hundred members cost a write or two. The marshal keeps nothing
 * that matters: it may die and start at any time, and two of them do no harm. A member that is silent for
 * MARSHAL_SUSPECT_US is removed; if it lives it learns of the removal and returns with another incarnation.
 *
 * Invariants (marshal_check)
 *   1  The roster that was decided and the next one are sound (roster.h).
 *   2  At most one word of each of ROSTER_MEMBERS_MAX members waits, and what they want fits into its table.
 *
 * Pure: letters, answers of the coordinator and ticks. */
#pragma once
#include "cluster/coordinator.h"
#include "cluster/letter.h"
#include "cluster/roster.h"

#define MARSHAL_TICK_US    INT64_C(100000)
#define MARSHAL_SUSPECT_US INT64_C(600000)
#define MARSHAL_POLL_US    INT64_C(1000000)
enum { LETTER_ATTEND = LETTER_USER, LETTER_ROSTER }; /* stamp.view: the newest roster that the sender knows */

typedef struct marshal_options {
    coordinator coordinator;
    const uint64_t *sizes; /* of the parts of the data, borrowed for its life */
    size_t part_count;
    void (*send)(void *context, const char *address, const letter *letter);
    void (*on_decided)(void *context, const roster *roster); /* it knows of this one; may be NULL */
    void *context;
} marshal_options;

typedef struct marshal marshal;

marshal *marshal_create(const marshal_options *options, int64_t now_us); /* copies the options */
void marshal_destroy(marshal *marshal); /* the coordinator owes it no answer any more */
bool marshal_take(marshal *marshal, const letter *letter, int64_t now_us); /* false: not for a marshal */
void marshal_restart(marshal *marshal, uint64_t birth); /* roster_restart, as soon as it can be decided */
int64_t marshal_next_us(const marshal *marshal);
void marshal_tick(marshal *marshal, int64_t now_us);
const roster *marshal_roster(const marshal *marshal);

void marshal_check(const marshal *marshal); /* asserts the invariants above (base/invariants.h) */
